package feed

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which a watcher misses a change, or is told it twice.
var mutants = []mutation.Bug{
	{Name: "resume a change too late", File: "controller/feed/feed.go",
		Before: "		c.revision = b.revision\n", After: "		c.revision = b.revision + 1\n"},
	{Name: "take a slow watcher for one that is not", File: "controller/feed/feed.go",
		Before: "revision+1 >= f.batches[0].revision", After: "true"},
	{Name: "do not say what is gone", File: "controller/feed/feed.go",
		Before: "		if !there[n] {\n", After: "		if false {\n"},
	{Name: "use an old snapshot", File: "controller/feed/feed.go",
		Before: "	f.snapshot = nil\n", After: ""},
	{Name: "tell what was so before a rest", File: "controller/feed/feed.go",
		Before: "f.revision == 0 || f.resting", After: "f.revision == 0"},
	{Name: "leave events out of a snapshot", File: "controller/feed/feed.go",
		Before: "	b.changes = append(b.changes, f.events...)\n", After: ""},
	{Name: "resume in the feed of another controller", File: "controller/feed/feed.go",
		Before: "return of == f.id && err", After: "return of != \"\" && err"},
	{Name: "resume with kinds of which nothing was told", File: "controller/feed/feed.go",
		Before: "k&^kinds(had) == 0", After: "kinds(had) == kinds(had)"},
	{Name: "let go of those who are to be woken later", File: "controller/feed/feed.go",
		Before: "	f.due = slices.Delete(f.due, 0, n)\n", After: "	f.due = nil\n"},
	{Name: "do not tell that events were missed", File: "controller/feed/feed.go",
		Before: "c.revision < max(f.whole, 1)", After: "c.revision == 0"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
