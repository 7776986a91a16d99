package quota

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs by which one peer keeps others out.
var mutants = []mutation.Bug{
	{Name: "whoever comes first has all", File: "internal/quota/quota.go",
		Before: "		if len(list) < len(p.of[peer])+2 {\n", After: "		if true {\n"},
	{Name: "a peer loses a place to one that has as many", File: "internal/quota/quota.go",
		Before: "len(p.of[peer])+2 {", After: "len(p.of[peer]) {"},
	{Name: "the oldest place is lost", File: "internal/quota/quota.go",
		Before: "		lost = list[len(list)-1]\n", After: "		lost = list[0]\n"},
	{Name: "a place that was lost is left once more", File: "internal/quota/quota.go",
		Before: "	i := slices.Index(list, it)\n", After: "	i := min(0, len(list)-1)\n"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "../..", mutants) }
