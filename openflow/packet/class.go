package packet

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Class is a set of frames in the words of a configuration: those that have all of what it names. The zero Class has
// all frames.
type Class struct {
	// Protocol is arp, lldp, ipv4, ipv6, icmp, icmpv6, tcp, udp, sctp, the number of a protocol over IP, or an
	// EtherType such as 0x88b5.
	Protocol string `json:"protocol,omitempty"`
	// Source and Destination are addresses or prefixes of IPv4 or IPv6.
	Source      string `json:"source,omitempty"`
	Destination string `json:"destination,omitempty"`
	// SourcePorts and DestinationPorts are a port of TCP, UDP or SCTP, or a range such as 1024-65535. Fragments after
	// the first have no ports.
	SourcePorts      string  `json:"source_ports,omitempty"`
	DestinationPorts string  `json:"destination_ports,omitempty"`
	VLAN             *uint16 `json:"vlan,omitempty"` // 0: without a tag
}

// minEtherType is the least one: lower numbers are lengths (IEEE 802.3, 3.2.6).
const minEtherType = 0x600

// protocol is what a name of Class.Protocol stands for.
type protocol struct {
	types    []uint16 // of Ethernet; none: any frame
	number   int      // over IP; -1: any
	src, dst of13.Field
}

var (
	onlyIPv4, onlyIPv6, anyIP = []uint16{IPv4}, []uint16{IPv6}, []uint16{IPv4, IPv6}

	protocols = map[string]protocol{
		"": {number: -1}, "arp": {types: []uint16{ARP}, number: -1}, "lldp": {types: []uint16{LLDP}, number: -1},
		"ipv4": {types: onlyIPv4, number: -1}, "ipv6": {types: onlyIPv6, number: -1},
		"icmp": {types: onlyIPv4, number: ICMP}, "icmpv6": {types: onlyIPv6, number: ICMPv6},
		"tcp":  {anyIP, 6, of13.FieldTCPSrc, of13.FieldTCPDst},
		"udp":  {anyIP, 17, of13.FieldUDPSrc, of13.FieldUDPDst},
		"sctp": {anyIP, 132, of13.FieldSCTPSrc, of13.FieldSCTPDst},
	}
)

