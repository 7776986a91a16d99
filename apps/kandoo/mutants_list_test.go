package kandoo

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which elephants lose frames, or stay where the others are.
var mutants = []mutation.Bug{
	{Name: "let the first switch begin", File: "apps/kandoo/kandoo.go",
		Before: "			k.install(tx, &e, i+1)\n", After: "			k.install(tx, &e, i)\n"},
	{Name: "begin when one switch has confirmed", File: "apps/kandoo/kandoo.go",
		Before: "i, i+1); len(e.Waits) == 0 {", After: "i, i+1); !e.Started {"},
	{Name: "do not compare paths", File: "apps/kandoo/kandoo.go", Before: "|| most < least)", After: "|| most < least && false)"},
	{Name: "leave the entries of what is small", File: "apps/kandoo/kandoo.go",
		Before: "s.Key); known {\n		k.withdraw(tx, &e)\n", After: "s.Key); known {\n		_ = e\n"},
	{Name: "count what was counted before", File: "apps/kandoo/detect.go",
		Before: "was := r.last[entry]; r", After: "was := uint64(0); r"},
	{Name: "stay on a path that is cut", File: "apps/kandoo/kandoo.go",
		Before: "slices.Contains(e.Path, l.From) })", After: "false && slices.Contains(e.Path, l.From) })"},
	{Name: "leave elephants without a path when a link comes up", File: "apps/kandoo/kandoo.go",
		Before: "return len(e.Path) == 0 })", After: "return false && len(e.Path) == 0 })"},
	{Name: "wait for an answer that is lost", File: "apps/kandoo/kandoo.go",
		Before: "	k.withdraw(tx, &e)\n	return k.route(tx, string(t.Data), e)\n", After: "	return nil\n"},
	{Name: "make paths again that are confirmed", File: "apps/kandoo/kandoo.go",
		Before: "			e.Started = true\n			tx.CancelTimer(e.timer())\n", After: "			e.Started = true\n"},
	{Name: "count a host that has moved twice", File: "apps/kandoo/kandoo.go",
		Before: "	if known {\n		k.unmeasure(", After: "	if false {\n		k.unmeasure("},
	{Name: "count nothing at a switch that comes back", File: "apps/kandoo/kandoo.go",
		Before: "		if at.Switch == up.Switch {\n", After: "		if at.Switch == up.Switch && false {\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
