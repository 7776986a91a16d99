package component

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of what makes runs fast.
var mutants = []mutation.Bug{
	{Name: "index no entry from before the index", File: "store/component/value.go",
		Before: "		for i, e := range d.entries {\n			if !e.removed {\n				d.index[e.key] = i\n			}\n		}\n",
		After:  "		d.index[key] = len(d.entries) - 1\n"},
	{Name: "find an entry that was removed", File: "store/component/value.go",
		Before: "	d.entries[i] = Entry{removed: true}\n", After: "	d.entries[i].removed = true\n"},
	{Name: "keep old places when entries are moved", File: "store/component/value.go",
		Before: "				d.index[e.key] = len(kept)\n", After: "				_ = len(kept)\n"},
	{Name: "keep the index of the run before", File: "store/component/value.go",
		Before: "d.index, d.removed, d.looping = nil, 0, 0", After: "d.removed, d.looping = 0, 0"},
	{Name: "keep the fields of the run before", File: "store/component/value.go",
		Before: "	d.unread, d.texts, d.copied = nil, \"\", false\n",
		After:  "	d.texts, d.copied = \"\", false\n"},
	{Name: "return fields as they were before a change", File: "store/component/value.go",
		Before: "	d.read()\n	if i := d.place(key); i >= 0 {\n", After: "	if i := d.place(key); i >= 0 {\n"},
	{Name: "read the text of another field", File: "store/component/unread.go",
		Before: "		at += len(b)\n", After: "		at++\n"},
	{Name: "leave arguments on the stack", File: "store/component/eval.go",
		Before: "	m.stack = m.stack[:base]\n", After: "	_ = base\n"},
	{Name: "give all functions the same variables", File: "store/component/machine.go",
		Before: "	base := len(m.stack)\n	for range size {\n", After: "	base := 0\n	for range size {\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
