package tally

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of what transactions stand for, and of what is undone.
var mutants = []mutation.Bug{
	{Name: "a transaction stands for itself only", File: "tally/record.go",
		Before: "t.count(r, r.n*uint64(n))", After: "t.count(r, r.n)"},
	{Name: "equal messages are one", File: "tally/record.go", Before: "			p.n++\n", After: ""},
	{Name: "messages before a mark are added to", File: "tally/record.go",
		Before: "	t.marked = len(t.pending)\n", After: ""},
	{Name: "a handler that fails keeps what it has sent", File: "tally/record.go",
		Before: "append(t.pending[:mark], r)", After: "append(t.pending, r)"},
	{Name: "a transaction that is undone is counted with the next", File: "tally/record.go",
		Before: "t.pending, t.marked = t.pending[:0], 0", After: "t.marked = 0"},
	{Name: "a sample does not stand for those that were skipped", File: "tally/sample.go",
		Before: "n = int(s.gap-s.skip) + 1", After: "n = 1"},
	{Name: "a sample stands for those that are still to be skipped", File: "tally/sample.go",
		Before: "n = int(s.gap-s.skip) + 1", After: "n = int(s.gap) + 1"},
	{Name: "a slow source is sampled", File: "tally/sample.go",
		Before: "s.skip == 0 || s.second != second", After: "s.skip == 0"},
	{Name: "one in every second is counted", File: "tally/sample.go",
		Before: "s.left = max(s.left, sampleAgain)", After: "s.left = max(s.left, 1)"},
	{Name: "the distances follow a pattern", File: "tally/sample.go",
		Before: "t.below(2*SampleEvery - 1)", After: "SampleEvery - 1"},
	{Name: "a transaction that is undone is skipped once more", File: "tally/sample.go",
		Before: "		s.skip++\n", After: ""},
	{Name: "with a transaction that is undone those are lost that it stands for", File: "tally/sample.go",
		Before: "s.skip, s.gap = 0, uint16(n-1)", After: "s.skip, s.gap = 0, 0"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "..", mutants) }
