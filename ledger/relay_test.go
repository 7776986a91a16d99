package ledger

import (
	"testing"
	"time"
)

// relaying is two groups, of each of which the leader of the other has a follower at its controller.
type relaying struct {
	*groups
	there map[uint64]bool // the leader of this group leaves what it sends to its follower
}

func newRelaying(t *testing.T, limits Limits, apps ...Application) *relaying {
	r := &relaying{newGroups(t, limits, apps...), map[uint64]bool{1: true, 2: true}}
	for n, p := range r.of {
		other := func(group uint64) bool { return group == 3-n }
		p.leader.Relay(func(uint64) bool { return false }, func(group uint64) bool { return other(group) && r.there[n] })
		p.follower.Relay(other, func(uint64) bool { return false })
		p.follower.RelayIn(1)
	}
	return r
}

// passed returns what the follower of a group passes on.
func (r *relaying) passed(from uint64) (frames [][]byte) {
	r.of[from].follower.Frames(func(to uint64, b []byte) {
		if to != 3-from {
			r.t.Errorf("group %d passes on to %d", from, to)
		}
		frames = append(frames, b)
	})
	return frames
}

// asks makes a packet-in of switch 1 that sends a command to switch 2.
func (r *relaying) asks(seq uint64) { r.of[1].event(1, 1, seq, packetIn("send")) }

func begun(t *testing.T, limits Limits) *relaying {
	r := newRelaying(t, limits, sendsTo2())
	r.of[1].up(1)
	r.of[2].up(2)
	for range 2 {
		for n := range r.of {
			frames := r.sent(n)
			r.take(3-n, append(frames, r.passed(n)...))
		}
	}
	return r
}

// An item and its acknowledgement are passed on by followers, and the leaders send nothing.
func TestRelay(t *testing.T) {
	r := begun(t, Limits{})
	r.asks(2)
	if frames := r.sent(1); len(frames) > 0 {
		t.Errorf("the leader sends %d frames", len(frames))
	}
	r.take(2, r.passed(1))
	if frames := r.sent(2); len(frames) > 0 {
		t.Errorf("the receiver sends %d frames", len(frames))
	}
	if n := r.of[2].leader.Switches()[0].Commands; n != 1 {
		t.Errorf("switch 2 has %d commands", n)
	}
	r.take(1, r.passed(2))
	if r.of[1].commit(); r.waiting(1) != 0 {
		t.Errorf("%d items wait", r.waiting(1))
	}
}

// What a follower does not pass on is sent by the leader after a time, and so is what follows, for some time.
func TestRelayThatFails(t *testing.T) {
	r := begun(t, Limits{})
	r.asks(2)
	r.sent(1)
	r.passed(1) // lost
	one := r.of[1].leader
	one.Tick(r.of[1].now + int64(resendAfter))
	frames := r.sent(1)
	if len(frames) != 1 {
		t.Fatalf("the leader sends %d frames", len(frames))
	}
	r.take(2, frames)
	r.take(1, append(r.sent(2), r.passed(2)...))
	r.of[1].commit()
	for i, after := range []time.Duration{time.Second, 2 * relayPause} {
		one.Tick(r.of[1].now + int64(after))
		r.asks(uint64(3 + i))
		frames, passed := r.sent(1), r.passed(1)
		if direct := after < relayPause; (len(frames) > 0) != direct || (len(passed) > 0) == direct {
			t.Errorf("after %v the leader sends %d frames, the follower %d", after, len(frames), len(passed))
		}
		r.take(2, append(frames, passed...))
		r.take(1, append(r.sent(2), r.passed(2)...))
	}
	if r.of[1].commit(); r.waiting(1) != 0 {
		t.Errorf("%d items wait", r.waiting(1))
	}
}

// An item is not passed on if it would overtake another one of its stream, or if the receiver takes no more.
func TestRelayKeepsOrder(t *testing.T) {
	r := begun(t, Limits{})
	r.there[1] = false
	r.asks(2)
	r.of[1].commit()
	r.there[1] = true
	r.asks(3)
	if frames, passed := r.sent(1), r.passed(1); len(frames) != 1 || len(passed) != 0 {
		t.Errorf("the leader sends %d frames, the follower passes on %d", len(frames), len(passed))
	}
	p := r.of[1].leader.peers[2]
	p.sentItems += windowItems
	r.asks(4)
	if r.of[1].commit(); len(r.passed(1)) != 0 {
		t.Error("more is passed on than the receiver takes at a time")
	}
}

// A follower passes on nothing of an earlier term, and nothing for a group that is led elsewhere.
func TestRelayNotHere(t *testing.T) {
	r := begun(t, Limits{})
	r.of[1].follower.RelayIn(2)
	r.asks(2)
	if r.sent(1); len(r.passed(1)) != 0 {
		t.Error("an entry of an earlier term is passed on")
	}
	r = begun(t, Limits{})
	r.of[1].follower.Relay(func(uint64) bool { return false }, nil)
	r.asks(2)
	if r.sent(1); len(r.passed(1)) != 0 {
		t.Error("an item is passed on to a group that is led elsewhere")
	}
}

// A receiver may acknowledge an item before the leader knows that it is committed.
func TestRelayBeforeCommit(t *testing.T) {
	r := begun(t, Limits{})
	r.asks(2)
	one := r.of[1]
	entry, _ := one.leader.Cut()
	one.must(one.follower.Commit(entry))
	r.take(2, r.passed(1))
	r.of[2].commit()
	r.take(1, r.passed(2))
	one.must(one.leader.Commit(entry))
	if frames := r.sent(1); len(frames) > 0 || r.waiting(1) != 0 {
		t.Errorf("the leader sends %d frames, and %d items wait", len(frames), r.waiting(1))
	}
	if n := r.of[2].leader.Switches()[0].Commands; n != 1 {
		t.Errorf("switch 2 has %d commands", n)
	}
	if err := one.leader.Acknowledged(Link{Actor{App: "one"}, theSwitch(2)}, 9, false); err == nil {
		t.Error("an item is acknowledged that there is not")
	}
}
