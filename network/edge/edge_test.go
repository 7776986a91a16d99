package edge

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestWhoIsUnknownIsAskedEverywhere(t *testing.T) {
	w := triangle(t)
	w.ask(at(1, 3), ip(mac(2)))
	w.wantHeard("the first request", at(1, 4), at(2, 3), at(2, 4), at(3, 3), at(3, 4))
	w.ask(at(3, 3), ip(mac(2))) // the host has answered, and is known
	w.wantHeard("a request for a known host", at(2, 3))
	w.send(at(2, 3), ipv6(mac(2), 58, 255, neighbour(136, "fe80::2")...))
	w.wantHeard("an advertisement to all", w.others(at(2, 3))...)
	w.send(at(1, 3), ipv6(mac(1), 58, 255, neighbour(135, "fe80::2")...))
	w.wantHeard("a solicitation for a known host", at(2, 3))
	w.send(at(1, 3), udp4(mac(1), 67))
	w.wantHeard("DHCP", w.others(at(1, 3))...)
	w.ask(at(2, 3), ip(mac(2)))
	w.wantHeard("an announcement", w.others(at(2, 3))...)
}

func TestWhatIsNotSentOn(t *testing.T) {
	w := triangle(t)
	w.ask(at(1, 3), ip(mac(2)))
	clear(w.heard)
	ask := arp(1, mac(1), everyone, ip(mac(1)), ip(mac(9)))
	w.send(at(1, 3), append(slices.Clone(ask), make([]byte, maxLength)...)) // too long
	w.send(at(1, 3), ask[:41])                                              // cut off
	w.send(at(2, 3), arp(2, mac(2), mac(1), ip(mac(2)), ip(mac(1))))
	w.wantHeard("an answer, which switches forward")
	w.send(at(1, 1), arp(1, mac(7), everyone, ip(mac(7)), ip(mac(9))))
	w.wantHeard("what comes in from a link")
	w.send(at(2, 4), ask)
	w.wantHeard("what a host sends that is elsewhere")
	w.send(at(1, 3), udp4(mac(1), 5353))
	w.wantHeard("what is not discovery")
	short := of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: 100, Match: of13.Match(nil).WithInPort(3), Data: ask}
	w.take(w.net.Message(1, &short, 0))
	w.wantHeard("a frame of which only the beginning came")
	w.send(at(1, 4), arp(1, mac(8), everyone, ip(mac(8)), ip(mac(9))))
	w.wantHeard("what a new host sends", w.others(at(1, 4))...)
	w.ask(at(1, 3), ip(mac(8)))
	clear(w.heard)
	w.send(at(1, 4), arp(1, mac(9), everyone, ip(mac(9)), ip(mac(8))))
	w.wantHeard("a request for a host that was asked and has not answered", w.others(at(1, 4))...)
}

func TestHostsThatShare(t *testing.T) {
	w := triangle(t)
	w.send(at(1, 4), arp(1, mac(8), everyone, ip(mac(8)), ip(mac(8))))
	w.send(at(1, 4), arp(1, mac(9), everyone, ip(mac(9)), ip(mac(9))))
	clear(w.heard)
	w.send(at(1, 4), arp(1, mac(8), everyone, ip(mac(8)), ip(mac(9))))
	w.wantHeard("a request for a neighbour at the same port")

	w.send(at(2, 3), arp(1, mac(2), everyone, ip(mac(8)), ip(mac(8)))) // the address belongs to another host now
	w.setPort(at(1, 4), false)
	clear(w.heard)
	w.ask(at(1, 3), ip(mac(8)))
	w.wantHeard("a request for an address whose first host is gone", at(2, 3))
}

