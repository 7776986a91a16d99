package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// station is a host that sends frames and counts those that arrive, by their label.
type station struct {
	send func(frame []byte) error

	mu  sync.Mutex // guards got
	got map[string]int
}

const labelLen = 8

// label is the end of a frame.
func label(s string) []byte { return fmt.Appendf(nil, "%-*s", labelLen, s) }

func (s *station) receive(frame []byte) {
	if len(frame) < labelLen {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[string(frame[len(frame)-labelLen:])]++
}

// count returns how many frames with a label have arrived.
func (s *station) count(l string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[string(label(l))]
}

// stream sends a frame every millisecond, until the function that it returns is called.
func (s *station) stream(t *testing.T, frame []byte) (stop func()) {
	return streamEach(t, time.Millisecond, func() error { return s.send(frame) })
}

// streamEach calls send at each interval, until the function that it returns is called.
func streamEach(t *testing.T, interval time.Duration, send func() error) (stop func()) {
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() { // ends with stop
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-quit:
				done <- nil
				return
			case <-tick.C:
				if err := send(); err != nil {
					done <- err
					return
				}
			}
		}
	}()
	stop = sync.OnceFunc(func() {
		close(quit)
		if err := <-done; err != nil {
			t.Errorf("send: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// frame is an Ethernet frame with an experimental EtherType and a label.
func frame(dst of13.MAC, l string) []byte {
	f := make([]byte, 60, 60+labelLen)
	copy(f, dst[:])
	copy(f[6:], []byte{2, 0, 0, 0, 0, 0xff, 0x88, 0xb5})
	return append(f, label(l)...)
}

// ipFrame is an IPv4 packet from an address to 10.200.0.1, for UDP port 9.
func ipFrame(from [4]byte, l string) []byte {
	f := append(make([]byte, 0, 64), 2, 0, 10, 200, 0, 1, 2, 0, from[0], from[1], from[2], from[3], 0x08, 0x00)
	ip := append([]byte{0x45, 0, 0, 20 + 8 + labelLen, 0, 0, 0, 0, 64, 17, 0, 0}, from[:]...)
	ip = append(ip, 10, 200, 0, 1)
	var sum uint32
	for i := 0; i < len(ip); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(ip[i:]))
	}
	binary.BigEndian.PutUint16(ip[10:], ^uint16(sum+sum>>16))
	f = append(f, ip...)
	f = append(f, 0, 9, 0, 9, 0, 8+labelLen, 0, 0) // no UDP checksum
	return append(f, label(l)...)
}

// vnet is a network of embedded switches, numbered from 1, each with an agent of the cluster.
type vnet struct {
	s       *testCluster
	runners []*vswitch.Runner
}

// newVnet makes a network without switches; start and startAll add them.
func newVnet(s *testCluster) *vnet {
	return &vnet{s: s, runners: make([]*vswitch.Runner, len(s.Agents()))}
}

// start makes switch i, with three ports, and connects it to an address that leads to its agent.
func (v *vnet) start(i int, addr string) {
	v.s.t.Helper()
	r := vswitch.StartRunner(vswitch.RunnerConfig{Controllers: []string{addr},
		Switch: vswitch.Config{DatapathID: openflow.DatapathID(i), Ports: vswitch.Ports(i, 3)}})
	v.s.t.Cleanup(r.Close)
	v.runners[i-1] = r
}

// startAll starts every switch, with a witness in front of its agent, one after the other.
func (v *vnet) startAll() {
	v.s.t.Helper()
	for i := range v.runners {
		v.start(i+1, v.s.witness(i, "127.0.0.1"))
		v.s.waitUp(i + 1)
	}
	v.s.inSync()
}

func (v *vnet) station(i int, port of13.Port) *station {
	r := v.runners[i-1]
	st := &station{got: map[string]int{}, send: func(f []byte) error {
		if !r.Receive(port, f) {
			return errors.New("the switch has no room for the frame")
		}
		return nil
	}}
	r.Transmit(port, st.receive)
	return st
}

func (v *vnet) link(i int, p of13.Port, j int, q of13.Port) *vswitch.Link {
	return vswitch.Connect(v.runners[i-1].Port(p), v.runners[j-1].Port(q))
}

// witness adds a listener in front of agent i that shows all messages to the cluster's tally. If the agent listens at a
// Unix socket, so does it.
func (s *testCluster) witness(i int, listen string) string {
	s.t.Helper()
	network, path := address.Of(s.Agents()[i].Listen)
	at := net.JoinHostPort(listen, "0")
	if network == "unix" {
		at = path + ".witness"
	}
	l, err := net.Listen(network, at)
	s.check(err)
	tp := tap.Start(l, tap.Config{Dial: tap.At(s.Agents()[i].Listen), Observe: tap.Same(s.tally)})
	s.t.Cleanup(func() {
		if err := tp.Close(); err != nil {
			s.t.Error(err)
		}
	})
	if network == "unix" {
		return "unix:" + at
	}
	return tp.Addr()
}

// slowLane is a relay to an agent that delays every flow-mod, as some switches do, and that can repeat some for a test.
type slowLane struct {
	addr string

	mu       sync.Mutex // guards the fields below, and writes to the switch
	sw       net.Conn
	flowMods [][]byte
}

const flowModTime = 20 * time.Millisecond

func newSlowLane(t *testing.T, listen, target string) *slowLane {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(listen, "0"))
	if err != nil {
		t.Fatal(err)
	}
	lane := &slowLane{addr: l.Addr().String()}
	done := make(chan error, 1)
	go func() { done <- lane.run(l, target) }() // ends when the listener or either side is closed
	t.Cleanup(func() {
		l.Close()
		lane.mu.Lock()
		if lane.sw != nil {
			lane.sw.Close()
		}
		lane.mu.Unlock()
		<-done
	})
	return lane
}

// run relays one connection.
func (lane *slowLane) run(l net.Listener, target string) error {
	sw, err := l.Accept()
	if err != nil {
		return err
	}
	defer sw.Close()
	up, err := net.Dial("tcp", target)
	if err != nil {
		return err
	}
	lane.mu.Lock()
	lane.sw = sw
	lane.mu.Unlock()
	back := make(chan struct{})
	go func() { // ends with either connection
		defer close(back)
		defer up.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := sw.Read(buf)
			if err == nil {
				_, err = up.Write(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { <-back }()
	defer up.Close()
	for in := ofconn.NewReader(up); ; {
		batch, err := in.Next()
		for err == nil && len(batch) > 0 {
			var msg []byte
			if msg, batch, err = openflow.Next(batch); err == nil {
				err = lane.pass(append([]byte(nil), msg...))
			}
		}
		if err != nil {
			sw.Close()
			return err
		}
	}
}

func (lane *slowLane) pass(msg []byte) error {
	if msg[1] == of13.TypeFlowMod {
		time.Sleep(flowModTime)
	}
	lane.mu.Lock()
	defer lane.mu.Unlock()
	if msg[1] == of13.TypeFlowMod {
		lane.flowMods = append(lane.flowMods, msg)
	}
	_, err := lane.sw.Write(msg)
	return err
}

func (lane *slowLane) passed() int {
	lane.mu.Lock()
	defer lane.mu.Unlock()
	return len(lane.flowMods)
}

// repeat sends the last n flow-mods again, as a leader would that does not know what its predecessor has sent.
func (lane *slowLane) repeat(t *testing.T, n int) {
	t.Helper()
	lane.mu.Lock()
	again := append([][]byte(nil), lane.flowMods[len(lane.flowMods)-n:]...)
	lane.mu.Unlock()
	for _, m := range again {
		if err := lane.pass(m); err != nil {
			t.Error(err)
		}
	}
}

// oneSwitch makes an Open vSwitch with n hosts, at ports 1 to n.
func oneSwitch(t *testing.T, lab *netlab.Lab, n int) (*netlab.Switch, []*netlab.Host) {
	t.Helper()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sw, err := lab.AddSwitch("s1", 1)
	fatal(err)
	var hosts []*netlab.Host
	for i := range n {
		h, err := lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, 0, byte(i + 1)}), 24))
		fatal(err)
		_, err = lab.Connect(sw, h)
		fatal(err)
		hosts = append(hosts, h)
	}
	return sw, hosts
}

// ovsStations makes an Open vSwitch with n hosts, at ports 1 to n, and connects it by an address in the lab.
func ovsStations(t *testing.T, lab *netlab.Lab, n int) (*netlab.Switch, []*station) {
	t.Helper()
	sw, hosts := oneSwitch(t, lab, n)
	var stations []*station
	for _, h := range hosts {
		socket, err := h.Raw()
		if err != nil {
			t.Fatal(err)
		}
		stations = append(stations, rawStation(t, socket))
	}
	return sw, stations
}

func rawStation(t *testing.T, socket *os.File) *station {
	st := &station{got: map[string]int{}, send: func(f []byte) error { _, err := socket.Write(f); return err }}
	var reader sync.WaitGroup
	reader.Go(func() {
		buf := make([]byte, 2048)
		for {
			n, err := socket.Read(buf)
			if err != nil {
				return // closed
			}
			st.receive(buf[:n])
		}
	})
	t.Cleanup(func() { socket.Close(); reader.Wait() })
	return st
}
