package replay

import (
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// due returns when the timer of the replayed applications is due, or -1.
func due(p *pair) int64 {
	for _, line := range timers(p.t, p.follower) {
		var at int64
		if _, err := fmt.Sscanf(line, "ryu wake %d", &at); err == nil {
			return at
		}
	}
	return -1
}

// When a host is told the time.
func TestReplayedWake(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{}) // input 1 is the timer with which it begins
	p.up(1)
	for seq := uint64(2); seq < 20; seq++ {
		p.event(1, 1, seq, packetIn("x"))
	}
	p.commit()
	for i, tc := range []struct {
		now, wake, due int64
		logs           bool // OpSetTimer or OpCancelTimer
	}{
		{1000, wire.NoWake, -1, false},
		{1000, 5000, 5000, true},
		{1100, 5000, 5000, false}, // already set
		{1200, 4000, 4000, true},
		{1300, wire.NoWake, -1, true},
		{1400, 1400, 1401, true},
		{1400, 0, 1401, false},
		{1401, 1, 1401, false}, // also past, so it is not postponed
		{1401, 6000, 6000, true},
		{1401, 1, 1402, true},
	} {
		p.now = tc.now
		p.lead(p.leader) // sets the clock; no timer is due
		p.result(wire.Result{Number: uint64(i + 1), Wake: tc.wake})
		last := ops(t, p.entries[len(p.entries)-1])
		if logs := len(last) > 1; due(p) != tc.due || logs != tc.logs {
			t.Errorf("%d: at %d a wake at %d: due at %d, want %d; operations %v", i, tc.now, tc.wake, due(p), tc.due,
				last)
		}
	}

	// The timer is input 21. Until its result is logged, no other timer is set.
	p.wait(3000)
	p.wantFed(21, "3000 timer 0")
	for n := uint64(11); n <= 20; n++ {
		p.result(wire.Result{Number: n, Wake: 1})
	}
	if due(p) != -1 {
		t.Errorf("an older result set the timer for %d", due(p))
	}
	p.result(wire.Result{Number: 21, Wake: 9000})
	if due(p) != 9000 {
		t.Errorf("due at %d", due(p))
	}
}

// Constant results, each before the time is told, do not keep the time from a host that waits for it.
func TestReplayedWakeIsNotPutOff(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	for seq := uint64(2); seq < 50; seq++ {
		p.event(1, 1, seq, packetIn("x"))
	}
	p.commit()
	p.result(wire.Result{Number: 1, Wake: 1})
	for n := uint64(2); n < 10; n++ {
		p.now += 1000
		if n == 2 {
			p.lead(p.leader) // sets the clock; no timer is due
		}
		p.must(p.leader.log.Result(&wire.Result{Number: n, Wake: 1}))
		p.leader.Tick(p.now)
		p.commit()
	}
	if in := p.leader.log.Committed().Input; in != 51 {
		t.Errorf("%d inputs, want one timer after the 50", in)
	}
}

// Skipped inputs are timers for all hosts, up to a bound.
func TestReplayedSkip(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	p.event(1, 1, 2, packetIn("poison"))
	p.event(1, 1, 3, packetIn("x"))
	p.commit()
	p.follower.log.Skip(3)
	p.leader.log.Skip(0)
	p.leader.log.Skip(5)
	if _, ok := p.leader.Cut(); ok {
		t.Error("what is no input was skipped")
	}
	p.leader.log.Skip(3)
	if got := p.leader.log.Committed().Skipped; got != 0 {
		t.Errorf("%d inputs are skipped before that is committed", got)
	}
	p.wantFed(2, "1000 up 1 f ", "1000 timer 0", "1000 message 1 10 0 x")
	if p.leader.log.Committed().Skipped != 1 || p.follower.log.Committed().Skipped != 1 ||
		p.follower.log.Hosting() != p.leader.log.Hosting() {
		t.Errorf("committed %+v, and at the follower %+v", p.leader.log.Committed(), p.follower.log.Committed())
	}

	for seq := uint64(4); p.leader.log.Hosting().Inputs < maxSkipped+10; seq++ {
		p.event(1, 1, seq, packetIn("x"))
		p.leader.log.Skip(p.leader.log.Hosting().Inputs)
		if !p.leader.Room() {
			p.commit()
		}
	}
	p.commit()
	if p.leader.log.Committed().Skipped != maxSkipped || !p.leader.log.MustBegin() || !p.follower.log.MustBegin() {
		t.Errorf("committed %+v, must begin %v", p.leader.log.Committed(), p.leader.log.MustBegin())
	}
	p.leader.log.Begin(1)
	p.wantFed(1, "1000 timer 0", "1000 up 1 f ")
	if p.leader.log.Committed().Skipped != 0 || p.leader.log.MustBegin() {
		t.Errorf("after it began: %+v", p.leader.log.Committed())
	}
}

