package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/relay"
)

// Forwarding measures what two hosts at an Open vSwitch notice when the controllers forward each of their packets, and
// the one that leads is killed, or the connection to it is cut (Beehive, figures 12 and 13). The application is
// exchange, with one actor that can move. It needs root.
type Forwarding struct {
	Binary  string // the holdfast binary
	Samples int    // networks, in each of which a controller is killed twice, and a connection is cut
}

const (
	forwardingMaxSamples = 100
	forwardingCalm       = time.Second     // how long latency is measured
	forwardingFault      = 2 * time.Second // how long answers are watched after a fault
)

// Validate returns a *FieldError for a value that cannot be.
func (b Forwarding) Validate() error { return inRange("samples", b.Samples, 1, forwardingMaxSamples) }

// Run runs the benchmark.
func (b Forwarding) Run(ctx context.Context, progress Progress) (Report, error) {
	values := map[string][]float64{}
	var lines []string
	lost, repeated := 0, 0
	for i := range b.Samples {
		s := &forwardingSample{progress: func(done float64, what string) {
			progress.show((float64(i)+done)/float64(b.Samples), what)
		}}
		if err := s.run(ctx, b.Binary); err != nil {
			return Report{}, fmt.Errorf("sample %d: %w", i+1, err)
		}
		for name, v := range s.figures {
			values[name] = append(values[name], v)
		}
		lines = s.lines
		lost, repeated = lost+s.lost, repeated+s.repeated
	}
	f := map[string]float64{"lost": float64(lost), "repeated": float64(repeated), "paper_outage_ms": 300,
		"paper_latency_ms_before": 1, "paper_latency_ms_after": 8, "paper_latency_ms_optimised": 1}
	for name, v := range values {
		f[name] = quantile(v, 0.5)
		if strings.HasPrefix(name, "outage") {
			f[name+"_max"] = quantile(v, 1)
		}
	}
	return Report{Bench: "forwarding", Figures: f, Setup: map[string]any{
		"controllers": "3 processes, each of which leads a group; all have replicas of every group",
		"network": "an Open vSwitch with two hosts and an agent; the hosts exchange a frame every " +
			pingEvery.String() + ", and each goes to the controllers twice, there and back",
		"app": exchange.Name, "durability": "memory", "samples": b.Samples,
		"outage": "the longest time without an answer: after SIGKILL of the leader of the switch's group, with the " +
			"actor " +
			"in that group (together) or in another one (apart); and when nothing passes any more between " +
			"the agent and that leader (cut)",
		"latency": "median round trip: before any fault; after the kill, while the actor is in a group of another " +
			"leader; optimised: when it has moved to the switch; cut: 2 s after the cut, if anything is answered then",
		"lost": "frames that were not answered, of both hosts; repeated: answered twice",
	}, Plot: "median round trip in ms, of each 100 ms\n" + strings.Join(lines, "")}, nil
}

// forwardingSample is one network and its cluster.
type forwardingSample struct {
	progress Progress
	figures  map[string]float64
	lines    []string // of the plot
	lost     int
	repeated int

	lab    *netlab.Lab
	c      *cluster.Cluster
	relays map[string]*relay.Relay // from the agent to a controller, by name
	mover  *client.Client
	pings  *pinger
	home   *cluster.Controller // of the switch's group
	group  uint64              // of the switch
}

