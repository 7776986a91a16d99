package app_test

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// The groups that an application chooses for its actors, and what stands for a choice that cannot be.
func TestPlace(t *testing.T) {
	a := app.New("a")
	key := func(n uint64) ledger.Shard { return ledger.Shard{Key: ledger.Key{A: n}} }
	groups := []uint64{3, 1, 2}
	if got := a.Place(key(7), groups); got != 0 {
		t.Errorf("group %d without a choice, want 0", got)
	}
	app.Place(a, func(key uint64, groups []app.Group) app.Group {
		if key == 9 {
			panic("no")
		}
		return groups[key%4] // out of range for some keys
	})
	for n, want := range map[uint64]uint64{4: 3, 5: 1, 6: 2, 7: 0, 9: 0} {
		if got := a.Place(key(n), groups); got != want {
			t.Errorf("key %d: group %d, want %d", n, got, want)
		}
	}
	app.Place(a, func(string, []app.Group) app.Group { return 8 })
	if got := a.Place(ledger.Shard{Key: ledger.Key{S: "x"}}, groups); got != 0 {
		t.Errorf("a group that there is not: %d, want 0", got)
	}
	if got := a.Place(ledger.Shard{}, groups); got != 0 {
		t.Errorf("the actor without a key: group %d, want 0", got)
	}
	if a.Stays() || !a.Sticky().Stays() {
		t.Error("an application stays if it is sticky, and only then")
	}
}
