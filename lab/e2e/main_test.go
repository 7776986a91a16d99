// Package e2e tests real controllers, agents and switches with faults: it shows what docs/guarantees.md promises.
// Agents and controllers are processes of the real binary. It has only tests; the applications that these need are in
// apps.
package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// The binaries under test: plain is what users run; armed also has the crash points of internal/crash and the
// applications of e2e/apps. It is built for the first test that uses it.
var (
	plain string
	armed = sync.OnceValues(func() (string, error) {
		to := plain + "-armed"
		return to, build(to, "-tags", "crashpoints")
	})
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err == nil {
		plain = filepath.Join(dir, "holdfast")
		err = build(plain)
	}
	code := 1
	flag.Parse()
	if err == nil && !given("test.parallel") {
		// tests that run side by side wait, most of the time; with many more, switches starve
		err = flag.Set("test.parallel", "6")
	}
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	os.RemoveAll(dir)
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func given(name string) (found bool) {
	flag.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// race is "-race" if these tests run with the race detector: then the processes do as well.
var race []string

func build(to string, flags ...string) error {
	args := slices.Concat([]string{"build", "-ldflags=-s -w", "-o", to}, race, flags, // no debugging information to link
		[]string{"github.com/holdfast-sdn/holdfast/cmd/holdfast"})
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("build the binary under test: %w\n%s", err, out)
	}
	return nil
}

// notInShort skips a test in short runs, such as those with the race detector: it runs no concurrent code that other
// tests do not run.
func notInShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a while")
	}
}
