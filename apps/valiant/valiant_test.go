package valiant

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/edge"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// network is embedded switches, joined by links, under the application. Everything happens at once, in one goroutine.
type network struct {
	t        *testing.T
	net      *apptest.Net
	switches map[app.Switch]*vswitch.Switch
	links    map[app.PortOf]app.PortOf
	received map[app.PortOf][][]byte // by the port of the host
	carried  map[app.PortOf]int      // frames of hosts that left by a port
}

const degree = 8 // ports of a switch

func newNetwork(t *testing.T, switches int, links ...[2]app.PortOf) *network {
	n := &network{t: t, net: apptest.NewOf(t, groups, topology.New(), edge.New(), New()),
		switches: map[app.Switch]*vswitch.Switch{},
		links:    map[app.PortOf]app.PortOf{},
		received: map[app.PortOf][][]byte{}, carried: map[app.PortOf]int{}}
	for _, l := range links {
		n.links[l[0]], n.links[l[1]] = l[1], l[0]
	}
	for i := range switches {
		id := app.Switch(i + 1)
		s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(i+1, degree)})
		s.Open(0, 1)
		s.Take(1)
		n.switches[id] = s
	}
	for id := range app.Switch(switches) {
		n.send(n.net.SwitchUp(id+1, vswitch.Ports(int(id)+1, degree)...))
	}
	n.settle()
	n.advance(2 * topology.Settle) // so that links are found, and hosts may be
	return n
}

// advance lets time pass for the applications.
func (n *network) advance(d time.Duration) {
	for ; d > 0; d -= step {
		n.send(n.net.Advance(step))
		n.settle()
	}
}

const step = 50 * time.Millisecond

func (n *network) send(list []apptest.Sent) {
	for _, c := range list {
		n.switches[c.Switch].Message(0, 1, c.Message.Append(nil, 1<<24|9)) // of the first application
	}
}

// settle lets everything happen that follows from what has happened.
func (n *network) settle() {
	for range 1000 {
		busy := false
		for id := range app.Switch(len(n.switches)) {
			id++
			s := n.switches[id]
			for _, msg := range s.Take(1) {
				switch msg[1] {
				case of13.TypePacketIn, of13.TypePortStatus, of13.TypeMultipartReply:
					busy = true
					n.send(n.net.Event(id, msg))
				case openflow.TypeError:
					n.t.Fatalf("switch %s refuses a command: %x", id, msg)
				}
			}
			for _, f := range s.Frames() {
				busy = true
				n.carry(app.PortOf{Switch: id, Port: f.Port}, bytes.Clone(f.Data))
			}
		}
		if !busy {
			return
		}
	}
	n.t.Fatal("the network does not come to rest")
}

func (n *network) carry(from app.PortOf, frame []byte) {
	to, ok := n.links[from]
	probe := binary.BigEndian.Uint16(frame[12:]) == 0x88cc
	if !probe {
		n.carried[from]++
	}
	if ok {
		n.switches[to.Switch].Frame(0, to.Port, frame)
	} else if !probe {
		n.received[from] = append(n.received[from], frame)
	}
}

// host sends a frame into the network, and returns the frames, without probes, that came out of it by each port.
func (n *network) host(at app.PortOf, frame []byte) map[app.PortOf]int {
	clear(n.received)
	n.switches[at.Switch].Frame(0, at.Port, frame)
	n.settle()
	got := map[app.PortOf]int{}
	for port, list := range n.received {
		for _, f := range list {
			if !bytes.Equal(f, frame) {
				n.t.Fatalf("at %v there arrived %x", port, f)
			}
			got[port]++
		}
	}
	return got
}

// cut takes a link away, or brings it back; both ends notice.
func (n *network) cut(p app.PortOf, up bool) {
	peer := n.links[p]
	for _, end := range []app.PortOf{p, peer} {
		n.switches[end.Switch].SetPortLive(time.Second, end.Port, up)
	}
	n.settle()
	n.advance(topology.Settle)
}

func at(sw app.Switch, port app.Port) app.PortOf { return app.PortOf{Switch: sw, Port: port} }

var (
	alice, bob = app.MAC{2, 0, 0, 0, 0, 0xa}, app.MAC{2, 0, 0, 0, 0, 0xb}
	broadcast  = app.MAC{255, 255, 255, 255, 255, 255}
)