// What a leader did for hosts and could not commit is undone. What it had proposed and is committed is applied.
func TestFollowUndoesHosting(t *testing.T) {
	reply := answer(message.Replayed, 1)
	for name, change := range map[string]func(p *pair){
		"event":      func(p *pair) { p.event(1, 1, 2, packetIn("x")) },
		"new epoch":  func(p *pair) { p.event(1, 2, 1, switchUp()); p.event(1, 2, 2, packetIn("x")) },
		"new switch": func(p *pair) { p.up(9) },
		"closed": func(p *pair) {
			p.event(1, 1, 2, packetIn("flood"))
			p.event(1, 2, 1, switchUp())
		},
		"within reach again": func(p *pair) { p.leader.Reachable(2, 1) },
		"result": func(p *pair) {
			p.must(p.leader.log.Result(&wire.Result{Number: 3, Wake: 1, Commands: []wire.Command{command(1, 8, "c")}}))
		},
		"timer":               func(p *pair) { p.leader.Tick(9000) },
		"skip":                func(p *pair) { p.leader.log.Skip(1) },
		"request":             func(p *pair) { p.leader.log.Request((&wire.HTTPRequest{}).Append(nil)) },
		"begin":               func(p *pair) { p.leader.log.Begin(9); p.leader.Reachable(2, 1) },
		"begin twice":         func(p *pair) { p.leader.log.Begin(9); p.event(1, 1, 2, reply); p.leader.log.Begin(10) },
		"begin, and an epoch": func(p *pair) { p.leader.log.Begin(9); p.event(1, 2, 1, switchUp()) },
		"many commands": func(p *pair) {
			for n := uint64(3); n < 6; n++ {
				p.must(p.leader.log.Result(&wire.Result{Number: n, Wake: wire.NoWake, Commands: commands(10_000)}))
			}
		},
	} {
		for cuts := range 3 { // number of entries that are proposed before the end of the term
			t.Run(fmt.Sprint(name, cuts), func(t *testing.T) {
				limits := ledger.Limits{}
				if name == "closed" {
					limits.QueueCommands = 4
				}
				p := newPair(t, limits, "v1", flooder(5))
				p.up(1)
				p.up(2)
				p.leader.Unreachable(2)
				p.leader.log.Begin(7) // switch 2 is not reported
				p.up(3)
				p.event(3, 1, 2, packetIn("x"))
				p.event(3, 1, 3, packetIn("x"))
				p.commit()
				p.result(wire.Result{Number: 1, Wake: 5000})
				before := 1
				if name == "many commands" {
					before = maxAsked + 1000
				}
				p.result(wire.Result{Number: 2, Wake: 5000, Commands: commands(before)})
				p.must(p.leader.Done(1, 1, uint64(before)))
				p.commit()
				var entries [][]byte
				change(p)
				for range cuts {
					if e, ok := p.leader.Cut(); ok {
						entries = append(entries, e)
					}
					p.leader.Unreachable(3)
				}
				p.must(p.leader.Follow())
				if got, want := snapshot(t, p.leader), snapshot(t, p.follower); string(got) != string(want) {
					t.Fatalf("not everything is undone:\n got %s\nwant %s", dump(got), dump(want))
				}
				for _, e := range entries {
					p.must(p.leader.Commit(e))
					p.must(p.follower.Commit(e))
				}
				next := p.follower
				p.follower = p.leader
				p.lead(next)
				p.leader.Reachable(2, 1)
				p.leader.Unreachable(2)
				p.event(2, 2, 1, switchUp())
				p.wantSameHistory()
			})
		}
	}
}

// The application's xids of the latest commands of a switch are kept, up to a bound. A restored replica keeps the
// same.
func TestReplayedXIDs(t *testing.T) {
	p := newReplayedPair(t, ledger.Limits{})
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.event(1, 1, 3, packetIn("x"))
	p.commit()
	p.result(wire.Result{Number: 1, Wake: wire.NoWake})
	for n := uint64(2); n < 4; n++ {
		p.result(wire.Result{Number: n, Wake: wire.NoWake, Commands: commands(maxAsked - 10)})
		p.must(p.leader.Done(1, 1, (n-1)*(maxAsked-10)))
		p.commit()
	}
	p.must(p.follower.Restore(snapshot(t, p.leader)))
	p.event(1, 1, 4, answer(message.Replayed, maxAsked-20+1))
	p.event(1, 1, 5, answer(message.Replayed, maxAsked-20))
	p.wantFed(5, fmt.Sprintf("1000 message 1 21 %x x", maxAsked-20),
		fmt.Sprintf("1000 message 1 21 %x x", message.Replayed.XID()|(maxAsked-20)))
}

// commands returns n commands to switch 1.
func commands(n int) (list []wire.Command) {
	for i := range n {
		list = append(list, command(1, uint32(i), ""))
	}
	return list
}

// wantSameHistory commits, and compares the inputs for the hosts of both replicas.
func (p *pair) wantSameHistory() {
	p.t.Helper()
	p.commit()
	if a, b := fedSince(p.t, p.leader, 1), fedSince(p.t, p.follower, 1); !slices.Equal(a, b) || len(a) == 0 {
		p.t.Errorf("the leader feeds\n %q, the follower\n %q", a, b)
	}
}
