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
	*Watchdog
	name  string // of the last call
	hung  chan string
	ended chan struct{}
	done  atomic.Bool // it has made all of its calls
}

func watch(calls func(*watched)) *watched {
	w := &watched{hung: make(chan string, 1), ended: make(chan struct{})}
	w.Watchdog = New(budget, func() { w.hung <- w.name })
	go func() {
		defer close(w.ended)
		calls(w)
		w.done.Store(true)
	}()
	return w
}

func (w *watched) call(name string, d time.Duration) {
	w.begin(name)
	time.Sleep(d)
	w.end()
}

func (w *watched) begin(name string) {
	w.name = name
	w.Guard().Begin()
}

func (w *watched) end() { w.Guard().End() }

func (w *watched) next(name string) {
	w.end()
	w.begin(name)
}

// A call that exceeds the budget is reported with what it is. Its goroutine ends when the call returns.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const late = budget / 16 // it is not a multiple of what the watchdog waits
		began := time.Now()
		w := watch(func(w *watched) {
			w.call("good", late)
			w.begin("before")
			w.next("bad")
			time.Sleep(10 * budget)
			w.end()
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
	for use, f := range map[string]func(*Guard){"end": (*Guard).End, "check": (*Guard).Check} {
		t.Run(use, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := watch(func(w *watched) {
					w.begin("bad")
					time.Sleep(2 * budget)
					f(w.Guard())
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
		w := watch(func(w *watched) {
			for range 100 {
				w.call("good", budget-budget/Steps)
				w.begin("good")
				for range 4 {
					w.Guard().Check()
					time.Sleep(budget / 2)
					w.next("good")
				}
				w.end()
			}
		})
		<-w.ended
		if !w.done.Load() || len(w.hung) > 0 {
			t.Error("a good call is given up")
		}
		time.Sleep(2 * budget / Steps)
		synctest.Wait() // the second look is at this moment
		if w.timer.Stop() {
			t.Error("a timer runs, and no call does")
		}
		w.call("good", 0) // it wakes up
		if !w.timer.Stop() {
			t.Error("no timer runs when a call has begun")
		}
	})
}

// Looks that come late do not count, because the goroutine may have had as little processor time as the watchdog.
func TestStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(func(w *watched) { w.call("slow", 3*budget) })
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
		w := watch(func(w *watched) { w.call("slow", 3*budget) })
		time.Sleep(budget / 2)
		w.End()
		<-w.ended
		if !w.done.Load() {
			t.Error("a watchdog that has ended gives up a goroutine")
		}
	})
}

func BenchmarkCall(b *testing.B) {
	w := New(time.Minute, func() {})
	defer w.End()
	g := w.Guard()
	for b.Loop() {
		g.Begin()
		g.End()
	}
}
