package router

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket/layers"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// versions runs a test for IPv4 (0) and IPv6 (1), with one group and with three.
func versions(t *testing.T, run func(t *testing.T, w *world, v int)) {
	for v, name := range []string{"IPv4", "IPv6"} {
		for _, groups := range []uint64{1, 3} {
			t.Run(fmt.Sprint(name, "/", groups), func(t *testing.T) {
				w := newWorld(t, groups)
				w.put(configuration)
				run(t, w, v)
			})
		}
	}
}

// one returns the packet of IP that is the only frame.
func one(t *testing.T, frames []vswitch.Frame, port of13.Port) packet.IP {
	t.Helper()
	if len(frames) != 1 || frames[0].Port != port {
		t.Fatalf("the switch transmits %v, want one frame by port %d", frames, port)
	}
	p, ok := packet.ParseIP(frames[0].Data)
	if !ok {
		t.Fatalf("%x is no packet of IP", frames[0].Data)
	}
	return p
}

// The first packet waits for the neighbour. The next ones do not reach the controllers.
func TestForwards(t *testing.T) {
	versions(t, func(t *testing.T, w *world, v int) {
		request := ping(alice.mac, lan, alice.ip[v], bob.ip[v], 9)
		asked := w.send(alice.port, request)
		p := one(t, w.answers(bob, asked), bob.port)
		for range 2 {
			if p.Src != wan || p.Dst != bob.mac || p.TTL != 8 || p.From != alice.ip[v] || p.To != bob.ip[v] {
				t.Errorf("bob receives %+v", p)
			}
			p = one(t, w.send(alice.port, request), bob.port)
		}
		before := w.packets
		one(t, w.send(alice.port, request), bob.port)
		if w.packets != before {
			t.Error("the controllers have a packet for which there is a flow entry")
		}
	})
}

func TestAnswers(t *testing.T) {
	versions(t, func(t *testing.T, w *world, v int) {
		c, err := parse(requestOf(configuration))
		if err != nil {
			t.Fatal(err)
		}
		router, other := c.source(alice.ip[v]), c.source(bob.ip[v])
		frames := w.send(alice.port, packet.Ask(alice.mac, alice.ip[v], router))
		replied := false
		for _, f := range frames { // the request goes to the other port of the interface too
			n, ok := packet.ParseNeighbour(f.Data)
			replied = replied || ok && f.Port == alice.port && n.From == router && n.MAC == lan && !n.Asks.IsValid()
		}
		if !replied || len(frames) != 2 {
			t.Errorf("a request for the router is answered by %v", frames)
		}
		far := netip.MustParseAddr([]string{"192.0.2.1", "2001:db8:ffff::1"}[v])
		first := func(to netip.Addr, ttl byte) packet.IP {
			return one(t, w.send(alice.port, ping(alice.mac, lan, alice.ip[v], to, ttl)), alice.port)
		}
		for _, to := range []netip.Addr{router, other} {
			if p := first(to, 1); p.From != to || p.To != alice.ip[v] || p.Payload[0] != []byte{0, 129}[v] {
				t.Errorf("an echo request to the router at %v: %+v", to, p)
			}
		}
		if p := first(bob.ip[v], 1); p.From != router || p.Payload[0] != []byte{11, 3}[v] {
			t.Errorf("the TTL is exceeded: %+v", p)
		}
		if v == 1 { // IPv4 has a default route
			if p := first(far, 9); p.From != router || [2]byte(p.Payload) != [2]byte{1, 0} {
				t.Errorf("there is no route: %+v", p)
			}
		}
		// Once there is a flow entry, the switch finds out that the TTL is exceeded.
		w.answers(bob, w.send(alice.port, ping(alice.mac, lan, alice.ip[v], bob.ip[v], 9)))
		w.send(alice.port, ping(alice.mac, lan, alice.ip[v], bob.ip[v], 9))
		if p := first(bob.ip[v], 1); p.From != router || p.Payload[0] != []byte{11, 3}[v] {
			t.Errorf("the TTL is exceeded with a flow entry: %+v", p)
		}
	})
}

