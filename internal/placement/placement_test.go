package placement

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The home is chosen and as many others as are wanted, whatever the order; and one controller more takes at most one
// replica of a group from another one.
func TestReplicas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 1<<48), 1, 9, rapid.ID).Draw(t, "controllers")
		group, n := rapid.Uint64Range(0, 9).Draw(t, "group"), rapid.IntRange(1, 9).Draw(t, "replicas")
		home := ids[0]
		got := Replicas(group, home, ids, n)
		if len(got) != min(n, len(ids)) || !slices.Contains(got, home) || !slices.IsSorted(got) {
			t.Fatalf("%v of %v", got, ids)
		}
		slices.Reverse(ids)
		if again := Replicas(group, home, ids, n); !slices.Equal(again, got) {
			t.Fatalf("%v in another order, %v before", again, got)
		}
		more := Replicas(group, home, append(ids, 1<<48+1), n)
		gone := slices.DeleteFunc(slices.Clone(got), func(id uint64) bool { return slices.Contains(more, id) })
		if len(gone) > 1 {
			t.Fatalf("%v became %v", got, more)
		}
	})
}

// The replicas of many groups spread over all controllers.
func TestSpread(t *testing.T) {
	ids, has := []uint64{1, 2, 3, 4, 5}, map[uint64]int{}
	for group := range uint64(1000) {
		for _, id := range Replicas(group, 0, ids, 3) {
			has[id]++
		}
	}
	for _, id := range ids {
		if has[id] < 500 || has[id] > 700 {
			t.Errorf("replicas of 1,000 groups: %v", has)
		}
	}
}
