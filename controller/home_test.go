package controller

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
)

// A group goes home when its home controller has had the log for a while. One that declines, or gives the leadership
// back, is asked again later each time, unless it was restarted.
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
	var h Homing
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
		{"and then later", homeAfter + 2*homeAgain, leading(fit), false},
		{"after twice the time", homeAfter + 3*homeAgain, leading(fit), true},
		{"it leads", homeAfter + 3*homeAgain + time.Second, consensus.Status{ID: me}, false},
		{"it has given the leadership back soon", homeAfter + 4*homeAgain, leading(fit), false},
		{"so it waits as long as ever", 2*homeAfter + 4*homeAgain, leading(fit), false},
		{"it has waited", homeAfter + 7*homeAgain, leading(fit), true},
		{"it lacks too much", homeAfter + homeLast, leading(behind), false},
		{"it has caught up just now", homeAfter + homeLast + 1, leading(fit), false},
		{"no connection", homeAfter + homeLast + 2, leading(gone), false},
		{"a learner", homeAfter + homeLast + 3, leading(learner), false},
		{"it leads for long", homeAfter + homeLast + 4, consensus.Status{ID: me}, false},
		{"it has restarted", 3 * homeLast, leading(fit), false},
		{"and goes home as the first time", homeAfter + 3*homeLast, leading(fit), true},
		{"which may be repeated after the first pause", homeAfter + 3*homeLast + homeAgain, leading(fit), true},
		{"its process ends", 2*homeAfter + 3*homeLast + homeAgain, leading(gone), false},
		{"and is restarted", 3*homeAfter + 3*homeLast + homeAgain, leading(fit), false},
		{"so it need not wait again", 4*homeAfter + 3*homeLast + homeAgain, leading(fit), true},
	} {
		want := uint64(0)
		if c.goes {
			want = home
		}
		if got := h.Next(begin.Add(c.at), home, c.s); got != want {
			t.Errorf("%s: goes to %d, want %d", c.what, got, want)
		}
	}
	for what, s := range map[string]consensus.Status{"no home": leading(fit), "at home": leading(fit)} {
		h, to := Homing{ready: begin}, uint64(0)
		if what == "at home" {
			to = me
		}
		if got := h.Next(begin.Add(time.Hour), to, s); got != 0 {
			t.Errorf("%s: goes to %d", what, got)
		}
	}
}