// Nobody answers for a host: it is asked for some times, and then the sender of the last packet hears of it.
func TestUnreachable(t *testing.T) {
	versions(t, func(t *testing.T, w *world, v int) {
		w.answers(alice, w.send(bob.port, ping(bob.mac, wan, bob.ip[v], alice.ip[v], 9))) // so alice is known
		asked := 0
		for range 3 {
			for _, f := range w.send(alice.port, ping(alice.mac, lan, alice.ip[v], bob.ip[v], 9)) {
				if n, ok := packet.ParseNeighbour(f.Data); ok && n.Asks == bob.ip[v] {
					asked++
				}
			}
		}
		w.seen = nil
		for range Tries {
			w.do(w.net.Advance(time.Second))
		}
		last := w.seen[len(w.seen)-1]
		p := one(t, []vswitch.Frame{last}, alice.port)
		if asked != 1 || len(w.seen) != Tries || [2]byte(p.Payload) != [][2]byte{{3, 1}, {1, 3}}[v] {
			t.Errorf("asked %d times at first, then %d frames, the last is %+v", asked, len(w.seen), p)
		}
		if n := w.rows(); n != 1 {
			t.Errorf("%d neighbours are known, not 1", n)
		}
	})
}

func (w *world) rows() (n int) {
	for _, r := range w.net.Rows(Name) {
		if r.Table == "neighbours" {
			n++
		}
	}
	return n
}

// A neighbour that is silent is asked, and used on if it answers. If not, its flow entries are removed.
func TestAges(t *testing.T) {
	versions(t, func(t *testing.T, w *world, v int) {
		request := ping(alice.mac, lan, alice.ip[v], bob.ip[v], 9)
		w.answers(bob, w.send(alice.port, request))
		w.send(alice.port, request)
		w.seen = nil
		w.do(w.net.Advance(Fresh))
		if w.answers(bob, w.seen); len(w.seen) != 0 {
			t.Fatalf("after the answer, the switch transmits %v", w.seen)
		}
		one(t, w.send(alice.port, request), bob.port)
		w.do(w.net.Advance(Fresh))
		for range Tries {
			w.do(w.net.Advance(time.Second))
		}
		frames := w.send(alice.port, request)
		if n, ok := packet.ParseNeighbour(frames[0].Data); !ok || n.Asks != bob.ip[v] {
			t.Errorf("bob is gone, and a packet to him causes %v", frames)
		}
	})
}

// A host that appears at another port, or with another address of Ethernet, receives what is sent to it there.
func TestMoves(t *testing.T) {
	versions(t, func(t *testing.T, w *world, v int) {
		request := ping(bob.mac, wan, bob.ip[v], alice.ip[v], 9)
		w.answers(alice, w.send(bob.port, request))
		one(t, w.send(bob.port, request), alice.port)
		moved := alice
		moved.port, moved.mac = 2, of13.MAC{2, 9}
		w.send(moved.port, packet.Ask(moved.mac, moved.ip[v], parsed(t).source(moved.ip[v])))
		for range 2 {
			if p := one(t, w.send(bob.port, request), moved.port); p.Dst != moved.mac {
				t.Errorf("the packet is for %v", p.Dst)
			}
		}
	})
}

