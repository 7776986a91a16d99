package ledger

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// atSwitch makes the application note each packet in a cell of its switch, and send a command there that says how many
// there were.
func (s *pairs) atSwitch() {
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if in.Kind == Message && tx.Enter(AtSwitch(in.Switch)) {
				t, cell := tx.Table("packets"), Key{A: uint64(in.Switch)}
				before, _ := tx.Get(t, cell, Key{})
				tx.Put(t, cell, Key{}, append(slices.Clone(before), 'p'))
				tx.Send(in.Switch, simCommand(fmt.Sprint(len(before)+1)))
			}
			return nil
		}
	}
}

// atSwitches is a script whose cells belong to the switches that are their keys.
type atSwitches struct{ *script }

func (atSwitches) Shard(_ string, cell Key) Shard { return AtSwitch(openflow.DatapathID(cell.A)) }

func newSwitchPairs(t *testing.T) *pairs {
	return newPairsOf(t, func(s *script) Application { return atSwitches{s} })
}

// A switch moves with its epoch, its watermarks, its queue of commands, and what applications have there. The group
// that it has left refuses its events.
func TestSwitchMoves(t *testing.T) {
	s := newSwitchPairs(t)
	s.atSwitch()
	g1, g2 := s.groups[1], s.groups[2]
	g1.up(1)
	g1.event(1, 1, 2, packetIn("p"))
	g1.event(1, 1, 3, packetIn("p"))
	g1.commit()
	g1.must(g1.leader.Done(1, 1, 1))
	s.move(theSwitch(1), 1, 2)
	s.run()
	if at, left := g1.leader.Left(1); !left || at != (Assignment{2, 2}) || s.rows[theSwitch(1)] != at {
		t.Fatalf("it has moved to %v (%v), and the directory says %v", at, left, s.rows)
	}
	for _, c := range []*Core{g1.leader, g1.follower} {
		if got := c.Departed(); !slices.Equal(got, []openflow.DatapathID{1}) || len(c.Switches()) != 0 {
			t.Errorf("switches %v departed, %v are here", got, c.Switches())
		}
		if rows, _ := c.Rows("a", 1<<20); len(rows) != 0 {
			t.Errorf("group 1 still has %v", rows)
		}
	}
	if err := g1.leader.Event(1, 1, 4, packetIn("p")); !errors.Is(err, ErrMoved) || len(g1.leader.Switches()) != 0 {
		t.Errorf("an event where it was: %v", err)
	}
	if r, known := g2.leader.Resume(1); !known || r.Epoch != 1 || r.Acked != 3 || r.First != 2 || r.Count != 1 ||
		!r.Live {
		t.Errorf("the new master sends %+v (%v)", r, known)
	}
	g2.event(1, 1, 3, packetIn("p")) // repeated
	g2.event(1, 1, 4, packetIn("p"))
	s.run()
	if got := s.queued(1); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("commands %q", got)
	}
	s.move(theSwitch(1), 2, 1)
	s.run()
	g1.event(1, 1, 5, packetIn("p"))
	s.run()
	if got := s.queued(1); !slices.Equal(got, []string{"2", "3", "4"}) || s.rows[theSwitch(1)] != (Assignment{1, 3}) {
		t.Errorf("commands %q, directory %v", got, s.rows)
	}
}

// An application elsewhere that has received the events of a switch without a stream gets the next ones on a stream, in
// order, and its commands are not void.
func TestSwitchMovesFromItsApplication(t *testing.T) {
	s := newPairs(t)
	var got []uint64
	void := 0
	s.handlers(func(tx *Tx, in *Input) {
		switch in.Kind {
		case Message:
			got = append(got, in.Seq)
			tx.Send(1, simCommand(fmt.Sprint(in.Seq)))
			if up := slices.Collect(tx.Switches()); !slices.Equal(up, []openflow.DatapathID{1}) {
				t.Errorf("switches %v are up", up)
			}
		case Discarded:
			void++
		}
	})
	s.groups[1].up(1)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	s.departs(1, 1, 2, func() {})
	s.groups[1].commit()
	if known := s.groups[1].leader.state.links.in[Link{theSwitch(1), ofApp}]; !known.live || known.epoch != 1 ||
		known.hello == nil {
		t.Errorf("the application knows of the switch that has departed: %+v", known.received)
	}
	s.run()
	s.move(theSwitch(1), 2, 1)
	s.run()
	for n := uint64(0); n < 6; n += 2 {
		from, to := 1+n/2%2, 2-n/2%2
		s.groups[from].event(1, 1, n+3, packetIn("p"))
		s.move(theSwitch(1), from, to)
		s.run()
		s.groups[to].event(1, 1, n+4, packetIn("p"))
		s.run()
	}
	if want := []uint64{2, 3, 4, 5, 6, 7, 8}; !slices.Equal(got, want) || void != 0 {
		t.Errorf("the application gets events %v, %d void", got, void)
	}
	if got := s.queued(1); !slices.Equal(got, []string{"2", "3", "4", "5", "6", "7", "8"}) {
		t.Errorf("commands %q", got)
	}
}

