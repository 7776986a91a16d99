package consensus

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

// takeUntil takes updates until the last entry is the given one and the role is known. It returns the index of the
// snapshot, all entries after it, and the role.
func takeUntil(t *testing.T, n *Node, last string) (snapshot uint64, entries []string, role Role) {
	t.Helper()
	for role == (Role{}) || len(entries) == 0 || entries[len(entries)-1] != last {
		u := update(t, n)
		switch {
		case u.Role != nil:
			role = *u.Role
		case u.Snapshot != nil:
			snapshot, entries = u.Snapshot.Index, nil
		}
		for _, e := range u.Entries {
			entries = append(entries, string(e.Data))
		}
	}
	return snapshot, entries, role
}

// After Rewind, another owner gets the snapshot, all entries after it, and a role that does not lead. Then the only
// member leads again, in a later term.
func TestRewind(t *testing.T) {
	cfg := single(t)
	host, err := NewHost(cfg.HostConfig)
	if err != nil {
		t.Fatal(err)
	}
	n, err := host.Start(cfg.GroupConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	}()
	for round := range 3 {
		role := Role{}
		for !role.Leading {
			if u := update(t, n); u.Role != nil {
				role = *u.Role
			}
		}
		last := ""
		for i := range 2*rewindEntries + 1 {
			last = fmt.Sprint(round, " ", i)
			if err := n.Propose(role.Term, []byte(last)); err != nil {
				t.Fatal(err)
			}
		}
		if round != 1 { // else the owner has taken none of them
			var index uint64
			for read := ""; read != last; {
				for _, e := range update(t, n).Entries {
					index, read = e.Index, string(e.Data)
				}
			}
			if round == 0 {
				if err := n.Compact(index-rewindEntries, []byte("state")); err != nil {
					t.Fatal(err)
				}
				await.Until(t, "the snapshot", func() bool { return n.Status().Snapshot == index-rewindEntries })
			}
		} else {
			await.Until(t, "the entries to be committed", func() bool {
				s := n.Status()
				return s.Committed == s.Last && s.Last > 4*rewindEntries
			})
		}
		if err := n.Rewind(); err != nil {
			t.Fatal(err)
		}
		snapshot, entries, now := takeUntil(t, n, last)
		if want := rewindEntries + round*(2*rewindEntries+1); snapshot == 0 || len(entries) != want {
			t.Errorf("round %d: a snapshot at %d and %d entries, want %d", round, snapshot, len(entries), want)
		}
		if now.Leading && now.Term <= role.Term || !now.Leading && now.Term > role.Term+1 {
			t.Errorf("round %d: the role is %+v, after term %d", round, now, role.Term)
		}
		if err := n.Rewind(); err != nil { // it may lead by now: it begins anew once more
			t.Fatal(err)
		}
	}
}
