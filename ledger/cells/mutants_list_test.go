package cells

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of tables.
var mutants = []mutation.Bug{
	{Name: "a clone is changed with its table", File: "ledger/cells/table.go",
		Before: "t.owner, t.owned, t.loops = nil, false, 0", After: "t.loops = 0"},
	{Name: "a loop sees what its body does", File: "ledger/cells/table.go",
		Before: "	if t.loops > 0 {\n		t.share()\n	}\n", After: ""},
	{Name: "a loop goes on with what its body has deleted", File: "ledger/cells/table.go",
		Before: "			if t.owner != o {", After: "			if false {"},
	{Name: "parts of the cells see changes", File: "ledger/cells/table.go",
		Before: "	t.share()\n	return t.cells.inParts()", After: "	return t.cells.inParts()"},
	{Name: "parts of the fields see changes", File: "ledger/cells/table.go",
		Before: "		t.share()\n		rest =", After: "		rest ="},
	{Name: "a cell that is gone is remembered", File: "ledger/cells/table.go",
		Before: "	t.last = nil\n", After: ""},
	{Name: "a cell that moves keeps its nodes to itself", File: "ledger/cells/hashed.go",
		Before: "	case m.owner == o:\n", After: "	case m.owner != nil:\n"},
	{Name: "buckets are shared by changes too", File: "ledger/cells/hashed.go",
		Before: "	if b.owner != m.owner {\n", After: "	if b.owner == nil {\n"},
	{Name: "the last key of a bucket keeps its tag", File: "ledger/cells/hashed.go",
		Before: "	b.setTag(to, h&0xff)\n", After: "	_ = h\n"},
	{Name: "a new bucket is not at all its places", File: "ledger/cells/hashed.go",
		Before: "	for i := range width {\n", After: "	for i := range min(width, 1) {\n"},
	{Name: "buckets that are joined lose keys", File: "ledger/cells/hashed.go",
		Before: "		for i := range o.list {\n", After: "		for i := range min(1, len(o.list)) {\n"},
	{Name: "long values are lost where a bucket is divided", File: "ledger/cells/hashed.go",
		Before: "	to.setLong(place[V]{from, i}.long())\n", After: ""},
	{Name: "long values stay where their keys are not", File: "ledger/cells/hashed.go",
		Before: "		b.long[to] = b.long[i]\n", After: ""},
	{Name: "a short value keeps the pointer of a long one", File: "ledger/cells/value.go",
		Before: "	to.setLong(v.p)\n", After: "	if v.p != nil {\n		to.setLong(v.p)\n	}\n"},
	{Name: "a new key has no place in the order", File: "ledger/cells/hashed.go",
		Before: "		m.order.insert(m.owner, k)\n	}\n	return", After: "	}\n	return"},
	{Name: "a key that is gone stays in the order", File: "ledger/cells/hashed.go",
		Before: "		m.order.delete(m.owner, k)\n", After: ""},
	{Name: "the first key of a node is not the least", File: "ledger/cells/order.go",
		Before: "		n.keys[0] = k\n", After: ""},
	{Name: "nodes of the order are shared by changes too", File: "ledger/cells/order.go",
		Before: "	if n.owner == o {\n", After: "	if n.owner != nil {\n"},
	{Name: "what is written together is in another order", File: "ledger/cells/writes.go",
		Before: "		x, put := &w.fields.list[i], &w.puts[i]\n",
		After:  "		x, put := &w.fields.list[w.fields.n-1-i], &w.puts[w.fields.n-1-i]\n"},
	{Name: "what was written together is written again", File: "ledger/cells/writes.go",
		Before: "	clear(w.puts[:w.fields.n])\n	w.fields.empty()\n", After: ""},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "../..", mutants) }