// Matches returns matches of OpenFlow which together have the frames of the class that m matches. They do not overlap.
// Two ranges of ports, for both versions of IP, need 1,800 at most.
// The error names the field that is wrong.
func (c *Class) Matches(m of13.Match) (list []of13.Match, err error) {
	p, err := c.protocol()
	if err != nil {
		return nil, err
	}
	switch {
	case c.VLAN == nil:
	case *c.VLAN > 4094:
		return nil, fmt.Errorf("vlan %d: use 1 to 4094, or 0 for frames without a tag", *c.VLAN)
	case *c.VLAN == 0:
		m = m.WithNoVLAN()
	default:
		m = m.WithVLAN(*c.VLAN)
	}
	src, err := prefixOf("source", c.Source)
	if err != nil {
		return nil, err
	}
	dst, err := prefixOf("destination", c.Destination)
	if err != nil {
		return nil, err
	}
	if p.types == nil && !src.IsValid() && !dst.IsValid() && c.SourcePorts == "" && c.DestinationPorts == "" {
		return []of13.Match{m}, nil
	}
	types := p.types
	if types == nil {
		types = anyIP
	}
	for _, t := range types {
		if !of(src, t) || !of(dst, t) {
			continue
		}
		m := append(make(of13.Match, 0, len(m)+usual), m...).WithEthType(t)
		if p.number >= 0 {
			m = m.WithIPProto(uint8(p.number))
		}
		m = withPrefix(withPrefix(m, of13.FieldIPv4Src, src), of13.FieldIPv4Dst, dst)
		more, err := c.ports(m, p)
		if err != nil {
			return nil, err
		}
		if list == nil {
			list = more
		} else {
			list = append(list, more...)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("protocol %q from %q to %q: no frame has all of these: use one version of IP",
			c.Protocol, c.Source, c.Destination)
	}
	return list, nil
}

func (c *Class) protocol() (protocol, error) {
	if p, known := protocols[c.Protocol]; known {
		return p, nil
	}
	if digits, is := strings.CutPrefix(c.Protocol, "0x"); is {
		if n, err := strconv.ParseUint(digits, 16, 16); err == nil && n >= minEtherType {
			return protocol{types: []uint16{uint16(n)}, number: -1}, nil
		}
	}
	n, err := strconv.ParseUint(c.Protocol, 10, 8)
	if err != nil {
		return protocol{}, fmt.Errorf("protocol %q: use arp, lldp, ipv4, ipv6, icmp, icmpv6, tcp, udp, sctp, a "+
			"number up to 255, or an EtherType from 0x0600", c.Protocol)
	}
	return protocol{types: anyIP, number: int(n)}, nil
}

// usual is room for the type, the protocol, an address and a port.
const usual = 32

// of reports whether frames of an EtherType may have an address of a prefix. An invalid one stands for any.
func of(p netip.Prefix, typ uint16) bool {
	version := uint16(IPv4)
	if p.Addr().Is6() {
		version = IPv6
	}
	return !p.IsValid() || typ == version
}

func prefixOf(field, text string) (p netip.Prefix, err error) {
	if text == "" {
		return p, nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err = netip.ParsePrefix(text)
	if err != nil || p != p.Masked() {
		return p, fmt.Errorf("%s %q: use an address, or a prefix without bits after its length, such as 10.0.0.0/8",
			field, text)
	}
	return p, nil
}

// withPrefix appends a prefix of IPv4 to a match, in this field of addresses, or one of IPv6 in the field of IPv6 for
// it. An invalid prefix leaves the match as it is.
func withPrefix(m of13.Match, field of13.Field, p netip.Prefix) of13.Match {
	if !p.IsValid() {
		return m
	}
	var mask []byte
	if !p.IsSingleIP() {
		mask = make([]byte, p.Addr().BitLen()/8)
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
	}
	if p.Addr().Is6() {
		field += of13.FieldIPv6Src - of13.FieldIPv4Src
	}
	return m.With(field, p.Addr().AsSlice(), mask)
}

// To appends the version of IP and the destination to a match.
func To(m of13.Match, block netip.Prefix) of13.Match {
	if block.Addr().Is6() {
		return withPrefix(m.WithEthType(IPv6), of13.FieldIPv4Dst, block)
	}
	return withPrefix(m.WithEthType(IPv4), of13.FieldIPv4Dst, block)
}

// ports adds the ports of a class to a match. Each range becomes the fewest masked matches.
func (c *Class) ports(m of13.Match, p protocol) (list []of13.Match, err error) {
	list = []of13.Match{m}
	for _, side := range []struct {
		name, text string
		field      of13.Field
	}{{"source_ports", c.SourcePorts, p.src}, {"destination_ports", c.DestinationPorts, p.dst}} {
		if side.text == "" {
			continue
		}
		first, last, isRange := strings.Cut(side.text, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 10, 16)
		hi, err2 := strconv.ParseUint(last, 10, 16)
		// Switches match fragments after the first as if they had port 0, so no class has that.
		if err1 != nil || err2 != nil || lo == 0 || lo > hi || side.field == 0 {
			return nil, fmt.Errorf("%s %q: use a port or a range from 1 to %d, and protocol tcp, udp or sctp",
				side.name, side.text, math.MaxUint16)
		}
		var more []of13.Match
		for _, m := range list {
			for _, r := range cover(lo, hi) {
				more = append(more, slices.Clip(m).WithUintMasked(side.field, r.value, r.mask))
			}
		}
		list = more
	}
	return list, nil
}

// masked are the numbers of 16 bits that agree with value where mask has ones.
type masked struct{ value, mask uint64 }

// maxCover is the number of masked ones for the worst range, 1-65534.
const maxCover = 30

// cover returns the numbers from lo, which is not 0, to hi as the fewest masked ones.
func cover(lo, hi uint64) (list []masked) {
	for lo <= hi {
		size := lo & -lo
		for size > hi-lo+1 {
			size /= 2
		}
		list = append(list, masked{lo, math.MaxUint16 &^ (size - 1)})
		lo += size
	}
	return list
}
