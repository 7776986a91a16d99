package ledger

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/lab/mutation"
)

// mutants are bugs of suspended actors, which the simulator does not have: none of its handlers hangs. Others of this
// package are in lab/sim.
var mutants = []mutation.Bug{
	{Name: "a leader ignores suspensions", File: "ledger/actor.go",
		Before: "	if len(tx.c.state.suspended) > 0 {\n", After: "	if false {\n"},
	{Name: "followers ignore suspensions", File: "ledger/apply.go",
		Before: "		s.suspend(r.Actor, suspension{r.Time, r.Name, r.Early})\n", After: ""},
	{Name: "a snapshot forgets suspensions", File: "ledger/state.go",
		Before: "	return s.appendSuspended(s.moves.append(s.links.append(s.appendTimers(b))))\n",
		After:  "	return s.moves.append(s.links.append(s.appendTimers(b)))\n"},
	{Name: "an actor that moves is not suspended", File: "ledger/depart.go",
		Before: "		w.ops = of.suspension.append(w.room(), of.Actor)\n", After: "		_ = of\n"},
	{Name: "an actor that has left stays suspended", File: "ledger/move.go",
		Before: "		delete(s.suspended, of.Actor)\n	}\n	s.moves.leave(a, 0)\n", After: "		_ = of\n	}\n	s.moves.leave(a, 0)\n"},
	{Name: "a suspension that is undone stays", File: "ledger/undo.go",
		Before: "			s.suspend(u.move.actor, u.move.suspended[0].suspension)\n", After: ""},
	{Name: "an early suspension has no effect", File: "ledger/core.go",
		Before: "is && s.early {\n", After: "is && false {\n"},
	{Name: "calls of a suspended actor succeed", File: "ledger/suspend.go",
		Before: "	c.failure = err\n", After: ""},
	{Name: "a resumed actor stays suspended", File: "ledger/suspend.go",
		Before: "	if n.reason == \"\" {\n", After: "	if false {\n"},
}

func TestMutantsApply(t *testing.T) { mutation.TestApply(t, "..", mutants) }
