// Package watchdog notices that one of the calls that a goroutine makes does not return, and gives that goroutine up.
// Go cannot end a goroutine, so the one that is given up ends by itself if its call ever returns, before it can do
// anything more. Its owner must not use it again.
//
// The goroutine and the watchdog share a Guard. A call costs the goroutine a few atomic operations, and no reading of a
// clock. While there are no calls, no timer runs.
//
// It does not know what the calls do, and does not log.
package watchdog

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The phases of a Guard. The other bits of its word are the number of the call.
const (
	asleep    uint64 = iota // no call runs, and the watchdog does not look
	idle                    // no call runs
	running                 // the call with this number runs
	abandoned               // it ran for too long, and the goroutine is given up

	phaseBits = 2
	phases    = 1<<phaseBits - 1
)

// Guard is what a goroutine and its Watchdog share. Its methods are for the goroutine. Those that find that it was
// given up do not return: they end it, after its deferred functions.
//
// When the goroutine was given up, others may read what it wrote before Begin and writes again only after End: for
// example, what says which call it was.
type Guard struct {
	word  atomic.Uint64
	count uint64 // of the calls
	wake  func()
}

// Begin is called before a call.
func (g *Guard) Begin() {
	g.count++
	if was := g.word.Swap(g.count<<phaseBits | running); was&phases == asleep {
		g.wake()
	}
}

// End is called after a call.
func (g *Guard) End() {
	if !g.word.CompareAndSwap(g.count<<phaseBits|running, g.count<<phaseBits|idle) {
		runtime.Goexit()
	}
}

// Check may be called within a call, so that a call that goes on for ever ends.
func (g *Guard) Check() {
	if g.word.Load()&phases == abandoned {
		runtime.Goexit()
	}
}

// DefaultBudget is the default budget of a call of an application.
const DefaultBudget = 5 * time.Second

// Steps is how often a Watchdog looks within the budget of a call.
const Steps = 8

// Watchdog watches the calls of one goroutine.
type Watchdog struct {
	guard Guard
	step  time.Duration
	hangs func()

	mu    sync.Mutex // guards the fields below
	timer *time.Timer
	due   time.Time // when the timer goes off
	seen  uint64    // the word of the guard at the last look
	ticks int       // for how many looks it has been the same call
	ended bool
}

// New returns a watchdog of calls that should return within a budget. hangs is called when one does not, once and in a
// goroutine of its own: then the goroutine that made the call is given up. It must not call End.
func New(budget time.Duration, hangs func()) *Watchdog {
	w := &Watchdog{step: max(budget/Steps, time.Millisecond), hangs: hangs}
	w.guard.wake = w.begin
	return w
}

// Guard is for the goroutine that is watched.
func (w *Watchdog) Guard() *Guard { return &w.guard }

// GaveUp reports whether the goroutine was given up. Then hangs is called, or about to be.
func (w *Watchdog) GaveUp() bool { return w.guard.word.Load()&phases == abandoned }

// End ends the watchdog, and waits until it does not look any more.
func (w *Watchdog) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// begin is called when the watchdog is asleep, and a call begins.
func (w *Watchdog) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen, w.ticks = 0, 0
	w.again(time.Now())
}

// again sets the timer.
func (w *Watchdog) again(now time.Time) {
	if w.ended {
		return
	}
	w.due = now.Add(w.step)
	if w.timer == nil {
		w.timer = time.AfterFunc(w.step, w.look)
		return
	}
	w.timer.Reset(w.step)
}

// look takes the goroutine for given up if the same call runs for too long. Only looks that come in time count: a
// process that was stopped, or got no processor time, may have done nothing in between.
func (w *Watchdog) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, word := time.Now(), w.guard.word.Load()
	switch phase := word & phases; {
	case w.ended:
		return
	case word != w.seen:
		w.seen, w.ticks = word, 0
	case phase == idle && w.guard.word.CompareAndSwap(word, word-idle+asleep):
		return
	case phase == running && now.Sub(w.due) < w.step:
		if w.ticks++; w.ticks >= Steps && w.guard.word.CompareAndSwap(word, word-running+abandoned) {
			w.ended = true
			go w.hangs()
			return
		}
	}
	w.again(now)
}
