package ledger

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// perSwitch makes an application with an actor at each switch, which notes its inputs in a cell and sets a timer.
func perSwitch(name string) *script {
	s := &script{name: name}
	s.do = func(tx *Tx, in *Input) error {
		at := AtSwitch(in.Switch)
		if in.Kind == Called {
			at = tx.Shard()
		}
		tx.Handler("handler")
		s.told = s.told[:len(s.told)-1]
		if !tx.Enter(at) {
			return nil
		}
		s.told = append(s.told, in.String())
		tx.Put(tx.Table("t"), Key{A: uint64(in.Switch)}, Key{S: in.String()}, []byte("x"))
		return tx.SetTimer("t", time.Second, nil)
	}
	return s
}

func failures(t *testing.T, entries ...[]byte) (list []string) {
	t.Helper()
	for _, e := range entries {
		_, err := Walk(e, func(r *Record) error {
			if r.Op == OpFailure {
				list = append(list, r.App+": "+r.Name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return list
}

var badActor = Actor{"bad", AtSwitch(1)}

const looped = "it looped"

// What a suspended actor gets fails, and nothing else. That holds at the next leader, and after a snapshot, until the
// actor is resumed.
func TestSuspend(t *testing.T) {
	bad, good := perSwitch("bad"), perSwitch("good")
	p := newPair(t, Limits{}, bad, good)
	p.up(1)
	p.up(2)
	wantTold(t, bad, "switch up of switch "+sw1, "switch up of switch 0000000000000002")
	p.must(p.leader.Suspend(badActor, false, looped))
	p.commit()
	for _, step := range []func(){
		func() {},
		func() { // the other replica leads
			p.must(p.leader.Follow())
			p.leader, p.follower = p.follower, p.leader
			p.must(p.leader.Lead(2, p.now))
		},
		func() { // both begin with a snapshot
			b := snapshot(t, p.leader)
			p.must(p.leader.Restore(b))
			p.must(p.follower.Restore(b))
			p.must(p.leader.Lead(3, p.now))
		},
	} {
		step()
		bad.told, good.told, p.entries = nil, nil, nil
		seq := uint64(p.leader.state.sw(1).events) + 1
		p.event(1, 1, seq, packetIn("x"))
		p.event(2, 1, seq, packetIn("y"))
		p.commit()
		p.now += int64(2 * time.Second)
		p.leader.Tick(p.now) // the timers
		p.must(p.leader.Call(Call{Actor: badActor, Name: "c", Caller: 1, ID: seq}))
		p.commit()
		timed := []string{"timer t of switch " + sw1, "timer t of switch 0000000000000002"}
		if got := bad.told; !slices.Equal(got, []string{"message of switch 0000000000000002", timed[1]}) {
			t.Errorf("the suspended actor's application has handled %q", got)
		}
		if got := good.told; len(got) != 4 {
			t.Errorf("the other application has handled %q", got)
		}
		list := failures(t, p.entries...)
		if len(list) != 3 && !(len(list) == 2 && seq > 2) || // its timer is not set again
			slices.ContainsFunc(list, func(s string) bool {
				return !strings.HasPrefix(s, "bad: application bad at switch "+sw1) || !strings.Contains(s, looped)
			}) {
			t.Errorf("failures %q", list)
		}
		if list := p.leader.Answers(); len(list) != 1 || !list[0].Failed || !bytes.Contains(list[0].Message, []byte(looped)) {
			t.Errorf("a call is answered by %+v", list)
		}
		if list := p.leader.Failures(); len(list) > 0 {
			t.Errorf("each failure is to be logged: %+v", list)
		}
		if s := p.leader.Suspended(); len(s) != 1 || s[0].Actor != badActor || s[0].Reason != looped ||
			s[0].Failed != uint64(len(list)) || s[0].Since.IsZero() {
			t.Errorf("suspended: %+v", s)
		}
	}
	resume := Call{Actor: badActor, Caller: 1, ID: 7, Resumes: true}
	p.must(p.leader.Call(resume))
	p.commit()
	if list := p.leader.Answers(); len(list) != 1 || list[0].Failed || string(list[0].Message) != looped {
		t.Errorf("resume is answered by %+v", list)
	}
	p.must(p.leader.Call(resume))
	p.commit()
	if list := p.leader.Answers(); len(list) != 1 || !list[0].Failed {
		t.Errorf("resume of an actor that is not suspended is answered by %+v", list)
	}
	bad.told = nil
	p.event(1, 1, uint64(p.leader.state.sw(1).events)+1, packetIn("z"))
	wantTold(t, bad, "message of switch "+sw1)
}

// A suspension that is not committed is undone, and so is its end.
func TestSuspendReverted(t *testing.T) {
	p := newPair(t, Limits{}, perSwitch("bad"))
	for _, reason := range []string{looped, "", looped} {
		before := snapshot(t, p.leader)
		p.must(p.leader.Suspend(badActor, false, reason))
		p.must(p.leader.Follow())
		if got := snapshot(t, p.leader); !bytes.Equal(got, before) {
			t.Errorf("after a change to %q that is undone:\n%s\n%s", reason, dump(got), dump(before))
		}
		p.must(p.leader.Lead(1, p.now))
		p.must(p.leader.Suspend(badActor, false, reason))
		p.commit()
	}
}

// If it is not known which actor would handle the input, what comes from the same place fails for the application.
func TestSuspendEarly(t *testing.T) {
	bad := &script{name: "bad"} // enters no actor
	p := newPair(t, Limits{}, bad)
	p.must(p.leader.Suspend(badActor, true, looped))
	p.up(1)
	p.up(2)
	p.commit()
	wantTold(t, bad, "switch up of switch 0000000000000002")
	if list := failures(t, p.entries...); len(list) != 1 {
		t.Errorf("failures %q", list)
	}
}

// Within a handler that does not return, the last entry of the leadership is made. The next leader has what was
// committed before, and fails the input that hung.
func TestSuspensionEntry(t *testing.T) {
	bad, good := perSwitch("bad"), perSwitch("good")
	p := newPair(t, Limits{}, good, bad)
	handle := bad.do
	var last []byte
	bad.do = func(tx *Tx, in *Input) error {
		if in.Kind == Message {
			if bad.told = nil; !tx.Enter(AtSwitch(in.Switch)) {
				return nil
			}
			bad.told = []string{"hangs"}
			tx.Put(tx.Table("t"), Key{A: 9}, Key{}, []byte("thrown away"))
			last = p.leader.SuspensionEntry(Running{Actor: badActor}, looped)
			return errors.New("it does not return")
		}
		return handle(tx, in)
	}
	p.up(1)
	entry, _ := p.leader.Cut()
	p.must(p.leader.EventByDigest(1, 1, 2, packetIn("x"))) // it is not committed
	p.must(p.follower.Commit(entry))
	p.must(p.follower.Commit(last))
	c := p.follower
	p.must(c.Lead(2, p.now))
	good.told, bad.told = nil, nil
	p.must(c.EventByDigest(1, 1, 2, packetIn("x")))
	wantTold(t, good, "message of switch "+sw1)
	if len(bad.told) > 0 {
		t.Errorf("it hangs again: %q", bad.told)
	}
	after, _ := c.Cut()
	p.must(c.Commit(after))
	if list := failures(t, after); len(list) != 1 {
		t.Errorf("failures %q", list)
	}
	if rows, err := c.Rows("bad", 1<<20); err != nil || len(rows) != 1 {
		t.Errorf("rows %+v (%v)", rows, err)
	}
}

// A suspension moves with its actor.
func TestSuspendedMoves(t *testing.T) {
	for name, moved := range map[string]struct{ actor, of Actor }{
		"an actor":               {ofApp, ofApp},
		"an actor with a switch": {theSwitch(1), Actor{"a", AtSwitch(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newPairs(t)
			for _, app := range s.app[1:] {
				app.do = func(tx *Tx, in *Input) error {
					if tx.Enter(moved.of.Shard) {
						tx.Put(tx.Table("t"), Key{A: uint64(moved.of.Switch)}, Key{}, []byte("x"))
					}
					return nil
				}
			}
			s.groups[1].up(1)
			s.run()
			s.groups[1].must(s.groups[1].leader.Suspend(moved.of, false, looped))
			s.run()
			s.move(moved.actor, 1, 2)
			s.run()
			for g, want := range []int{0, 0, 1} {
				if g == 0 {
					continue
				}
				for _, c := range []*Core{s.groups[g].leader, s.groups[g].follower} {
					if got := c.Suspended(); len(got) != want || want > 0 && (got[0].Actor != moved.of ||
						got[0].Reason != looped) {
						t.Errorf("group %d has suspended %+v", g, got)
					}
				}
			}
			at, _ := s.directory(theSwitch(1))
			s.groups[at.Group].event(openflow.DatapathID(1), 1, 2, packetIn("x"))
			s.run()
			if list := failures(t, s.groups[2].entries...); len(list) != 1 {
				t.Errorf("failures in the other group: %q", list)
			}
			s.move(moved.actor, 2, 1)
			s.run()
			if got := s.groups[1].leader.Suspended(); len(got) != 1 {
				t.Errorf("back in its group it is suspended: %+v", got)
			}
		})
	}
}
