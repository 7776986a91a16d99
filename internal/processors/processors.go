// Package processors lets a process run on as few processors at a time as it keeps busy. Go's scheduler takes all that
// there are: whenever a goroutine wakes another one, and a processor is idle, it also wakes a thread there, which looks
// for work, mostly finds none, and sleeps again. A controller with little to do has several such moments for each
// event, and each costs as much as the event. The package also says how many threads want each processor of a machine.
// It knows nothing of what the process does, and does not pin threads.
package processors

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// interval is how often the process is looked at: at multiples of it, at which loops that are idle look for work
// (controller.QuietInterval), so that the process wakes once for both.
const interval = 50 * time.Millisecond

// A process gets twice the processors when it was busy for more than grow per cent of their time, and half of them when
// it was busy for less than shrink per cent of the time of so many looks. That is less than grow of those it then has,
// and it will need less: see above. Each change stops it for some 50 µs.
const (
	grow   = 70
	shrink = 34
	calm   = 20
)

// followed says that somebody follows the needs of this process.
var followed atomic.Bool

// Follow sets GOMAXPROCS to what the process needs, from one to what it is now. stop ends that, and sets it again. It
// does nothing if GOMAXPROCS is set in the environment, if there is one processor, or while an earlier call is in
// effect.
func Follow() (stop func()) {
	most := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") != "" || most == 1 || !followed.CompareAndSwap(false, true) {
		return func() {}
	}
	ended, end := make(chan struct{}), make(chan struct{})
	go func() { // ends with stop
		defer close(ended)
		defer followed.Store(false)
		defer runtime.GOMAXPROCS(most)
		follow(most, end)
	}()
	return func() { close(end); <-ended }
}

func follow(most int, end <-chan struct{}) {
	u := use{most: most, now: most}
	last, used := time.Now(), processorTime()
	next := time.NewTimer(untilNext(last))
	defer next.Stop()
	for {
		select {
		case <-end:
			return
		case <-next.C:
		}
		before, began := used, last
		last, used = time.Now(), processorTime()
		next.Reset(untilNext(last))
		if u.look(used-before, last.Sub(began)) {
			runtime.GOMAXPROCS(u.now)
		}
	}
}

func untilNext(now time.Time) time.Duration { return now.Truncate(interval).Add(interval).Sub(now) }

// processorTime returns how much of it all threads of the process have used.
func processorTime() time.Duration {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // fails with other arguments only
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// use decides how many processors a process has.
type use struct {
	now, most int
	looks     int           // since the last change, or the last decision
	used, in  time.Duration // in these looks
}

// look takes how much processor time was used in a time, and reports whether the number of processors changes.
func (u *use) look(used, in time.Duration) bool {
	before := u.now
	u.looks, u.used, u.in = u.looks+1, u.used+used, u.in+in
	switch {
	case used*100 > in*time.Duration(u.now)*grow:
		u.now = min(2*u.now, u.most)
	case u.looks < calm:
		return false
	case u.used*100 < u.in*time.Duration(u.now)*shrink:
		u.now = (u.now + 1) / 2
	}
	u.looks, u.used, u.in = 0, 0, 0
	return u.now != before
}