// udp is a packet from one address to another with a source port.
func udp(src, dst app.MAC, port uint16) []byte {
	f := append(append(append([]byte(nil), dst[:]...), src[:]...), 8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10,
		0, 0, src[5], 10, 0, 0, dst[5])
	f = binary.BigEndian.AppendUint16(f, port)
	return append(f, 0, 80, 0, 12, 0, 0, 'p', 'a', 'y', 'l')
}

// ping is a packet of another protocol.
func ping(src, dst app.MAC) []byte {
	f := udp(src, dst, 1)
	f[23] = 1 // ICMP
	return f
}

// announce is a gratuitous ARP request.
func announce(host app.MAC) []byte {
	f := append(append(append([]byte(nil), broadcast[:]...), host[:]...), 8, 6, 0, 1, 8, 0, 6, 4, 0, 1)
	address := []byte{10, 0, 0, host[5]}
	f = append(append(f, host[:]...), address...)
	return append(append(f, make([]byte, 6)...), address...)
}

// diamond has alice at switch 1 and bob at switch 4; from 1 to 4 lead ways over 2, over 3, and over 5 and 6.
func diamond(t *testing.T) *network {
	n := newNetwork(t, 6, [2]app.PortOf{at(1, 1), at(2, 1)}, [2]app.PortOf{at(2, 2), at(4, 1)},
		[2]app.PortOf{at(1, 2), at(3, 1)},
		[2]app.PortOf{at(3, 2), at(4, 2)}, [2]app.PortOf{at(1, 3), at(5, 1)}, [2]app.PortOf{at(5, 2), at(6, 1)},
		[2]app.PortOf{at(6, 2), at(4, 3)})
	n.host(aliceAt, announce(alice))
	n.host(bobAt, announce(bob))
	clear(n.carried)
	return n
}

var aliceAt, bobAt = at(1, 8), at(4, 8)

// Hosts find each other by package edge; what is for everybody else, or for nobody known, goes nowhere.
func TestWhatIsForOneHostOnly(t *testing.T) {
	n := diamond(t)
	if got := n.host(aliceAt, announce(alice)); len(got) != 6*degree-len(n.links)-1 || got[aliceAt] != 0 {
		t.Errorf("an announcement left by %v", got)
	}
	for _, dst := range []app.MAC{broadcast, {2, 0, 0, 0, 0, 0xc}} {
		if got := n.host(aliceAt, udp(alice, dst, 1)); len(got) > 0 {
			t.Errorf("to %v: left by %v", dst, got)
		}
	}
}

// Flows spread over all ways, also those that are not shortest, each packet arrives once, and the second packet of a
// flow takes the way of the first without asking.
func TestFlowsSpread(t *testing.T) {
	n := diamond(t)
	const flows = 300
	for port := range uint16(flows) {
		for range 2 {
			if got := n.host(aliceAt, udp(alice, bob, port)); len(got) != 1 || got[bobAt] != 1 {
				t.Fatalf("flow %d arrived at %v", port, got)
			}
		}
	}
	// Each way has a third of the switches for itself: 5 and 6, or one of 2 and 3 and half of 1 and 4, from which two
	// ways are shortest.
	for way, carried := range map[string]int{"2": n.carried[at(2, 2)], "3": n.carried[at(3, 2)],
		"5 and 6": n.carried[at(6, 2)]} {
		if carried < 2*flows/5 {
			t.Errorf("over %s went %d packets of %d, want about a third: %v", way, carried, 2*flows, n.carried)
		}
	}
	sent := n.net.PacketIn(1, 8, of13.NoBuffer, string(udp(alice, bob, 9999)))
	if len(sent) < 3 {
		t.Errorf("a new flow has the commands %v", sent)
	}
}

// A host that has sent a ping has its other flows spread as well.
func TestFlowsSpreadAfterPing(t *testing.T) {
	n := diamond(t)
	n.host(aliceAt, ping(alice, bob))
	clear(n.carried)
	for port := range uint16(100) {
		n.host(aliceAt, udp(alice, bob, port))
	}
	for _, way := range []app.PortOf{at(2, 2), at(3, 2), at(6, 2)} {
		if n.carried[way] == 0 {
			t.Errorf("no flow takes the way of %v: %v", way, n.carried)
		}
	}
}