func parsed(t *testing.T) *Config {
	t.Helper()
	c, err := parse(requestOf(configuration))
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

// What waits is bounded: the first packets to unknown hosts are held, one for each, and no more.
func TestBounds(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	w.send(alice.port, packet.Ask(alice.mac, alice.ip[0], parsed(t).source(alice.ip[0])))
	for n := range 200 {
		w.send(alice.port, ping(alice.mac, lan, alice.ip[0], netip.AddrFrom4([4]byte{10, 0, 2, byte(n + 10)}), 9))
	}
	if n := w.rows(); n < MaxNeighbours/waitingCost-1 || n > MaxNeighbours/waitingCost+1 {
		t.Errorf("%d neighbours are waited for", n)
	}
	h := hostAt(9, 2, 1) // a host that asks for the router is learned meanwhile
	w.send(h.port, packet.Ask(h.mac, h.ip[0], parsed(t).source(h.ip[0])))
	one(t, w.send(alice.port, ping(alice.mac, lan, alice.ip[0], h.ip[0], 9)), h.port)
	stranger := hostAt(5, 2, 2) // of the subnet at another interface
	before := w.rows()
	w.send(stranger.port, packet.Ask(stranger.mac, stranger.ip[0], parsed(t).source(h.ip[0])))
	if n := w.rows(); n != before {
		t.Error("a host with an address of another interface is learned")
	}
}

// A packet that is too long to be held is dropped, and the neighbour is asked for.
func TestLongPacket(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	long := append(ping(alice.mac, lan, alice.ip[0], bob.ip[0], 9), make([]byte, maxHeld)...)
	if frames := w.answers(bob, w.send(alice.port, long)); len(frames) > 0 {
		t.Errorf("a packet of %d bytes was held: %v", len(long), frames)
	}
	one(t, w.send(alice.port, ping(alice.mac, lan, alice.ip[0], bob.ip[0], 9)), bob.port)
}

// The next hop may be at the port by which the packet came in, and at another one for the next packet.
func TestSamePort(t *testing.T) {
	w := newWorld(t, 1)
	w.put(strings.Replace(configuration, `"10.0.1.1/24"`, `"10.0.1.1/24","10.0.3.1/24"`, 1))
	near, far := hostAt(5, alice.port, 3), hostAt(6, 2, 1)
	for range 2 {
		w.answers(near, w.send(alice.port, ping(alice.mac, lan, alice.ip[0], near.ip[0], 9)))
	}
	for _, from := range []host{far, alice, far, alice} {
		p := one(t, w.send(from.port, ping(from.mac, lan, from.ip[0], near.ip[0], 9)), near.port)
		if p.Dst != near.mac || p.From != from.ip[0] {
			t.Errorf("a packet from %v becomes %+v", from.ip[0], p)
		}
	}
}

// The flow entry of a route that contains an address of the router does not take what is for the router.
func TestRouteAroundTheRouter(t *testing.T) {
	w := newWorld(t, 1)
	w.put(strings.Replace(configuration, `"0.0.0.0/0","via":"10.0.2.2"`, `"10.0.2.0/29","via":"10.0.2.99"`, 1))
	gateway := hostAt(99, 3, 2)
	for n := range byte(8) {
		to := netip.AddrFrom4([4]byte{10, 0, 2, n})
		request := ping(alice.mac, lan, alice.ip[0], to, 9)
		w.answers(gateway, w.send(alice.port, request))
		w.send(alice.port, request)
		port, dst := gateway.port, gateway.mac
		if n == 1 { // the router
			port, dst = alice.port, alice.mac
		}
		if p := one(t, w.send(alice.port, request), port); p.Dst != dst {
			t.Errorf("a packet for %v becomes %+v", to, p)
		}
	}
}

// A request that does not tell the address of Ethernet does not change what is known.
func TestRequestWithoutAddress(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	router := parsed(t).source(alice.ip[1])
	w.send(alice.port, packet.Ask(alice.mac, alice.ip[1], router))
	ip := &layers.IPv6{Version: 6, HopLimit: 255, SrcIP: alice.ip[1].AsSlice(), DstIP: router.AsSlice(),
		NextHeader: layers.IPProtocolICMPv6}
	icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(packet.NeighbourSolicitation, 0)}
	if err := icmp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	w.send(alice.port, write(&layers.Ethernet{SrcMAC: alice.mac[:], DstMAC: lan[:],
		EthernetType: layers.EthernetTypeIPv6}, ip, icmp,
		&layers.ICMPv6NeighborSolicitation{TargetAddress: router.AsSlice()}))
	if p := one(t, w.send(bob.port, ping(bob.mac, wan, bob.ip[1], alice.ip[1], 9)), alice.port); p.Dst != alice.mac {
		t.Errorf("alice is known as %v", p.Dst)
	}
}

