package e2e

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// mode is the kind of switches in a test, and how they are connected.
type mode struct {
	name  string
	stock bool // no agents: real switches, each connected to every controller. Else a fakeSwitch for each agent
	ovs   bool // stock ones are Open vSwitches, and not embedded
	tls   bool
}

// Modes with agents, and without.
var (
	withAgents  = mode{name: "agents"}
	stock       = mode{name: "stock", stock: true}
	stockOVS    = mode{name: "stock ovs", stock: true, ovs: true}
	agentsTLS   = mode{name: "agents tls", tls: true}
	stockTLS    = mode{name: "stock tls", stock: true, tls: true}
	stockOVSTLS = mode{name: "stock ovs tls", stock: true, ovs: true, tls: true}
	everyMode   = []mode{withAgents, stock, stockOVS}
)

// everything is set by HOLDFAST_MATRIX=all: tests then run in all combinations of mode, TLS, crash point and
// durability. Otherwise they run in a selection in which each value occurs.
var everything = os.Getenv("HOLDFAST_MATRIX") == "all"

// everyModeAnd are all modes, and some of those with TLS, or all of these.
func everyModeAnd(overTLS ...mode) []mode {
	if everything {
		overTLS = []mode{agentsTLS, stockTLS, stockOVSTLS}
	}
	return append(slices.Clone(everyMode), overTLS...)
}

// inModes runs a test in each mode, in parallel: most of the time the tests wait. They run after the calling function
// has returned.
func inModes(t *testing.T, modes []mode, test func(t *testing.T, m mode)) {
	t.Parallel()
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			if m.ovs && testing.Short() {
				t.Skip("says nothing that the embedded switches do not, and takes a while")
			}
			if m.ovs {
				needOVS(t)
			}
			t.Parallel()
			test(t, m)
		})
	}
}

// start is startCluster for n switches.
func (m mode) start(t *testing.T, n int, cfg cluster.Config) *testCluster {
	t.Helper()
	cfg.TLS = m.tls
	if !m.stock {
		cfg.Agents = n
		s := startCluster(t, cfg)
		if m.tls {
			s.asSwitch = credentials(t, s.Authority(), pki.Switch, "s")
		}
		return s
	}
	s := startCluster(t, cfg)
	s.stock = &stockPeers{mode: m, switches: n, tally: oracle.NewStock(!m.ovs),
		taps: map[*cluster.Controller][]*tap.Tap{}}
	if m.tls {
		s.asSwitch = credentials(t, s.Authority(), pki.Switch, "s")
		s.stock.asController = credentials(t, s.Authority(), pki.Controller, "tap")
	}
	if m.ovs {
		s.stock.lab = netlab.ForTest(t)
	}
	return s
}

// player is a switch that sends packets on demand, and records what it executes.
type player interface {
	name() openflow.DatapathID
	packetIn(text string)
	executed() [][]byte
	wait(n int) error
	packetOuts() []string
	cut() // ends its connections for good
}

// stockPeers is what a cluster has instead of agents.
type stockPeers struct {
	mode
	switches     int
	single       bool // the i-th switch is connected to the i-th controller only
	tally        *oracle.Stock
	lab          *netlab.Lab
	asController *mtls.Credentials // with TLS: of the taps

	taps map[*cluster.Controller][]*tap.Tap

	mu      sync.Mutex // guards refused
	refused int        // messages that a switch did not take, since another controller is its master
}

// connectStock adds the switches, one after the other.
func (s *testCluster) connectStock() {
	s.t.Helper()
	for i := range s.stock.switches {
		id := openflow.DatapathID(i + 1)
		var addresses []string
		var seen *sightings
		if s.stock.ovs {
			seen = &sightings{messages: map[string][]byte{}}
		}
		for n, c := range s.Controllers() {
			if !s.stock.single || n == i {
				addresses = append(addresses, s.stockTap(n, c, seen))
			}
		}
		if s.stock.ovs {
			s.switches = append(s.switches, s.newOVSPlayer(id, addresses, seen))
		} else {
			s.switches = append(s.switches, s.newEmbeddedPlayer(id, addresses))
		}
		s.waitUp(i + 1)
	}
	s.ready()
}

