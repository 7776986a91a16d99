package store

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs that the simulator has no requests for, or finds too rarely.
var mutants = []mutation.Bug{
	{Name: "execute a transaction of several buckets in one", File: "store/split.go",
		Before: "		if err == nil && i > 0 && bucket != at {\n", After: "		if err == nil && i < 0 && bucket != at {\n"},
	{Name: "say that nothing was executed if some buckets have", File: "store/split.go",
		Before: "s.ended.Code == Unavailable && s.executed:", After: "s.ended.Code == Unavailable && s.of == 0:"},
	{Name: "end with the page of one bucket", File: "store/merge.go",
		Before: "		if next != \"\" && row.Key >= next {\n			break\n		}\n", After: ""},
	{Name: "adopt what bucket 0 had earlier", File: "store/buckets.go",
		Before: "	n.meta.adopted = at\n", After: ""},
	{Name: "write rows of other buckets", File: "store/buckets.go",
		Before: "	if n.buckets > 0 && Bucket(key, n.buckets) != n.bucket {\n", After: "	if n.buckets < 0 {\n"},
	{Name: "use a table that the request has replaced", File: "store/namespace.go",
		Before: "n.seen, n.ran = nil, ranComponent{}", After: "n.ran = ranComponent{}"},
	{Name: "run a component that the request has replaced", File: "store/namespace.go",
		Before: "n.seen, n.ran = nil, ranComponent{}", After: "n.seen = nil"},
	{Name: "forget the answer to a request that was refused", File: "store/store.go",
		Before: "r.Session != 0 && (refused || r.writes())", After: "r.Session != 0 && r.writes() && !refused"},
	{Name: "forget the answer to a component that has changed nothing", File: "store/store.go",
		Before: "(refused || r.writes())", After: "refused"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "..", mutants)
}