// Routes change: the new ones are used at once.
func TestConfigurationChanges(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	gateway, far := bob, netip.MustParseAddr("192.0.2.1")
	request := ping(alice.mac, lan, alice.ip[0], far, 9)
	w.answers(gateway, w.send(alice.port, request))
	if p := one(t, w.send(alice.port, request), gateway.port); p.Dst != gateway.mac || p.To != far {
		t.Errorf("the gateway receives %+v", p)
	}
	w.put(strings.Replace(configuration, `"via":"10.0.2.2"`, `"via":"10.0.2.3"`, 1))
	next := hostAt(3, 3, 2)
	if p := one(t, w.answers(next, w.send(alice.port, request)), next.port); p.Dst != next.mac {
		t.Errorf("with the new route, %v receives the packet", p.Dst)
	}
	w.put("{}")
	if frames := w.send(alice.port, request); len(frames) > 0 {
		t.Errorf("without a configuration, the switch transmits %v", frames)
	}
}

// Packets from or to addresses of one link are not forwarded, also if there is a flow entry for a default route.
func TestLocalAddresses(t *testing.T) {
	w := newWorld(t, 1)
	w.put(strings.Replace(configuration, `"2001:db8:9::/48"`, `"::/0"`, 1))
	for _, far := range []string{"192.0.2.1", "0.255.0.1", "2001:db8:9::1", "8000::1"} {
		request := ping(alice.mac, lan, alice.ip[strings.Count(far, "::")], netip.MustParseAddr(far), 9)
		w.answers(bob, w.send(alice.port, request))
		w.send(alice.port, request)
	}
	for _, to := range []string{"169.254.1.1", "127.0.0.1", "224.0.0.9", "255.255.255.255", "0.0.0.1", "fe80::2", "::1"} {
		from := alice.ip[strings.Count(to, "::")]
		if frames := w.send(alice.port, ping(alice.mac, lan, from, netip.MustParseAddr(to), 9)); len(frames) > 0 {
			t.Errorf("to %s: %v", to, frames)
		}
	}
	w.put(configuration)
	for _, from := range []string{"169.254.1.1", "127.0.0.1", "fe80::2", "::1"} {
		to := bob.ip[strings.Count(from, "::")]
		if frames := w.send(alice.port, ping(alice.mac, lan, netip.MustParseAddr(from), to, 9)); len(frames) > 0 {
			t.Errorf("from %s: %v", from, frames)
		}
	}
}

// A frame with a tag is not for the router, also if there is a flow entry for its destination.
func TestTagged(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	request := ping(alice.mac, lan, alice.ip[0], bob.ip[0], 9)
	w.answers(bob, w.send(alice.port, request))
	w.send(alice.port, request)
	tagged := slices.Concat(request[:12], []byte{0x81, 0, 0, 7}, request[12:])
	if frames := w.send(alice.port, tagged); len(frames) > 0 {
		t.Errorf("the switch transmits %v", frames)
	}
}

// Frames between the ports of an interface stay there.
func TestHub(t *testing.T) {
	w := newWorld(t, 1)
	w.put(configuration)
	other := hostAt(11, 2, 1)
	one(t, w.send(alice.port, ping(alice.mac, other.mac, alice.ip[0], other.ip[0], 9)), other.port)
	if frames := w.send(4, ping(alice.mac, lan, alice.ip[0], bob.ip[0], 9)); len(frames) > 0 {
		t.Errorf("a port without an interface: %v", frames)
	}
}
