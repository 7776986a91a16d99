package ledger

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An ordered yields what sorting gives.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOf(rapid.IntRange(0, 20)).Draw(t, "list")
		o := inOrder(slices.Clone(list), cmp.Compare[int])
		var got []int
		for v, ok := o.next(); ok; v, ok = o.next() {
			got = append(got, v)
		}
		if slices.Sort(list); !slices.Equal(got, list) || o.len() != 0 {
			t.Fatalf("%v, want %v", got, list)
		}
	})
}
