package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// endHosts kills the processes that host applications at a controller.
func endHosts(t *testing.T, c *cluster.Controller) {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.Pid()))
	check(t, err)
	for _, task := range tasks {
		children, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) {
			continue // that thread has ended
		}
		check(t, err)
		for _, child := range strings.Fields(string(children)) {
			pid, err := strconv.Atoi(child)
			check(t, err)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				t.Error(err)
			}
		}
	}
}

// TestRyuCannotLoad: the host of the leader's controller dies, and the applications cannot be loaded there: another
// controller leads. Then they cannot be loaded anywhere: the leader stays, and status says once why. When they can be
// loaded again all goes on.
func TestRyuCannotLoad(t *testing.T) {
	notInShort(t)
	t.Parallel()
	dir := t.TempDir()
	refuse := func(name string) string { return filepath.Join(dir, "refuse-"+name) }
	r := withAgents.startRyu(t, 1, cluster.Config{Apps: []string{ownApp(t, "refusing")},
		Env: func(i int) []string { return []string{"REFUSE=" + refuse(fmt.Sprint("c", i+1))} }})
	r.connect()
	sw := r.switches[0]
	r.says(sw, "good")

	first := r.leader()
	writeFile(t, refuse(first.Name), "")
	endHosts(t, first)
	const why = "ConnectionError: no database today"
	status := func(says string) bool {
		out, err := r.Command(r.ctx, "status")
		return err == nil && strings.Count(out, why) == 1 && strings.Contains(out, says)
	}
	await.Until(t, "another leader, and status to say why", func() bool {
		return r.leader() != first && status(first.Name+": the applications cannot be loaded: "+
			ownApp(t, "refusing")+", line 14, in __init__: "+why)
	})
	r.says(sw, "good")

	for _, c := range r.Controllers() {
		writeFile(t, refuse(c.Name), "")
	}
	for _, c := range r.Controllers() {
		endHosts(t, c)
	}
	await.Until(t, "status to say why at all", func() bool {
		return status("c1, c2, c3: the applications cannot be loaded: ")
	})
	before, err := r.leader().Status(r.ctx)
	check(t, err)
	time.Sleep(3 * time.Second) // in which, without back-off, hosts would be started 15 times
	after, err := r.leader().Status(r.ctx)
	check(t, err)
	if after.Term > before.Term || after.Replayed.Restarts > before.Replayed.Restarts+6 {
		t.Errorf("term %d is now %d, and %d restarts of hosts are now %d", before.Term, after.Term,
			before.Replayed.Restarts, after.Replayed.Restarts)
	}
	for _, c := range r.Controllers() {
		if n := r.countLines(c.LogFile(), "level=ERROR", "the applications cannot be loaded", why); n == 0 || n > 2 {
			t.Errorf("%s says %d times why", c.Name, n)
		}
		check(t, os.Remove(refuse(c.Name)))
	}
	r.running()
	r.says(sw, "good")
	r.exact()
}
