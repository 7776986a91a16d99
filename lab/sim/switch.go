package sim

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// switchTick is coarse: flow timeouts are in seconds.
const switchTick = 100 * time.Millisecond

// switchNode is a switch: vswitch.Switch, with one connection to its agent, or to each controller.
type switchNode struct {
	s       *simulation
	p       *process
	id      openflow.DatapathID
	agent   *agentNode // nil: the switch is connected to the controllers
	legacy  bool       // it has no bundles either
	ports   int
	cables  []*cable // by port number - 1; nil: nothing there
	uplinks []*uplink

	// As long as the process lives.
	sw    *vswitch.Switch
	last  vswitch.ConnID
	epoch uint64 // that the agent opened for this connection; 0 before
}

// uplink is one connection of a switch.
type uplink struct {
	n       *switchNode
	address string
	backoff time.Duration

	c     *conn // nil while not connected
	id    vswitch.ConnID
	in    history.Framer
	heard time.Duration
	asked bool
}

func (n *switchNode) start() {
	if n.p.up {
		return
	}
	n.p.start()
	config := vswitch.Config{DatapathID: n.id, Ports: vswitch.Ports(int(n.id), n.ports), Tables: 2, Buffers: -1}
	if n.s.scenario.wired() {
		config.Tables = 4
	}
	if n.agent == nil {
		config.QueueLimit = n.s.scenario.SwitchQueue
		config.NoBundles = n.legacy
		n.s.h.Booted(n.id, history.Direct{Legacy: n.legacy, Drops: config.QueueLimit > 0})
		config.Observe = func(_ vswitch.ConnID, msg []byte) { n.s.h.Obeyed(n.id, msg) }
	}
	n.sw = vswitch.New(config)
	for i, w := range n.cables {
		if w != nil && !w.up {
			n.sw.SetPortLive(n.s.w.now, of13.Port(i+1), false)
		}
	}
	if n.agent == nil {
		n.tap()
	}
	n.p.every(switchTick, n.tick)
	for _, l := range n.uplinks {
		l.c, l.backoff = nil, vswitch.MinBackoff
		l.dial()
	}
}

// addresses are those that the switch is connected to when all is well.
func (n *switchNode) addresses() (list []string) {
	for _, l := range n.uplinks {
		list = append(list, l.address)
	}
	return list
}

// knows reports whether the switch is connected to a controller when all is well.
func (n *switchNode) knows(c *controllerNode) bool {
	return slices.Contains(n.addresses(), c.switchAddress())
}

func (n *switchNode) kill() { n.p.kill() }

func (l *uplink) dial() {
	if l.n.agent == nil {
		l.address = l.n.s.instead(l.address, l.n.addresses())
	}
	l.n.s.net.dial(l.n.p, l.address, func(c *conn, err error) {
		if err != nil {
			l.redial()
			return
		}
		n := l.n
		n.last++
		n.epoch = 0
		l.c, l.id, l.in, l.heard, l.asked = c, n.last, history.Framer{}, n.s.w.now, false
		c.onData, c.onClose = l.data, func(error) { l.lost() }
		n.sw.Connect(l.id)
		l.flush()
	})
}

func (l *uplink) redial() {
	l.n.p.after(l.backoff, l.dial)
	l.backoff = min(2*l.backoff, vswitch.MaxBackoff)
}

// lost ends the connection; the flow tables stay.
func (l *uplink) lost() {
	l.c = nil
	l.n.sw.Disconnect(l.id)
	l.redial()
}

func (l *uplink) drop() {
	l.c.close()
	l.lost()
}

func (l *uplink) data(piece []byte) {
	n := l.n
	l.heard, l.asked, l.backoff = n.s.w.now, false, vswitch.MinBackoff
	batch, err := l.in.Add(piece)
	history.Each(batch, func(msg []byte) {
		if n.agent != nil && history.OfApplications(msg) {
			n.s.h.Executed(n.id, n.epoch, msg)
		}
		n.sw.Message(n.s.w.now, l.id, msg)
		n.transmit()
		n.s.look(n, msg)
	})
	if err != nil {
		n.s.w.fail("switch %s got %v from %s", n.id, err, l.address)
		return
	}
	n.flush()
}

// flush sends what is pending, as far as the others read.
func (n *switchNode) flush() {
	n.tapped()
	for _, l := range n.uplinks {
		l.flush()
	}
}

func (l *uplink) flush() {
	if l.c == nil {
		return
	}
	out, open := l.n.sw.Pending(l.id)
	if len(out) > 0 && l.c.unread() < maxUnread {
		l.c.write(out)
		l.n.sw.Sent(l.id, len(out))
	}
	if !open {
		l.drop()
	}
}

func (n *switchNode) tick() {
	n.sw.Tick(n.s.w.now)
	n.transmit()
	for _, l := range n.uplinks {
		l.tick()
	}
	n.flush()
}

// tick gives up who is silent.
func (l *uplink) tick() {
	silent := l.n.s.w.now - l.heard
	switch {
	case l.c == nil:
	case silent > vswitch.DefaultSilentAfter:
		l.drop()
	case silent > vswitch.DefaultSilentAfter/3 && !l.asked:
		l.asked = true
		m := of13.EchoRequest{}
		l.c.write(m.Append(nil, 0))
	}
}

// frame takes a frame that arrives at a port.
func (n *switchNode) frame(port of13.Port, data []byte) {
	n.sw.Frame(n.s.w.now, port, data)
	n.transmit()
	n.flush()
}

func (n *switchNode) carrier(port of13.Port, up bool) {
	n.sw.SetPortLive(n.s.w.now, port, up)
	n.flush()
}

func (n *switchNode) transmit() {
	for _, f := range n.sw.Frames() {
		if i := int(f.Port) - 1; i < len(n.cables) && n.cables[i] != nil {
			n.cables[i].send(n, f.Data)
		}
	}
}

// tapID is a connection of a stock switch that nobody is at the other end of. It shows what the switch
// tells all its controllers.
const tapID vswitch.ConnID = 0

func (n *switchNode) tap() {
	n.sw.Connect(tapID)
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	n.sw.Message(n.s.w.now, tapID, hello.Append(nil, 0))
	n.tapped()
}

// tapped tells what has come out of the tap.
func (n *switchNode) tapped() {
	if n.agent != nil {
		return
	}
	out, _ := n.sw.Pending(tapID)
	history.Each(out, func(msg []byte) { n.s.h.Emitted(n.id, msg) })
	n.sw.Sent(tapID, len(out))
}
