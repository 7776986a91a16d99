package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"
)

// everything makes every kind of change in each transaction.
func everything(tx *Tx, in *Input) error {
	t := tx.Table("t")
	tx.Put(t, Key{A: in.Seq % 2}, Key{S: "f"}, []byte{byte(in.Seq)})
	tx.Put(t, Key{A: 9}, Key{A: in.Seq}, []byte("new"))
	tx.Delete(t, Key{A: 9}, Key{A: in.Seq - 1})
	for id := range tx.Switches() {
		tx.Send(id, simCommand("c"))
	}
	tx.CancelTimer("a")
	return errors.Join(tx.SetTimer("a", time.Microsecond, []byte{1}), tx.SetTimer("b", time.Duration(in.Seq), nil))
}

func TestFollowUndoesEverything(t *testing.T) {
	for name, change := range map[string]func(p *pair){
		"nothing":     func(p *pair) {},
		"event":       func(p *pair) { p.event(1, 1, 4, packetIn("x")) },
		"new switch":  func(p *pair) { p.up(9) },
		"new epoch":   func(p *pair) { p.event(1, 2, 1, switchUp()); p.event(1, 2, 2, packetIn("x")) },
		"end":         func(p *pair) { p.event(1, 1, 4, switchDown()) },
		"unreachable": func(p *pair) { p.leader.Unreachable(1); p.leader.Reachable(1, 1); p.leader.Unreachable(1) },
		"timer":       func(p *pair) { p.leader.Tick(p.now + 10_000) },
		"done":        func(p *pair) { p.must(p.leader.Done(1, 1, 2)) },
		"closed": func(p *pair) {
			for seq := uint64(4); !p.leader.state.switches[1].closed; seq++ {
				p.event(1, 1, seq, packetIn("x"))
			}
			p.event(2, 2, 1, switchUp()) // the epoch was closed as well
			p.event(2, 3, 1, switchUp())
		},
		"many epochs": func(p *pair) {
			for e := uint64(2); e < 30; e++ {
				p.event(1, e, 1, switchUp())
			}
		},
		"done, then a new epoch": func(p *pair) { // the first entry is committed, the second is not
			p.must(p.leader.Done(1, 1, 2))
			first, _ := p.leader.Cut()
			p.event(1, 1, 4, packetIn("x"))
			second, _ := p.leader.Cut()
			p.event(1, 2, 1, switchUp())
			_, _ = p.leader.Cut()
			for _, entry := range [][]byte{first, second} {
				p.must(p.leader.Commit(entry))
				p.must(p.follower.Commit(entry))
			}
		},
	} {
		for cuts := range 2 {
			t.Run(name, func(t *testing.T) {
				p := newPair(t, Limits{QueueCommands: 100}, &script{name: "a", do: everything},
					&script{name: "b", do: everything})
				p.up(1)
				p.up(2)
				p.event(1, 1, 2, packetIn("x"))
				p.event(1, 1, 3, packetIn("x"))
				p.commit()
				change(p)
				for range cuts {
					p.leader.Cut()
					p.leader.Unreachable(2)
					p.leader.Reachable(2, p.leader.state.switches[2].epoch)
				}
				p.must(p.leader.Follow())
				p.must(p.leader.Follow())
				if got, want := snapshot(t, p.leader), snapshot(t, p.follower); !bytes.Equal(got, want) {
					t.Fatalf("not everything is undone:\n got %s\nwant %s", dump(got), dump(want))
				}
				if len(p.leader.Releases()) != 0 {
					t.Error("something is released")
				}
				// The old leader continues as a follower, and leads again.
				p.leader, p.follower = p.follower, p.leader
				p.must(p.leader.Lead(2, p.now))
				p.event(2, 1, 2, packetIn("y"))
				p.commit()
				p.must(p.leader.Follow())
				p.leader, p.follower = p.follower, p.leader
				p.must(p.leader.Lead(3, p.now))
				p.event(2, 1, 3, packetIn("z"))
				p.commit()
			})
		}
	}
}

func TestRestoreSnapshot(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a", do: everything})
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.event(1, 2, 1, switchUp())
	p.up(2)
	p.leader.Unreachable(2)
	p.event(1, 2, 2, packetIn("x"))
	p.commit()
	p.must(p.leader.Done(1, 2, 1))
	p.commit()
	want := snapshot(t, p.leader)
	c := mustNew(t, Limits{}, &script{name: "a", do: everything})
	p.must(c.Restore(want))
	if got := snapshot(t, c); !bytes.Equal(got, want) {
		t.Fatalf("restored:\n got %s\nwant %s", dump(got), dump(want))
	}
	if !slices.Equal(c.Switches(), p.leader.Switches()) {
		t.Errorf("status %+v, want %+v", c.Switches(), p.leader.Switches())
	}
	p.must(c.Lead(2, 0))
	a, _ := p.leader.Resume(1)
	b, _ := c.Resume(1)
	if a.First != b.First || a.Acked != b.Acked || !bytes.Equal(a.Commands, b.Commands) {
		t.Errorf("resume %+v, want %+v", b, a)
	}
	p.must(c.Event(1, 1, 2, packetIn("x"))) // a duplicate of an earlier epoch
	p.follower = c
	p.must(p.follower.Follow())
	p.event(1, 2, 3, packetIn("x"))
	p.commit()
}

