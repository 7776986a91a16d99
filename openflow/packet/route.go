package packet

import (
	"math/bits"
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Route leads to a prefix by a next hop. Without Via it is a subnet, whose hosts are their own next hops.
type Route struct {
	Prefix netip.Prefix `json:"prefix"`
	Via    netip.Addr   `json:"via"`
}

// Lookup returns the next hop for a destination by the route with the longest prefix, and the largest block around the
// destination for whose addresses this route is the one. In a subnet, the block is the host. Blocks of different
// destinations are equal or do not overlap, so flow entries for them need no order.
func Lookup(routes []Route, to netip.Addr) (next netip.Addr, block netip.Prefix, ok bool) {
	best := -1
	for _, r := range routes {
		if r.Prefix.Contains(to) && r.Prefix.Bits() > best {
			best, next = r.Prefix.Bits(), r.Via
		}
	}
	if best < 0 {
		return next, block, false
	}
	length := best
	if !next.IsValid() {
		next, length = to, to.BitLen()
	}
	for _, r := range routes {
		if p := r.Prefix; p.Bits() > best && p.Addr().BitLen() == to.BitLen() {
			length = max(length, min(common(p.Addr(), to)+1, to.BitLen()))
		}
	}
	return next, netip.PrefixFrom(to, length).Masked(), true
}

// Forward returns what a switch does with a packet that has come in at a port, as a router: the packet goes from src to
// the next hop dst, by the port out.
func Forward(in of13.Port, src, dst of13.MAC, out of13.Port) of13.Actions {
	if out == in {
		out = of13.PortInPort // a switch sends nothing back by itself
	}
	return Readdress(src, dst).Output(out, 0)
}

// Readdress returns the part of Forward that changes the packet.
func Readdress(src, dst of13.MAC) of13.Actions {
	return of13.Actions(nil).DecNwTTL().SetField(of13.Exact(of13.FieldEthSrc, src[:])).
		SetField(of13.Exact(of13.FieldEthDst, dst[:]))
}

// common returns how many bits two addresses of one version begin with in common.
func common(a, b netip.Addr) (n int) {
	x, y := a.AsSlice(), b.AsSlice()
	for i := range x {
		if x[i] != y[i] {
			return n + bits.LeadingZeros8(x[i]^y[i])
		}
		n += 8
	}
	return n
}