// When a link goes down, flows take other ways at once, and use it again when it is back.
func TestLinkDown(t *testing.T) {
	n := diamond(t)
	const flows = 60
	all := func(what string) {
		t.Helper()
		for port := range uint16(flows) {
			if got := n.host(aliceAt, udp(alice, bob, port)); len(got) != 1 || got[bobAt] != 1 {
				t.Fatalf("%s: flow %d arrived at %v", what, port, got)
			}
		}
	}
	all("at first")
	n.cut(at(2, 2), false)
	n.cut(at(5, 2), false)
	clear(n.carried)
	all("with two ways cut")
	if n.carried[at(2, 2)] > 0 || n.carried[at(5, 2)] > 0 {
		t.Errorf("links that are cut carry frames: %v", n.carried)
	}
	n.cut(at(3, 2), false)
	if got := n.host(aliceAt, udp(alice, bob, 1)); len(got) != 0 {
		t.Errorf("without a way it arrived at %v", got)
	}
	n.cut(at(2, 2), true)
	clear(n.carried)
	all("with one way mended")
	if n.carried[at(2, 2)] == 0 {
		t.Errorf("the link that is mended carries nothing: %v", n.carried)
	}
}

// A host that moves is found where it is.
func TestHostMoves(t *testing.T) {
	n := diamond(t)
	n.host(aliceAt, udp(alice, bob, 1))
	moved := at(5, 7)
	n.advance(topology.Settle)
	n.host(moved, announce(bob))
	if got := n.host(aliceAt, udp(alice, bob, 1)); len(got) != 1 || got[moved] != 1 {
		t.Errorf("arrived at %v", got)
	}
}

// A host that moves and comes back, while its flow is in the switches, is found as well.
func TestHostMovesBack(t *testing.T) {
	n := diamond(t)
	n.host(aliceAt, udp(alice, bob, 1))
	n.advance(topology.Settle)
	n.host(at(5, 7), announce(alice))
	n.advance(2 * topology.Settle)
	n.host(aliceAt, udp(alice, bob, 1))
	if got := n.host(bobAt, udp(bob, alice, 1)); got[aliceAt] != 1 {
		t.Errorf("arrived at %v", got)
	}
}

// So is one whose link was down.
func TestHostLinkFlaps(t *testing.T) {
	n := diamond(t)
	n.host(aliceAt, udp(alice, bob, 1))
	for _, up := range []bool{false, true} {
		n.switches[1].SetPortLive(time.Second, aliceAt.Port, up)
		n.settle()
		n.advance(2 * topology.Settle)
	}
	n.host(aliceAt, udp(alice, bob, 1))
	if got := n.host(bobAt, udp(bob, alice, 1)); got[aliceAt] != 1 {
		t.Errorf("arrived at %v", got)
	}
}

func TestSwitchDown(t *testing.T) {
	n := diamond(t)
	n.net.SwitchDown(3)
	n.send(n.net.SwitchDown(5))
	clear(n.carried)
	for port := range uint16(40) {
		if got := n.host(aliceAt, udp(alice, bob, port)); got[bobAt] != 1 {
			t.Fatalf("flow %d arrived at %v", port, got)
		}
	}
	if n.carried[at(1, 2)] > 0 || n.carried[at(1, 3)] > 0 {
		t.Errorf("flows lead to switches that are down: %v", n.carried)
	}
}

// A switch that is within reach again says which ports were up when its epoch began; asked, it says which are now.
func TestPortsThatHaveChangedInTheEpoch(t *testing.T) {
	n := diamond(t)
	ports := vswitch.Ports(1, degree)
	ports[0].State = of13.PortStateLinkDown // has come up since
	n.switches[1].SetPortLive(time.Second, 2, false)
	n.switches[1].Take(1) // nobody hears of it
	n.send(n.net.SwitchUp(1, ports...))
	n.settle()
	clear(n.carried)
	for port := range uint16(40) {
		if got := n.host(aliceAt, udp(alice, bob, port)); got[bobAt] != 1 {
			t.Fatalf("flow %d arrived at %v", port, got)
		}
	}
	if n.carried[at(1, 1)] == 0 {
		t.Error("the port that has come up carries nothing")
	}
	if n.carried[at(1, 2)] > 0 {
		t.Errorf("the port that has gone down carries %d frames", n.carried[at(1, 2)])
	}
}

