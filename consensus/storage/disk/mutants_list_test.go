package disk

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

const mutantFiles = "consensus/storage/disk/"

// mutants are bugs of a log that several groups share. The simulator has one group.
var mutants = []mutation.Bug{
	{Name: "begin a segment without saying whose state follows", File: mutantFiles + "appender.go",
		Before: "		for _, g := range *a.groups {\n			a.use(g)\n",
		After:  "		for _, g := range *a.groups {\n"},
	{Name: "begin a segment with the state of one group", File: mutantFiles + "appender.go",
		Before: "			if g.hard == nil {\n", After: "			if g.hard == nil || g.id != 0 {\n"},
	{Name: "return to group 0 without saying so", File: mutantFiles + "appender.go",
		Before: "	if a.current == g.id {\n", After: "	if a.current == g.id || g.id == 0 {\n"},
	{Name: "continue a log in the group with which its segment begins", File: mutantFiles + "appender.go",
		Before: "	if a.current = noGroup; l.current != nil {\n", After: "	if a.current = 0; false {\n"},
	{Name: "in an old segment, write a record before what follows it", File: mutantFiles + "appender.go",
		Before: "	return [2]write{{all[lengthSize:], a.end + lengthSize}, {all[:lengthSize], a.end}}\n",
		After:  "	return [2]write{{all[:lengthSize], a.end}, {all[lengthSize:], a.end + lengthSize}}\n"},
	{Name: "write no zeros behind the records in an old segment", File: mutantFiles + "appender.go",
		Before: "{{all[lengthSize:], ", After: "{{all[lengthSize:len(a.buf)], "},
	{Name: "release a segment that another group needs", File: mutantFiles + "save.go",
		Before: "	if err := d.wal.releaseBefore(d.groups.oldest()); err != nil {\n		return " +
			"err\n	}\n	return d.removeSnapshots",
		After: "	if err := d.wal.releaseBefore(g.oldest()); err != nil {\n		return err\n	}\n	return " +
			"d.removeSnapshots"},
	{Name: "release a segment that a group needs which ended elsewhere", File: mutantFiles + "save.go",
		Before: "	return d.wal.releaseBefore(d.groups.oldest())\n}\n",
		After:  "	return d.wal.releaseBefore(d.wal.seq)\n}\n"},
	{Name: "carry entries forward in name only", File: mutantFiles + "carry.go",
		Before: "				if err := d.wal.entry(g, e); err != nil {\n",
		After:  "				if err := error(nil); err != nil {\n"},
	{Name: "never carry entries forward", File: mutantFiles + "save.go",
		Before: "	carries := urgent && d.crowded()\n", After: "	carries := false\n"},
	{Name: "carry a whole segment forward at once", File: mutantFiles + "save.go",
		Before: "d.carry(max(d.wal.size()-before, leastCarried))", After: "d.carry(math.MaxInt64 - before)"},
	{Name: "carry forward without a bound on the log", File: mutantFiles + "carry.go",
		Before: "	return int64(beyond)*segmentSize() > 2*needed\n",
		After:  "	return int64(beyond)*segmentSize() > 50*needed\n"},
	{Name: "release what was carried forward before the copies are durable", File: mutantFiles + "save.go",
		Before: "	if err := d.wal.finish(urgent); err != nil {\n		return err\n	}\n	if carries {\n" +
			"		return d.wal.releaseBefore(d.groups.oldest())\n	}\n	return nil\n",
		After: "	if carries {\n		if err := d.wal.releaseBefore(d.groups.oldest()); err != nil {\n" +
			"			return err\n		}\n	}\n	return d.wal.finish(urgent)\n"},
	{Name: "release segments before a snapshot is in effect", File: mutantFiles + "save.go",
		Before: "	if err := d.wal.sync(); err != nil {\n		return err\n	}\n" +
			"	if err := d.wal.releaseBefore(d.groups.oldest()); err != nil {\n",
		After: "	if err := d.wal.releaseBefore(d.groups.oldest()); err != nil {\n"},
	{Name: "release what was carried forward only in part", File: mutantFiles + "group.go",
		Before: "	if g.spans[i].last == last {\n", After: "	if g.spans[i].last >= last {\n"},
	{Name: "take an entry that was carried forward for a truncation", File: mutantFiles + "read.go",
		Before: "		r.new[i-r.before-1] = s\n", After: "		r.new = append(r.new[:i-r.before-1], s)\n"},
	{Name: "say where a log ends before it says that it was truncated", File: mutantFiles + "save.go",
		Before: "	err := d.wal.entry(g, &raftpb.Entry{Index: new(index + 1), Term: new(uint64(0))})\n	if " +
			"index < g.last() {\n" +
			"		g.truncate(index)\n	}\n	return err\n",
		After: "	if index < g.last() {\n		g.truncate(index)\n	}\n" +
			"	return d.wal.entry(g, &raftpb.Entry{Index: new(index + 1), Term: new(uint64(0))})\n"},
	{Name: "replace entries without truncating first", File: mutantFiles + "save.go",
		Before: "	if first <= g.last() {\n", After: "	if false {\n"},
	{Name: "keep what was truncated among what was carried forward", File: mutantFiles + "read.go",
		Before: "		maps.DeleteFunc(r.old, func(i uint64, _ stored) bool { return i > index " +
			"})\n		r.before, r.new = " +
			"max(index, r.start.index), nil\n",
		After: "		r.new = nil\n"},
	{Name: "miss what an older segment had", File: mutantFiles + "read.go",
		Before: "before: max(start.index, last)}", After: "before: start.index}"},
	{Name: "read what was forgotten", File: mutantFiles + "read.go",
		Before: "		delete(l.groups, l.current.id)\n", After: ""},
	{Name: "keep the state of a group that was forgotten", File: mutantFiles + "save.go",
		Before: "	d.groups.remove(g.id)\n", After: "	g.entries, g.spans, g.snapshot = nil, nil, 0\n"},
	{Name: "keep the snapshots of a group that was forgotten", File: mutantFiles + "save.go",
		Before: "	if err := d.removeSnapshots(g.id, math.MaxUint64); err != nil {\n		return err\n	}\n",
		After:  ""},
	{Name: "keep the snapshots of a group that was forgotten before a crash", File: mutantFiles + "disk.go",
		Before: "			if err := d.removeSnapshots(id, math.MaxUint64); err != nil {\n				return " +
			"nil, err\n			}\n",
		After: "			_ = id\n"},
	{Name: "write the state of a group as that of the next", File: mutantFiles + "save.go",
		Before: "			if err := d.wal.state(g); err != nil {\n				return " +
			"err\n			}\n			g = d.groups.of(b.Group)\n",
		After: "			last := g\n			if g = d.groups.of(b.Group); last != nil && last.pending " +
			"{\n				g.hard, g.pending = last.hard, true\n			}\n"},
	{Name: "lose the state of a group when another follows", File: mutantFiles + "save.go",
		Before: "			if err := d.wal.state(g); err != nil {\n				return " +
			"err\n			}\n			g = d.groups.of(b.Group)\n",
		After: "			g = d.groups.of(b.Group)\n"},
}

// Checks that each seeded bug still applies to the code that ships. TestMutants, which builds and runs them, has a
// build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../../..", mutants)
}
