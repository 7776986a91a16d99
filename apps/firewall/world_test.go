package firewall

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// frame is what rules match.
type frame struct {
	in       app.Port
	vlan     uint16 // 0: no tag
	protocol string // arp, lldp, tcp, udp, icmp, icmpv6, or ospf
	src, dst netip.Addr
	from, to uint16 // ports
	data     []byte // of it; nil: not made yet
}

var numbers = map[string]layers.IPProtocol{"tcp": layers.IPProtocolTCP, "udp": layers.IPProtocolUDP,
	"icmp": layers.IPProtocolICMPv4, "icmpv6": layers.IPProtocolICMPv6, "ospf": layers.IPProtocolOSPF}

func (f *frame) isIP() bool { return numbers[f.protocol] != 0 }

func (f *frame) ported() bool { return f.protocol == "tcp" || f.protocol == "udp" }

// bytes returns the frame as it is on the wire.
func (f *frame) bytes(t apptest.Tester) []byte {
	mac := []byte{2, 0, 0, 0, 0, 1}
	kind := layers.EthernetTypeIPv4
	switch {
	case f.protocol == "arp":
		kind = layers.EthernetTypeARP
	case f.protocol == "lldp":
		kind = layers.EthernetTypeLinkLayerDiscovery
	case f.src.Is6():
		kind = layers.EthernetTypeIPv6
	}
	ether := &layers.Ethernet{SrcMAC: mac, DstMAC: mac, EthernetType: kind}
	parts := []gopacket.SerializableLayer{ether}
	if f.vlan > 0 {
		ether.EthernetType = layers.EthernetTypeDot1Q
		parts = append(parts, &layers.Dot1Q{VLANIdentifier: f.vlan, Type: kind})
	}
	switch {
	case !f.isIP():
	case f.src.Is6():
		parts = append(parts, &layers.IPv6{Version: 6, HopLimit: 9, SrcIP: f.src.AsSlice(), DstIP: f.dst.AsSlice(),
			NextHeader: numbers[f.protocol]})
	default:
		parts = append(parts, &layers.IPv4{Version: 4, IHL: 5, TTL: 9, SrcIP: f.src.AsSlice(), DstIP: f.dst.AsSlice(),
			Protocol: numbers[f.protocol]})
	}
	switch f.protocol {
	case "tcp":
		parts = append(parts, &layers.TCP{SrcPort: layers.TCPPort(f.from), DstPort: layers.TCPPort(f.to), DataOffset: 5})
	case "udp":
		parts = append(parts, &layers.UDP{SrcPort: layers.UDPPort(f.from), DstPort: layers.UDPPort(f.to)})
	}
	parts = append(parts, gopacket.Payload(make([]byte, 40)))
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, parts...); err != nil {
		t.Fatalf("%+v: %v", f, err)
	}
	return b.Bytes()
}

// decides is the reference: whether a list allows a frame at a switch.
func decides(l *List, at app.Switch, f *frame) bool {
	for _, r := range l.Rules {
		if has(&r, at, f) {
			return r.Action == "allow"
		}
	}
	return l.Default == "allow"
}

func has(r *Rule, at app.Switch, f *frame) bool {
	if r.Switch != "" && r.Switch != at.String() || r.Port != 0 && r.Port != f.in || r.VLAN != nil && *r.VLAN != f.vlan {
		return false
	}
	switch r.Protocol {
	case "", f.protocol:
	case "ipv4", "ipv6":
		if !f.isIP() || f.src.Is4() != (r.Protocol == "ipv4") {
			return false
		}
	case "89":
		if f.protocol != "ospf" {
			return false
		}
	default:
		return false
	}
	for text, a := range map[string]netip.Addr{r.Source: f.src, r.Destination: f.dst} {
		if text != "" && (!f.isIP() || !netip.MustParsePrefix(text).Contains(a)) {
			return false
		}
	}
	if r.Source != "" && !netip.MustParsePrefix(r.Source).Contains(f.src) {
		return false // both texts may be the same
	}
	for _, p := range []struct {
		text string
		n    uint16
	}{{r.SourcePorts, f.from}, {r.DestinationPorts, f.to}} {
		var lo, hi uint16
		if p.text == "" {
			continue
		}
		if n, _ := fmt.Sscanf(p.text, "%d-%d", &lo, &hi); n == 1 {
			hi = lo
		}
		if !f.ported() || p.n < lo || p.n > hi {
			return false
		}
	}
	return true
}

// world is switches that execute what the application sends, one command at a time.
type world struct {
	t        apptest.Tester
	config   Config
	net      *apptest.Net
	app      *app.App
	switches map[app.Switch]*vswitch.Switch
	after    func(app.Switch) // is called after each command; may be nil
}

func newWorld(t apptest.Tester, groups uint64, c Config) *world {
	a := New(c)
	return &world{t: t, config: c, app: a, net: apptest.NewOf(t, groups, a), switches: map[app.Switch]*vswitch.Switch{}}
}

const exit = 9 // the port by which frames leave that pass

// boot replaces a switch by one whose tables are as another application has left them, and where Next sends frames to
// exit.
func (w *world) boot(id app.Switch, maxFlows int) {
	s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, exit), MaxFlows: maxFlows})
	w.switches[id] = s
	s.Open(0, 1)
	pass := of13.Instructions(nil).Apply(of13.Actions(nil).Output(exit, 0))
	for table := range Next + 1 {
		s.Message(0, 1, (&of13.FlowMod{TableID: table, BufferID: of13.NoBuffer, Priority: 2000,
			Instructions: pass}).Append(nil, 2))
	}
	s.Take(1)
}

// up connects a switch, and has it and the others do what they are sent.
func (w *world) up(id app.Switch) {
	w.t.Helper()
	w.do(w.net.SwitchUp(id))
}

func (w *world) put(l List) {
	w.t.Helper()
	body, err := json.Marshal(l)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if r := w.net.Call(w.app, "PUT /list", app.Request{Body: body}); r.Status != 0 {
		w.t.Fatalf("%s: %d %s", body, r.Status, r.Body)
	}
}

// do executes commands, and what the application sends because of the answers and its timers.
func (w *world) do(sent []apptest.Sent) {
	w.t.Helper()
	for round := 0; ; round++ {
		for _, c := range sent {
			s := w.switches[c.Switch]
			s.Message(0, 1, c.Message.Append(nil, c.XID))
			if w.after != nil {
				w.after(c.Switch)
			}
		}
		sent = nil
		for id, s := range w.switches {
			for _, msg := range s.Take(1) {
				sent = append(sent, w.net.Event(id, msg)...)
			}
		}
		if sent = append(sent, w.net.Advance(10)...); len(sent) == 0 {
			return
		}
		if round > 20 {
			w.t.Fatalf("the application goes on to send: %v", sent)
		}
	}
}

// passes reports whether a frame leaves a switch.
func (w *world) passes(id app.Switch, f *frame) bool {
	if f.data == nil {
		f.data = f.bytes(w.t)
	}
	s := w.switches[id]
	s.Frame(0, f.in, f.data)
	return len(s.Frames()) > 0
}

func (w *world) status(id app.Switch) (s Status) {
	w.t.Helper()
	r := w.net.Call(w.app, "GET /switches/{switch}", app.Request{Values: map[string]string{"switch": id.String()}})
	if err := json.Unmarshal(r.Body, &s); err != nil {
		w.t.Fatalf("status of %v: %d %s", id, r.Status, r.Body)
	}
	return s
}
