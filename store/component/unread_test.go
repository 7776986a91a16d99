package component

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// pairs are Fields.
type pairs [][2]string

func (p pairs) Len() int { return len(p) }

func (p pairs) At(i int) (name string, text []byte) { return p[i][0], []byte(p[i][1]) }

// A dictionary with unread fields has the same entries as one that was filled with them, whatever is done with it. It
// is unread until it changes, or all of it is needed.
func TestUnread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory.Reset()
		fields, want := pairs{}, memory.Dict(0)
		for n := range rapid.IntRange(0, 12).Draw(t, "fields") {
			text := rapid.StringN(0, 3, -1).Draw(t, "text")
			fields = append(fields, [2]string{fmt.Sprint(n), text})
			want.Set(fmt.Sprint(n), text)
		}
		d, untouched := memory.Of(fields), true
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			key := Value(fmt.Sprint(rapid.IntRange(0, 12).Draw(t, "key")))
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				d.Set(key, int64(1))
				want.Set(key, int64(1))
				untouched = false
			case 1:
				d.remove(key)
				want.remove(key)
				untouched = false
			case 2:
				for range d.All {
					break
				}
				untouched = false
			default:
				if rapid.Bool().Draw(t, "a number as the key") {
					key = int64(1)
				}
				got, there := d.Get(key)
				if other, also := want.Get(key); got != other || there != also {
					t.Fatalf("%v is %v (%v), want %v (%v)", key, got, there, other, also)
				}
			}
			if d.Len() != want.Len() || (d.Unread() != nil) != untouched {
				t.Fatalf("it has %d entries, want %d; unread: %v", d.Len(), want.Len(), d.Unread() != nil)
			}
		}
		got, all := fmt.Sprint(entries(d)), fmt.Sprint(entries(want))
		if got != all {
			t.Fatalf("%s, want %s", got, all)
		}
		again := memory.Of(fields)
		memory.Reset()
		for range 3 {
			if memory.Dict(0).Len() > 0 || again.Unread() != nil {
				t.Fatal("the next run has what this one had")
			}
		}
	})
}

func entries(d *Dict) (list []Value) {
	for k, v := range d.All {
		list = append(list, k, v)
	}
	return list
}
