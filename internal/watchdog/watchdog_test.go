package watchdog

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const budget = 800 * time.Millisecond

// watched is a goroutine that makes calls, and its watchdog.
type watched struct {
	*Watchdog[string]
	hung  chan string
	ended chan struct{}
	done  atomic.Bool // it has made all of its calls
}

func watch(calls func(*Guard[string])) *watched {
	w := &watched{hung: make(chan string, 1), ended: make(chan struct{})}
	w.Watchdog = New(budget, func(c string) { w.hung <- c })
	go func() {
		defer close(w.ended)
		calls(w.Guard())
		w.done.Store(true)
	}()
	return w
}

func call(g *Guard[string], name string, d time.Duration) {
	g.Begin(&name)
	time.Sleep(d)
	g.End()
}

func name(s string) *string { return &s }

// A call that exceeds the budget is reported with what it is. Its goroutine ends when the call returns.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = budget / 16 // it is not a multiple of what the watchdog waits
		began := time.Now()
		w := watch(func(g *Guard[string]) {
			call(g, "good", late)
			g.Begin(name("before"))
			g.Next(name("bad"))
			time.Sleep(10 * budget)
			g.End()
		})
		if got := <-w.hung; got != "bad" {
			t.Errorf("%q is reported", got)
		}
		if d := time.Since(began) - late; d < budget || d > budget+2*budget/Steps {
			t.Errorf("after %v", d)
		}
		<-w.ended
		if w.done.Load() || !w.GaveUp() {
			t.Error("the goroutine goes on")
		}
	})
}

// A goroutine that was given up ends at whatever it calls next.
func TestEndsAtNextUse(t *testing.T) {
	for use, f := range map[string]func(*Guard[string]){
		"next":  func(g *Guard[string]) { g.Next(name("other")) },
		"end":   (*Guard[string]).End,
		"check": (*Guard[string]).Check,
	} {
		t.Run(use, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch(func(g *Guard[string]) {
					g.Begin(name("bad"))
					time.Sleep(2 * budget)
					f(g)
				})
				<-w.ended
				if w.done.Load() || <-w.hung != "bad" {
					t.Error("it goes on")
				}
			})
		})
	}
}

// Many calls that return take longer than the budget together. Afterwards no timer runs.
func TestGoodCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(func(g *Guard[string]) {
			for range 100 {
				call(g, "good", budget-budget/Steps)
				g.Begin(name("good"))
				for range 4 {
					g.Check()
					time.Sleep(budget / 2)
					g.Next(name("good"))
				}
				g.End()
			}
		})
		<-w.ended
		if !w.done.Load() || len(w.hung) > 0 {
			t.Error("a good call is given up")
		}
		time.Sleep(2 * budget / Steps)
		if w.timer.Stop() {
			t.Error("a timer runs, and no call does")
		}
		call(w.Guard(), "good", 0) // it wakes up
		if !w.timer.Stop() {
			t.Error("no timer runs when a call has begun")
		}
	})
}

// Looks that come late do not count, because the goroutine may have had as little processor time as the watchdog.
func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(func(g *Guard[string]) { call(g, "slow", 3*budget) })
		synctest.Wait()
		for range 3 * Steps {
			w.mu.Lock()
			w.due = w.due.Add(-w.step) // the timer is late
			w.mu.Unlock()
			time.Sleep(w.step)
			synctest.Wait()
		}
		<-w.ended
		if !w.done.Load() {
			t.Error("a process that was starved is taken for a call that hangs")
		}
		w.End()
	})
}

func TestEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(func(g *Guard[string]) { call(g, "slow", 3*budget) })
		time.Sleep(budget / 2)
		w.End()
		<-w.ended
		if !w.done.Load() {
			t.Error("a watchdog that has ended gives up a goroutine")
		}
	})
}

func BenchmarkCall(b *testing.B) {
	w := New(time.Minute, func([6]string) {})
	defer w.End()
	g, c := w.Guard(), new([6]string)
	for b.Loop() {
		g.Begin(c)
		g.Next(c)
		g.End()
	}
}
