package command

import (
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Without the application recovery, the command shows the paths that it would install, and an error for how the
// network is protected.
func TestPaths(t *testing.T) {
	var protected atomic.Bool
	cluster := fakes(t, func(_, request, body string) (connect.Code, any) {
		switch {
		case request == "ListRows" && strings.Contains(body, "topology"):
			return 0, switchesOf("c1", 9, 1, 2)
		case request == "ListRows" && strings.Contains(body, "recovery") && protected.Load():
			return 0, controller.Tables{Application: "recovery", Release: controller.Release(),
				Leader: "c1"}
		}
		return connect.CodeNotFound, refusal{Error: `no application "recovery" runs here; there are topology`}
	})
	for _, c := range []struct {
		args      string
		protected bool
		stdout    string
		stderr    string
		code      int
	}{
		{"paths 1 2", false, "- application recovery does not run: nothing of this is installed\nfrom switch " +
			"0000000000000001\nto   switch 0000000000000002\n\nno way leads there", "", 0},
		{"paths 1 2 --disjoint node --json", false, `"disjoint": "node-disjoint",`, "", 0},
		{"paths 1 2", true, "", "no switch 0000000000000001 is up", exitFailed},
		{"paths", true, "link-disjoint, stable\n", "", 0},
		{"paths --json", true, `"stable": true`, "", 0},
		{"paths", false, "", "there are topology: put it among the apps of the cluster file", exitFailed},
		{"paths 1 2 --disjoint no", false, "", `--disjoint "no": use link or node`, exitFailed},
		{"paths --disjoint node", true, "", "give two places", exitFailed},
		{"paths 1", false, "", "give two places, or none; received 1", exitUsage},
	} {
		protected.Store(c.protected)
		code, out, errs := invoke(t.Context(), append(strings.Fields(c.args), "--config", cluster)...)
		if code != c.code || !strings.Contains(out, c.stdout) || !strings.Contains(errs, c.stderr) ||
			c.stderr == "" && errs != "" {
			t.Errorf("%s: exit code %d, printed\n%s\nand\n%s", c.args, code, out, errs)
		}
	}
}
