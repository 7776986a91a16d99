package bfd_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

const (
	ms   = time.Millisecond
	beat = 5 * ms // the sessions below must survive if the machine is busy for a second
)

// A session of ours and one of a real Open vSwitch, over a cable.
func TestWithOpenVSwitch(t *testing.T) {
	t.Parallel()
	lab := netlab.ForTest(t)
	s := must(lab.AddSwitch("s1", 0x11))(t)
	h := must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(t)
	must(lab.Connect(s, h))(t)
	db := watch(t, s)
	end := await(t, db, "p1", "plugged in", hasLink)
	set := func(tx, rx time.Duration, multiplier int) {
		t.Helper()
		if err := db.SetBFD(t.Context(), end, ovsdb.BFD{MinTx: tx, MinRx: rx, Multiplier: multiplier}); err != nil {
			t.Fatal(err)
		}
	}
	negotiated := func(interval, detection time.Duration) func(bfd.Status) bool {
		return func(s bfd.Status) bool {
			return s.State == bfd.Up && s.TxInterval == interval && s.DetectionTime == detection
		}
	}
	set(60*beat, 80*beat, 0)
	p := newPort(t, h, 50*beat, 70*beat)
	p.await(t, "up, with the slower interval of each direction", negotiated(80*beat, 3*70*beat))
	await(t, db, "p1", "up", isUp)

	t.Run("we change the intervals", func(t *testing.T) {
		change := func(tx, rx time.Duration) {
			p.mu.Lock()
			defer p.mu.Unlock()
			if err := p.session.SetTimers(time.Since(p.began), tx, rx); err != nil {
				t.Fatal(err)
			}
		}
		change(200*beat, 30*beat)
		p.await(t, "slower, after a final", negotiated(200*beat, 3*60*beat))
		change(90*beat, 100*beat)
		p.await(t, "faster", negotiated(90*beat, 3*100*beat))
	})
	t.Run("it changes the intervals", func(t *testing.T) {
		set(120*beat, 100*beat, 0)
		p.await(t, "as it says", negotiated(100*beat, 3*120*beat))
		set(60*beat, 60*beat, 5)
		p.await(t, "as it says", negotiated(90*beat, 5*100*beat))
	})
	if i := await(t, db, "p1", "up", isUp); i.BFD.Flaps > 1 { // coming up counts as one
		t.Errorf("a change of intervals took the session down: %+v", i)
	}
	t.Run("silence", func(t *testing.T) {
		p.setSilent(true)
		await(t, db, "p1", "down", func(i ovsdb.Interface) bool { return isDown(i) && i.LinkUp })
		p.await(t, "down", func(s bfd.Status) bool { return s.State == bfd.Down && s.Diag == bfd.DiagExpired })
		p.setSilent(false)
		p.await(t, "up again", func(s bfd.Status) bool { return s.State == bfd.Up })
		await(t, db, "p1", "up again", isUp)
	})
	t.Run("admin down", func(t *testing.T) {
		admin := func(down bool) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.session.SetAdminDown(time.Since(p.began), down)
		}
		admin(true)
		await(t, db, "p1", "told", func(i ovsdb.Interface) bool { return !i.BFD.Forwarding && i.BFD.State == "down" })
		admin(false)
		await(t, db, "p1", "up again", isUp)
	})
	if err := db.ClearBFD(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	p.await(t, "down, since it is cleared", func(s bfd.Status) bool { return s.State == bfd.Down })
}
