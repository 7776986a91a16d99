package monitor

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// replicated is a switch that three controllers monitor, of which the leader dies.
type replicated struct {
	t     *rapid.T
	g     *apptest.Group
	s     *vswitch.Switch
	begin int64
	done  uint64 // commands that the switch has executed
	seq   uint64 // events that it has sent
	lives bool   // the leader
}

func (r *replicated) now() time.Duration { return time.Duration(r.g.Now - r.begin) }

// execute has the switch do what it has not done yet.
func (r *replicated) execute(l ledger.Release) {
	for seq, msg := range r.g.Commands(l) {
		if seq > r.done {
			r.done = seq
			r.s.Message(r.now(), 1, msg)
		}
	}
}

func (r *replicated) event(msg []byte) {
	r.seq++
	seq := r.seq
	r.g.Input(func(c *ledger.Core) {
		if err := c.Event(id, 1, seq, msg); err != nil {
			r.t.Fatal(err)
		}
	})
}

// run lets time pass, while frames come in by port 1 at a rate in bytes/s, and leaders die.
func (r *replicated) run(d time.Duration, rate int) {
	const tick = 50 * time.Millisecond
	crashes := []apptest.Crash{apptest.Stays, apptest.Stays, apptest.Stays, apptest.DiesExecuting, apptest.DiesReleasing}
	if r.lives {
		crashes = crashes[:1]
	}
	for end := r.g.Now + int64(d); r.g.Now < end; {
		stop := r.g.Now + int64(tick)
		for r.g.Now < stop {
			in := r.g.Until(stop)
			if due, ok := r.g.Leader().NextTimer(); ok && due <= r.g.Now {
				r.g.Crash = rapid.SampledFrom(crashes).Draw(r.t, "at a poll")
			}
			r.g.Input(in)
		}
		if n := rate / 20; n > 0 {
			r.s.Frame(r.now(), 1, make([]byte, n))
			r.s.Frames()
		}
		for out := r.s.Take(1); len(out) > 0; out = append(out, r.s.Take(1)...) {
			msg := out[0]
			out = out[1:]
			r.g.Crash = rapid.SampledFrom(crashes).Draw(r.t, "at a reply")
			r.event(msg)
		}
	}
}

func (r *replicated) heard(want int) {
	r.t.Helper()
	for _, row := range r.g.Rows("te") {
		if row.Table != "heard" {
			continue
		}
		if n := int(row.Value[0]); n != want {
			r.t.Fatalf("%d crossings were told, want %d (%d leaders)", n, want, r.g.Term)
		}
		return
	}
	if want > 0 {
		r.t.Fatalf("no crossing was told, want %d (%d leaders)", want, r.g.Term)
	}
}

// Each crossing is told once, whoever dies: between a request and its reply, while the reply is handled, or before what
// follows from it is sent.
func TestOnceWhoeverDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &replicated{t: t, begin: 1}
		r.s = vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 3)})
		r.s.Open(0, 1)
		r.s.Take(1)
		trigger := Trigger{Name: "busy", Of: Ports, Port: 1, Measure: Bandwidth, Above: 10_000}
		old := Trigger{Name: "old", Of: Ports, Port: 2, Measure: Duration, Above: 12_000}
		r.g = apptest.NewGroup(t, 1, func() []*app.App {
			te := owned([]Trigger{trigger, old}, func(Crossed) {}, func(error) {})
			return []*app.App{New(), te}
		}, r.execute)
		r.event(apptest.Up(id))
		r.run(5*time.Second, 5_000)
		r.heard(0)
		r.run(3*time.Second, 20_000)
		r.lives = true // until it has measured
		r.run(4*time.Second, 20_000)
		r.heard(1)
		r.lives = false
		r.run(4*time.Second, 20_000)
		r.run(4*time.Second, 9_000)
		r.heard(2) // the other one has fired
		r.run(3*time.Second, 0)
		r.lives = true
		r.run(4*time.Second, 0)
		r.heard(3)
		r.g.Agree()
	})
}
