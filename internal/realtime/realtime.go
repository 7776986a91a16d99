// Package realtime is for work with deadlines: it sets the real-time priority of threads and processes (SCHED_FIFO),
// reads the kernel's monotonic clock, and sleeps until a time of that clock. It measures and schedules nothing itself.
//
// All threads of a Go process need the priority, not only the one that does the work. That one sometimes waits for a
// lock of another thread, which without priority waits for a processor: 0.8 s were measured beside switches with
// priority.
package realtime

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Highest is the highest priority to use: only threads of the kernel, which have 50 and more, go before it.
const Highest = 99

// SetThread gives a thread a priority from 1 to Highest; 0 is the calling thread. It runs before all threads with a
// lower priority or none. This needs CAP_SYS_NICE.
func SetThread(tid, priority int) error {
	if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
		Priority: uint32(priority)}, 0); err != nil {
		return fmt.Errorf("real-time priority %d (CAP_SYS_NICE is needed): %w", priority, err)
	}
	return nil
}

// SetProcess gives a priority to all threads of a process; threads that they start inherit it.
func SetProcess(pid, priority int) error {
	for seen := map[int]bool{}; ; { // until there is none that one without priority may have started meanwhile
		threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			return err
		}
		fresh := false
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			if seen[tid] {
				continue
			}
			seen[tid], fresh = true, true
			if err := SetThread(tid, priority); err != nil && !errors.Is(err, syscall.ESRCH) { // ended meanwhile
				return fmt.Errorf("process %d: %w", pid, err)
			}
		}
		if !fresh {
			return nil
		}
	}
}

// Now is the time of the clock that SleepUntil uses. It never goes back.
func Now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // there always is one
	return time.Duration(t.Nano())
}

// SleepUntil sleeps until Now is t; time.Sleep takes at least a millisecond. The thread keeps its place in Go's
// scheduler meanwhile. So lock the goroutine to it, and call AddProcessors(1) if it sleeps most of the time. The error
// is EINTR after a signal.
func SleepUntil(t time.Duration) unix.Errno {
	at := unix.NsecToTimespec(int64(t))
	_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	return errno
}

var processors sync.Mutex // to change their number

// AddProcessors makes Go run n more goroutines in parallel, or fewer if n is negative. Safe for concurrent use.
func AddProcessors(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}
