package sentry

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // TestMain is on the main thread

// TestMain moves the main thread into a network namespace of its own. That happens in programs, too, when a
// goroutine that enters a namespace has run on it: the main thread does not end.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			fmt.Fprintln(os.Stderr, "the main thread stays in our namespace:", err)
		}
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // tests with real switches mostly wait
		fmt.Fprintln(os.Stderr, err)
	}
	goleak.VerifyTestMain(m)
}
