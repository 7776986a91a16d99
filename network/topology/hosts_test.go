package topology

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/app"
)

// wantHosts compares the hosts, written as "address port: addresses".
func (w *world) wantHosts(t *testing.T, want ...string) *Snapshot {
	t.Helper()
	s := w.check()
	var got []string
	for _, h := range s.Hosts {
		got = append(got, fmt.Sprintf("%x %d/%d: %v", h.MAC[5], h.At.Switch, h.At.Port, h.Addresses))
	}
	if !slices.Equal(got, want) {
		t.Errorf("hosts %q, want %q", got, want)
	}
	return s
}

// seen is the last host that the listener was told of.
func (w *world) seen(t *testing.T) (h Host) {
	t.Helper()
	if len(w.told) != 1 {
		t.Errorf("told %+v, want one thing", w.told)
	}
	for _, m := range w.told {
		if seen, ok := m.(HostSeen); ok {
			h = seen.Host
		}
	}
	w.told = nil
	return h
}

func TestHostsAreLearned(t *testing.T) {
	w := line(t, 2)
	for _, name := range []string{"ARP", "solicitation", "advertisement"} {
		w.host(at(1, 1), sampleFrames[name].frame)
		if h := w.seen(t); h.MAC != alice || h.At != at(1, 1) ||
			h.Addresses[len(h.Addresses)-1].String() != sampleFrames[name].addr {
			t.Errorf("%s: told of %+v", name, h)
		}
		for _, known := range []string{"ARP", "IPv4", "ARP probe", "DHCP discover"} {
			w.host(at(1, 1), sampleFrames[known].frame)
		}
	}
	w.wantHosts(t, "a 1/1: [10.0.0.1 2001:db8::1 fe80::1]")
	w.host(at(2, 3), sampleFrames["DHCP acknowledgement"].frame) // to an unknown host
	w.seen(t)
	w.advance(Settle)
	w.host(at(2, 2), sampleFrames["DHCP discover"].frame[:40]) // alice, at another place
	w.told = nil
	w.host(at(1, 3), arp(bob, "0.0.0.0"))
	w.seen(t)
	w.host(at(2, 3), sampleFrames["DHCP acknowledgement"].frame)
	if h := w.seen(t); h.MAC != bob || !slices.Equal(h.Addresses, []netip.Addr{netip.MustParseAddr("10.0.0.2")}) {
		t.Errorf("told of %+v", h)
	}
	w.host(at(2, 3), sampleFrames["spanning tree"].frame)
	w.wantHosts(t, "a 2/2: [10.0.0.1 2001:db8::1 fe80::1]", "b 1/3: [10.0.0.2]", "c 2/3: [10.0.0.9]")
}

func TestNoHostsAtLinks(t *testing.T) {
	w := line(t, 2)
	w.host(at(1, 2), arp(alice, "10.0.0.1"))
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t)

	delete(w.wires, at(1, 2)) // one direction is a link at both ends, too
	w.advance(6 * Interval)
	w.wantLinks(t, Link{at(2, 1), at(1, 2)})
	w.host(at(1, 2), arp(alice, "10.0.0.1"))
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t)
}

// A switch that has lost its controllers goes on to forward, so what comes from it is of hosts elsewhere.
func TestNoHostsBehindASwitchThatIsDown(t *testing.T) {
	w := line(t, 2)
	w.stop(1)
	w.advance(2 * Settle)
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t)
	w.setPort(at(2, 1), false) // and now it has another cable
	w.setPort(at(2, 1), true)
	w.advance(Settle)
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t, "a 2/1: [10.0.0.1]")
}

// Frames that pass a port before it is known as the port of a link create no hosts there.
func TestPortsSettle(t *testing.T) {
	w := line(t, 2)
	w.setPort(at(1, 2), false)
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t)
	w.advance(Settle)
	w.host(at(2, 1), arp(alice, "10.0.0.1"))
	w.wantHosts(t, "a 2/1: [10.0.0.1]")
	w.told = nil
	w.setPort(at(1, 2), true)
	w.wantHosts(t)
	if want := (HostGone{[]app.MAC{alice}}); !slices.ContainsFunc(w.told,
		func(m any) bool { return cmp.Equal(m, want) }) {
		t.Errorf("told %+v", w.told)
	}
	w.setPort(at(1, 3), false)
	w.setPort(at(1, 3), true)
	w.host(at(1, 3), arp(bob, "10.0.0.2"))
	w.wantHosts(t)
}

// The same if a link is found there. After a silent failure its ports become edge ports only when they have been
// down.
func TestPortsSettleAfterALink(t *testing.T) {
	w := newWorld(t)
	w.start(1, 2)
	w.start(2, 2)
	w.advance(2 * Settle)
	both := func() {
		w.host(at(1, 2), arp(alice, "10.0.0.1"))
		w.host(at(2, 1), arp(bob, "10.0.0.2"))
	}
	both()
	w.wantHosts(t, "a 1/2: [10.0.0.1]", "b 2/1: [10.0.0.2]")
	w.wires[at(1, 2)] = at(2, 1)
	w.advance(2 * Interval)
	w.wantHosts(t)
	clear(w.wires)
	for i := 0; len(w.check().linksUp()) > 0 && i < 200; i++ {
		w.advance(Settle / 10)
	}
	w.wantLinks(t)
	w.advance(2 * Interval)
	both()
	w.wantHosts(t)
	for _, p := range []app.PortOf{at(1, 2), at(2, 1)} {
		w.setPort(p, false)
		w.setPort(p, true)
	}
	both()
	w.wantHosts(t)
	w.advance(Settle)
	both()
	w.wantHosts(t, "a 1/2: [10.0.0.1]", "b 2/1: [10.0.0.2]")
}

