package tally

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of transactions that are only compared with the last one of their switch.
var mutants = []mutation.Bug{
	{Name: "a message is recognised in the transaction of another switch", File: "tally/record.go",
		Before: "s == &owner.last && i < uint(s.n)", After: "i < uint(s.n)"},
	{Name: "a message is recognised by its number alone", File: "tally/record.go",
		Before: " && s.labels[i] == l {\n", After: " && s.labels[i]>>48 == l>>48 {\n"},
	{Name: "messages of a switch that has not begun the transaction are recognised", File: "tally/record.go",
		Before: "n == 0 || !isOwner || gone", After: "n == 0 || gone"},
	{Name: "an actor stays among the others if it is recognised", File: "tally/record.go",
		Before: "n == 0 || !isOwner || gone", After: "n == 0 || !isOwner"},
	{Name: "switches among the others share a last transaction", File: "tally/record.go",
		Before: "	if t.same == 0 && !from.gone {\n", After: "	if t.same == 0 {\n"},
	{Name: "an event that is undone begins the transaction", File: "tally/record.go",
		Before: "mark == 0 {\n", After: "false {\n"},
	{Name: "a transaction that begins like the last one is that", File: "tally/record.go",
		Before: "	if t.same == t.last.n {\n", After: "	if t.same >= 0 {\n"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "..", mutants) }
