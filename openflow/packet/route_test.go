package packet

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// The route is that of a naive search, all addresses of the block have the same one, and blocks do not overlap.
func TestLookup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "IPv6")
		address := func(what string) netip.Addr { // few bits differ, so that prefixes are nested
			n := rapid.IntRange(0, 255).Draw(t, what)
			if six {
				return netip.AddrFrom16([16]byte{0: 0x20, 1: byte(n >> 4), 15: byte(n & 15)})
			}
			return netip.AddrFrom4([4]byte{10, byte(n >> 4), 0, byte(n & 15)})
		}
		bits := address("any").BitLen()
		var routes []Route
		for i := range rapid.IntRange(0, 12).Draw(t, "routes") {
			length := rapid.SampledFrom([]int{0, 8, 12, 13, 14, 15, 16, bits - 3, bits - 2, bits - 1, bits}).Draw(t, "length")
			r := Route{Prefix: netip.PrefixFrom(address("prefix"), length).Masked()}
			if rapid.Bool().Draw(t, "has a next hop") {
				r.Via = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			}
			known := false
			for _, other := range routes {
				known = known || other.Prefix == r.Prefix
			}
			if !known {
				routes = append(routes, r)
			}
		}
		naive := func(to netip.Addr) (via netip.Addr, found bool) {
			for length := to.BitLen(); length >= 0 && !found; length-- {
				for _, r := range routes {
					if r.Prefix == netip.PrefixFrom(to, length).Masked() {
						if via, found = r.Via, true; !via.IsValid() {
							via = to
						}
					}
				}
			}
			return via, found
		}
		var blocks []netip.Prefix
		for range 20 {
			to := address("destination")
			next, block, ok := Lookup(routes, to)
			if want, found := naive(to); ok != found || next != want {
				t.Fatalf("the next hop to %v is %v, %v, want %v, %v: %v", to, next, ok, want, found, routes)
			}
			if !ok {
				continue
			}
			for _, b := range blocks {
				if b != block && b.Overlaps(block) {
					t.Fatalf("%v and %v overlap: %v", b, block, routes)
				}
			}
			blocks = append(blocks, block)
			if other := address("another"); block.Contains(other) {
				if want, found := naive(other); !found || want != next {
					t.Fatalf("%v in the block %v of %v has next hop %v, not %v: %v", other, block, to, want, next, routes)
				}
			}
			if !block.Contains(to) {
				t.Fatalf("%v is not in its block %v", to, block)
			}
		}
	})
}
