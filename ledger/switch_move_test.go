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

// An answer to a command reaches the actor that asked, also if the switch has moved meanwhile, and once.
func TestAnswerAfterSwitchMoved(t *testing.T) {
	s := newPairs(t)
	asked, answers := uint32(0), []uint32{}
	s.handlers(func(tx *Tx, in *Input) {
		switch {
		case in.Kind == Message && in.Message[1] == of13.TypePacketIn:
			asked = tx.Send(1, simCommand("ask"))
		case in.Kind == Message:
			answers = append(answers, openflow.XID(in.Message))
		}
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	xid := openflow.XID(s.groups[1].leader.state.switches[1].queue.Item(1))
	s.move(theSwitch(1), 1, 2)
	s.run()
	s.groups[2].event(1, 1, 3, newMessage(of13.TypeBarrierReply, xid, ""))
	s.groups[2].must(s.groups[2].leader.Done(1, 1, 1))
	s.move(theSwitch(1), 2, 1) // in the same batch
	s.run()
	if !slices.Equal(answers, []uint32{asked}) {
		t.Errorf("answers %x to %x", answers, asked)
	}
	if got := s.queued(1); len(got) > 0 {
		t.Errorf("commands %q are sent again", got)
	}
}

// When a leader is deposed, a departure and an arrival that are not committed are undone as a whole.
func TestSwitchMoveUndone(t *testing.T) {
	s := newSwitchPairs(t)
	s.atSwitch()
	s.groups[1].up(1)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	before := snapshot(t, s.groups[1].leader)
	s.move(theSwitch(1), 1, 2)
	s.lost = func(from, _ uint64) bool { return from == 2 } // group 1 does not learn that it has arrived
	for range 3 {
		s.run()
	}
	// Neither has departed. What follows happens at the leader only, and is undone.
	p := s.groups[1]
	if _, left := p.leader.Left(1); left {
		t.Fatal("it has departed before its copy was taken")
	}
	p.must(p.leader.Move(theSwitch(1), 1))
	p.commit()
	s.lost = nil
	s.run()
	if got := snapshot(t, p.leader); len(got) < len(before) || !p.leader.Here(1) {
		t.Errorf("after the move was called off: %s", dump(got))
	}
	s.move(theSwitch(1), 1, 2)
	for _, left := p.leader.Left(1); !left && p.leader.Here(1); {
		p.leader.Moves()
		if !p.leader.Here(1) || len(p.leader.batch.departed) > 0 {
			break
		}
		p.commit()
		p.leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
		s.groups[2].commit()
		s.groups[2].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	}
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
