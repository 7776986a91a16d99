package shells

import (
	"context"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/census"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// switchTick is coarse: flow timeouts are in seconds.
const switchTick = 100 * time.Millisecond

// switchNode is a switch over its lives, with a host at its first port. One goroutine starts and ends it.
type switchNode struct {
	s      *simulation
	at     *place
	id     openflow.DatapathID
	agent  *agentNode // nil: the switch is connected to the controllers
	legacy bool       // it has no bundles either
	dials  []string
	ports  int
	cables map[int]far // by port
	sent   uint64      // frames of its host

	life *switchLife // nil while it is down; guarded by mu of the simulation
}

// far is the other end of a cable.
type far struct {
	sw   *switchNode
	port int
}

// switchLife is one life of a switch.
type switchLife struct {
	n *switchNode
	p *process
	r *vswitch.Runner
}

func (n *switchNode) alive() *switchLife {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	return n.life
}

func (n *switchNode) start() {
	if n.alive() != nil {
		return
	}
	p := n.s.net.begin(n.at)
	l := &switchLife{n: n, p: p}
	config := vswitch.Config{DatapathID: n.id, Ports: vswitch.Ports(int(n.id), n.ports), Tables: 2, Buffers: -1}
	observe := l.toAgent
	if n.agent == nil {
		observe, config.NoBundles = nil, n.legacy
		config.Observe = func(_ vswitch.ConnID, msg []byte) {
			n.s.see(p, func(h *history.History) { h.Obeyed(n.id, msg) })
		}
		n.s.see(p, func(h *history.History) { h.Booted(n.id, history.Direct{Legacy: n.legacy}) })
	}
	l.r = vswitch.StartRunner(vswitch.RunnerConfig{Switch: config, Controllers: n.dials, TickEvery: switchTick,
		Dial: func(ctx context.Context, to string) (net.Conn, error) { return n.s.net.dial(ctx, p, to, observe) }})
	if n.agent == nil {
		l.tap()
	}
	for port, to := range n.cables {
		l.r.Transmit(of13.Port(port), func(frame []byte) {
			if other := to.sw.alive(); other != nil {
				other.r.Receive(of13.Port(to.port), frame)
			}
		})
	}
	n.s.mu.Lock()
	n.life = l
	n.s.mu.Unlock()
}

func (n *switchNode) kill(vanish bool) {
	l := n.alive()
	if l == nil {
		return
	}
	n.s.mu.Lock()
	n.life = nil
	n.s.mu.Unlock()
	n.s.net.end(l.p, vanish)
	n.s.ends("switch "+n.at.name, l.r.Close)
}

// toAgent observes a connection to the agent: what the switch is told.
func (l *switchLife) toAgent(c *conn) {
	u := &uplink{}
	c.uplink = u
	var in history.Framer
	c.afterRead = func(b []byte) {
		l.n.s.see(l.p, func(h *history.History) {
			batch, err := in.Add(b)
			if err != nil {
				l.n.s.failed("switch %s reads %v", l.n.id, err)
			}
			history.Each(batch, func(msg []byte) {
				if history.OfApplications(msg) {
					h.Executed(l.n.id, u.epoch, msg)
				}
			})
		})
	}
}

// tap connects somebody who only listens: what a stock switch tells all its controllers.
func (l *switchLife) tap() {
	here, there := net.Pipe()
	l.n.s.tasks.Go(func() { _ = l.r.Serve(here) })
	l.n.s.tasks.Go(func() {
		defer there.Close()
		hello := of13.NewHello(of13.VersionsOf(of13.Version))
		if _, err := there.Write(hello.Append(nil, 0)); err != nil {
			return
		}
		var in history.Framer
		b := make([]byte, 64<<10)
		for {
			size, err := there.Read(b)
			asked := false
			l.n.s.see(l.p, func(h *history.History) {
				batch, _ := in.Add(b[:size])
				history.Each(batch, func(msg []byte) {
					if h.Emitted(l.n.id, msg); msg[1] == openflow.TypeEchoRequest {
						asked = true
					}
				})
			})
			if err != nil {
				return
			}
			if asked { // nobody may be silent
				_, err = there.Write((&of13.EchoReply{}).Append(nil, 0))
			}
			if err != nil {
				return
			}
		}
	})
}

// send has the host send a frame to that of another switch, or to one that nobody knows.
func (n *switchNode) send(to int) {
	n.sent++
	if l := n.alive(); l != nil {
		l.r.Receive(census.HostPort, census.Frame(int(n.id), to, n.sent))
	}
}
