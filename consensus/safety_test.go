package consensus

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// TestSafety: members agree, no committed entry is lost, and roles and proposals keep their contract, under
// crashes, cuts, losses, reordering, hints, transfers and compaction.
func TestSafety(t *testing.T) {
	runs, steps := uint64(400), 6000
	if testing.Short() {
		runs = 15
	}
	entries, terms, changes, snapshots, restarts, early, atOnce := 0, 0, 0, 0, 0, 0, 0
	for seed := range runs {
		ids := []uint64{1, 2, 3}
		if seed%3 == 0 {
			ids = append(ids, 4, 5)
		}
		if seed%5 == 2 { // replicas that are not the first at their controllers
			for i, id := range ids {
				ids[i] = wire.ReplicaID(id, 1)
			}
		}
		s := newSimOf(t, seed%4, seed, ids...)
		s.slow, s.changes, s.prompt = seed%4 == 1, seed%2 == 1, seed%7 > 2
		for i := range steps {
			s.firstTerm = uint64(i) / 20 * (seed % 3) // also above and below the terms that elections make
			s.step()
		}
		s.heal()
		leading := 0
		group := s.group()
		for _, m := range s.up() {
			if _, member := group[m.id]; !member {
				continue // it was removed, and has not learned that yet
			}
			s.check(m.applied == s.newest, "member %d ends at %d, the log at %d", m.id, m.applied, s.newest)
			if m.role.Leading {
				leading++
				s.check(m.proposed == 0 || s.log[s.newest].data == fmt.Sprintf("%d/%d", m.role.Term, m.proposed),
					"member %d still leads in %d; its proposal %d is not the last, but %s", m.id, m.role.Term,
					m.proposed, s.log[s.newest].data)
			}
		}
		s.check(leading == 1, "%d leaders after healing", leading)
		entries, terms = entries+len(s.log), terms+len(s.leaders)
		changes, snapshots, restarts = changes+s.seen.changes, snapshots+s.seen.snapshots, restarts+s.seen.restarts
		early, atOnce = early+s.seen.early, atOnce+s.seen.atOnce
	}
	t.Logf("%d runs of %d steps: %d entries (%d committed by a follower first), %d terms (%d led at "+
		"once), %d changes of the membership, %d snapshots, %d restarts", runs, steps, entries, early, terms, atOnce,
		changes, snapshots, restarts)
	if n := int(runs); entries < 100*n || terms < 4*n || 2*changes < n || snapshots < n || restarts < 5*n ||
		early < 5*n || 4*atOnce < n {
		t.Errorf("the runs are too quiet to mean anything")
	}
}

// TestDeterminism: equal inputs give equal outputs, elections included.
func TestDeterminism(t *testing.T) {
	run := func() string {
		s := newSim(t, 42, 1, 2, 3)
		for range 5000 {
			s.step()
		}
		return fmt.Sprint(s.newest, s.hashes[s.newest], s.leaders, len(s.flying))
	}
	if a, b := run(), run(); a != b {
		t.Errorf("two runs of one seed: %s and %s", a, b)
	}
}
