package command

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
	"github.com/holdfast-sdn/holdfast/network/show"
	"github.com/holdfast-sdn/holdfast/store"
)

// switchesOf returns the tables of application topology with these switches, which have no ports.
func switchesOf(leader string, applied uint64, ids ...uint64) controller.Tables {
	t := controller.Tables{Application: "topology", Controller: "c9", Release: controller.Release(), Leader: leader,
		Applied: applied}
	if leader == "" {
		t.Stale = &controller.Stale{}
	}
	for _, id := range ids {
		// CBOR: [null, false, 0]
		t.Rows = append(t.Rows, ledger.Row{Table: "switches", Cell: ledger.Key{A: id}, Value: []byte{0x83, 0xf6, 0xf4, 0}})
	}
	return t
}

// ofRelease returns such tables from a controller of another release.
func ofRelease(name string) controller.Tables {
	t := switchesOf("c1", 9, 3)
	t.Release = name
	return t
}

// The answer of a controller that knows a leader is used. Otherwise that of the controller with most of the log is
// used, with a warning.
func TestTopology(t *testing.T) {
	down, without := refusal{Error: "the controller is stopping"}, refusal{Error: "there are hub"}
	broken := switchesOf("c1", 9, 3)
	broken.Rows[0].Value = []byte{0x81, 0xf6}
	for _, c := range []struct {
		name    string
		answers map[string]any
		args    string
		stdout  string // contained in standard output
		stderr  string
		code    int
	}{
		{"a follower answers", map[string]any{"c1": switchesOf("", 9, 1), "c2": down, "c3": switchesOf("c1", 3, 2)}, "",
			"0000000000000002  0      0   0      0\n", "", 0},
		{"nobody leads", map[string]any{"c1": switchesOf("", 3, 1), "c2": switchesOf("", 9, 2), "c3": down}, "",
			"0000000000000002", "no controller leads", 0},
		{"JSON", map[string]any{"c1": switchesOf("c1", 3, 2), "c2": down, "c3": down}, "--json",
			`"switch": "0000000000000002"`, "", 0},
		{"JSON without a leader", map[string]any{"c1": switchesOf("", 3, 2), "c2": down, "c3": down}, "--json",
			`"stale": {`, "no controller leads", 0},
		{"Graphviz", map[string]any{"c1": switchesOf("c1", 3, 2), "c2": down, "c3": down}, "--dot",
			`"0000000000000002";`, "", 0},
		{"one is of this release", map[string]any{"c1": ofRelease("v9.9"), "c2": switchesOf("", 3, 2), "c3": down}, "",
			"0000000000000002", "no controller leads", 0},
		{"another release", map[string]any{"c1": down, "c2": ofRelease("v9.9"), "c3": down}, "", "",
			"controller c2 is of another release (v9.9, and this is", exitFailed},
		{"and one that does not run it", map[string]any{"c1": without, "c2": ofRelease("v9.9"), "c3": without}, "", "",
			"controller c2 is of another release", exitFailed},
		{"none runs it", map[string]any{"c1": down, "c2": without, "c3": down}, "", "", "put it among the apps",
			exitFailed},
		{"an old release", map[string]any{"c1": down, "c2": down, "c3": ofRelease("")}, "", "", "(an older one,",
			exitFailed},
		{"another build", map[string]any{"c1": down, "c2": broken, "c3": down}, "", "",
			"controller c9 may be of another build, use the holdfast binary beside it", exitFailed},
		{"nobody answers", map[string]any{"c1": down, "c2": down, "c3": down}, "", "", "is stopping", exitFailed},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := fakes(t, func(name, request, _ string) (connect.Code, any) {
				if request != "ListRows" {
					t.Errorf("%s is asked %s", name, request)
				}
				if c.answers[name] == down {
					return connect.CodeUnavailable, down
				}
				if c.answers[name] == without {
					return connect.CodeNotFound, without
				}
				return 0, c.answers[name]
			})
			args := append(strings.Fields("topology "+c.args), "--config", cluster)
			code, out, errs := invoke(t.Context(), args...)
			if code != c.code || !strings.Contains(out, c.stdout) || !strings.Contains(errs, c.stderr) ||
				c.stderr == "" && errs != "" {
				t.Errorf("exit code %d, printed\n%s\nand\n%s", code, out, errs)
			}
		})
	}
}

func TestTopologyWithoutTheApplication(t *testing.T) {
	cluster := fakes(t, func(string, string, string) (connect.Code, any) {
		return connect.CodeNotFound, refusal{Error: `no application "topology" runs here; there are hub`}
	})
	code, _, errs := invoke(t.Context(), "topology", "--config", cluster)
	if code != exitFailed || !strings.Contains(errs, "there are hub: put it among the apps of the cluster file") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// What the API says of the network and of its links has the fields of what is shown here.
func TestNetworkMirrors(t *testing.T) {
	for _, c := range []struct{ message, structure any }{{&api.Topology{}, show.Topology{}},
		{&api.LinkReport{}, setup.Report{}}, {&api.Paths{}, show.Paths{}}, {&api.Protection{}, show.Protection{}},
		{&api.StoreNamespace{}, store.NamespaceContents{}}, {&api.StoreRows{}, store.Page{}}} {
		if missing := mirror.Check(c.message, c.structure); len(missing) > 0 {
			t.Errorf("%T lacks %v of %T", c.message, missing, c.structure)
		}
	}
}
