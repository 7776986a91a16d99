package ledger

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// atEach makes an application with an actor at each switch: a cell, a timer, and a command for each message. It has
// another cell for all switches.
func atEach(name string) (atSwitches, *script) {
	s := &script{name: name}
	s.do = func(tx *Tx, in *Input) error {
		if !tx.Enter(AtSwitch(in.Switch)) {
			return nil
		}
		tx.Put(tx.Table("at"), Key{A: uint64(in.Switch)}, Key{S: in.String()}, []byte("x"))
		tx.Send(in.Switch, simCommand("c"))
		return tx.SetTimer("t", time.Hour, nil)
	}
	return atSwitches{s}, s
}

// TestForget: a switch that is gone gives back all that it held, at each replica, and what others hold stays. If it
// comes back, it is new.
func TestForget(t *testing.T) {
	a, s := atEach("a")
	p := newPair(t, Limits{}, a)
	p.up(2)
	p.commit()
	alone := len(snapshot(t, p.leader))
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.must(p.leader.Suspend(Actor{"a", AtSwitch(1)}, false, looped))
	p.commit()
	if err := p.leader.Forget(1); !errors.Is(err, ErrConnected) {
		t.Errorf("while it is connected: %v", err)
	}
	p.leader.Unreachable(1)
	p.must(p.leader.Suspend(Actor{"a", AtSwitch(1)}, false, "")) // or it would not hear of the end
	s.told = nil
	p.must(p.leader.Forget(1))
	wantTold(t, s, "forgetting of switch "+sw1)
	p.commit()
	for _, c := range []*Core{p.leader, p.follower} {
		if got := c.Forgotten(); !slices.Equal(got, []openflow.DatapathID{1}) {
			t.Errorf("switches %v were forgotten", got)
		}
		if got := c.Switches(); len(got) != 1 || got[0].Switch != 2 {
			t.Errorf("switches %+v are left", got)
		}
		if rows, _ := c.Rows("a", 1<<20); len(rows) != 1 || len(c.state.timers) != 1 {
			t.Errorf("rows %v and %d timers are left", rows, len(c.state.timers))
		}
	}
	if n := len(snapshot(t, p.leader)); n != alone+17 { // the floor
		t.Errorf("the state has %d bytes, and %d without the switch", n, alone)
	}
	if err := p.leader.Forget(1); !errors.Is(err, ErrNoSwitch) {
		t.Errorf("again: %v", err)
	}
	if err := p.leader.Event(1, 1, 3, packetIn("x")); !errors.Is(err, ErrStaleEpoch) {
		t.Errorf("an event of the epoch that is forgotten: %v", err)
	}
	p.event(1, 2, 1, switchUp())
	p.event(1, 2, 2, packetIn("x"))
	p.commit()
	if got := p.leader.Switches(); len(got) != 2 || got[0].TotalEvents != 2 || got[0].Commands != 2 {
		t.Errorf("it came back as %+v", got)
	}
}

// What a leader forgets and does not commit is there again at the next one.
func TestForgetUndone(t *testing.T) {
	a, _ := atEach("a")
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.leader.Unreachable(1)
	p.must(p.leader.Suspend(Actor{"a", AtSwitch(1)}, false, looped))
	p.commit()
	before := snapshot(t, p.leader)
	p.must(p.leader.Forget(1))
	if list := p.leader.Suspended(); len(list) > 0 {
		t.Errorf("actors %v are suspended at a switch that is forgotten", list)
	}
	p.must(p.leader.Follow())
	if got := snapshot(t, p.leader); !slices.Equal(got, before) {
		t.Errorf("the state is\n%s\nand was\n%s", dump(got), dump(before))
	}
	if got := p.leader.Forgotten(); len(got) > 0 {
		t.Errorf("switches %v were forgotten", got)
	}
}

// A switch whose epoch was closed is forgotten, too. A client is told why one is not.
func TestForgetCalls(t *testing.T) {
	a, _ := atEach("a")
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, switchDown())
	p.up(2)
	call := func(id openflow.DatapathID) Answer {
		t.Helper()
		p.must(p.leader.Call(Call{Actor: theSwitch(id), Forgets: true, Caller: 1, ID: uint64(id)}))
		p.commit()
		got := p.leader.Answers()
		if len(got) != 1 || got[0].ID != uint64(id) {
			t.Fatalf("answers %+v", got)
		}
		return got[0]
	}
	if got := call(1); got.Failed || p.follower.Knows(1) {
		t.Errorf("the answer is %+v", got)
	}
	for _, id := range []openflow.DatapathID{1, 2, 3} {
		if got := call(id); !got.Failed || len(got.Message) == 0 {
			t.Errorf("switch %s: the answer is %+v", id, got)
		}
	}
}