// Only packet-ins are weaker than exactly once.
func TestLevels(t *testing.T) {
	a := New()
	if l, ok := a.Level(of13.TypePacketIn); l != app.Unordered || !ok {
		t.Errorf("packet-ins are handled %v, %v; want %v", ok, l, app.Unordered)
	}
}

func TestMatchFlow(t *testing.T) {
	for want, frame := range map[string][]byte{
		"eth_dst=02:00:00:00:00:0b,eth_src=02:00:00:00:00:0a,eth_type=0x800,ip_proto=17,ipv4_src=10.0.0.10,ipv4_dst=10.0.0.11,udp_src=7,udp_dst=80 10 true": udp(alice, bob, 7),
		"eth_dst=02:00:00:00:00:0b,eth_src=02:00:00:00:00:0a,eth_type=0x800,ip_proto=17 9 true":                                                             udp(alice, bob, 7)[:36],
		"eth_dst=02:00:00:00:00:0b,eth_src=02:00:00:00:00:0a,eth_type=0x800,ip_proto=1 9 true":                                                              ping(alice, bob),
		"eth_dst=ff:ff:ff:ff:ff:ff,eth_src=02:00:00:00:00:0a,eth_type=0x806 9 true":                                                                         announce(alice),
		"any 0 false": []byte("short"),
	} {
		if got := fmt.Sprintln(matchFlow(frame)); got != want+"\n" {
			t.Errorf("%x: flow %s, want %s", frame, got, want)
		}
	}
}

// Paths visit no switch twice, end where they should, and exist whenever there is one.
func TestPaths(t *testing.T) {
	for size := 2; size < 12; size++ {
		g := ring(t, size)
		for from := range app.Switch(size) {
			for to := range app.Switch(size) {
				for range 20 {
					walk(t, from+1, to+1, detour(g, from+1, to+1))
				}
				if path := shortest(g, from+1, to+1); len(path) > size/2 {
					t.Errorf("the shortest path from %d to %d of %d is %v", from+1, to+1, size, path)
				}
			}
		}
	}
	if g := ring(t, 3); detour(g, 1, 9) != nil || detour(g, 9, 1) != nil || shortest(g, 1, 9) != nil {
		t.Error("a path to a switch that is not there")
	}
	if g, _ := paths.NewGraph(nil, nil); detour(g, 1, 2) != nil {
		t.Error("a path without a network")
	}
}

// ring joins port 1 of each switch with port 2 of the next.
func ring(t *testing.T, size int) *paths.Graph {
	t.Helper()
	var switches []app.Switch
	var links []paths.Link
	for i := range size {
		here, next := app.Switch(i+1), app.Switch((i+1)%size+1)
		switches = append(switches, here)
		links = append(links, paths.Both(paths.End(at(here, 1)), paths.End(at(next, 2)), 1)...)
	}
	g, err := paths.NewGraph(switches, links)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func walk(t *testing.T, from, to app.Switch, path []paths.Link) {
	t.Helper()
	seen, now := map[app.Switch]bool{}, from
	for _, l := range path {
		if l.From.Switch != now || seen[now] {
			t.Fatalf("from %d to %d: path %v", from, to, path)
		}
		seen[now], now = true, l.To.Switch
	}
	if now != to || seen[to] {
		t.Fatalf("from %d to %d: path %v ends at %d", from, to, path, now)
	}
}

// groups is how many groups the switches are in.
var groups uint64 = 1

// The same happens if the switches, and what the applications have, are in three groups.
func TestSeveralGroups(t *testing.T) {
	groups = 3
	defer func() { groups = 1 }()
	for name, test := range map[string]func(*testing.T){
		"FlowsSpread": TestFlowsSpread,
		"LinkDown":    TestLinkDown,
		"HostMoves":   TestHostMoves,
		"SwitchDown":  TestSwitchDown,
	} {
		t.Run(name, test)
	}
}