// A host with an address that belonged to another one is found by a second request.
func TestAskedAgain(t *testing.T) {
	w := triangle(t)
	for range 2 {
		w.ask(at(1, 3), ip(mac(2)))
	}
	clear(w.heard)
	w.hosts[at(2, 3)], w.hosts[at(3, 4)] = mac(9), mac(2) // it has moved without sending anything
	w.ask(at(1, 3), ip(mac(2)))
	w.wantHeard("the first request", at(2, 3))
	w.ask(at(1, 3), ip(mac(2)))
	w.wantHeard("the second", w.others(at(1, 3))...)
	w.advance(topology.Settle)
	w.ask(at(3, 4), ip(mac(1))) // hosts are learned at a port only after Settle
	clear(w.heard)
	w.ask(at(1, 3), ip(mac(2)))
	w.wantHeard("the third", at(3, 4))
}

func TestPortsComeAndGo(t *testing.T) {
	w := triangle(t)
	w.setPort(at(3, 4), false)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("without a port", at(1, 4), at(2, 3), at(2, 4), at(3, 3))
	w.setPort(at(3, 4), true)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("with a port that came just now", at(1, 4), at(2, 3), at(2, 4), at(3, 3))
	w.advance(topology.Settle)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("with it", w.others(at(1, 3))...)

	w.ports[at(2, 9)] = true
	w.take(w.net.Message(2, &of13.PortStatus{Reason: of13.PortAdd, Port: of13.PortDesc{Port: 9}}, 0))
	w.advance(topology.Settle)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("with a new port", w.others(at(1, 3))...)
	w.take(w.net.Message(2, &of13.PortStatus{Reason: of13.PortDelete, Port: of13.PortDesc{Port: 9}}, 0))
	delete(w.ports, at(2, 9))
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("when it is gone", w.others(at(1, 3))...)

	w.stop(3)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("without a switch", at(1, 4), at(2, 3), at(2, 4))
	w.start(3, 4)
	w.advance(topology.Settle + 200*time.Millisecond)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("when it is back", w.others(at(1, 3))...)
}

// A switch that is reachable again reports the ports that it had when its epoch began. When asked, it reports its
// current ports.
func TestPortsThatHaveChangedInTheEpoch(t *testing.T) {
	w := triangle(t)
	list := of13.List[of13.PortDesc](nil).With(of13.PortDesc{Port: 3}).With(of13.PortDesc{Port: 4,
		State: of13.PortStateLinkDown}).With(of13.PortDesc{Port: 5})
	w.ports[at(2, 4)], w.ports[at(2, 5)] = false, true
	// to the second application
	w.take(w.net.Message(2, &of13.MultipartReply{Part: of13.PartPortDesc, Body: list}, 2<<24|9))
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("with a port that came just now", at(1, 4), at(2, 3), at(3, 3), at(3, 4))
	w.advance(topology.Settle)
	w.ask(at(1, 3), ip(mac(9)))
	w.wantHeard("with it", at(1, 4), at(2, 3), at(2, 5), at(3, 3), at(3, 4))
}

// A port that a switch does not report is gone: it went away while no controller was connected.
func TestPortThatIsGoneInTheEpoch(t *testing.T) {
	w := triangle(t)
	w.asked = nil
	w.start(2, 4)
	list := of13.List[of13.PortDesc](nil).With(of13.PortDesc{Port: 1}).With(of13.PortDesc{Port: 2}).
		With(of13.PortDesc{Port: 3})
	for _, request := range w.asked { // of topology, and of edge
		w.take(w.net.Message(2, &of13.MultipartReply{Part: of13.PartPortDesc, Body: list}, request.XID))
	}
	w.advance(topology.Settle)
	clear(w.heard)
	w.ask(at(1, 3), ip(mac(9)))
	if w.heard[at(2, 3)] != 1 || w.heard[at(2, 4)] > 0 {
		t.Errorf("the frame left by %v", w.heard)
	}
}