// A switch that comes back after it was forgotten is unknown again if that is undone. So its old events are refused.
func TestReturnUndone(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	p.event(1, 5, 1, switchUp())
	p.leader.Unreachable(1)
	p.commit()
	p.must(p.leader.Forget(1))
	p.commit()
	p.event(1, 9, 1, switchUp())
	p.must(p.leader.Follow())
	if p.leader.state.switches[1] != nil {
		t.Error("a switch without an epoch is left")
	}
	p.must(p.leader.Lead(2, p.now))
	if err := p.leader.Event(1, 5, 1, switchUp()); !errors.Is(err, ErrStaleEpoch) {
		t.Errorf("an event from before it was forgotten: %v", err)
	}
}

// What takes more of the log than an entry has is refused, and changes nothing.
func TestForgetTooMuch(t *testing.T) {
	s := &script{name: "a"}
	const cells = 200
	s.do = func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			for i := range uint64(cells) {
				tx.Put(tx.Table("at"), Key{A: uint64(in.Switch), B: i}, Key{}, nil)
			}
		}
		return nil
	}
	p := newPair(t, Limits{EntryBytes: 20_000, BatchBytes: 12_000}, atSwitches{s})
	p.up(1)
	p.up(2)
	p.leader.Unreachable(1)
	p.commit()
	before := snapshot(t, p.leader)
	if err := p.leader.Forget(1); err == nil || !slices.Equal(before, snapshot(t, p.leader)) {
		t.Errorf("%d cells: %v", cells, err)
	}
}

// What handlers do when a switch is forgotten counts, too. It is undone with the rest.
func TestForgetTooMuchWithHandlers(t *testing.T) {
	s := &script{name: "a"}
	rows := uint64(10)
	s.do = func(tx *Tx, in *Input) error {
		for i := range rows {
			switch in.Kind {
			case SwitchUp:
				tx.Put(tx.Table("at"), Key{A: uint64(in.Switch), B: i}, Key{}, nil)
			case Forgotten:
				tx.Put(tx.Table("elsewhere"), Key{A: 2, B: i}, Key{}, make([]byte, 100))
			}
		}
		return nil
	}
	limits := Limits{EntryBytes: 2000, BatchBytes: 1000}
	p := newPair(t, limits, atSwitches{s})
	p.up(1)
	p.up(2)
	p.leader.Unreachable(1)
	p.commit()
	rows = 17
	err := p.leader.Forget(1)
	if p.commit(); err == nil || len(p.leader.Switches()) != 2 {
		t.Errorf("it is forgotten (%v)", err)
	}
	if list, err := p.leader.Rows("a", 1<<20); err != nil || len(list) != 20 {
		t.Errorf("%d rows (%v)", len(list), err)
	}
	rows = 5
	p.must(p.leader.Forget(1))
	p.commit()
	for _, entry := range p.entries {
		if len(entry) > limits.EntryBytes {
			t.Errorf("an entry of %d bytes", len(entry))
		}
	}
}

// With several groups, actors elsewhere hear of the end on the stream of the switch, and what they send to it is void.
// The numbers of the stream go on if it comes back.
func TestForgetAcrossGroups(t *testing.T) {
	s := newPairs(t)
	var got []string
	s.handlers(func(tx *Tx, in *Input) {
		got = append(got, in.String())
		if in.Kind == Forgotten {
			tx.Send(1, simCommand("c"))
		}
	})
	g := s.groups[1]
	g.up(1)
	g.leader.Unreachable(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	got = nil
	g.must(g.leader.Forget(1))
	s.run()
	s.run()
	if !slices.Contains(got, "forgetting of switch "+sw1) {
		t.Errorf("the application elsewhere was told %q", got)
	}
	if len(g.leader.Switches()) != 0 || len(g.follower.Switches()) != 0 {
		t.Error("the switch is still known")
	}
	if in := s.groups[2].follower.state.links.in[Link{theSwitch(1), ofApp}]; in == nil || in.epoch != 0 || in.live ||
		in.hello != nil {
		t.Errorf("what the application knows of the switch: %+v", in)
	}
	got = nil
	g.event(1, 2, 1, switchUp())
	g.event(1, 2, 2, packetIn("p"))
	s.run()
	if want := []string{"switch up of switch " + sw1, "message of switch " + sw1}; !slices.Equal(got[max(0, len(got)-2):],
		want) {
		t.Errorf("after it came back: %q", got)
	}
}