// lab is that of the cluster's Open vSwitches: a new one, unless the controllers are in one already.
func (s *testCluster) lab() *netlab.Lab {
	s.t.Helper()
	if s.stock != nil {
		return s.stock.lab
	}
	return netlab.ForTest(s.t)
}

// plug connects a host to the next port of a switch.
func (s *testCluster) plug(lab *netlab.Lab, sw *netlab.Switch, h *netlab.Host) *station {
	s.t.Helper()
	_, err := lab.Connect(sw, h)
	s.check(err)
	socket, err := h.Raw()
	s.check(err)
	return rawStation(s.t, socket)
}

// control connects Open vSwitches to the controllers, or to their agents, one after the other.
func (s *testCluster) control(lab *netlab.Lab, switches []*netlab.Switch) {
	s.t.Helper()
	for i, sw := range switches {
		var addresses []string
		if s.stock != nil {
			for n, c := range s.Controllers() {
				addresses = append(addresses, s.stockTap(n, c, nil))
			}
		} else {
			addresses = []string{s.witness(i, lab.Addr().String())}
		}
		s.check(sw.SetControllers(addresses...))
		s.waitUp(i + 1)
	}
}

// stockTap puts a witness between a switch and a controller, and returns its address.
func (s *testCluster) stockTap(n int, c *cluster.Controller, seen *sightings) string {
	s.t.Helper()
	host := "127.0.0.1"
	if s.stock.lab != nil {
		host = s.stock.lab.Addr().String()
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	s.check(err)
	addr := l.Addr().String()
	cfg := tap.Config{Dial: tap.At(c.OpenFlow), Observe: func() tap.Observer {
		return &stockWitness{s.stock.tally.Connection(n), s.stock, seen}
	}}
	if s.stock.tls {
		l = s.stock.asController.Listener(l, mtls.Role(pki.Switch))
		cfg.Dial = func() (net.Conn, error) {
			return s.asSwitch.Dial(s.ctx, c.OpenFlow, mtls.Role(pki.Controller))
		}
	}
	tp := tap.Start(l, cfg)
	s.stock.taps[c] = append(s.stock.taps[c], tp)
	s.t.Cleanup(func() {
		if err := tp.Close(); err != nil {
			s.t.Error(err)
		}
	})
	return addr
}

// stockWitness observes a connection between a switch and a controller.
type stockWitness struct {
	*oracle.Connection
	stock *stockPeers
	seen  *sightings // may be nil
}

func (w *stockWitness) FromSwitch(sw openflow.DatapathID, msg []byte) {
	w.Connection.FromSwitch(sw, msg)
	if saysSlave(msg) {
		w.stock.mu.Lock()
		defer w.stock.mu.Unlock()
		w.stock.refused++
	}
}

func (w *stockWitness) ToSwitch(sw openflow.DatapathID, msg []byte) {
	if w.seen != nil {
		w.seen.note(msg)
	}
	w.Connection.ToSwitch(sw, msg)
}

// cut ends the connections of all switches to a controller. They reconnect.
func (s *stockPeers) cut(c *cluster.Controller) {
	for _, tp := range s.taps[c] {
		tp.Cut()
	}
}

func (s *stockPeers) refusals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// embeddedPlayer is a vswitch, which reports itself what it executes.
type embeddedPlayer struct {
	*memory
	runner *vswitch.Runner
}

func (s *testCluster) newEmbeddedPlayer(id openflow.DatapathID, addresses []string) *embeddedPlayer {
	p := &embeddedPlayer{memory: newMemory(id)}
	cfg := vswitch.RunnerConfig{Switch: vswitch.Config{DatapathID: id, Ports: vswitch.Ports(int(id), 2),
		Observe: func(_ vswitch.ConnID, msg []byte) {
			if openflow.XID(msg) < handshake.OwnXID {
				s.stock.tally.Executes(id, msg)
				p.note(msg)
			}
		}}}
	if s.stock.tls {
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return s.asSwitch.Dial(ctx, address, mtls.Role(pki.Controller))
		}
	}
	// It has a flow to the controllers before it knows any.
	cfg.Controllers = addresses
	p.runner = vswitch.StartRunner(cfg)
	s.t.Cleanup(p.runner.Close)
	p.runner.Do(func(sw *vswitch.Switch, now time.Duration) {
		const operator = vswitch.ConnID(1 << 40)
		sw.Connect(operator)
		hello := of13.NewHello(of13.VersionsOf(of13.Version))
		sw.Message(now, operator, hello.Append(nil, 1))
		sw.Message(now, operator, testFlow().Append(nil, handshake.OwnXID))
		sw.Disconnect(operator)
	})
	return p
}

