package ledger

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// What an actor has learned of a switch without a stream, it knows in another group: its commands are not void.
func TestKnowledgeMoves(t *testing.T) {
	s := newPairs(t)
	void := 0
	s.handlers(func(tx *Tx, in *Input) {
		switch in.Kind {
		case SwitchUp:
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Timer:
			tx.Send(1, simCommand("timer"))
			if up := slices.Collect(tx.Switches()); !slices.Equal(up, []openflow.DatapathID{1}) {
				t.Errorf("switches %v are up", up)
			}
		case Discarded:
			void++
		}
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p")) // it hears of epoch 1 on a stream
	s.run()
	s.move(ofApp, 2, 1)
	s.run()
	s.groups[1].event(1, 2, 1, switchUp()) // and of epoch 2 without one
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[2].leader.Tick(2_000_000)
	s.run()
	if got := s.queued(1); !slices.Equal(got, []string{"timer"}) || void != 0 {
		t.Errorf("commands %q, %d void", got, void)
	}
}

// deaf is an application that says that it handles nothing but messages of switches, and timers.
type deaf struct{ *script }

func (deaf) Explain() []Mapping { return []Mapping{{Kind: Message}} }

func (d deaf) Handle(tx *Tx, in *Input) error {
	if in.Kind == SwitchUp || in.Kind == SwitchDown {
		return nil
	}
	return d.script.Handle(tx, in)
}

// An actor that is not told of new epochs can send to a switch that has begun one, although the actor has moved: the
// commands of the old epoch are void, and those after them are not.
func TestDeafActorMoves(t *testing.T) {
	s := newPairsOf(t, func(app *script) Application { return deaf{app} })
	void := 0
	s.handlers(func(tx *Tx, in *Input) {
		switch in.Kind {
		case Message:
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Timer:
			tx.Send(1, simCommand("timer"))
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Discarded:
			void++
		}
	})
	s.groups[1].up(1)
	s.groups[2].up(2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 2, 1, switchUp()) // the actor is not told
	s.run()
	for now := range int64(3) {
		s.groups[2].leader.Tick(2_000_000 * (now + 1))
		s.run()
	}
	if got := s.queued(1); !slices.Equal(got, []string{"timer", "timer"}) || void != 1 {
		t.Errorf("commands %q, %d void; want one void, and two that are executed", got, void)
	}
}
