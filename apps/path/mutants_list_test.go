package path

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of the order in which switches change, and of what is taken back.
var mutants = []mutation.Bug{
	{Name: "let frames enter before the last switch has confirmed", File: "apps/path/change.go",
		Before: "	if !v.laidAll(r) {\n", After: "	if v.laidAll(r); false {\n"},
	{Name: "let frames enter without a hop that was removed meanwhile", File: "apps/path/change.go",
		Before: "				r.Lays[i] = at\n", After: "				_ = at\n"},
	{Name: "take a refused hop for a confirmed one", File: "apps/path/queue.go",
		Before: "		v.done(&list[r.Step], r.Why)\n", After: "		defer v.done(&list[r.Step], r.Why)\n"},
	{Name: "take a refused entry at the first switch for a confirmed one", File: "apps/path/progress.go",
		Before: ".was.First > at:", After: ".First > at:"},
	{Name: "remove a path everywhere at once", File: "apps/path/change.go",
		Before: "	o := first.op(leave, id, 0)\n", After: "	o := first.op(leave, id, 0)\n	defer v.erase(id, first)\n"},
	{Name: "remove a route before frames take the next one", File: "apps/path/change.go",
		Before: "		v.enters.Put(v.tx, o.Path, v.pushEnter(o.Path, r.Next))\n",
		After: "		if r.Live != nil {\n			v.erase(o.Path, r.Live)\n		}\n" +
			"		v.enters.Put(v.tx, o.Path, v.pushEnter(o.Path, r.Next))\n"},
	{Name: "leave what was installed of a path that is refused", File: "apps/path/change.go",
		Before: "	v.retire(id, next) // a few frames may have taken it\n", After: "	_ = next\n"},
	{Name: "give a tag to two paths", File: "apps/path/route.go",
		Before: "			return taken\n", After: "			return taken && tag > 20\n"},
	{Name: "keep a tag", File: "apps/path/change.go",
		Before: "		v.tags.Delete(v.tx, o.Hop.entrance(), uint32(o.Tag))\n", After: ""},
	{Name: "forget a removal if the switch is down", File: "apps/path/change.go",
		Before: "	if o.Kind == erase || o.Kind == leave {\n", After: "	if o.Kind == leave {\n"},
	{Name: "believe that a switch which went down has not changed over", File: "apps/path/change.go",
		Before: "(o.Kind == enter || r.Live.Number == o.Route)", After: "r.Live.Number == o.Route"},
	{Name: "do not look at a route whose link went down before frames took it", File: "apps/path/change.go",
		Before: "if !v.complete(r.Live) { // a link may", After: "if false { // a link may"},
	{Name: "do not look for a backup at a link that came before frames took the path", File: "apps/path/change.go",
		Before: "		v.look(id)\n	}\n}\n\n// giveUp", After: "		v.broken.Put(v.tx, all, id, true)\n	}\n}\n\n// giveUp"},
	{Name: "leave a path that begins at a switch which is forgotten", File: "apps/path/change.go",
		Before: "	case v.forgotten(r.Live.Hops[0].Switch):\n", After: "	case false:\n"},
	{Name: "let each change of the network postpone what follows from it", File: "apps/path/change.go",
		Before: "	if v.c.Turn == 0 || ", After: "	if v.c.Turn >= 0 || "},
	{Name: "let the backup cross a link of the route", File: "apps/path/route.go",
		Before: "g.Without(append(ends(g, between), links...)...)", After: "g.Without(links[:1]...)"},
	{Name: "protect the first switch only", File: "apps/path/change.go",
		Before: "	if r.Backup != nil && !o.Last {\n", After: "	if r.Backup != nil && !o.Last && i == 0 {\n"},
	{Name: "let frames enter before their backup is there", File: "apps/path/progress.go",
		Before: "range r.Lays {", After: "range r.Lays[:len(r.Next.Hops)-1] {"},
	{Name: "keep a backup that is broken", File: "apps/path/route.go",
		Before: "v.intact(r) && v.joined(r.Backup) &&", After: "v.intact(r) &&"},
	{Name: "look for no backup when a link comes up", File: "apps/path/change.go",
		Before: "		v.broken.Put(v.tx, all, id, true)\n	}\n	if r.Why != was", After: "	}\n	if r.Why != was"},
	{Name: "send more than fits in a transaction", File: "apps/path/queue.go",
		Before: " || v.flows+all > model.MaxChanged\n", After: "\n"},
	{Name: "forget what did not fit in a transaction", File: "apps/path/path.go",
		Before: "		v.resume()\n", After: ""},
	{Name: "leave a group", File: "network/node/node.go",
		Before: "		n.release(tx, id, group)\n", After: "		_ = group\n"},
	{Name: "leave the groups of what a switch did not confirm", File: "network/node/restore.go",
		Before: "		n.releaseOthers(tx, id)\n", After: ""},
	{Name: "spare the groups that nobody wants", File: "network/node/compare.go",
		Before: "			if isGroup(g.GroupID) {\n", After: "			if !isGroup(g.GroupID) {\n"},
	{Name: "install an entry again with the group that it had", File: "network/node/openflow.go",
		Before: "		f.Group = n.freeGroup(tx, id)\n", After: "		if f.Group == 0 {\n			f.Group = n.freeGroup(tx, id)\n		}\n"},
	{Name: "leave what a switch has that was forgotten and comes back", File: "network/node/restore.go",
		Before: "		uninstallAll(tx, m.Switch)\n", After: ""},
	{Name: "answer before the switch has confirmed", File: "network/node/node.go",
		Before: "	n.pending.Put(tx, id, owner, b)\n	return nil\n", After: "	return n.finish(tx, id, owner, &b)\n"},
	{Name: "believe that a switch which comes back has executed everything", File: "network/node/restore.go",
		Before: "		uninstallOthers(tx, id, s.Generation)\n", After: ""},
	{Name: "delete before the entries are installed again", File: "network/node/restore.go",
		Before: "	sent := 0\n", After: "	sent := 0\n	uninstallOthers(tx, id, s.Generation)\n"},
}

// Checks that each seeded bug still applies to the code. TestMutants, which builds and runs them, has a build tag.
func TestMutantsApply(t *testing.T) {
	mutation.TestApply(t, "../..", mutants)
}
