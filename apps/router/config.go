package router

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// Bounds of a configuration: the ports of all interfaces, and the subnets and routes. One that exceeds them is refused.
const MaxPorts, MaxPrefixes = 64, 1024

// Config is what a router is configured with. A next hop of a route must be in a subnet of an interface.
type Config struct {
	Interfaces []Interface    `json:"interfaces"`
	Routes     []packet.Route `json:"routes,omitempty"` // those to 0.0.0.0/0 and ::/0 are default routes
}

// Interface is one or more ports of the switch with the subnets of their hosts. Its ports are a hub to each other.
type Interface struct {
	Name      string         `json:"name"`
	MAC       packet.HostMAC `json:"mac"`
	Ports     []app.Port     `json:"ports"`
	Addresses []netip.Prefix `json:"addresses"` // of the router, with the lengths of the subnets: 10.0.1.1/24
}

// parse reads a configuration.
func parse(r app.Request) (c Config, err error) {
	if err := app.ReadJSON(r, &c); err != nil {
		return c, err
	}
	ports, seen := map[app.Port]bool{}, map[netip.Prefix]bool{}
	for _, i := range c.Interfaces {
		if i.MAC == (packet.HostMAC{}) {
			return c, fmt.Errorf("interface %q: there is no mac: use one like 02:00:00:00:00:01", i.Name)
		}
		for _, p := range i.Ports {
			if p == 0 || p > of13.PortMax || ports[p] {
				return c, fmt.Errorf("interface %q: port %d: use a port of the switch that no interface has", i.Name, p)
			}
			ports[p] = true
		}
		for _, a := range i.Addresses {
			if !a.IsValid() || a.Addr().Is4In6() || a.Addr().IsMulticast() || seen[a.Masked()] {
				return c, fmt.Errorf("interface %q: address %v: use one like 10.0.1.1/24, of a new subnet", i.Name, a)
			}
			seen[a.Masked()] = true
		}
	}
	for i := range c.Interfaces {
		at := &c.Interfaces[i]
		for _, a := range at.Addresses {
			if by, source := c.interfaceOf(a.Addr()); by != at || source != a.Addr() {
				return c, fmt.Errorf("interface %q: address %v is in the smaller subnet of %v: use one that is not",
					at.Name, a, source)
			}
		}
	}
	for _, r := range c.Routes {
		if _, source := c.interfaceOf(r.Via); !source.IsValid() || source == r.Via || !r.Prefix.IsValid() ||
			r.Prefix != r.Prefix.Masked() || seen[r.Prefix] || r.Via.BitLen() != r.Prefix.Addr().BitLen() {
			return c, fmt.Errorf("route to %v via %v: use a new prefix, and a host in a subnet", r.Prefix, r.Via)
		}
		seen[r.Prefix] = true
	}
	if len(ports) > MaxPorts || len(seen) > MaxPrefixes {
		return c, fmt.Errorf("more than %d ports, or %d subnets and routes: use fewer", MaxPorts, MaxPrefixes)
	}
	return c, nil
}

// at returns the interface of a port; nil if there is none.
func (c *Config) at(p app.Port) *Interface {
	for i := range c.Interfaces {
		if slices.Contains(c.Interfaces[i].Ports, p) {
			return &c.Interfaces[i]
		}
	}
	return nil
}

// interfaceOf returns the interface with the smallest subnet that a host is in, and the address of the router there.
func (c *Config) interfaceOf(host netip.Addr) (at *Interface, source netip.Addr) {
	best := -1
	for i := range c.Interfaces {
		for _, a := range c.Interfaces[i].Addresses {
			if a.Masked().Contains(host) && a.Bits() > best {
				best, at, source = a.Bits(), &c.Interfaces[i], a.Addr()
			}
		}
	}
	return at, source
}

// local are the addresses from and to which a router forwards nothing (RFC 1812, section 5.3.7, and RFC 4291, section
// 2.5).
var local = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("255.255.255.255/32"),
	netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
}

// forwards reports whether a router forwards from and to an address.
func forwards(a netip.Addr) bool {
	return !slices.ContainsFunc(local, func(p netip.Prefix) bool { return p.Contains(a) })
}

// lookup returns the next hop for a destination, and the addresses around that with the same one, to which packets are
// forwarded. The next hop for an address of the router is this address.
func (c *Config) lookup(to netip.Addr) (next netip.Addr, block netip.Prefix, ok bool) {
	routes := slices.Clone(c.Routes)
	for _, p := range local {
		routes = append(routes, packet.Route{Prefix: p})
	}
	for _, i := range c.Interfaces {
		for _, a := range i.Addresses {
			routes = append(routes, packet.Route{Prefix: a.Masked()},
				packet.Route{Prefix: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), Via: a.Addr()})
		}
	}
	return packet.Lookup(routes, to)
}

// source returns the address from which the router sends to a host; an invalid one if it cannot.
func (c *Config) source(host netip.Addr) netip.Addr {
	next, _, _ := c.lookup(host)
	_, source := c.interfaceOf(next)
	return source
}

// own reports whether the router has an address.
func (c *Config) own(a netip.Addr) bool {
	_, source := c.interfaceOf(a)
	return source.IsValid() && source == a
}
