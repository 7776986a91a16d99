package balancer

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

const body = `{"mac": "02:01:00:00:00:64", "servers": [` +
	`{"address": "10.0.0.2", "mac": "02:00:00:00:00:02", "port": 2},` +
	`{"address": "10.0.0.3", "mac": "02:00:00:00:00:03", "port": 3}]}`

func call(net *apptest.Net, a *app.App, method, address, body string) (int, string) {
	r := net.Call(a, method+" /{address}", app.Request{Method: method, Values: map[string]string{"address": address},
		Body: []byte(body)})
	return r.Status, string(r.Body)
}

// frame is a packet of IPv4, or a request of ARP, of host n to an address.
func frame(n byte, arp bool, to netip.Addr) string {
	src, dst := of13.MAC{2, 0, 0, 0, 0, n}, of13.MAC{2, 1, 0, 0, 0, 100}
	if arp {
		asked := packet.Packet{Src: dst, From: to, To: netip.AddrFrom4([4]byte{10, 0, 0, n})}
		b := asked.Reply(src) // from src, who has n, to dst
		b[21] = packet.ARPRequest
		return string(b)
	}
	b := append(append(append([]byte(nil), dst[:]...), src[:]...), 8, 0, 0x45)
	b = append(append(b, make([]byte, 11)...), 10, 0, 0, n)
	return string(append(append(b, to.AsSlice()...), make([]byte, 20)...))
}

// Servers get hosts in turn, whichever switch these are at, and the virtual address answers requests of ARP.
func TestBalancer(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		a := New()
		net := apptest.NewOf(t, groups, a)
		for id := range 3 {
			net.SwitchUp(app.Switch(id + 1))
		}
		if got := net.PacketIn(1, 1, of13.NoBuffer, frame(1, false, vip)); len(got) > 0 {
			t.Errorf("nobody has the address, and a switch gets %v", got)
		}
		if status, text := call(net, a, "PUT", "10.0.0.100", body); status != http.StatusNoContent {
			t.Fatal(status, text)
		}
		got := net.PacketIn(1, 7, of13.NoBuffer, frame(1, true, vip))
		reply, ok := packet.Parse(got[0].Message.(*of13.PacketOut).Data)
		if !ok || reply.ARP != packet.ARPReply || reply.From != vip || reply.Src != (of13.MAC{2, 1, 0, 0, 0, 100}) {
			t.Errorf("a request of ARP is answered by %+v", reply)
		}
		for i := range 6 {
			id := app.Switch(i%3 + 1)
			got := net.PacketIn(id, 7, of13.NoBuffer, frame(byte(i+1), false, vip))
			if len(got) != 3 || got[0].Switch != id {
				t.Fatalf("packet %d: %v", i, got)
			}
			to := got[1].Message.(*of13.FlowMod)
			out := got[2].Message.(*of13.PacketOut)
			if want := of13.Port(2 + i%2); !strings.Contains(fmt.Sprint(to.Instructions), fmt.Sprint(out.Actions)) &&
				string(to.Instructions[8:]) != string(out.Actions) || !outputsTo(out.Actions, want) {
				t.Errorf("packet %d leaves by %v, want port %d", i, out.Actions, want)
			}
		}
		if got := net.PacketIn(1, 1, of13.NoBuffer, frame(1, false, netip.MustParseAddr("10.0.0.9"))); len(got) > 0 {
			t.Errorf("a packet to another host: %v", got)
		}
		if status, text := call(net, a, "GET", "10.0.0.100", ""); status != 0 || !strings.Contains(text, `"chosen":6`) {
			t.Error(status, text)
		}
		call(net, a, "DELETE", "10.0.0.100", "")
		if got := net.PacketIn(1, 1, of13.NoBuffer, frame(1, false, vip)); len(got) > 0 {
			t.Errorf("the address is removed, and a switch gets %v", got)
		}
	}
}

