package graph

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which vertices have wrong paths, or never come to rest.
var mutants = []mutation.Bug{
	{Name: "take a path through itself", File: "apps/graph/graph.go",
		Before: "better && !slices.Contains(p, id)", After: "better"},
	{Name: "keep what a neighbour told before its link was down", File: "apps/graph/graph.go",
		Before: "			if p[0] == m.From {\n				v.heard.Delete(tx, m.To, k)\n			}\n", After: "			_, _ = k, p\n"},
	{Name: "do not tell that a path is gone", File: "apps/graph/graph.go",
		Before: "			v.best.Delete(tx, id, to)\n			known--\n", After: "			v.best.Delete(tx, id, to)\n			known--\n			continue\n"},
	{Name: "look no more after the first change", File: "apps/graph/graph.go",
		Before: "	v.waits.Delete(tx, id)\n", After: ""},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
