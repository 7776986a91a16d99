package ledger_test

import (
	"fmt"

	. "github.com/holdfast-sdn/holdfast/ledger"
)

// actorOf returns the actor that has a field.
func actorOf(f fieldName) Actor {
	if f.table.App == "chaos" || f.table.App == "mayhem" {
		return Actor{App: f.table.App, Shard: (&chaos{}).Shard(f.table.Name, f.cell)}
	}
	return Actor{App: f.table.App, Shard: Shard{Key: f.cell}} // as those of caller and callee are
}

// drawSuspension suspends or resumes an actor, if it lives in this group.
func (s *site) drawSuspension(c *cluster, core *Core) {
	if c.quiet || !core.Room() {
		return
	}
	a := (&chaos{c: c, name: []string{"chaos", "mayhem"}[s.rng.IntN(2)]}).someShard()
	reason := fmt.Sprint("reason ", c.unique())
	if s.rng.IntN(3) > 0 {
		reason = ""
	}
	_ = core.Suspend(a, s.rng.IntN(4) == 0, reason) // an error says that it lives elsewhere
}

// suspend takes an OpSuspend.
func (s *site) suspend(o *oracle, r *Record) error {
	if g, known := s.home(r.Actor); known && g != o.cluster.group {
		return fmt.Errorf("%v, which lives in group %d, is suspended by group %d", r.Actor, g, o.cluster.group)
	}
	if delete(s.suspended, r.Actor); r.Name != "" {
		s.suspended[r.Actor] = r.Name
		s.Suspended++
	}
	return nil
}

// checkSuspended checks that each suspended actor is suspended where it lives, and no other.
func (s *site) checkSuspended() {
	found := 0
	for _, c := range s.groups {
		for _, a := range c.nodes[c.leader].core.Suspended() {
			found++
			if g, known := s.home(a.Actor); known && g != c.group || s.suspended[a.Actor] != a.Reason {
				c.fatalf("%v, which lives in group %d, is suspended because of %q, and not of %q", a.Actor, g, a.Reason,
					s.suspended[a.Actor])
			}
		}
	}
	if found != len(s.suspended) {
		s.groups[0].fatalf("%d actors are suspended, and the logs say %v", found, s.suspended)
	}
}
