package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
)

// A group goes home when its home controller has had the log for a while. One that declines is asked again later.
func TestHoming(t *testing.T) {
	const me, home = 1, 2
	leading := func(p consensus.Peer) consensus.Status {
		p.ID = home
		return consensus.Status{Role: consensus.Role{Leading: true}, ID: me, Last: 5000,
			Peers: []consensus.Peer{{ID: 3, Match: 5000, Votes: true, Active: true, Connected: true}, p}}
	}
	fit := consensus.Peer{Match: 5000 - homeBehind, Votes: true, Active: true, Connected: true}
	behind, gone, learner := fit, fit, fit
	behind.Match--
	gone.Connected = false
	learner.Votes = false
	begin := time.Now()
	var h homing
	for _, c := range []struct {
		what string
		at   time.Duration
		s    consensus.Status
		goes bool
	}{
		{"it has just come", 0, leading(fit), false},
		{"almost long enough", homeAfter - 1, leading(fit), false},
		{"long enough", homeAfter, leading(fit), true},
		{"it was asked", homeAfter + time.Second, leading(fit), false},
		{"it is asked again", homeAfter + homeAgain, leading(fit), true},
		{"it lacks too much", homeAfter + 2*homeAgain, leading(behind), false},
		{"it has caught up just now", homeAfter + 2*homeAgain + 1, leading(fit), false},
		{"no connection", homeAfter + 3*homeAgain, leading(gone), false},
		{"a learner", homeAfter + 4*homeAgain, leading(learner), false},
		{"again", homeAfter + 5*homeAgain, leading(fit), false},
		{"not the leader", homeAfter + 6*homeAgain, consensus.Status{ID: me}, false},
		{"a new leadership begins from the start", homeAfter + 6*homeAgain + 1, leading(fit), false},
		{"and is not delayed by the last one", 2*homeAfter + 6*homeAgain + 1, leading(fit), true},
	} {
		want := uint64(0)
		if c.goes {
			want = home
		}
		if got := h.next(begin.Add(c.at), home, c.s); got != want {
			t.Errorf("%s: goes to %d, want %d", c.what, got, want)
		}
	}
	for what, s := range map[string]consensus.Status{"no home": leading(fit), "at home": leading(fit)} {
		h, to := homing{ready: begin}, uint64(0)
		if what == "at home" {
			to = me
		}
		if got := h.next(begin.Add(time.Hour), to, s); got != 0 {
			t.Errorf("%s: goes to %d", what, got)
		}
	}
}
