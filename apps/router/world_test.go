package router

import (
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

const configuration = `{"interfaces":[` +
	`{"name":"lan","mac":"02:01:00:00:00:01","ports":[1,2],"addresses":["10.0.1.1/24","2001:db8:1::1/64"]},` +
	`{"name":"wan","mac":"02:01:00:00:00:02","ports":[3],"addresses":["10.0.2.1/24","2001:db8:2::1/64"]}],` +
	`"routes":[{"prefix":"0.0.0.0/0","via":"10.0.2.2"},{"prefix":"2001:db8:9::/48","via":"2001:db8:2::2"}]}`

var (
	lan = of13.MAC{2, 1, 0, 0, 0, 1}
	wan = of13.MAC{2, 1, 0, 0, 0, 2}
)

// host is at a port of the switch.
type host struct {
	mac  of13.MAC
	port app.Port
	ip   [2]netip.Addr // of IPv4 and IPv6
}

func hostAt(n byte, port app.Port, subnet byte) host {
	v6 := netip.MustParseAddr("2001:db8::").As16()
	v6[5], v6[15] = subnet, n
	return host{of13.MAC{2, 0, 0, 0, 0, n}, port, [2]netip.Addr{netip.AddrFrom4([4]byte{10, 0, subnet, n}),
		netip.AddrFrom16(v6)}}
}

var alice, bob = hostAt(10, 1, 1), hostAt(2, 3, 2)

// world is a switch that executes what the application sends, and what it transmits.
type world struct {
	t       apptest.Tester
	net     *apptest.Net
	app     *app.App
	s       *vswitch.Switch
	packets int // that the switch has sent to the controllers
	seen    []vswitch.Frame
}

const id = 7

func newWorld(t apptest.Tester, groups uint64) *world {
	a := New()
	w := &world{t: t, app: a, net: apptest.NewOf(t, groups, a),
		s: vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 4)})}
	w.s.Open(0, 1)
	w.s.Take(1)
	w.do(w.net.SwitchUp(id))
	return w
}

func (w *world) put(config string) {
	w.t.Helper()
	if status, text := w.call("PUT", "7", config); status != 204 {
		w.t.Fatalf("%s: %d %s", config, status, text)
	}
	w.do(w.net.SwitchUp(id)) // the commands of the call have gone; these are the same
}

func (w *world) call(method, at, body string) (int, string) {
	w.t.Helper()
	r := w.net.Call(w.app, method+" /{switch}", app.Request{Method: method, Values: map[string]string{"switch": at},
		Body: []byte(body)})
	return r.Status, string(r.Body)
}

// do executes commands, and what the application sends because of packets of the switch.
func (w *world) do(sent []apptest.Sent) {
	w.t.Helper()
	for len(sent) > 0 {
		for _, c := range sent {
			w.s.Message(0, 1, c.Message.Append(nil, c.XID))
			w.take()
		}
		sent = w.events()
	}
}

func (w *world) take() {
	for _, f := range w.s.Frames() {
		w.seen = append(w.seen, vswitch.Frame{Port: f.Port, Data: append([]byte(nil), f.Data...)})
	}
}

// events hands what the switch has sent to the application.
func (w *world) events() (sent []apptest.Sent) {
	w.t.Helper()
	for _, msg := range w.s.Take(1) {
		if msg[1] == of13.TypeError {
			m, _ := of13.Decode(msg)
			w.t.Fatalf("the switch refuses a command: %v", m)
		}
		if msg[1] == of13.TypePacketIn {
			w.packets++
			sent = append(sent, w.net.Event(id, msg)...)
		}
	}
	return sent
}

// send sends a frame from a port, and returns what the switch transmits because of it.
func (w *world) send(port app.Port, frame []byte) []vswitch.Frame {
	w.t.Helper()
	w.seen = nil
	w.s.Frame(0, port, frame)
	w.take()
	w.do(w.events())
	return w.seen
}

// ping is an echo request.
func ping(src, dst of13.MAC, from, to netip.Addr, ttl byte) []byte {
	ether := &layers.Ethernet{SrcMAC: src[:], DstMAC: dst[:], EthernetType: layers.EthernetTypeIPv4}
	parts := []gopacket.SerializableLayer{ether}
	if from.Is4() {
		parts = append(parts, &layers.IPv4{Version: 4, TTL: ttl, SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
			Protocol: layers.IPProtocolICMPv4}, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Seq: 1})
	} else {
		ether.EthernetType = layers.EthernetTypeIPv6
		ip := &layers.IPv6{Version: 6, HopLimit: ttl, SrcIP: from.AsSlice(), DstIP: to.AsSlice(),
			NextHeader: layers.IPProtocolICMPv6}
		icmp := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(128, 0)}
		_ = icmp.SetNetworkLayerForChecksum(ip) // no error for IPv6
		parts = append(parts, ip, icmp, &layers.ICMPv6Echo{SeqNumber: 1})
	}
	return write(parts...)
}

func write(parts ...gopacket.SerializableLayer) []byte {
	b := gopacket.NewSerializeBuffer()
	how := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(b, how, parts...); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// answers has a host answer what asks for it.
func (w *world) answers(h host, frames []vswitch.Frame) (more []vswitch.Frame) {
	w.t.Helper()
	for _, f := range frames {
		n, ok := packet.ParseNeighbour(f.Data)
		if ok && f.Port == h.port && (n.Asks == h.ip[0] || n.Asks == h.ip[1]) {
			more = append(more, w.send(h.port, n.Reply(h.mac))...)
		}
	}
	return more
}
