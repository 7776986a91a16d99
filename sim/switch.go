package sim

import (
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/vswitch"
)

// The switch's timers are those of vswitch.Runner, but for the tick, which is coarse: flow
// timeouts are in seconds.
const (
	switchTick        = 100 * time.Millisecond
	switchBackoff     = 50 * time.Millisecond
	switchBackoffMost = time.Second
	switchSilentAfter = 15 * time.Second
)

// switchNode is a switch: vswitch.Switch, with one connection to its agent.
type switchNode struct {
	s       *site
	p       *process
	id      openflow.DatapathID
	agent   string // address
	ports   int
	cables  []*cable // by port number - 1; nil: nothing there
	backoff time.Duration

	// As long as the process lives.
	sw    *vswitch.Switch
	conn  *conn // nil while not connected
	last  vswitch.ConnID
	in    framer
	heard time.Duration
	asked bool
	epoch uint64 // that the agent opened for this connection; 0 before
}

func (n *switchNode) start() {
	if n.p.up {
		return
	}
	n.p.start()
	n.sw = vswitch.New(vswitch.Config{DatapathID: n.id, Ports: vswitch.Ports(int(n.id), n.ports), Tables: 2, Buffers: -1})
	n.conn, n.backoff = nil, switchBackoff
	for i, w := range n.cables {
		if w != nil && !w.up {
			n.sw.SetPortLive(n.s.w.now, of13.Port(i+1), false)
		}
	}
	n.p.every(switchTick, n.tick)
	n.dial()
}

func (n *switchNode) kill() { n.p.kill() }

func (n *switchNode) dial() {
	n.s.net.dial(n.p, n.agent, func(c *conn, err error) {
		if err != nil {
			n.redial()
			return
		}
		n.last++
		n.conn, n.in, n.epoch, n.heard, n.asked = c, framer{}, 0, n.s.w.now, false
		c.onData, c.onClose = n.data, func(error) { n.lost() }
		n.sw.Connect(n.last)
		n.flush()
	})
}

func (n *switchNode) redial() {
	n.p.after(n.backoff, n.dial)
	n.backoff = min(2*n.backoff, switchBackoffMost)
}

// lost ends the connection; the flow tables stay.
func (n *switchNode) lost() {
	n.conn = nil
	n.sw.Disconnect(n.last)
	n.redial()
}

func (n *switchNode) drop() {
	n.conn.close()
	n.lost()
}

func (n *switchNode) data(piece []byte) {
	n.heard, n.asked, n.backoff = n.s.w.now, false, switchBackoff
	batch, err := n.in.add(piece)
	each(batch, func(msg []byte) {
		if isApplications(msg) {
			n.s.h.executed(n.id, n.epoch, msg)
		}
		n.sw.Message(n.s.w.now, n.last, msg)
		n.transmit()
	})
	if err != nil {
		n.s.w.fail("switch %s got %v from its agent", n.id, err)
		return
	}
	n.flush()
}

// flush sends what is pending, as far as the agent reads.
func (n *switchNode) flush() {
	if n.conn == nil {
		return
	}
	out, open := n.sw.Pending(n.last)
	if len(out) > 0 && n.conn.unread() < maxUnread {
		n.conn.write(out)
		n.sw.Sent(n.last, len(out))
	}
	if !open {
		n.drop()
	}
}

func (n *switchNode) tick() {
	n.sw.Tick(n.s.w.now)
	n.transmit()
	silent := n.s.w.now - n.heard
	switch {
	case n.conn == nil:
	case silent > switchSilentAfter:
		n.drop()
	case silent > switchSilentAfter/3 && !n.asked:
		n.asked = true
		m := of13.EchoRequest{}
		n.conn.write(m.Append(nil, 0))
	}
	n.flush()
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
