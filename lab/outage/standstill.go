package outage

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/internal/realtime"
)

const (
	// watchEvery is how often each processor is checked. A thread that is later than that by as much again is recorded.
	watchEvery = time.Millisecond

	// shortestStop is how long a processor must have done nothing.
	shortestStop = 2 * time.Millisecond

	// aftermath is how long after a stop an alarm may still be its consequence: the ends of a link do not resume at the
	// same time.
	aftermath = 5 * time.Millisecond

	// maxLate bounds what is recorded of one processor: half an hour of the worst case. Later stops are not recorded.
	maxLate = 1 << 20
)

// span is a time from and to some moments.
type span struct{ from, to time.Time }

func (s span) length() time.Duration { return s.to.Sub(s.from) }

// standstill records when processors of this machine stop: threads of the highest priority, one on each processor, wake
// late. A virtual machine shows this when its host has given its processors to others.
type standstill struct {
	ended   atomic.Bool
	running sync.WaitGroup
	late    [][]span // by processor: each has one writer; to read after close
	failed  []error  // the same
	err     error    // why the threads had no priority, so that waits for other threads count too
}

// watchStandstill watches all processors that we may use, until close.
func watchStandstill() (*standstill, error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("which processors there are: %w", err)
	}
	s := &standstill{late: make([][]span, all.Count()), failed: make([]error, all.Count())}
	realtime.AddProcessors(len(s.late)) // the watchers keep theirs while they sleep
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
	ready <- errors.Join(unix.SchedSetaffinity(0, &one), realtime.SetThread(0, realtime.Highest))
	wall := time.Now().Add(-realtime.Now()) // when that was 0
	for next := realtime.Now() + watchEvery; !s.ended.Load(); next += watchEvery {
		switch errno := realtime.SleepUntil(next); errno {
		case 0:
		case unix.EINTR:
			next = realtime.Now()
			continue
		default: // not again and again, at this priority
			s.failed[i] = fmt.Errorf("sleep on processor %d: %w", cpu, errno)
			return
		}
		now := realtime.Now()
		if now-next < watchEvery {
			continue
		}
		if len(s.late[i]) < maxLate {
			s.late[i] = append(s.late[i], span{wall.Add(next), wall.Add(now)})
		}
		next = now
	}
}

// close ends the watch and returns the stops. It may be called again.
func (s *standstill) close() []span {
	if !s.ended.Swap(true) {
		s.running.Wait()
		realtime.AddProcessors(-len(s.late))
		s.err = errors.Join(s.err, errors.Join(s.failed...))
	}
	return longEnough(s.late)
}

// longEnough returns when any processor did nothing, for long enough, in order. What overlaps becomes one.
func longEnough(late [][]span) (stops []span) {
	var all []span
	for _, one := range late {
		for _, s := range one {
			if s.length() >= shortestStop {
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	for _, s := range all {
		stops = appendJoined(stops, s)
	}
	return stops
}

// appendJoined appends a span that does not begin before the last one, or joins the two if they overlap.
func appendJoined(all []span, s span) []span {
	last := len(all) - 1
	if last < 0 || s.from.After(all[last].to) {
		return append(all, s)
	}
	if s.to.After(all[last].to) {
		all[last].to = s.to
	}
	return all
}

// aftermaths returns when an alarm may come of a stop. Stops are in order; what overlaps becomes one.
func aftermaths(stops []span) (windows []span) {
	for _, s := range stops {
		// Logs have whole milliseconds, of which the rest is cut off.
		windows = appendJoined(windows, span{s.from.Truncate(time.Millisecond), s.to.Add(aftermath)})
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
