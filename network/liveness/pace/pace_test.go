package pace

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
)

const ms = time.Millisecond

// tick is the time between two looks.
const tick = 250 * ms

// world is links whose BFD does what the test says.
type world struct {
	p    *Pace
	now  time.Time
	late time.Duration
	all  []Observation
}

// newWorld has links between the switches 1 and 2, 2 and 3, and so on, that are up with the interval found.
func newWorld(links int, least, found time.Duration) *world {
	w := &world{p: New(3), now: time.Unix(1e9, 0)}
	for i := range app.Switch(links) {
		w.all = append(w.all, Observation{Link: Link{app.PortOf{Switch: i + 1, Port: 1},
			app.PortOf{Switch: i + 2, Port: 2}},
			Least: least, Found: found, Up: true, Carrier: true, Flaps: 2, Reported: true})
	}
	return w
}

// run lets time pass.
func (w *world) run(d time.Duration) (changes []Change) {
	for ; d > 0; d -= tick {
		w.now = w.now.Add(tick)
		changes = append(changes, w.p.Look(w.now, w.late, w.all)...)
	}
	return changes
}

func (w *world) down(links ...int) {
	for _, i := range links {
		w.all[i].Up = false
		w.all[i].Flaps += 2
	}
}

func (w *world) up(links ...int) {
	for _, i := range links {
		w.all[i].Up, w.all[i].Carrier = true, true
		w.all[i].Flaps += 2
	}
}

func (w *world) interval(i int) time.Duration { return w.p.Interval(w.all[i].Link, w.all[i].Least) }

func TestPace(t *testing.T) {
	fast := 15 * ms
	for _, c := range []struct {
		name string
		do   func(*world)
		want []time.Duration
	}{
		{"a link begins careful", func(w *world) {}, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"and gets fast", func(w *world) { w.run(10 * time.Second) }, []time.Duration{fast, fast, fast}},
		{"while it is down it does not", func(w *world) { w.all[1].Up = false; w.run(time.Minute) },
			[]time.Duration{fast, 100 * ms, fast}},
		{"nor while one end is unknown", func(w *world) { w.all[1].Reported = false; w.run(time.Minute) },
			[]time.Duration{fast, 100 * ms, fast}},
		{"nor while the observer is late", func(w *world) { w.late = time.Second; w.run(time.Minute) },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"a false alarm", func(w *world) {
			w.run(10 * time.Second)
			w.down(1)
			w.run(2 * time.Second)
			w.up(1)
			w.run(
				tick)
		},
			[]time.Duration{fast, 100 * ms, fast}},
		{"one that nobody saw while it lasted", func(w *world) { w.run(10 * time.Second); w.up(1); w.run(tick) },
			[]time.Duration{fast, 100 * ms, fast}},
		{"a dead link", func(w *world) { w.run(10 * time.Second); w.down(1); w.run(time.Minute); w.up(1); w.run(tick) },
			[]time.Duration{fast, fast, fast}},
		{"a lost carrier", func(w *world) {
			w.run(10 * time.Second)
			w.all[1].Carrier = false
			w.down(1)
			w.run(tick)
			w.all[1].Carrier = true
			w.run(tick)
			w.up(1)
			w.run(tick)
		}, []time.Duration{fast, fast, fast}},
		{"a switch that restarts its counters", func(
			w *world) {
			w.run(10 * time.Second)
			w.all[1].Flaps = 0
			w.run(tick)
		},
			[]time.Duration{fast, fast, fast}},
		{"links of one switch go down: perhaps it is dead",
			func(w *world) { w.run(10 * time.Second); w.down(0, 1); w.run(tick) },
			[]time.Duration{fast, fast, fast}},
		{"links of different switches go down", func(w *world) { w.run(10 * time.Second); w.down(0, 2); w.run(tick) },
			[]time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"that counts once", func(w *world) {
			w.run(10 * time.Second)
			w.down(0, 2)
			w.run(2 * time.Second)
			w.up(0, 2)
			w.run(time.Second)
		}, []time.Duration{100 * ms, 100 * ms, 100 * ms}},
		{"but not a cable duct", func(w *world) {
			w.run(10 * time.Second)
			w.all[0].Carrier, w.all[2].Carrier = false, false
			w.down(0, 2)
			w.run(time.Second)
		}, []time.Duration{fast, fast, fast}},
		{"the longest interval", func(w *world) {
			for range 10 {
				w.down(0, 2)
				w.run(time.Second)
				w.up(0, 2)
				w.run(time.Second)
			}
		}, []time.Duration{500 * ms, 500 * ms, 500 * ms}},
	} {
		w := newWorld(3, fast, 0)
		w.p.Look(w.now, 0, w.all)
		c.do(w)
		for i, want := range c.want {
			if got := w.interval(i); got != want {
				t.Errorf("%s: link %d has %v, want %v", c.name, i, got, want)
			}
		}
	}
}

