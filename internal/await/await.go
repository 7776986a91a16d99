// Package await lets tests wait for what goroutines and processes do: until a condition holds (Until), until something
// has ended (End), or until a log has a line (Log). All end the test with a reason if that does not happen. Turns
// counts how often another goroutine runs meanwhile. The package is for tests only. Tests that check how fast
// something happens measure the time themselves.
package await

import (
	"runtime/pprof"
	"strings"
	"testing"
	"time"
)

// Limit is how long a test waits before it fails: long, because machines are busy.
const Limit = 30 * time.Second

// Until waits until ok returns true. It ends the test if that does not happen within Limit; what names the condition.
// It calls ok in the goroutine of the test.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); time.Since(began) < Limit; Pause(began) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited %v for %s", Limit, what)
}

// End waits until a channel is closed or has a value, and returns that. It ends the test if that does not happen within
// Limit, and then prints what all goroutines wait for; what says what is to end.
func End[T any](t testing.TB, what string, ended <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-ended:
	case <-time.After(Limit):
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1) // the writer does not fail
		t.Fatalf("%s does not end within %v\n%s", what, Limit, &stacks)
	}
	return v
}

// Pause sleeps between two checks of a condition that a test waits for since began. It sleeps for a tenth of the time
// that has passed, within [1 ms, 50 ms], because checking takes processor time from what the test waits for.
func Pause(began time.Time) {
	time.Sleep(min(max(time.Since(began)/10, time.Millisecond), 50*time.Millisecond))
}