func (s *forwardingSample) run(ctx context.Context, binary string) (err error) {
	dir, err := os.MkdirTemp("", "forwarding-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s.figures, s.relays = map[string]float64{}, map[string]*relay.Relay{}
	defer func() { err = errors.Join(err, s.close()) }()
	s.progress.show(0, "the network is built")
	if err := s.build(ctx, binary, dir); err != nil {
		return err
	}
	for i, part := range []func(context.Context) error{s.together, s.apart, s.cut} {
		s.progress.show(float64(i+1)/4, []string{"the leader is killed, with the actor in its group",
			"the leader is killed, with the actor in another group", "the connection to the leader is cut"}[i])
		if err := part(ctx); err != nil {
			return s.c.WithLogs(err)
		}
	}
	s.lost, s.repeated = s.pings.finish()
	return nil
}

func (s *forwardingSample) build(ctx context.Context, binary, dir string) (err error) {
	if s.lab, err = netlab.New(filepath.Join(dir, "net")); err != nil {
		return err
	}
	sw, err := s.lab.AddSwitch("s1", 1)
	if err != nil {
		return err
	}
	var hosts []*netlab.Host
	for i := range 2 {
		h, err := s.lab.AddHost(fmt.Sprintf("h%d", i+1),
			netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
		if err != nil {
			return err
		}
		if _, err := s.lab.Connect(sw, h); err != nil {
			return err
		}
		hosts = append(hosts, h)
	}
	if err := s.startCluster(ctx, binary, filepath.Join(dir, "cluster")); err != nil {
		return err
	}
	if err := sw.SetControllers(s.c.Agents()[0].Listen); err != nil {
		return err
	}
	status, err := s.c.Wait(ctx, "the switch to be up", func(st cluster.Status) bool {
		return len(st.Switches) == 1 && st.Switches[0].State == "up" && st.Switches[0].CommandsSent > 0 &&
			st.Switches[0].CommandsDone == st.Switches[0].CommandsSent
	})
	if err != nil {
		return err
	}
	s.group = status.Switches[0].Group
	if s.home, err = s.leader(ctx, s.group); err != nil {
		return err
	}
	s.pings, err = startPinger(hosts[0], hosts[1])
	return err
}

func (s *forwardingSample) startCluster(ctx context.Context, binary, dir string) (err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var failed error
	s.c, err = cluster.Start(ctx, cluster.Config{Binary: binary, Dir: dir, Apps: []string{exchange.Name}, Agents: 1,
		Durability: "memory", Sections: "groups: " + PerController + "\n", Listen: s.lab.Addr().String(),
		Route: func(from, to, address string) string {
			if !strings.HasPrefix(from, "agent") {
				return address
			}
			l, err := net.Listen("tcp", net.JoinHostPort(s.lab.Addr().String(), "0"))
			if err != nil {
				failed = err
				return address
			}
			s.relays[to] = relay.Start(l, address)
			return s.relays[to].Addr()
		}})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if s.mover, err = newOperator(s.c, exchange.Name); err != nil {
		return err
	}
	return s.c.WaitHome(ctx)
}

func (s *forwardingSample) close() (err error) {
	if s.pings != nil {
		s.pings.close()
	}
	if s.mover != nil {
		s.mover.Close()
	}
	if s.c != nil {
		err = s.c.Close()
	}
	for _, r := range s.relays {
		r.Close()
	}
	if s.lab != nil {
		err = errors.Join(err, s.lab.Close())
	}
	return err
}

// together kills the leader of the group with the switch and the actor.
func (s *forwardingSample) together(ctx context.Context) error {
	if err := s.moveTo(ctx, s.group); err != nil {
		return err
	}
	began := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	s.figures["latency_ms_before"] = s.pings.latency(began)
	if err := s.kill(ctx, "outage_ms_together"); err != nil {
		return err
	}
	s.draw("together", began)
	return s.mend(ctx)
}

// apart kills the leader of the group with the switch, while the actor is in another one. Then the actor follows.
func (s *forwardingSample) apart(ctx context.Context) error {
	other := s.group%uint64(len(s.c.Controllers())) + 1
	if err := s.moveTo(ctx, other); err != nil {
		return err
	}
	began := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	if err := s.kill(ctx, "outage_ms_apart"); err != nil {
		return err
	}
	if err := s.keepApart(ctx, other); err != nil {
		return err
	}
	after := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	s.figures["latency_ms_after"] = s.pings.latency(after)
	if err := s.moveTo(ctx, s.group); err != nil {
		return err
	}
	optimised := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	s.figures["latency_ms_optimised"] = s.pings.latency(optimised)
	s.draw("apart, then the actor moves to the switch", began)
	return s.mend(ctx)
}

// keepApart moves the actor from a group to another, if the controller that leads it leads the switch's group now.
func (s *forwardingSample) keepApart(ctx context.Context, at uint64) error {
	leader, err := s.leader(ctx, s.group)
	if err != nil {
		return err
	}
	for g := range uint64(len(s.c.Controllers())) {
		if g++; g == s.group {
			continue
		}
		l, err := s.leader(ctx, g)
		if err != nil {
			return err
		}
		if l != leader {
			if g == at {
				return nil
			}
			return s.moveTo(ctx, g)
		}
	}
	return errors.New("one controller leads all groups, so the actor cannot be apart from the switch")
}

// cut lets nothing more pass between the agent and the leader of the switch's group.
func (s *forwardingSample) cut(ctx context.Context) error {
	began := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	at := s.pings.now()
	s.relays[s.home.Name].Set(relay.Silent)
	if err := pause.For(ctx, forwardingFault); err != nil {
		return err
	}
	s.figures["outage_ms_cut"] = s.pings.gap(at)
	after := s.pings.now()
	if err := pause.For(ctx, forwardingCalm); err != nil {
		return err
	}
	if ms, answered := s.pings.within(after, s.pings.now()); answered {
		s.figures["latency_ms_cut"] = ms
	}
	s.draw("cut", began)
	s.relays[s.home.Name].Set(relay.Faults{})
	return pause.For(ctx, forwardingCalm)
}

// kill kills the leader of the switch's group, and watches the answers.
func (s *forwardingSample) kill(ctx context.Context, figure string) error {
	at := s.pings.now()
	if err := s.home.Kill(); err != nil {
		return err
	}
	if err := pause.For(ctx, forwardingFault); err != nil {
		return err
	}
	s.figures[figure] = s.pings.gap(at)
	return nil
}

// mend starts the controller again, and waits until it leads its group.
func (s *forwardingSample) mend(ctx context.Context) error {
	if err := s.home.Restart(); err != nil {
		return err
	}
	return s.c.WaitHome(ctx)
}

func (s *forwardingSample) moveTo(ctx context.Context, group uint64) error {
	_, err := s.mover.Move(ctx, controller.Move{App: exchange.Name, Group: group})
	return err
}

// leader waits until a controller leads a group, and returns it.
func (s *forwardingSample) leader(ctx context.Context, group uint64) (leader *cluster.Controller, err error) {
	_, err = s.c.Wait(ctx, fmt.Sprintf("a leader of group %d", group), func(st cluster.Status) bool {
		for _, g := range st.Groups {
			for _, c := range s.c.Controllers() {
				if g.Group == group && g.Leader == c.Name && c.Running() {
					leader = c
					return true
				}
			}
		}
		return false
	})
	return leader, err
}

// draw adds a line to the plot.
func (s *forwardingSample) draw(what string, since time.Duration) {
	const step = 100 * time.Millisecond
	var line strings.Builder
	fmt.Fprintf(&line, "%s:\n   ", what)
	for t := since; t+step <= s.pings.now(); t += step {
		if ms, answered := s.pings.within(t, t+step); answered {
			fmt.Fprintf(&line, " %.1f", ms)
		} else {
			line.WriteString(" -")
		}
	}
	s.lines = append(s.lines, line.String()+"\n")
}
