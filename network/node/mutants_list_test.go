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
	{Name: "leave the other entries of a step that is refused", File: "network/node/node.go",
		Before: "			if there { // else a later", After: "			if there && s == nil { // else a later"},
	{Name: "lose what a refused entry was to replace", File: "network/node/node.go",
		Before: "			xid = n.install(tx, id, s.Generation, key, e.Old)\n",
		After:  "			xid = n.uninstall(tx, id, key)\n"},
	{Name: "install again what a later step removes", File: "network/node/node.go",
		Before: "		case next != nil:\n			f = *next.Old", After: "		case next != nil && e.Old == nil:\n			f = *next.Old"},
	{Name: "leave the group of a refused entry", File: "network/node/node.go",
		Before: "			n.release(tx, id, f.Group)\n		}\n		if start", After: "			_ = f\n		}\n		if start"},
	{Name: "forget the second removal of an entry", File: "network/node/holder.go",
		Before: "			if h.removed(key, m.ID) {\n", After: "			if h.removed(key, m.ID) && !m.Remove {\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
