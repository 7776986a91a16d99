package component

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A dictionary has the entries of a map, in the order in which they were added, with an index and without one.
func TestDict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory.Reset()
		d, model, order := memory.Dict(rapid.IntRange(0, 12).Draw(t, "room")), map[Value]int{}, []Value{}
		for n := range rapid.IntRange(1, 60).Draw(t, "changes") {
			number := rapid.IntRange(0, 11).Draw(t, "key")
			key := Value(int64(number))
			if number%2 == 0 {
				key = fmt.Sprint(number)
			}
			if rapid.IntRange(0, 2).Draw(t, "remove") == 0 {
				d.remove(key)
				delete(model, key)
				order = slices.DeleteFunc(order, func(k Value) bool { return k == key })
			} else {
				if _, there := model[key]; !there {
					order = append(order, key)
				}
				d.Set(key, n)
				model[key] = n
			}
			got := []Value{}
			for k, v := range d.All {
				if got = append(got, k); v != model[k] {
					t.Fatalf("%v has %v, want %v", k, v, model[k])
				}
			}
			if !slices.Equal(got, order) || d.Len() != len(order) {
				t.Fatalf("%v (%d), want %v", got, d.Len(), order)
			}
			for i := range 12 {
				for _, k := range []Value{int64(i), fmt.Sprint(i), i == 0} {
					v, there := d.Get(k)
					if want, is := model[k]; there != is || is && v != want {
						t.Fatalf("Get(%v) = %v, %v; want %v, %v", k, v, there, want, is)
					}
				}
			}
		}
	})
}

// Calls in arguments of calls have their own arguments and variables, however many there are.
func TestStack(t *testing.T) {
	const source = `
def pair(a, b):
    first, second = a, b
    other = [first, second]
    return other

def deep(x):
    a, b, c, d, e = 1, 2, 3, 4, 5
    got = pair(pair(a, b), pair(pair(c, d), min(e, x, 9)))
    return [a, b, c, d, e, got]

def run(args):
    l = [deep(i) for i in range(3)]
    return pair(l, pair(max(1, len(pair(2, 3)), 7), store.thing(pair(4, 5), b=pair(6, 7))["args"]))
`
	const want = "[[[1, 2, 3, 4, 5, [[1, 2], [[3, 4], 0]]], [1, 2, 3, 4, 5, [[1, 2], [[3, 4], 1]]], " +
		"[1, 2, 3, 4, 5, [[1, 2], [[3, 4], 2]]]], [7, 1]]"
	if got, err := run(t, source, enough()); got != want || err != nil {
		t.Errorf("%s (%v), want %s", got, err, want)
	}
}
