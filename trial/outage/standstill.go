package outage

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// watchPriority is the highest that there is: whom nobody delays but the kernel, or who runs this machine.
	watchPriority = 99

	// watchEvery is how often each processor is looked at. Who is later than that by as much again is noted.
	watchEvery = time.Millisecond

	// shortestStop is how long all processors at once must have done nothing.
	shortestStop = 2 * time.Millisecond

	// aftermath is how long after a stop an alarm may still come of it: the ends of a link do not wake at the same time.
	aftermath = 5 * time.Millisecond

	// maxLate bounds what is noted of one processor: half an hour of the worst. What comes then is not noted.
	maxLate = 1 << 20
)

// span is a time from and to some moments.
type span struct{ from, to time.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// standstill notes when this machine stands still: when threads that go before all others, one on each processor, wake late all at once. So a virtual
// machine looks that its host has stopped.
type standstill struct {
	ended   atomic.Bool
	running sync.WaitGroup
	late    [][]span // by processor: each has one writer; to read after close
	err     error    // why threads may have waited for others after all
}

// watchStandstill watches all processors that we may use, until close.
func watchStandstill() (*standstill, error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("which processors there are: %w", err)
	}
	s := &standstill{late: make([][]span, all.Count())}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + len(s.late)) // the watchers keep theirs while they sleep
	ready := make(chan error)
	cpu := 0
	for i := range s.late {
		for !all.IsSet(cpu) {
			cpu++
		}
		on := cpu
		s.running.Go(func() { s.watch(i, on, ready) })
		cpu++
	}
	for range s.late {
		s.err = errors.Join(s.err, <-ready)
	}
	return s, nil
}

func (s *standstill) watch(i, cpu int, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread, with its priority, ends with the goroutine
	var one unix.CPUSet
	one.Set(cpu)
	ready <- errors.Join(unix.SchedSetaffinity(0, &one), setPriority(0, watchPriority))
	for next := monotonic() + watchEvery; !s.ended.Load(); next += watchEvery {
		if !sleepUntil(next) {
			next = monotonic()
			continue
		}
		late, wall := monotonic()-next, time.Now()
		if late < watchEvery {
			continue
		}
		next += late
		if len(s.late[i]) < maxLate {
			s.late[i] = append(s.late[i], span{wall.Add(-late), wall})
		}
	}
}

// sleepUntil reports whether it slept until a time of monotonic, and was not woken before. It sleeps without Go's scheduler knowing, which else might let the
// thread wait for others once more; so it takes a place that others then lack, see watchStandstill.
func sleepUntil(t time.Duration) bool {
	at := unix.NsecToTimespec(int64(t))
	_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	return errno == 0
}

// monotonic is the time of the clock that ClockNanosleep goes by.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // there always is one
	return time.Duration(t.Nano())
}

// close ends the watch and returns the stops. It may be called again.
func (s *standstill) close() []span {
	if !s.ended.Swap(true) {
		s.running.Wait()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - len(s.late))
	}
	return together(s.late)
}

// together returns when all processors were late at once, for long enough.
func together(late [][]span) (stops []span) {
	if len(late) == 0 {
		return nil
	}
	common := late[0]
	for _, other := range late[1:] {
		common = overlap(common, other)
	}
	for _, s := range common {
		if s.length() >= shortestStop {
			stops = append(stops, s)
		}
	}
	return stops
}

// overlap returns what is in spans of both a and b, of which each is in order.
func overlap(a, b []span) (both []span) {
	for len(a) > 0 && len(b) > 0 {
		from, to := a[0].from, a[0].to
		if b[0].from.After(from) {
			from = b[0].from
		}
		if b[0].to.Before(to) {
			to = b[0].to
		}
		if from.Before(to) {
			both = append(both, span{from, to})
		}
		if a[0].to.Before(b[0].to) {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return both
}

// aftermaths returns when an alarm may come of a stop. Stops are in order; what overlaps becomes one.
func aftermaths(stops []span) (windows []span) {
	for _, s := range stops {
		// Logs have whole milliseconds, of which the rest is cut off.
		w := span{s.from.Truncate(time.Millisecond), s.to.Add(aftermath)}
		if n := len(windows); n > 0 && !w.from.After(windows[n-1].to) {
			windows[n-1].to = w.to
		} else {
			windows = append(windows, w)
		}
	}
	return windows
}

// within counts the moments that are in one of the windows.
func within(moments []time.Time, windows []span) (count int) {
	for _, m := range moments {
		if inside(m, windows) {
			count++
		}
	}
	return count
}

func inside(m time.Time, windows []span) bool {
	for _, w := range windows {
		if !m.Before(w.from) && !m.After(w.to) {
			return true
		}
	}
	return false
}
