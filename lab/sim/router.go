package sim

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/router"
	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// routerTrial is a router at each switch, and a subnet with a host behind it. The routes to the upper half of a subnet
// are longer, and may lead another way than those to the whole of it. A router forwards as the longest prefix says, or
// not at all, so no packet goes round in circles, and what it says about Ethernet addresses is true.
type routerTrial struct {
	web
	configs [][]byte                               // by switch
	toward  [2][]map[openflow.DatapathID]of13.Port // by half of a subnet, and by the switch that it is at
	heard   map[[2]netip.Addr]bool                 // at the end: from one address to another
	ended   bool
}

const startTTL = 64

// The addresses of half h of the subnet at a switch: of the host, and of the router.
func hostIP(id openflow.DatapathID, half int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 0, byte(id), byte(3 + half*128)})
}

func lanIP(id openflow.DatapathID) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(id), 1}) }

func hostMAC(id openflow.DatapathID) app.MAC { return app.MAC{2, 2, 0, 0, 0, byte(id)} }

func routerMAC(at app.PortOf) app.MAC { return app.MAC{2, 1, 0, 0, byte(at.Switch), byte(at.Port)} }

// linkIP is the address of a router at a link, whose subnet has the numbers of both switches.
func linkIP(at, to openflow.DatapathID) netip.Addr {
	host := byte(1)
	if at > to {
		host = 2
	}
	return netip.AddrFrom4([4]byte{10, byte(100 + min(at, to)), byte(max(at, to)), host})
}

func newRouterTrial(s *simulation) trial {
	return &routerTrial{web: web{s, router.New()}, heard: map[[2]netip.Addr]bool{}}
}

func (t *routerTrial) applications() []*app.App { return []*app.App{t.s.wires(), router.New()} }

// actor is one at a switch, which moves with all that is there.
func (t *routerTrial) actor() ledger.Actor { return t.s.aSwitch() }

func (t *routerTrial) start() {
	closing := t.s.cables[len(t.s.cables)-1]
	for _, n := range t.s.switches {
		all, other := t.s.toward(n.id, nil), t.s.toward(n.id, closing)
		if len(other) < len(all) {
			other = all
		}
		t.toward[0], t.toward[1] = append(t.toward[0], all), append(t.toward[1], other)
	}
	for _, n := range t.s.switches {
		body, _ := json.Marshal(t.config(n)) // it can be
		t.configs = append(t.configs, body)
		t.work(n)
		t.send(n)
	}
}

func (t *routerTrial) config(n *switchNode) (c router.Config) {
	add := func(port of13.Port, a netip.Addr) {
		c.Interfaces = append(c.Interfaces, router.Interface{Name: fmt.Sprint(port), Ports: []app.Port{port},
			MAC:       packet.HostMAC(routerMAC(app.PortOf{Switch: n.id, Port: port})),
			Addresses: []netip.Prefix{netip.PrefixFrom(a, 24)}})
	}
	add(census.HostPort, lanIP(n.id))
	for i := range n.cables {
		if to, linked := n.beyond(of13.Port(i + 1)); linked {
			add(of13.Port(i+1), linkIP(n.id, to.Switch))
		}
	}
	for half, bits := range []int{24, 25} {
		for i, toward := range t.toward[half] {
			if to, linked := n.beyond(toward[n.id]); linked {
				p, _ := hostIP(openflow.DatapathID(i+1), half).Prefix(bits)
				c.Routes = append(c.Routes, packet.Route{Prefix: p, Via: linkIP(to.Switch, n.id)})
			}
		}
	}
	return c
}

// work ends the router of a switch and configures it again until the traffic ends, and then once more, when nothing of
// before can come late.
func (t *routerTrial) work(n *switchNode) {
	put := func(body []byte, then func()) {
		q := app.Request{Values: map[string]string{"switch": n.id.String()}, Body: body}
		t.ask("PUT /{switch}", q, func(r app.Response) {
			if r.Status >= http.StatusBadRequest {
				t.s.w.fail("router %s is refused with status %d: %s", n.id, r.Status, r.Body)
			}
			then()
		})
	}
	if !t.s.traffic {
		t.s.w.after(callPatience, nil, func() { put(t.configs[n.id-1], func() { t.ended = true }) })
		return
	}
	body := t.configs[n.id-1]
	if t.s.w.rand.IntN(4) == 0 {
		body = []byte("{}")
	}
	put(body, func() { t.s.w.after(t.s.w.upTo(4*time.Second), nil, func() { t.work(n) }) })
}