func TestHostMoves(t *testing.T) {
	w := line(t, 2)
	w.host(at(1, 1), arp(alice, "10.0.0.1"))
	w.told = nil
	w.host(at(2, 2), arp(alice, "10.0.0.1")) // too early
	w.host(at(1, 2), arp(alice, "10.0.0.1")) // arrives over a link
	if len(w.told) > 0 {
		t.Errorf("told %+v", w.told)
	}
	w.advance(Settle)
	w.host(at(2, 2), arp(alice, "10.0.0.1"))
	if h := w.seen(t); h.At != at(2, 2) {
		t.Errorf("told of %+v", h)
	}
	w.setPort(at(1, 1), false) // where it is no more
	w.wantHosts(t, "a 2/2: [10.0.0.1]")
}

func TestHostsGo(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *world)
		gone []app.MAC
	}{
		"port":   {func(w *world) { w.setPort(at(2, 2), false) }, []app.MAC{alice}},
		"switch": {func(w *world) { w.stop(2) }, []app.MAC{alice, bob}},
	} {
		w := line(t, 2)
		w.host(at(2, 2), arp(alice, "10.0.0.1"))
		w.host(at(2, 3), arp(bob, "10.0.0.2"))
		w.host(at(1, 3), arp(server, "10.0.0.9"))
		w.told = nil
		c.do(w)
		if len(w.check().Hosts) != 3-len(c.gone) {
			t.Errorf("%s: hosts %v", name, w.view().Hosts)
		}
		want := HostGone{c.gone}
		if !slices.ContainsFunc(w.told, func(m any) bool { return cmp.Equal(m, want) }) {
			t.Errorf("%s: told %+v", name, w.told)
		}
		w.advance(10 * Interval) // time alone removes no host
		if n := len(w.check().Hosts); n != 3-len(c.gone) {
			t.Errorf("%s: %d hosts", name, n)
		}
	}
}

// Packets without news write nothing, except at long intervals.
func TestSeenIsCoarse(t *testing.T) {
	w := line(t, 1)
	w.host(at(1, 1), arp(alice, "10.0.0.1"))
	first := w.view().Hosts[0].Seen
	for range 5 {
		w.advance(seenGrain/6 + 1)
		w.host(at(1, 1), arp(alice, "10.0.0.1"))
		if got := w.view().Hosts[0].Seen; !got.Equal(first) {
			t.Fatalf("seen %v, then %v", first, got)
		}
	}
	w.advance(seenGrain / 6)
	w.host(at(1, 1), arp(alice, "10.0.0.1"))
	if got := w.view().Hosts[0].Seen; got.UnixNano() != w.Now {
		t.Errorf("seen %v, at %d", got, w.Now)
	}
}

func TestAddressesAreBounded(t *testing.T) {
	w := line(t, 1)
	for i := range 2 * maxAddresses { // a router forwards what others send
		w.host(at(1, 1), udp(alice, bob, fmt.Sprintf("10.0.1.%d", i+1), "10.0.0.2", 1, 2, nil))
	}
	if n := len(w.told); n != maxAddresses {
		t.Errorf("told %d times, want %d", n, maxAddresses)
	}
	w.told = nil
	w.host(at(1, 1), arp(alice, "10.0.0.1")) // its own address replaces the first
	h := w.seen(t)
	if len(h.Addresses) != maxAddresses || h.Addresses[0].String() != "10.0.1.2" ||
		h.Addresses[maxAddresses-1].String() != "10.0.0.1" {
		t.Errorf("addresses %v", h.Addresses)
	}
}

func numbered(n int) (a app.MAC) {
	a[0], a[1] = 2, 1
	binary.BigEndian.PutUint32(a[2:], uint32(n))
	return a
}

func TestHostsAreBounded(t *testing.T) {
	w := line(t, 1)
	w.host(at(1, 2), arp(bob, "10.0.0.2"))
	fill := func(from int) {
		for i := range maxHostsPerPort {
			w.packetIn(at(1, 1), arp(numbered(from+i), "0.0.0.0"))
		}
	}
	fill(1)
	w.advance(2 * seenGrain)
	fill(2) // one more than there is room for
	s := w.check()
	if len(s.Hosts) != maxHostsPerPort+1 || s.HostsRefused != 1 {
		t.Fatalf("%d hosts, %d refused", len(s.Hosts), s.HostsRefused)
	}
	w.packetIn(at(1, 1), arp(bob, "10.0.0.2")) // there is no room for a host that moves either: it stays
	if s = w.check(); s.HostsRefused != 2 || !slices.ContainsFunc(s.Hosts,
		func(h HostView) bool { return h.MAC == bob && h.At == at(1, 2) }) {
		t.Errorf("%d refused, hosts %v", s.HostsRefused, s.Hosts)
	}
	w.advance(hostAge - time.Second)
	w.packetIn(at(1, 1), arp(numbered(maxHostsPerPort), "0.0.0.0"))
	w.advance(2 * time.Second)
	w.told = nil
	w.packetIn(at(1, 1), arp(bob, "10.0.0.2")) // silent hosts now make room; it is one of them
	s = w.wantHosts(t, "b 1/1: [10.0.0.2]", "0 1/1: []")
	if s.HostsRefused != 2 || len(w.told) != 2 || len(w.told[0].(HostGone).Hosts) != maxHostsPerPort {
		t.Errorf("%d refused, told %d things", s.HostsRefused, len(w.told))
	}
}