// testFlow sends the packets of tests to the controllers, whatever the applications do.
func testFlow() *of13.FlowMod {
	return &of13.FlowMod{Command: of13.FlowAdd, Priority: 1, BufferID: of13.NoBuffer,
		Match:        of13.Match(nil).WithEthType(0x88b5),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(of13.PortController, of13.MaxLenNoBuffer))}
}

func (p *embeddedPlayer) packetIn(text string) {
	for !p.runner.Receive(1, packetIn(1, text).Data) {
		time.Sleep(time.Millisecond) // too many wait for the switch
	}
}

func (p *embeddedPlayer) cut() { p.runner.Close() }

// ovsPlayer is an Open vSwitch with a host. Its witnesses report what it executes.
type ovsPlayer struct {
	id    openflow.DatapathID
	sw    *netlab.Switch
	host  *station
	tally *oracle.Stock
	seen  *sightings
	t     *testing.T
}

// sightings are the commands that controllers sent to a switch, by digest.
type sightings struct {
	mu       sync.Mutex // guards messages
	messages map[string][]byte
}

func (s *sightings) note(msg []byte) {
	var add of13.BundleAdd
	if add.Decode(msg) == nil {
		msg = add.Message
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[audit.Digest(msg)] = slices.Clone(msg)
}

func (s *testCluster) newOVSPlayer(id openflow.DatapathID, addresses []string, seen *sightings) *ovsPlayer {
	s.t.Helper()
	lab := s.stock.lab
	sw, err := lab.AddSwitch(fmt.Sprintf("s%d", id), uint64(id))
	s.check(err)
	h, err := lab.AddHost(fmt.Sprintf("h%d", id), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, 0, byte(id)}), 24))
	s.check(err)
	_, err = lab.Connect(sw, h)
	s.check(err)
	socket, err := h.Raw()
	s.check(err)
	if s.stock.tls {
		f, err := s.Issue(pki.Identity{Role: pki.Switch, Name: sw.Name})
		s.check(err)
		s.check(sw.SetTLS(f.Key, f.Cert, f.CA))
	}
	s.check(sw.SetControllers(addresses...)) // with the first one it forgets all flows
	_, err = sw.OFCtl("add-flow", "table=0,priority=1,dl_type=0x88b5,actions=CONTROLLER:65535")
	s.check(err)
	return &ovsPlayer{id, sw, rawStation(s.t, socket), s.stock.tally, seen, s.t}
}

func (p *ovsPlayer) name() openflow.DatapathID { return p.id }

func (p *ovsPlayer) packetIn(text string) {
	if err := p.host.send(packetIn(1, text).Data); err != nil {
		p.t.Error(err)
	}
}

func (p *ovsPlayer) executed() (list [][]byte) {
	digests := p.tally.Executed(p.id)
	p.seen.mu.Lock()
	defer p.seen.mu.Unlock()
	for _, d := range digests {
		list = append(list, p.seen.messages[d])
	}
	return list
}

func (p *ovsPlayer) wait(n int) error {
	have := 0
	for began := time.Now(); time.Since(began) < patience; await.Pause(began) {
		if have = len(p.tally.Executed(p.id)); have >= n {
			return nil
		}
	}
	return fmt.Errorf("switch %s has %d commands of %d after %v", p.id, have, n, patience)
}

func (p *ovsPlayer) packetOuts() []string { return packetsOf(p.executed()) }

func (p *ovsPlayer) cut() {
	if err := p.sw.Kill(); err != nil {
		p.t.Error(err)
	}
}
