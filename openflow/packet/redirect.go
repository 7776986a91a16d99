package packet

import (
	"net/netip"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Server is a host that serves what is sent to a virtual address.
type Server struct {
	Address netip.Addr // of IPv4
	MAC     of13.MAC
	Port    of13.Port // of the switch
}

// Entry is what a flow entry matches and does, and for how many seconds it stays without packets.
type Entry struct {
	Match       of13.Match
	Actions     of13.Actions
	IdleTimeout uint16
}

// Redirect returns the entries for a flow of IPv4 like this packet, which has come in at a port: it goes to a server
// instead, and what the server answers seems to come from the address that the packet is for. This is for all packets
// from the server to the host, so a host cannot use two such addresses with the same server at a time.
//
// What the host sends from another port, because it has moved, does not match. The entry back stays ten times as long
// without packets as the other one, because a host may send while the server is silent.
func (p *Packet) Redirect(in of13.Port, s *Server, idleTimeout uint16) (to, back Entry) {
	whole := [4]byte{255, 255, 255, 255}
	server, host, virtual := s.Address.As4(), p.From.As4(), p.To.As4()
	match := func(from, to [4]byte) of13.Match {
		return of13.Match(nil).WithEthType(IPv4).WithIPv4Src(from, whole).WithIPv4Dst(to, whole)
	}
	set := func(mac of13.MAC, ether, ip of13.Field, address [4]byte) of13.Actions {
		return of13.Actions(nil).SetField(of13.Exact(ether, mac[:])).SetField(of13.Exact(ip, address[:]))
	}
	there, here := s.Port, in
	if there == here { // a switch sends nothing back by itself
		there, here = of13.PortInPort, of13.PortInPort
	}
	return Entry{match(host, virtual).WithInPort(in),
			set(s.MAC, of13.FieldEthDst, of13.FieldIPv4Dst, server).Output(there, 0), idleTimeout},
		Entry{match(server, host),
			set(p.Dst, of13.FieldEthSrc, of13.FieldIPv4Src, virtual).Output(here, 0), 10 * idleTimeout}
}
