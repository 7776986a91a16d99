package outage

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// realtimePriority is above all ordinary processes and below the kernel's own threads, which have 50 and more.
const realtimePriority = 10

// setPriority gives a thread, 0 for the calling one, SCHED_FIFO.
func setPriority(tid, priority int) error {
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: uint32(priority)}, 0)
}

// setProcessPriority gives it to all threads of a process, and so to those that they start.
func setProcessPriority(pid, priority int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		if err := setPriority(tid, priority); err != nil && !errors.Is(err, syscall.ESRCH) { // ended meanwhile
			return fmt.Errorf("real-time priority for process %d: %w", pid, err)
		}
	}
	return nil
}

// pressure is how long, since the machine started, some process has waited for a processor; 0 if the kernel does not tell.
func pressure() time.Duration {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0
	}
	return parsePressure(string(text))
}

// parsePressure reads "some avg10=0.12 avg60=0.10 avg300=0.05 total=123456", the total in microseconds.
func parsePressure(text string) time.Duration {
	line, _, _ := strings.Cut(text, "\n")
	_, total, _ := strings.Cut(line, "total=")
	us, err := strconv.ParseInt(total, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}