// A link is lost silently and repaired, and topology notices both late. Nothing is sent into it.
func TestSilentLink(t *testing.T) {
	w := triangle(t)
	w.cut(at(1, 2))
	w.advance(6 * topology.Interval)
	w.wire(at(1, 2), at(2, 1))
	w.ask(at(1, 3), ip(mac(2)))
	w.wantHeard("over a mended link", w.others(at(1, 3))...)
	w.advance(2 * topology.Interval)
	w.setPort(at(1, 2), false)
	w.cut(at(1, 2))
	w.advance(2 * topology.Settle)
	w.hosts[at(2, 1)] = mac(5)
	w.ask(at(2, 1), ip(mac(9)))
	clear(w.heard)
	w.ask(at(1, 3), ip(mac(9)))
	want := w.others(at(1, 3))
	for i, p := range want {
		if p == at(1, 2) {
			want = append(want[:i], want[i+1:]...) // and the other end
			break
		}
	}
	w.wantHeard("to a host where a link was", want...)
}

func TestRates(t *testing.T) {
	w := triangle(t)
	for i := range byte(portRate + 5) {
		w.send(at(1, 3), arp(1, mac(i+10), everyone, ip(mac(i+10)), ip(mac(200))))
	}
	if n := w.heard[at(2, 3)]; n != portRate {
		t.Errorf("%d frames of one port were flooded in a second, want %d", n, portRate)
	}
	clear(w.heard)
	w.advance(time.Second)
	for i := range byte(networkRate + 50) {
		from := at(app.Switch(i%3+1), app.Port(3+i/3%2))
		w.send(from, arp(1, mac(i+10), everyone, ip(mac(i+10)), ip(mac(9))))
	}
	if n := w.heard[at(2, 3)]; n > networkRate || n < networkRate/2 {
		t.Errorf("%d frames were flooded in a second, want at most %d", n, networkRate)
	}
}

// A router is told where a host is, and a host that is not known is asked at the whole edge, within the rate.
func TestSeek(t *testing.T) {
	w := triangle(t)
	if got := w.seek(ip(mac(3))); len(got) > 0 {
		t.Errorf("a host that is not known is %v", got)
	}
	want := []Sought{{2, ip(mac(3)), mac(3)}}
	if got := w.seek(ip(mac(3))); !slices.Equal(got, want) {
		t.Errorf("a host that has answered is %v, want %v", got, want)
	}
	clear(w.heard)
	for range networkRate + 5 {
		w.seek(ip(mac(200)))
	}
	if n := w.heard[at(2, 3)]; n > networkRate || n < networkRate/2 {
		t.Errorf("%d requests of a router were flooded in a second, want at most %d", n, networkRate)
	}
}

// A flood that is too large for one transaction continues in others, and leaves by each port once.
func TestLargeFlood(t *testing.T) {
	const switches, ports = 140, 1000
	n := apptest.New(t, New())
	var list []of13.PortDesc
	for p := range app.Port(ports) {
		list = append(list, of13.PortDesc{Port: p + 1})
	}
	for id := range app.Switch(switches) {
		n.SwitchUp(id+1, list...)
	}
	n.Advance(2 * topology.Settle)
	sent := n.PacketIn(7, 7, of13.NoBuffer, string(arp(1, mac(1), everyone, ip(mac(1)), ip(mac(2)))))
	if len(sent) == 0 || len(sent) >= switches {
		t.Fatalf("%d messages at once", len(sent))
	}
	for range 4 {
		sent = append(sent, n.Advance(time.Millisecond)...)
	}
	seen := map[app.PortOf]bool{}
	for _, s := range sent {
		for a := range s.Message.(*of13.PacketOut).Actions.All() {
			p := at(s.Switch, a.Port)
			if seen[p] || p == at(7, 7) {
				t.Fatalf("twice by port %v, or back", p)
			}
			seen[p] = true
		}
	}
	if len(seen) != switches*ports-1 {
		t.Errorf("it left by %d ports, want %d", len(seen), switches*ports-1)
	}
}