// The next leader goes on with what it finds in the databases.
func TestTheNextLeader(t *testing.T) {
	for found, want := range map[time.Duration]time.Duration{15 * ms: 15 * ms, 400 * ms: 400 * ms, 5 * ms: 15 * ms,
		time.Hour: 500 * ms, 0: 100 * ms} {
		w := newWorld(1, 15*ms, found)
		if w.run(tick); w.interval(0) != want {
			t.Errorf("found %v: %v, want %v", found, w.interval(0), want)
		}
	}
}

// A machine on which links cannot be fast is tried again, but less and less often: at most 2·log2(time) + the steps of
// each trial, and it is fast at last when it can be.
func TestTrialsBecomeRare(t *testing.T) {
	w := newWorld(3, 15*ms, 0)
	alarms := 0
	for end := w.now.Add(2 * time.Hour); w.now.Before(end); w.run(tick) {
		if w.interval(0) < 50*ms { // each time that it is fast it fails
			alarms++
			w.down(0)
			w.run(time.Second)
			w.up(0)
		}
	}
	if alarms > 18 || alarms < 5 {
		t.Errorf("%d false alarms in two hours", alarms)
	}
	if w.interval(1) != 15*ms {
		t.Errorf("another link has %v", w.interval(1))
	}
	if w.run(3 * lastTrial); w.interval(0) != 15*ms {
		t.Errorf("the machine is quiet, and the link has %v", w.interval(0))
	}
	if w.run(2 * time.Hour); w.p.links[w.all[0].Link].trial != firstTrial {
		t.Errorf("after two quiet hours the trial is %v", w.p.links[w.all[0].Link].trial)
	}
}

// Whatever happens, an interval is between the least and the longest, a change is told, and a network that is quiet for
// long enough is fast.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		least := time.Duration(rapid.IntRange(1, 600).Draw(t, "least")) * ms
		w := newWorld(rapid.IntRange(1, 6).Draw(t, "links"), least,
			time.Duration(rapid.IntRange(0, 1000).Draw(t, "found"))*ms)
		w.p = New(rapid.IntRange(1, 255).Draw(t, "multiplier"))
		known := map[Link]time.Duration{}
		look := func() {
			for _, c := range w.run(tick) {
				if c.Slower != (c.Interval > known[c.Link]) || c.Why == "" {
					t.Fatalf("%+v, and it had %v", c, known[c.Link])
				}
				known[c.Link] = c.Interval
			}
			for i, o := range w.all {
				got := w.interval(i)
				if got < least || got > w.p.Slowest(least) {
					t.Fatalf("link %d has %v, with least %v and at most %v", i, got, least, w.p.Slowest(least))
				}
				if got != known[o.Link] {
					t.Fatalf("link %d has %v, told was %v", i, got, known[o.Link])
				}
			}
			if len(w.p.alarms) > len(w.all)*int(together/tick+1) {
				t.Fatalf("%d alarms are kept", len(w.p.alarms))
			}
		}
		w.run(tick)
		for i, o := range w.all {
			known[o.Link] = w.interval(i)
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, len(w.all)-1).Draw(t, "link")
			switch rapid.IntRange(0, 5).Draw(t, "what") {
			case 0:
				w.down(i)
			case 1:
				w.up(i)
			case 2:
				w.all[i].Carrier = !w.all[i].Carrier
			case 3:
				w.all[i].Reported = !w.all[i].Reported
			case 4:
				w.late = time.Duration(rapid.IntRange(0, 2000).Draw(t, "late")) * ms
			}
			look()
		}
		w.late = 0
		for i := range w.all {
			w.all[i].Up, w.all[i].Carrier, w.all[i].Reported = true, true, true
		}
		w.run(15 * lastTrial)
		for i := range w.all {
			if w.interval(i) != least {
				t.Fatalf("link %d has %v after a long quiet, want %v", i, w.interval(i), least)
			}
		}
	})
}

// One stall of a machine shows at several looks. It slows the links down once.
func TestOneStallIsOneBurst(t *testing.T) {
	p, now := New(3), time.Unix(1e9, 0)
	var all []Observation
	for i := range 9 {
		row, column := i/3, i%3
		for k, j := range []int{(row+1)%3*3 + column, row*3 + (column+1)%3} {
			l := Link{app.PortOf{Switch: app.Switch(i + 1), Port: app.Port(k + 1)},
				app.PortOf{Switch: app.Switch(j + 1), Port: app.Port(k + 3)}}
			all = append(all, Observation{Link: l, Least: 15 * time.Millisecond, Up: true, Carrier: true, Reported: true})
		}
	}
	look := func() { p.Look(now, 0, all); now = now.Add(250 * time.Millisecond) }
	for range 240 {
		look()
	}
	if got := p.Interval(all[0].Link, 0); got != 15*time.Millisecond {
		t.Fatalf("an interval of %v after a quiet minute", got)
	}
	for k := range 4 {
		for i := k * 9 / 2; i < min(18, (k+1)*9/2); i++ {
			all[i].Up = false
			all[i].Flaps++
		}
		look()
	}
	for i := range all {
		all[i].Up = true
		all[i].Flaps++
	}
	look()
	for i := range all {
		if got := p.Interval(all[i].Link, 0); got != careful {
			t.Errorf("link %d: an interval of %v after one stall, want %v", i, got, careful)
		}
	}
}
