package node

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs that are seeded one at a time. More of this package are in apps/path, whose networks find them.
var mutants = []mutation.Bug{
	{Name: "keep what a switch that goes down has not confirmed", File: "network/node/restore.go",
		Before: "			n.revert(tx, id, &s, &e)\n", After: "			_ = e\n"},
	{Name: "attempt a batch again for an entry that it removes", File: "network/node/node.go",
		Before: "		if b.removes(key) {\n", After: "		if b.removes(key) && b.Barrier == 0 {\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
