package heartbeat

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

var (
	quiet = Seen{Reading: true}
	hears = Seen{Heard: true, Reading: true}
)

// lostAfter returns the number of the tick in which the other end is lost, of those after the last that heard it.
func lostAfter(t *testing.T, m *Monitor) int {
	t.Helper()
	m.Tick(hears)
	for n := 1; n <= 1000; n++ {
		if _, lost := m.Tick(quiet); lost {
			return n
		}
	}
	t.Fatal("a silent end is never lost")
	return 0
}

func TestLost(t *testing.T) {
	for _, c := range []struct {
		name string
		seen []Seen // for ever, one after the other
		lost bool
	}{
		{"silent", []Seen{quiet}, true},
		{"silent while something is sent to it", []Seen{{Sent: true, Reading: true}}, true},
		{"heard in each interval", []Seen{hears, quiet, quiet, quiet}, false},
		{"heard once in three intervals", append([]Seen{hears}, most(quiet)...), false},
		{"heard less often", append([]Seen{hears}, append(most(quiet), quiet)...), true},
		{"not read", []Seen{{}}, false},
		{"read from time to time", []Seen{{}, quiet, quiet, quiet, quiet}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Monitor
			for i := range 100 {
				if _, lost := m.Tick(c.seen[i%len(c.seen)]); lost {
					if !c.lost {
						t.Errorf("lost at tick %d", i)
					}
					return
				}
			}
			if c.lost {
				t.Error("not lost")
			}
		})
	}
}

func most(s Seen) []Seen {
	list := make([]Seen, Missed*Ticks-1)
	for i := range list {
		list[i] = s
	}
	return list
}

// After each loss the next one takes twice as long, and after a calm time half of that again.
func TestLossesBecomeRare(t *testing.T) {
	var m Monitor
	const base = Missed * Ticks
	for _, want := range []int{base, 2 * base, 4 * base, 8 * base, 16 * base, 16 * base} {
		if n := lostAfter(t, &m); n != want {
			t.Fatalf("lost after %d ticks, want %d", n, want)
		}
	}
	for range 2 * calm {
		m.Tick(hears)
	}
	if n := lostAfter(t, &m); n != 4*base {
		t.Errorf("after a calm time lost after %d ticks, want %d", n, 4*base)
	}
}

// On a crowded machine a loss takes longer to notice, by the least crowd of the silence, and up to a bound.
func TestCrowdExcusesSilence(t *testing.T) {
	const base, asks, most = Missed * Ticks, Missed * Ticks / 2, Missed * Ticks << maxDoublings
	for name, c := range map[string]struct {
		crowds []int // what is answered first, second and so on; the last one for ever
		want   int
	}{
		"none":         {[]int{1}, base},
		"not known":    {[]int{0}, base},
		"known later":  {[]int{0, 5, 0, 6}, 5 * base},
		"all the time": {[]int{5}, 5 * base},
		"large":        {[]int{1000}, most},
		"growing":      {[]int{5, 6, 1000}, 5 * base},
		"over":         {[]int{5, 5, 5, 1}, base},
		"over later":   {append(slices.Repeat([]int{5}, base), 1), asks + base},
	} {
		asked := 0
		crowd := func() int { asked++; return c.crowds[min(asked, len(c.crowds))-1] }
		var m Monitor
		for silence := range 2 {
			m.Tick(Seen{Heard: true, Reading: true, Crowd: crowd})
			asked = 0
			for n := 1; ; n++ {
				_, lost := m.Tick(Seen{Reading: true, Crowd: crowd})
				if n < asks<<silence && asked > 0 {
					t.Fatalf("%s: asked after %d ticks", name, n)
				}
				if !lost {
					continue
				}
				if want := min(c.want<<silence, most); silence == 0 && n != want || n > most {
					t.Errorf("%s: lost after %d ticks, want %d", name, n, want)
				}
				break
			}
		}
	}
}

// A silence that has ended excuses no other.
func TestCrowdIsForgotten(t *testing.T) {
	var m Monitor
	crowd := 1
	for range 3 {
		m.Tick(Seen{Heard: true, Reading: true})
		for range Missed*Ticks - 1 {
			if _, lost := m.Tick(Seen{Reading: true, Crowd: func() int { return crowd }}); lost {
				t.Fatal("lost too early")
			}
		}
		crowd += 4
	}
	if _, lost := m.Tick(quiet); !lost {
		t.Error("an end that does not know whether its machine is crowded excuses a silence")
	}
}

// An idle connection carries one request and one answer in each interval, whatever the phases of the clocks are. With
// data that flows one way, only the other way needs heartbeats.
func TestIdleConnection(t *testing.T) {
	for phase := range 3 {
		first, second := Monitor{}, Monitor{Second: true}
		var a, b Seen // of the first end, and of the second
		asks, others := 0, 0
		const intervals = 100
		for i := range intervals * Ticks * 3 { // thirds of a tick
			if i%3 == 0 {
				a.Reading = true
				send, lost := first.Tick(a)
				if a = (Seen{}); lost {
					t.Fatal("the second end is lost")
				}
				if send { // and answered at once
					asks++
					a, b = Seen{Sent: true, Heard: true}, Seen{Sent: true, Heard: true}
				}
			}
			if i%3 == phase {
				b.Reading = true
				send, lost := second.Tick(b)
				if b = (Seen{}); lost {
					t.Fatal("the first end is lost")
				}
				if send {
					others++
				}
			}
		}
		if asks < intervals-1 || asks > intervals+1 || others > 0 {
			t.Errorf("in %d intervals one end asks %d times, the other %d times", intervals, asks, others)
		}
	}
}

// An end sends something in each interval, whatever it hears.
func TestSendsInEachInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Monitor{Second: rapid.Bool().Draw(t, "second")}
		since := 0
		for range 200 {
			s := Seen{Sent: rapid.IntRange(0, 9).Draw(t, "sent") == 0, Heard: true, Reading: true}
			send, _ := m.Tick(s)
			if since++; s.Sent || send {
				since = 0
			}
			if since > Ticks+grace {
				t.Fatalf("nothing was sent for %d ticks", since)
			}
		}
	})
}
