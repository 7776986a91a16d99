package ledger

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// TestCommandQueue compares the queue with a plain list of messages.
func TestCommandQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newCommandQueue()
		var all [][]byte         // ever pushed, without those taken back
		var starts = []uint64{0} // position of each, and of the end
		done, released := 0, 0   // counts
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				msg := newMessage(13, uint32(len(all)), string(make([]byte,
					rapid.SampledFrom([]int{0, 10, 30_000}).Draw(t, "length"))))
				q.push(msg)
				all, starts = append(all, msg), append(starts, q.end())
			},
			"release": func(t *rapid.T) {
				n := rapid.IntRange(released, len(all)).Draw(t, "to")
				if got, want := q.slice(starts[released], starts[n]),
					bytes.Join(all[max(released, done):n], nil); !bytes.Equal(got, want) {
					t.Fatalf("slice of %d bytes, want %d", len(got), len(want))
				}
				released = n
			},
			"done": func(t *rapid.T) {
				n := rapid.IntRange(0, released).Draw(t, "seq")
				q.pop(uint64(n))
				done = max(done, n)
			},
			"take back": func(t *rapid.T) {
				n := rapid.IntRange(released, len(all)).Draw(t, "to")
				if err := q.truncate(starts[n], uint64(n+1)); err != nil {
					t.Fatal(err)
				}
				all, starts = all[:n], starts[:n+1]
			},
			"take back too much": func(t *rapid.T) {
				if done > 0 && q.truncate(starts[done-1], uint64(done)) == nil {
					t.Fatal("what is complete was taken back")
				}
			},
			"": func(t *rapid.T) {
				if q.bytes() != int(starts[len(all)]-starts[done]) || q.len() != len(all)-done ||
					q.done() != uint64(done) || q.end() != starts[len(all)] {
					t.Fatalf("%d commands of %d bytes, done %d; want %d, done %d", q.len(), q.bytes(), q.done(),
						len(all)-done, done)
				}
			},
		})
	})
}
