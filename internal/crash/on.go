//go:build crashpoints

package crash

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Compiled says whether this build has crash points.
const Compiled = true

var (
	armed, count, hang = parse(os.Getenv("HOLDFAST_CRASH"))
	mark               = os.Getenv("HOLDFAST_CRASH_MARK")
	after              = os.Getenv("HOLDFAST_CRASH_AFTER")
	passed             atomic.Int64
)

func parse(s string) (p Point, n int64, hang bool) {
	f := strings.Split(s, ":")
	n = 1
	if len(f) > 1 {
		if v, err := strconv.ParseInt(f[1], 10, 64); err == nil {
			n = v
		}
	}
	return Point(f[0]), n, len(f) > 2 && f[2] == "hang"
}

// At kills the process if p is the armed point and this is the passage asked for. It first
// leaves time for what was queued before to reach the sockets (what counts is the order), and
// for a test to do something at the same moment.
func At(p Point) {
	if p != armed || !begun() || passed.Add(1) != count || !first() {
		return
	}
	fmt.Fprintf(os.Stderr, "crash point %s, passage %d\n", p, count)
	time.Sleep(50 * time.Millisecond)
	if hang {
		stop()
		return
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// begun reports whether passages count.
func begun() bool {
	if after == "" {
		return true
	}
	_, err := os.Stat(after)
	return err == nil
}

// stop returns after SIGCONT. The signal goes to this thread: another may take its time to
// see it, and meanwhile the process would go on.
func stop() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
}

// first makes the mark, if one is asked for and nobody has made it.
func first() bool {
	if mark == "" {
		return true
	}
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return false
	}
	fmt.Fprintf(f, "%d", os.Getpid())
	return f.Close() == nil
}