// send has the host of a switch send to another one from time to time, or ask for an address.
func (t *routerTrial) send(n *switchNode) {
	to := openflow.DatapathID(1 + t.s.w.rand.IntN(len(t.s.switches)))
	half, frame := t.s.w.rand.IntN(2), []byte(nil)
	switch {
	case to == n.id:
		asked := [2]netip.Addr{lanIP(n.id), lanIP(n.id).Next()} // nobody has the second one
		frame = packet.Ask(hostMAC(n.id), hostIP(n.id, half), asked[half])
	default:
		frame = udpFrame(routerMAC(app.PortOf{Switch: n.id, Port: census.HostPort}), hostMAC(n.id),
			hostIP(n.id, t.s.w.rand.IntN(2)).As4(), hostIP(to, half).As4())
	}
	t.arrives(n, frame)
	if t.unsettled() != "" {
		t.s.pause(func() { t.send(n) })
	}
}

func (t *routerTrial) arrives(n *switchNode, frame []byte) {
	if n.p.up {
		n.p.after(0, func() { n.frame(census.HostPort, frame) })
	}
}

// hear has the host of a switch answer, and look at what it gets.
func (t *routerTrial) hear(at *switchNode, frame []byte) {
	if m, ok := packet.ParseNeighbour(frame); ok {
		own := routerMAC(app.PortOf{Switch: at.id, Port: census.HostPort})
		if m.From != lanIP(at.id) || m.MAC != own {
			t.s.w.fail("router %s says that %v is at %v", at.id, m.From, m.MAC)
		}
		if m.Asks == hostIP(at.id, 0) || m.Asks == hostIP(at.id, 1) {
			t.arrives(at, m.Reply(hostMAC(at.id)))
		}
		return
	}
	p, ok := packet.ParseIP(frame)
	if !ok || p.Protocol != udp {
		return // of census, or an error of ICMP
	}
	from, to := openflow.DatapathID(p.From.As4()[2]), openflow.DatapathID(p.To.As4()[2])
	half := int(p.To.As4()[3] / 128)
	if to != at.id || p.Dst != hostMAC(at.id) || int(p.TTL) != startTTL-t.routers(from, to, half) {
		t.s.w.fail("the host of switch %s gets a packet from %v to %v with TTL %d for %v", at.id, p.From, p.To, p.TTL,
			p.Dst)
	}
	if t.ended {
		t.heard[[2]netip.Addr{p.From, p.To}] = true
	}
}

// routers is how many a packet crosses.
func (t *routerTrial) routers(from, to openflow.DatapathID, half int) int {
	n := 1
	for ; from != to && n <= len(t.s.switches); n++ {
		next, _ := t.s.switches[from-1].beyond(t.toward[half][to-1][from])
		from = next.Switch
	}
	return n
}

// look sends a packet to each host by each port of a switch.
func (t *routerTrial) look(at *switchNode, _ []byte) {
	for i := range at.cables {
		in := of13.Port(i + 1)
		if at.cables[i] == nil || len(t.configs) == 0 {
			continue
		}
		for _, to := range t.s.switches {
			for half := range 2 {
				t.follow(at, in, to.id, half)
			}
		}
	}
}

func (t *routerTrial) follow(at *switchNode, in of13.Port, to openflow.DatapathID, half int) {
	frame := udpFrame(routerMAC(app.PortOf{Switch: at.id, Port: in}), app.MAC{2, 3}, [4]byte{10, 9, 9, 9},
		hostIP(to, half).As4())
	out := at.forward(in, frame)
	if len(out) == 0 {
		return
	}
	port, next := census.HostPort, hostMAC(to)
	if to != at.id {
		port = t.toward[half][to-1][at.id]
		there, _ := at.beyond(port)
		next = routerMAC(there)
	}
	p, ok := packet.ParseIP(out[0].frame)
	if len(out) > 1 || !ok || out[0].at.Port != port || p.Dst != next || p.TTL != startTTL-1 ||
		p.Src != routerMAC(app.PortOf{Switch: at.id, Port: port}) {
		t.s.w.fail("router %s forwards a packet for %v that comes in by port %d as %+v, and not to %v by port %d",
			at.id, hostIP(to, half), in, out, next, port)
	}
}

func (t *routerTrial) unsettled() string {
	for _, from := range t.s.switches {
		for _, to := range t.s.switches {
			for half := range 2 {
				pair := [2]netip.Addr{hostIP(from.id, 0), hostIP(to.id, half)}
				if from != to && !t.heard[pair] {
					return fmt.Sprintf("no packet from %v has come to %v", pair[0], pair[1])
				}
			}
		}
	}
	return ""
}

const udp = 17

// udpFrame is a packet without payload.
func udpFrame(dst, src app.MAC, from, to [4]byte) []byte {
	b := slices.Concat(dst[:], src[:], []byte{0x08, 0x00, 0x45, 0, 0, 46, 0, 0, 0, 0, startTTL, udp, 0, 0}, from[:],
		to[:], []byte{0, 7, 0, 9, 0, 26, 0, 0}, make([]byte, 18))
	sum := uint32(0)
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	binary.BigEndian.PutUint16(b[24:], ^uint16(sum))
	return b
}
