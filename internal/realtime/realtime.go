// Package realtime is for work that must be done at its time: the priority of threads and processes (SCHED_FIFO), the
// kernel's own clock, and a sleep that keeps to it. It measures nothing, and schedules nothing itself.
//
// All threads of a process of Go need the priority, not only the one with the work: that waits now and then for another
// one's lock, and that one, if it is ordinary, waits for a processor. Measured beside switches with priority: 0.8 s.
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

// Highest is the priority of whom nobody delays but the kernel, or who runs this machine. The kernel's own threads have
// 50 and more.
const Highest = 99

// SetThread gives a thread, 0 for the calling one, a priority of 1 to Highest: it goes before all that has less, or
// none. It needs CAP_SYS_NICE.
func SetThread(tid, priority int) error {
	if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO,
		Priority: uint32(priority)}, 0); err != nil {
		return fmt.Errorf("real-time priority %d (CAP_SYS_NICE is needed): %w", priority, err)
	}
	return nil
}

// SetProcess gives it to all threads of a process, and so to those that they start.
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

// Now is the time of the clock that SleepUntil goes by. It never goes back.
func Now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // there always is one
	return time.Duration(t.Nano())
}

// SleepUntil sleeps until Now is t. A sleep of Go's is a millisecond long or more. The thread keeps its place in Go's
// scheduler meanwhile, so lock it, and AddProcessors one for it if it sleeps most of the time. The error is EINTR after
// a signal.
func SleepUntil(t time.Duration) unix.Errno {
	at := unix.NsecToTimespec(int64(t))
	_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(&at)), 0, 0, 0)
	return errno
}

var processors sync.Mutex // to change their number

// AddProcessors has Go run n goroutines more at a time, or fewer if n is negative. It is safe for concurrent use.
func AddProcessors(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}
