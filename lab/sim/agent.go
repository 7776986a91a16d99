package sim

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Bounds of package agent, some smaller, so that short runs reach them.
const (
	agentEvents = 512
	// For each event that fits in the buffer there are so many bytes of events, and of commands not yet
	// written. A largest message always fits.
	bytesPerEvent        = 512
	commandBytesPerEvent = 128

	// maxUnread is how much may wait in a connection before no more is written to it; looked at
	// again after retryWrite.
	maxUnread  = 8 << 10
	retryWrite = 2 * time.Millisecond
)

// agentNode is an agent: agent.Core for each switch, and their connections.
type agentNode struct {
	s           *simulation
	p           *process
	address     string
	controllers []string // addresses

	devices []*device // as long as the process lives
	scratch []byte
}

func (n *agentNode) start() {
	if n.p.up {
		return
	}
	n.p.start()
	n.devices = nil
	n.s.net.listen(n.p, n.address, n.accept)
	n.p.every(agent.DefaultEchoInterval, n.tick)
}

// kill loses what the agent holds; with power its machine dies, and says nothing to anyone.
func (n *agentNode) kill(power bool) {
	for _, d := range n.devices {
		if d.core.Epoch() != 0 {
			n.s.h.Lost(d.id, d.core.Epoch())
		}
	}
	n.p.end(power)
	n.devices = nil
}

// device is one switch behind the agent.
type device struct {
	n     *agentNode
	id    openflow.DatapathID
	core  *agent.Core
	sw    *switchLink // nil while the switch is not there
	links []*controllerLink
	retry bool // flush comes by itself

	commandBytes int // bound of commands that wait for the switch
}

// switchLink is one connection of a switch.
type switchLink struct {
	n     *agentNode
	d     *device // nil before the end of the handshake
	c     *conn
	hs    handshake.Handshake
	in    history.Framer
	held  []byte // read, and no room in the event buffer yet
	heard time.Duration
}

func (n *agentNode) accept(c *conn) {
	l := &switchLink{n: n, c: c, heard: n.s.w.now}
	c.onData, c.onClose = l.data, func(err error) { l.end(experimenter.ReasonConnectionLost) }
	n.p.after(agent.DefaultHandshakeTimeout, func() {
		if l.d == nil {
			c.close()
		}
	})
}

func (l *switchLink) data(piece []byte) {
	l.heard = l.n.s.w.now
	batch, err := l.in.Add(piece)
	if err != nil {
		l.n.s.w.fail("agent %s got %v from a switch", l.n.p.name, err)
		return
	}
	if l.d != nil {
		l.takeIn(batch)
		return
	}
	for len(batch) > 0 && !l.hs.Done {
		var msg, out []byte
		msg, batch, _ = openflow.Next(batch)
		if out, err = l.hs.Input(nil, msg); err != nil {
			l.n.s.w.fail("agent %s: handshake: %v", l.n.p.name, err)
			return
		}
		l.c.write(out)
	}
	if l.hs.Done {
		l.up(slices.Concat(l.hs.Early, batch))
	}
}

// up opens an epoch, unless the switch is there already.
func (l *switchLink) up(rest []byte) {
	d := l.n.device(l.hs.Datapath)
	if d.sw != nil {
		l.c.close()
		return
	}
	epoch, err := d.core.SwitchUp(uint64(l.n.p.clock().UnixNano()), l.hs.Version, l.hs.Features, l.hs.Ports)
	if err != nil { // no room
		l.c.close()
		return
	}
	l.d, d.sw = d, l
	l.n.s.opened(d.id, epoch, l.c)
	for _, c := range d.links {
		if c.idle {
			c.dial()
		}
	}
	l.takeIn(rest)
}

