package netlab

import "os"

// RequireEnv is the environment variable that, set to 1, makes tests fail instead of skip
// where labs do not work.
const RequireEnv = "HOLDFAST_REQUIRE_OVS"

// TB is what ForTest needs of a *testing.T; the package does not import testing, because
// the demo uses it too.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}

// ForTest returns a lab that is closed at the end of the test. Where labs do not work it
// skips the test, or fails it if RequireEnv says so.
func ForTest(t TB) *Lab {
	t.Helper()
	if err := Available(); err != nil {
		if os.Getenv(RequireEnv) == "1" {
			t.Fatalf("%v (%s=1)", err, RequireEnv)
		}
		t.Skipf("%v", err)
	}
	dir, err := os.MkdirTemp("", "netlab-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatalf("folder of a lab: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	lab, err := New(dir)
	if err != nil {
		t.Fatalf("start a lab: %v", err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Errorf("close the lab: %v", err)
		}
	})
	return lab
}