// flow is host 1, at a port of a switch that executes its commands, and server 2 at port 2.
type flow struct {
	net    *apptest.Net
	device *vswitch.Switch
	now    time.Duration
}

var vip = netip.MustParseAddr("10.0.0.100")

func newFlow(t *testing.T) *flow {
	a := New()
	f := &flow{net: apptest.New(t, a), device: vswitch.New(vswitch.Config{DatapathID: 1, Ports: vswitch.Ports(1, 4)})}
	f.device.Open(0, 1)
	f.device.Take(1)
	f.do(f.net.SwitchUp(1))
	one := body[:strings.Index(body, ",{")] + "]}"
	if status, text := call(f.net, a, "PUT", vip.String(), one); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	return f
}

func (f *flow) do(sent []apptest.Sent) {
	for _, c := range sent {
		f.device.Message(f.now, 1, c.Message.Append(nil, c.XID))
	}
}

// send sends a frame into a port, and returns the ports by which it leaves.
func (f *flow) send(in app.Port, data string) (by []app.Port) {
	f.device.Frame(f.now, in, []byte(data))
	for _, msg := range f.device.Take(1) {
		if msg[1] == of13.TypePacketIn {
			f.do(f.net.Event(1, msg))
		}
	}
	for _, frame := range f.device.Frames() {
		by = append(by, frame.Port)
	}
	return by
}

// A host hears a server that answers late.
func TestServerAnswersLate(t *testing.T) {
	f := newFlow(t)
	for range 5 {
		if by := f.send(1, frame(1, false, vip)); !slices.Equal(by, []app.Port{2}) {
			t.Fatalf("a packet for the server leaves by %v", by)
		}
		f.now += IdleTimeout * time.Second * 2 / 3
		f.device.Tick(f.now)
	}
	if by := f.send(2, frame(2, false, netip.MustParseAddr("10.0.0.1"))); !slices.Equal(by, []app.Port{1}) {
		t.Errorf("the answer leaves by %v", by)
	}
}

// A host that has moved hears a server at its new port.
func TestHostMoves(t *testing.T) {
	f := newFlow(t)
	f.send(1, frame(1, false, vip))
	f.send(3, frame(1, false, vip))
	if by := f.send(2, frame(2, false, netip.MustParseAddr("10.0.0.1"))); !slices.Equal(by, []app.Port{3}) {
		t.Errorf("the answer leaves by %v", by)
	}
}

// outputsTo reports whether the last action is an output to a port.
func outputsTo(a of13.Actions, port of13.Port) bool {
	want := of13.Actions(nil).Output(port, 0)
	return strings.HasSuffix(string(a), string(want))
}

func TestRefuses(t *testing.T) {
	a := New()
	net := apptest.New(t, a)
	if status, text := call(net, a, "PUT", "10.0.0.99", body); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	for _, c := range []struct{ address, body, want string }{
		{"10.0.0.100", "{", "no virtual address"},
		{"a", body, `"a" is no address of IPv4`},
		{"010.0.0.1", body, "no address of IPv4"},
		{"::1", body, "no address of IPv4"},
		{"10.0.0.100", `{"mac": "02:01:00:00:00:64"}`, "0 servers"},
		{"10.0.0.100", strings.Replace(body, "02:01:00:00:00:64", "x", 1), `mac "x"`},
		{"10.0.0.100", strings.Replace(body, `"port": 2`, `"port": 0`, 1), "port 0"},
		{"10.0.0.100", strings.Replace(body, "10.0.0.2", "::2", 1), "server ::2"},
		{"10.0.0.101", body, "server 10.0.0.2 serves 10.0.0.99"},
	} {
		if status, text := call(net, a, "PUT", c.address, c.body); status != http.StatusBadRequest ||
			!strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %q, want %q", c.address, c.body, status, text, c.want)
		}
	}
	if status, _ := call(net, a, "GET", "10.0.0.100", ""); status != http.StatusNotFound {
		t.Error(status)
	}
}