func TestTimers(t *testing.T) {
	var a *script
	var fired []int64
	a = &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == Timer {
			fired = append(fired, tx.Now().UnixNano())
			if in.Name == "each" {
				return tx.SetTimer("each", 50, in.Message)
			}
			return nil
		}
		tx.CancelTimer("none")
		return errors.Join(tx.SetTimer("each", 50, []byte("data")), tx.SetTimer("twice", 60, nil),
			tx.SetTimer("twice", 200, nil),
			tx.SetTimer("off", 10, nil), tx.SetTimer("now", -5, nil))
	}}
	p := newPair(t, Limits{}, a)
	if _, ok := p.leader.NextTimer(); ok {
		t.Error("a timer without any")
	}
	p.up(1) // at 1000
	p.leader.Tick(1040)
	if len(fired) != 0 {
		t.Error("a timer fires in the batch that set it")
	}
	p.commit()
	if at, ok := p.leader.NextTimer(); !ok || at != 1001 {
		t.Errorf("next timer %d %v", at, ok)
	}
	p.leader.Tick(1040)
	p.commit()
	p.leader.Tick(1120) // one batch, in which the timer that is set again does not fire
	p.commit()
	if !slices.Equal(fired, []int64{1040, 1040, 1120}) {
		t.Errorf("fired at %v", fired)
	}
	p.leader.Tick(500) // the clock is set back
	p.leader.Tick(1170)
	p.commit()

	// The clock of the next leader is far behind. Ledger time does not go back.
	fired = nil
	p.must(p.leader.Follow())
	p.leader, p.follower = p.follower, p.leader
	p.must(p.leader.Lead(2, 10))
	if at, ok := p.leader.NextTimer(); !ok || at != 10+30 { // "twice" is due at 1200 of ledger time
		t.Errorf("next timer %d %v", at, ok)
	}
	p.leader.Tick(39)
	if len(fired) != 0 {
		t.Errorf("fired at %v", fired)
	}
	p.leader.Tick(40)
	p.commit()
	if !slices.Equal(fired, []int64{1200}) {
		t.Errorf("fired at %v", fired)
	}
}

// A leader that does not have the application of a timer does not fire it.
func TestTimerOfAbsentApplication(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			return tx.SetTimer("t", 5, nil)
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	without := mustNew(t, Limits{}, &script{name: "b"})
	p.up(1)
	p.commit()
	for _, e := range p.entries {
		p.must(without.Commit(e))
	}
	p.must(without.Lead(2, 2000))
	without.Tick(3000)
	if e, ok := without.Cut(); ok {
		t.Fatalf("operations %v", ops(t, e))
	}
	p.must(p.leader.Follow())
	p.must(p.follower.Lead(3, 2000))
	p.follower.Tick(3000)
	if e, _ := p.follower.Cut(); !slices.Contains(ops(t, e), OpTimer) {
		t.Errorf("operations %v", ops(t, e))
	}
}

func TestTimerBound(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		for i := range maxTimers {
			if err := tx.SetTimer(string([]byte{byte(i >> 8), byte(i)}), 1, nil); err != nil {
				return err
			}
		}
		if tx.SetTimer("more", 1, nil) == nil {
			t.Error("no bound")
		}
		return tx.SetTimer("\x00\x00", 2, nil) // setting it again does not count
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	if f := p.leader.Failures(); len(f) > 0 {
		t.Error(f[0].Err)
	}
}

// A ledger of one group leads although its log has streams between groups: that is refused elsewhere.
func TestStreamsInOneGroup(t *testing.T) {
	c := mustNew(t, Limits{})
	entry := appendLink(Header{Term: 1, Batch: 1, Time: 1}.append(nil), OpTaken, Link{From: Actor{App: "a"}, To: theSwitch(1)})
	if err := c.Commit(binary.AppendUvarint(entry, 0)); err != nil {
		t.Fatal(err)
	}
	if err := c.Lead(2, 1); err != nil {
		t.Fatal(err)
	}
	c.Tick(int64(time.Hour))
}
