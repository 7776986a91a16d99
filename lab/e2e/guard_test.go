package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// A controller that is killed closes its connections before its memory is freed: it has the guard of
// internal/exitorder, which outlives it by a moment.
func TestGuard(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("there is no guard on this processor")
	}
	t.Parallel()
	s := startCluster(t, cluster.Config{Binary: plain, Controllers: 1, Apps: []string{"hub"}})
	c := s.Controllers()[0]
	guard := guardOf(t, c.Pid())
	s.check(c.Kill())
	await.Until(t, "the guard to end", func() bool {
		memory, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", guard))
		return err != nil || strings.HasPrefix(string(memory), "0 ") // it has ended, and nobody has asked for its status
	})
}

// guardOf returns the id of the guard of a process.
func guardOf(t *testing.T, pid int) int {
	t.Helper()
	children, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, file := range children {
		text, _ := os.ReadFile(file) // a thread may have ended
		for child := range strings.FieldsSeq(string(text)) {
			id, err := strconv.Atoi(child)
			if err != nil {
				t.Fatal(err)
			}
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", id)); string(name) == "holdfast-guard\n" {
				return id
			}
		}
	}
	t.Fatalf("process %d has no guard", pid)
	return 0
}