// takeIn puts what the switch says into the core. What has no room waits, and the switch with it.
func (l *switchLink) takeIn(batch []byte) {
	d := l.d
	if len(l.held) > 0 {
		l.held = append(l.held, batch...)
		batch = l.held
	}
	taken, err := d.core.FromSwitch(batch)
	history.Each(batch[:taken], func(msg []byte) {
		if history.OfApplications(msg) {
			l.n.s.h.Read(d.id, d.core.Epoch(), msg)
		}
	})
	l.held = append(l.held[:0], batch[taken:]...)
	if err != nil {
		l.n.s.w.fail("agent %s: %v from switch %s", l.n.p.name, err, d.id)
		return
	}
	d.flush()
}

// end ends the epoch with the connection.
func (l *switchLink) end(reason experimenter.Reason) {
	d := l.d
	l.c.close()
	if d == nil || d.sw != l {
		return
	}
	d.sw = nil
	if d.core.Live() {
		l.n.s.h.Closed(d.id, d.core.Epoch(), reason.String())
	}
	d.core.SwitchDown(reason)
	d.flush()
}

func (n *agentNode) device(id openflow.DatapathID) *device {
	for _, d := range n.devices {
		if d.id == id {
			return d
		}
	}
	events := cmp.Or(n.s.scenario.AgentEvents, agentEvents)
	d := &device{n: n, id: id, core: agent.NewCore(events, max(bytesPerEvent*events, openflow.MaxMessageLen)),
		commandBytes: commandBytesPerEvent * events}
	n.devices = append(n.devices, d)
	for _, address := range n.controllers {
		d.links = append(d.links, &controllerLink{d: d, address: address, backoff: agent.BackoffFirst, idle: true})
	}
	return d
}

// flush writes all that is due, as far as the others read.
func (d *device) flush() {
	blocked := false
	if l := d.sw; l != nil {
		if blocked = l.c.unread() >= maxUnread; !blocked {
			d.n.scratch = d.core.TakeSwitch(d.n.scratch[:0])
			l.c.write(d.n.scratch)
		}
		l.c.pauseReading(len(l.held) > 0 || d.core.QueuedCommands() > d.commandBytes)
	}
	for _, l := range d.links {
		for l.peer != nil && d.core.Pending(l.peer) {
			if l.c.unread() >= maxUnread {
				blocked = true
				break
			}
			d.n.scratch = d.core.Take(l.peer, d.n.scratch[:0])
			l.c.write(d.n.scratch)
		}
	}
	if blocked && !d.retry {
		d.retry = true
		d.n.p.after(retryWrite, func() { d.retry = false; d.flush() })
	}
}

// tick turns the cores' clocks, and gives up who is silent.
func (n *agentNode) tick() {
	for _, d := range n.devices {
		var peers []*agent.Peer
		for _, l := range d.links {
			if l.peer != nil {
				peers = append(peers, l.peer)
			}
		}
		d.core.Tick(peers)
		d.flush()
		for _, l := range d.links {
			if l.peer != nil && len(l.held) == 0 && n.s.w.now-l.heard > agent.DefaultSilentAfter {
				l.drop()
				l.again()
			}
		}
		if l := d.sw; l != nil && len(l.held) == 0 && n.s.w.now-l.heard > agent.DefaultSilentAfter {
			l.end(experimenter.ReasonSilent)
		}
	}
}

// controllerLink is the connection of one switch to one controller.
type controllerLink struct {
	d       *device
	address string
	backoff time.Duration
	idle    bool // waits for a first epoch

	c     *conn
	peer  *agent.Peer // nil while not connected
	in    history.Framer
	held  []byte // commands that wait until the switch takes more
	heard time.Duration
}

func (l *controllerLink) dial() {
	if l.idle = !l.d.core.Attachable(); l.idle {
		return
	}
	l.d.n.s.net.dial(l.d.n.p, l.address, func(c *conn, err error) {
		if err != nil {
			l.again()
			return
		}
		if l.idle = !l.d.core.Attachable(); l.idle { // forgotten meanwhile
			c.close()
			return
		}
		l.c, l.in, l.held, l.heard = c, history.Framer{}, nil, l.d.n.s.w.now
		l.peer = l.d.core.Connect()
		c.onData, c.onClose = l.data, func(error) { l.drop(); l.again() }
		l.d.flush()
	})
}

