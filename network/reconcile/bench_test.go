package reconcile

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// BenchmarkCheck is a check of 3,000 correct entries: to start it, to resume it elsewhere, and to process the
// replies.
func BenchmarkCheck(b *testing.B) {
	var want Want
	var parts []of13.MultipartReply
	for i := range 3000 {
		if i%500 == 0 {
			parts = append(parts, flowPart(true))
		}
		f := entry(100, any13.WithMetadata(uint64(i), ^uint64(0)), toGroup(1))
		want.Flows = append(want.Flows, f)
		last := &parts[len(parts)-1]
		last.Body = held(f).AppendTo(last.Body)
	}
	parts = append(parts, flowPart(false), groupPart(false))
	begin := func() *Check {
		c, err := New(want, policy(false))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			begin()
		}
	})
	state := begin().State()
	b.Run("resume", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := Resume(want, policy(false), state); err != nil {
				b.Fatal(err)
			}
		}
	})
	c := begin()
	b.Run("replies", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			c.done = [2]bool{}
			for _, p := range parts {
				if d, err := c.Reply(p); err != nil || d != nil {
					b.Fatal(d, err)
				}
			}
		}
		if r := c.Result(); r.Right != len(want.Flows) {
			b.Fatalf("%+v", r)
		}
	})
}