// In any network, whatever happens to its links and hosts, a frame never returns, leaves by no port twice, and
// never crosses a link. A frame to all leaves by every port where a host can be.
func TestFloods(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t)
		cables := drawNetwork(rt, w)
		had := map[app.PortOf]bool{} // ports that had a link
		note := func() {
			for p := range w.wires {
				had[p] = true
			}
		}
		note()
		for step := range rapid.IntRange(1, 15).Draw(rt, "steps") {
			c := rapid.SampledFrom(cables).Draw(rt, "cable")
			switch what := rapid.SampledFrom([]string{"ask", "ask", "ask", "unknown", "unplug", "plug", "cut", "mend",
				"time"}).Draw(rt, "what"); what {
			case "ask", "unknown":
				from, target := drawHost(rt, w), ip(mac(200))
				if what == "ask" {
					target = ip(w.hosts[drawHost(rt, w)])
				}
				w.advance(time.Second)
				w.ask(from, target)
				if n := w.heard[from]; n > 0 || w.crossed > 0 {
					rt.Fatalf("step %d: %d frames came back to %v, %d went over links", step, n, from, w.crossed)
				}
				for p, n := range w.heard {
					if n > 1 || had[p] && w.ports[p] {
						rt.Fatalf("step %d: %d frames left by %v, which has been a link's: %v", step, n, p, had[p])
					}
				}
				for _, p := range w.others(from) {
					if what == "unknown" && !had[p] && w.heard[p] != 1 {
						rt.Fatalf("step %d: nothing left by port %v", step, p)
					}
				}
				clear(w.heard)
			case "unplug":
				w.cut(c[0])
				w.setPort(c[0], false)
				w.setPort(c[1], false)
			case "plug":
				w.wire(c[0], c[1])
				w.setPort(c[0], true)
				w.setPort(c[1], true)
			case "cut":
				w.cut(c[0])
			case "mend":
				w.wire(c[0], c[1])
			case "time":
				w.advance(time.Duration(rapid.IntRange(1, 12).Draw(rt, "seconds")) * time.Second)
			}
			note()
		}
	})
}

// drawNetwork connects switches at random, and attaches hosts to free ports.
func drawNetwork(t *rapid.T, w *world) (cables [][2]app.PortOf) {
	n := app.Switch(rapid.IntRange(1, 4).Draw(t, "switches"))
	var free []app.PortOf
	for id := range n {
		for p := range app.Port(5) {
			free = append(free, at(id+1, p+1))
		}
	}
	free = rapid.Permutation(free).Draw(t, "ports")
	for range rapid.IntRange(1, len(free)/2-1).Draw(t, "cables") {
		cables = append(cables, [2]app.PortOf{free[0], free[1]})
		w.wire(free[0], free[1])
		free = free[2:]
	}
	for i, p := range free[:rapid.IntRange(1, len(free)).Draw(t, "hosts")] {
		w.hosts[p] = mac(byte(i + 1))
	}
	for id := range n {
		w.start(id+1, 5)
	}
	w.advance(topology.Settle + 200*time.Millisecond)
	return cables
}

func drawHost(t *rapid.T, w *world) app.PortOf {
	for {
		p := at(app.Switch(rapid.IntRange(1, 4).Draw(t, "switch")), app.Port(rapid.IntRange(1, 5).Draw(t, "port")))
		if _, ok := w.hosts[p]; ok {
			return p
		}
	}
}

// groups is how many groups the switches are in.
var groups uint64 = 1

// The same happens if the switches, and what the applications have, are in three groups.
func TestSeveralGroups(t *testing.T) {
	groups = 3
	defer func() { groups = 1 }()
	for name, test := range map[string]func(*testing.T){
		"Floods":         TestFloods,
		"PortsComeAndGo": TestPortsComeAndGo,
		"AskedAgain":     TestAskedAgain,
		"SilentLink":     TestSilentLink,
	} {
		t.Run(name, test)
	}
}
