package browser

import (
	"context"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
)

func (n network) GetProtection(context.Context, *emptypb.Empty) (*api.Protection, error) {
	return &api.Protection{Disjoint: "link-disjoint", Stable: false, Notes: []string{"switch 7 is not checked yet"},
		Switches: []*api.ProtectedSwitch{{Switch: "7", Up: true}, {Switch: "2", Up: true, InSync: true}}}, nil
}

// GetPaths answers for switches 1 and 2 of a pod, which 3 and 4 connect: the second link of the primary path has no
// backup.
func (n network) GetPaths(_ context.Context, q *api.GetPathsRequest) (*api.Paths, error) {
	step := func(from string, port uint32, to string, in uint32) *api.Step {
		return &api.Step{From: &api.End{Switch: from, Port: port}, To: &api.End{Switch: to, Port: in}}
	}
	first, second := step("1", 2, "4", 1), step("4", 2, "2", 2)
	around := &api.Way{Hops: 2, Links: []*api.Step{step("1", 1, "3", 1), step("3", 2, "2", 1)}}
	return &api.Paths{From: &api.Place{Switch: q.From}, To: &api.Place{Switch: q.To}, Disjoint: "link-disjoint", Installed: true,
		Primary: &api.Way{Hops: 2, Links: []*api.Step{first, second}}, Backups: []*api.PathBackup{
			{Switch: "1", Primary: &api.NextHop{Port: 2, Switch: "4"}, Backup: &api.NextHop{Port: 1, Switch: "3"}},
			{Switch: "4", Primary: &api.NextHop{Port: 2, Switch: "2"}}}, Failures: []*api.PathFailure{
			{Link: first, Outcome: "delivered", Way: around, Later: 2}, {Link: second, Outcome: "lost", Later: 2},
			{Switch: "4", Outcome: "delivered", Way: around, Later: 2}}}, nil
}

// TestPaths: two places, typed in or clicked on the map, have their paths below the map and on it.
func TestPaths(t *testing.T) {
	t.Parallel()
	page := open(t, 4, "dark", "")
	check(t, page.Eval(`location.hash = "#/topology/1"`, nil))
	check(t, page.Until(`document.querySelector("main").textContent.includes("without the plan: 7")`))
	check(t, page.Eval(`document.querySelector("input[name=to]").value = "2";
		document.querySelector("form.filter").requestSubmit()`, nil))
	check(t, page.Until(`location.hash === "#/topology/1..2" &&
		document.querySelector("section .badge.warn")?.textContent === "unprotected from 1 of 3 failures"`))
	check(t, page.Until(`document.querySelector("section").textContent.includes("1 → 4 → 2 (2 hops)") &&
		document.querySelector("section tbody tr:nth-child(2) .badge.bad").textContent === "lost"`))
	check(t, page.Until(`document.querySelector("canvas").dataset.settled`))
	check(t, page.Eval(`document.querySelector("section tbody tr button").click()`, nil))
	check(t, page.Until(`document.querySelector("section tbody button[aria-pressed=true]") !== null`))
	picture(t, page, "dark-paths")
	for _, problem := range page.Problems() {
		t.Errorf("the console says %s", problem)
	}
}