// again dials after a while.
func (l *controllerLink) again() {
	l.d.n.p.after(l.backoff, l.dial)
	l.backoff = min(2*l.backoff, agent.BackoffMost)
}

// drop ends the connection.
func (l *controllerLink) drop() {
	if l.peer == nil {
		return
	}
	l.d.core.Disconnect(l.peer)
	l.peer = nil
	l.c.close()
}

func (l *controllerLink) data(piece []byte) {
	l.heard = l.d.n.s.w.now
	batch, err := l.in.Add(piece)
	if err != nil {
		l.d.n.s.w.fail("agent %s got %v from controller %s", l.d.n.p.name, err, l.address)
		return
	}
	l.backoff = agent.BackoffFirst
	if len(l.held) > 0 {
		l.held = append(l.held, batch...)
		return
	}
	l.takeIn(batch)
}

// takeIn puts what the controller says into the core. A master is held up while the switch does
// not take its commands.
func (l *controllerLink) takeIn(batch []byte) {
	d := l.d
	if d.core.Master() == l.peer && d.core.QueuedCommands() >= d.commandBytes {
		l.held = append([]byte(nil), batch...)
		l.c.pauseReading(true)
		d.n.p.after(retryWrite, func() {
			if held := l.held; l.peer != nil && len(held) > 0 {
				l.held = nil
				l.c.pauseReading(false)
				l.takeIn(held)
			}
		})
		return
	}
	if d.core.Master() == l.peer {
		history.Each(batch, l.observe)
	}
	before, slave := d.core.Status(), d.core.Master() != l.peer
	err := d.core.FromController(l.peer, batch)
	switch after := d.core.Status(); {
	case after.Term < before.Term:
		d.n.s.w.fail("the agent of switch %s took a leader of term %d after one of term %d", d.id, after.Term,
			before.Term)
	case slave && d.core.Master() != l.peer && judged(after.Counters) > judged(before.Counters):
		d.n.s.w.fail("commands to switch %s from %s, which is not its master, were taken for its master's", d.id,
			l.address)
	}
	var no *agent.Refused
	switch {
	case errors.As(err, &no) && no.Reason == experimenter.ReasonStaleEpoch:
		l.stale(no.Epoch)
		return
	case errors.As(err, &no) && no.Reason == experimenter.ReasonLostLog:
		d.n.s.w.fail("%s says to the agent of switch %s that the log of a master with a later term is lost; it is not",
			l.address, d.id)
	case err != nil:
		d.n.s.w.note(d.n.p, "switch %s: controller %s: %v", d.id, l.address, err)
		l.drop()
		if no != nil {
			l.backoff = agent.RefusedPause
		}
		l.again()
	}
	if s := d.sw; s != nil && len(s.held) > 0 {
		s.takeIn(nil) // there may be room now
		return
	}
	d.flush()
}

// judged counts the commands that were not refused because of who sent them.
func judged(c agent.Counters) uint64 { return c.Forwarded + c.Duplicates + c.Stale }

// observe tells what the controller acknowledges.
func (l *controllerLink) observe(msg []byte) {
	if t, _ := experimenter.Is(msg); t == experimenter.TypeEventAck {
		if ack, err := experimenter.ParseAck(msg, t); err == nil {
			l.d.n.s.h.Acked(l.d.id, ack.Epoch, ack.Seq)
		}
	}
}

// stale begins the switch anew, above an epoch that the controllers know.
func (l *controllerLink) stale(newest uint64) {
	d := l.d
	before := d.core.Epoch()
	d.n.s.w.note(d.n.p, "switch %s: stale epoch, controllers know %d", d.id, newest)
	if !d.core.Stale(newest) { // it has begun anew already
		l.drop()
		l.backoff = agent.BackoffFirst
		l.again()
		return
	}
	d.n.s.h.Refused(d.id, before)
	for _, c := range d.links {
		if c.peer != nil {
			c.drop()
			c.backoff = agent.BackoffFirst
			c.again()
		}
	}
	if s := d.sw; s != nil {
		d.sw = nil
		s.c.close()
	}
}