// departs moves a switch as far as the departure, which is not committed. last is called just before.
func (s *pairs) departs(id openflow.DatapathID, from, to uint64, last func()) {
	s.t.Helper()
	p := s.groups[from]
	s.move(theSwitch(id), from, to)
	p.leader.Moves()
	p.commit()
	p.leader.Frames(s.carry)
	s.groups[to].commit()
	s.groups[to].leader.Frames(s.carry)
	if last(); !p.leader.Here(id) {
		s.t.Fatal("it has departed already")
	}
	if p.leader.Moves(); p.leader.Here(id) {
		s.t.Fatal("it does not depart")
	}
}

// An answer to a command reaches the actor that asked, also if the switch has moved meanwhile, and once.
func TestAnswerAfterSwitchMoved(t *testing.T) {
	s := newPairs(t)
	asked, answers := uint32(0), []uint32{}
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			switch {
			case in.Kind == SwitchUp:
				tx.Send(1, simCommand("first")) // so that numbers of the switch and of the stream differ
			case in.Kind == Message && tx.Enter(Shard{}) && in.Message[1] == of13.TypePacketIn:
				asked = tx.Send(1, simCommand("ask"))
			case in.Kind == Message && in.Message[1] == of13.TypeBarrierReply && tx.Actor() == ofApp:
				answers = append(answers, openflow.XID(in.Message))
			}
			return nil
		}
	}
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	xid := openflow.XID(s.groups[1].leader.state.switches[1].queue.Item(2))
	s.move(theSwitch(1), 1, 2)
	s.run()
	s.departs(1, 2, 1, func() {
		s.groups[2].event(1, 1, 3, newMessage(of13.TypeBarrierReply, xid, ""))
		s.groups[2].must(s.groups[2].leader.Done(1, 1, 2)) // to be logged with the event, and so with the departure
	})
	s.run()
	if !slices.Equal(answers, []uint32{asked}) || asked == xid {
		t.Errorf("answers %x to %x, as %x", answers, asked, xid)
	}
	if got := s.queued(1); len(got) > 0 {
		t.Errorf("commands %q are sent again", got)
	}
}

// Events that have no record of their own yet are logged before the switch departs.
func TestSkippedBeforeDeparture(t *testing.T) {
	s := newPairsOf(t, func(s *script) Application {
		return relaxed{s, map[uint8]Level{of13.TypePacketIn: Unordered}}
	})
	s.groups[1].up(1)
	s.run()
	s.departs(1, 1, 2, func() { s.groups[1].event(1, 1, 2, packetIn("p")) })
	s.run()
	if r, known := s.groups[2].leader.Resume(1); !known || r.Acked != 2 {
		t.Errorf("the new master acknowledges %+v (%v)", r, known)
	}
}

// A switch is not claimed before its arrival is committed. If the leader is deposed before, the arrival is undone.
func TestArrivalUndone(t *testing.T) {
	s := newPairs(t)
	s.groups[1].up(1)
	s.run()
	s.departs(1, 1, 2, func() {})
	s.groups[1].commit()
	s.groups[1].leader.Frames(s.carry)
	p := s.groups[2]
	if p.leader.state.switches[1] == nil || p.leader.Here(1) || p.leader.Settled(1) {
		t.Error("an arrival counts before it is committed")
	}
	p.must(p.leader.Follow())
	if got, want := snapshot(t, p.leader), snapshot(t, p.follower); string(got) != string(want) {
		t.Errorf("after an arrival was undone:\n%s\nwant\n%s", dump(got), dump(want))
	}
	p.must(p.leader.Lead(2, p.now))
	s.groups[1].leader.Resend(2)
	s.run()
	if got := p.leader.Arrivals(); !slices.Equal(got, []openflow.DatapathID{1}) || !p.leader.Settled(1) {
		t.Errorf("arrivals %v", got)
	}
}

// When a leader is deposed, a departure that is not committed is undone as a whole.
func TestDepartureUndone(t *testing.T) {
	s := newSwitchPairs(t)
	s.atSwitch()
	s.groups[1].up(1)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	s.departs(1, 1, 2, func() {})
	p := s.groups[1]
	if _, left := p.leader.Left(1); left {
		t.Error("a departure counts before it is committed")
	}
	p.must(p.leader.Follow())
	if got, want := snapshot(t, p.leader), snapshot(t, p.follower); string(got) != string(want) {
		t.Errorf("after a departure was undone:\n%s\nwant\n%s", dump(got), dump(want))
	}
	p.must(p.leader.Lead(2, p.now))
	s.run()
	if s.rows[theSwitch(1)] != (Assignment{2, 2}) {
		t.Errorf("the directory says %v", s.rows)
	}
}
