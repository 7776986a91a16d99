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

// TestMain has the main thread in a network namespace of its own, as it may be once a goroutine that enters one ran on
// it: such a thread does not end.
func TestMain(m *testing.M) {
	if os.Geteuid() == 0 {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			fmt.Fprintln(os.Stderr, "the main thread stays in our namespace:", err)
		}
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil { // tests with real switches wait, most of the time
		fmt.Fprintln(os.Stderr, err)
	}
	goleak.VerifyTestMain(m)
}
