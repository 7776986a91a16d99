package vswitch

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func startRunner(t *testing.T, c RunnerConfig) *Runner {
	r := StartRunner(c)
	t.Cleanup(r.Close)
	return r
}

// flood makes a runner's switch flood all packets.
func flood(t *testing.T, r *Runner) {
	t.Helper()
	r.Do(func(s *Switch, now time.Duration) {
		s.Open(now, 99)
		s.Message(now, 99, add(0, 1, nil, out(of13.PortFlood)).Append(nil, 2))
		s.Disconnect(99)
	})
}

// A controller that asks for much and reads late gets all of it.
func TestRunnerSlowController(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	startRunner(t, RunnerConfig{Switch: Config{DatapathID: 5, Ports: Ports(5, 2)},
		Controllers: []string{l.Addr().String()}})
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	if _, err := nc.Write(hello.Append(nil, 1)); err != nil {
		t.Fatal(err)
	}
	const echoes, size = 400, 60_000 // more than the buffers of both ends
	echo := openflow.AppendHeader(nil, of13.Version, of13.TypeEchoRequest, 7)
	echo = append(echo, make([]byte, size)...)
	openflow.SetLength(echo)
	sent := make(chan error, 1)
	go func() {
		for range echoes {
			if _, err := nc.Write(echo); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	time.Sleep(50 * time.Millisecond) // until the switch cannot write any more
	in, answers := ofconn.NewReader(nc), 0
	for answers < echoes {
		batch, err := in.Next()
		if err != nil {
			t.Fatalf("after %d answers: %v", answers, err)
		}
		for len(batch) > 0 {
			var msg []byte
			if msg, batch, err = openflow.Next(batch); err != nil {
				t.Fatal(err)
			}
			if msg[1] == of13.TypeEchoReply {
				answers++
			}
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// A controller over TCP: the switch dials it, dials again after a loss, and answers.
func TestRunnerDials(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := startRunner(t, RunnerConfig{Switch: Config{DatapathID: 5, Ports: Ports(5, 2)},
		Controllers: []string{l.Addr().String()}})
	for range 2 {
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		reader := ofconn.NewReader(nc)
		hello := of13.NewHello(of13.VersionsOf(of13.Version))
		b := hello.Append(nil, 1)
		b = (&of13.FeaturesRequest{}).Append(b, 2)
		b = add(0, 0, nil, out(of13.PortController)).Append(b, 3)
		b = (&of13.BarrierRequest{}).Append(b, 4)
		if _, err := nc.Write(b); err != nil {
			t.Fatal(err)
		}
		var got []string
		expect := func(want ...string) {
			t.Helper()
			for len(got) < len(want) {
				batch, err := reader.Next()
				if err != nil {
					t.Fatalf("after %v: %v", got, err)
				}
				for len(batch) > 0 {
					var msg []byte
					msg, batch, _ = openflow.Next(batch)
					got = append(got, of13.TypeName(msg[1]))
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Fatalf("got %v, want %v", got, want)
			}
			got = nil
		}
		expect("HELLO", "FEATURES_REPLY", "BARRIER_REPLY")
		r.Receive(1, ping(1))
		expect("PACKET_IN")
		r.SetPortLive(2, false)
		r.SetPortLive(2, true)
		expect("PORT_STATUS", "PORT_STATUS")
		nc.Close()
	}
}

// The connection to a silent controller is closed.
func TestRunnerSilentController(t *testing.T) {
	r := startRunner(t, RunnerConfig{SilentAfter: 200 * time.Millisecond, TickEvery: 5 * time.Millisecond})
	ours, theirs := net.Pipe()
	go io.Copy(io.Discard, ours)
	defer ours.Close()
	if err := r.Serve(theirs); !errors.Is(err, ofconn.ErrSilent) {
		t.Fatalf("Serve returned %v, want ErrSilent", err)
	}
}

// Two hosts and two switches, with a link that is cut in both ways.
func TestNetwork(t *testing.T) {
	a, b := NewHost(macA, ipA), NewHost(macB, ipB)
	s1 := startRunner(t, RunnerConfig{Switch: Config{DatapathID: 1, Ports: Ports(1, 3)}})
	s2 := startRunner(t, RunnerConfig{Switch: Config{DatapathID: 2, Ports: Ports(2, 3)}})
	flood(t, s1)
	flood(t, s2)
	Connect(a, s1.Port(1))
	Connect(b, s2.Port(1))
	link := Connect(s1.Port(2), s2.Port(2))
	exchange := func(seq uint16) bool {
		a.Ping(macB, ipB, seq)
		select {
		case f := <-a.Received():
			e, ok := ParseEcho(f)
			return ok && e == Echo{Src: ipB, Dst: ipA, Reply: true, Seq: seq}
		case <-time.After(100 * time.Millisecond):
			return false
		}
	}
	await.Until(t, "hosts hear each other", func() bool { return exchange(1) })
	link.SetSilent(true)
	if exchange(2) || link.Lost() != 1 {
		t.Fatal("a silent link carries frames")
	}
	link.SetSilent(false)
	link.SetUp(false)
	live := func() (up bool) {
		s2.Do(func(s *Switch, _ time.Duration) { up = s.ports[2].live() })
		return up
	}
	if exchange(3) || live() {
		t.Fatal("a cut link carries frames, or its port lives")
	}
	link.SetUp(true)
	if !exchange(4) || !live() {
		t.Fatal("a mended link does not carry frames")
	}
	a.Resolve(ipB)
	f := <-a.Received()
	if f[21] != 2 || of13.MAC(f[22:28]) != macB {
		t.Fatalf("ARP reply %x", f)
	}
}

// A broadcast in a ring of flooding switches ends.
func TestNetworkRingEnds(t *testing.T) {
	var s [3]*Runner
	for i := range s {
		s[i] = startRunner(t, RunnerConfig{Switch: Config{DatapathID: openflow.DatapathID(i + 1),
			Ports: Ports(i+1, 3)}})
		flood(t, s[i])
	}
	var links []*Link
	for i := range s {
		links = append(links, Connect(s[i].Port(2), s[(i+1)%3].Port(3)))
	}
	h := NewHost(macA, ipA)
	Connect(h, s[0].Port(1))
	h.Resolve(ipB)
	await.Until(t, "both directions were stopped", func() bool {
		return links[0].Looped()+links[1].Looped()+links[2].Looped() == 2
	})
}

// ofctl runs ovs-ofctl against a runner, or skips the test if it is not installed.
func ofctl(t *testing.T, r *Runner) func(args ...string) string {
	tool, err := exec.LookPath("ovs-ofctl")
	if err != nil {
		if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
			t.Fatal("ovs-ofctl is not installed: apt-get install openvswitch-switch")
		}
		t.Skip("ovs-ofctl is not installed")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- r.Accept(l) }()
	t.Cleanup(func() {
		r.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return func(args ...string) string {
		t.Helper()
		options := []string{"-O", "OpenFlow13", "--timeout=10"}
		if args[0] == "--bundle" {
			options, args = append(options, args[0]), args[1:]
		}
		args = append(append(options, args[0], "tcp:"+l.Addr().String()), args[1:]...)
		out, err := exec.Command(tool, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("ovs-ofctl %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
}

// The tools of Open vSwitch understand the switch, and it understands them.
func TestConformsToOVSTools(t *testing.T) {
	r := StartRunner(RunnerConfig{Switch: Config{DatapathID: 0xabc, Ports: Ports(1, 3)}})
	t.Cleanup(r.Close)
	ctl := ofctl(t, r)
	has := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in:\n%s", w, out)
			}
		}
	}
	has(ctl("show"), "dpid:0000000000000abc", "n_tables:64", "s1-eth3", "1GB-FD")
	ctl("add-group", "group_id=7,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_port:3,actions=output:3")
	ctl("add-group",
		"group_id=8,type=select,bucket=weight:1,actions=output:2,bucket=weight:2,actions=set_field:10.9.9.9->ip_dst,output:3")
	ctl("add-meter", "meter=1,pktps,stats,bands=type=drop rate=100")
	ctl("add-flow",
		"table=0,priority=10,tcp,in_port=1,tp_dst=80,nw_dst=10.0.0.0/8,actions=push_vlan:0x8100,set_field:4196->vlan_vid,group:7")
	ctl("add-flow", "table=0,priority=0,actions=meter:1,write_metadata:0x5/0xf,goto_table:3")
	ctl("add-flow", "table=3,priority=5,ipv6,ipv6_dst=fe80::/16,idle_timeout=60,actions=CONTROLLER:128")
	ctl("--bundle", "add-flow", "table=4,priority=5,arp,arp_op=1,actions=FLOOD")
	has(ctl("dump-flows"), "priority=10,tcp,in_port=1,nw_dst=10.0.0.0/8,tp_dst=80 "+
		"actions=push_vlan:0x8100,set_field:4196->vlan_vid,group:7",
		"meter:1,write_metadata:0x5/0xf,goto_table:3", "idle_timeout=60", "ipv6_dst=fe80::/16", "table=4",
		"arp_op=1 actions=FLOOD")
	has(ctl("dump-groups"), "group_id=7,type=ff,bucket=watch_port:2,actions=output:2", "type=select", "weight:2")
	has(ctl("dump-group-stats"), "group_id=7,duration=", "ref_count=1")
	has(ctl("dump-group-features"), "Types:  0xf", "max_groups=0x1000")
	has(ctl("dump-meters"), "rate=100")
	has(ctl("meter-stats"), "flow_count:1")
	has(ctl("meter-features"), "drop", "pktps")
	has(ctl("dump-ports"), "3 ports", "rx pkts=0")
	has(ctl("dump-ports-desc"), "s1-eth2", "LIVE")
	has(ctl("dump-tables"), "table 0", "active=2")
	has(ctl("dump-table-features"), "table 63", "goto_table", "set_field")
	has(ctl("dump-aggregate"), "flow_count=4")
	has(ctl("dump-desc"), "Holdfast", "vswitch")
	ctl("mod-port", "2", "down")
	has(ctl("dump-ports-desc"), "PORT_DOWN")
	ctl("del-flows", "table=0")
	has(ctl("dump-aggregate"), "flow_count=2")
}
