package sim

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Bounds of agents, smaller than by default, so that short runs reach them.
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

var errSilent = errors.New("it is silent")

// agentNode is an agent: an agent.Session for each switch, and their connections.
type agentNode struct {
	s           *simulation
	p           *process
	address     string
	controllers []string // addresses

	// As long as the process lives.
	devices []*device
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
	n.p.every(heartbeat.DefaultInterval/heartbeat.Ticks, n.beat)
}

// kill loses what the agent holds; with power its machine dies, and says nothing to anyone.
func (n *agentNode) kill(power bool) {
	for _, d := range n.devices {
		if epoch := d.session.Epoch(); epoch != 0 {
			n.s.h.Lost(d.id, epoch)
		}
	}
	n.p.end(power)
	n.devices = nil
}

// tick turns the clocks of the sessions, and ends the connections that are silent.
func (n *agentNode) tick() {
	for _, d := range n.devices {
		d.session.Tick()
		for _, l := range d.lines() {
			if !l.c.stopped && n.s.w.now-l.heard > agent.DefaultSilentAfter {
				l.ended(errSilent)
			}
		}
		d.look()
	}
}

// beat turns the clocks of heartbeats.
func (n *agentNode) beat() {
	for _, d := range n.devices {
		d.session.Beat(nil)
	}
}

// accept does the handshake with a switch.
func (n *agentNode) accept(c *conn) {
	hs, l := &handshake.Handshake{}, &agentLine{c: c}
	n.p.after(agent.DefaultHandshakeTimeout, func() {
		if !hs.Done {
			c.close()
		}
	})
	c.onData = func(piece []byte) {
		batch, err := l.in.Add(piece)
		for err == nil && len(batch) > 0 && !hs.Done {
			var msg, out []byte
			msg, batch, _ = openflow.Next(batch)
			out, err = hs.Input(nil, msg)
			c.write(out)
		}
		switch {
		case err != nil:
			n.s.w.fail("agent %s: handshake: %v", n.p.name, err)
		case hs.Done:
			n.device(hs.Datapath).up(l, hs, slices.Concat(hs.Early, batch))
		}
	}
}

func (n *agentNode) device(id openflow.DatapathID) *device {
	for _, d := range n.devices {
		if d.id == id {
			return d
		}
	}
	events := cmp.Or(n.s.scenario.AgentEvents, agentEvents)
	d := &device{n: n, id: id, session: agent.NewSession(events,
		max(bytesPerEvent*events, openflow.MaxMessageLen), commandBytesPerEvent*events, len(n.controllers))}
	n.devices = append(n.devices, d)
	for i, c := range d.session.Controllers() {
		d.links = append(d.links, &controllerLink{Controller: c, d: d, address: n.controllers[i], idle: true})
	}
	return d
}

// device is one switch behind the agent.
type device struct {
	n       *agentNode
	id      openflow.DatapathID
	session *agent.Session
	sw      *agentLine // nil while the switch is not there
	links   []*controllerLink
	claimed uint64 // the highest generation in which a controller has claimed the switch
}

// up opens an epoch, unless the session does not let it.
func (d *device) up(l *agentLine, hs *handshake.Handshake, rest []byte) {
	sw, err := d.session.Up(l, uint64(d.n.p.clock().UnixNano()), hs)
	if err != nil {
		l.c.close()
		return
	}
	d.sw = l
	d.n.s.opened(d.id, d.session.Epoch(), l.c)
	l.open(d, &switchLink{Switch: sw, d: d, line: l})
	l.takeIn(rest)
}

// lines has the connections that are open.
func (d *device) lines() (all []*agentLine) {
	if d.sw != nil {
		all = append(all, d.sw)
	}
	for _, l := range d.links {
		if l.line != nil {
			all = append(all, l.line)
		}
	}
	return all
}

// look lets those go on that wait for what may have changed.
func (d *device) look() {
	if d.sw != nil && len(d.sw.held) > 0 {
		d.sw.input(nil)
	}
	for _, l := range d.links {
		if l.idle {
			l.dial()
		}
		if l.line != nil {
			l.line.pause()
		}
	}
	if d.sw != nil {
		d.sw.pause()
	}
}

// agentLine is one connection: its agent.Line, and what its reader and its writer do.
type agentLine struct {
	d       *device
	c       *conn
	channel channel
	in      history.Framer
	held    []byte // read, and no room for it yet
	heard   time.Duration
	writing bool // a step that writes is scheduled
	gone    bool
}

// channel is the session's end of a connection.
type channel interface {
	Input(batch []byte) (rest []byte, err error)
	Full() bool
	Take(dst []byte) []byte
	ended(err error)
}

func (l *agentLine) open(d *device, to channel) {
	l.d, l.channel, l.heard = d, to, d.n.s.w.now
	l.c.onData, l.c.onClose = l.data, l.ended
}

func (l *agentLine) Remote() string { return "" }

// Wake lets the writer have its turn.
func (l *agentLine) Wake() {
	if !l.writing {
		l.writing = true
		l.c.p.after(0, l.write)
	}
}

// Close ends the connection once the session is done with the present call.
func (l *agentLine) Close(cause error) {
	l.c.close()
	l.c.p.after(0, func() { l.ended(cause) })
}

// write writes all that is due, as far as the other end reads.
func (l *agentLine) write() {
	l.writing = false
	for n := l.d.n; !l.gone; l.c.write(n.scratch) {
		if l.c.unread() >= maxUnread {
			l.writing = true
			l.c.p.after(retryWrite, l.write)
			break
		}
		if n.scratch = l.channel.Take(n.scratch[:0]); len(n.scratch) == 0 {
			break
		}
	}
	l.d.look()
}

func (l *agentLine) data(piece []byte) {
	l.heard = l.d.n.s.w.now
	batch, err := l.in.Add(piece)
	if err != nil {
		l.d.n.s.w.fail("agent %s got %v for switch %s", l.d.n.p.name, err, l.d.id)
		return
	}
	l.takeIn(batch)
}

// takeIn passes a batch to the session. What has no room waits, and the peer with it.
func (l *agentLine) takeIn(batch []byte) {
	l.input(batch)
	l.d.look()
}

func (l *agentLine) input(batch []byte) {
	if len(l.held) > 0 {
		l.held = append(l.held, batch...)
		batch = l.held
	}
	rest, err := l.channel.Input(batch)
	l.held = append(l.held[:0], rest...)
	if err != nil {
		l.ended(err)
	}
}

// pause reads the peer, or not.
func (l *agentLine) pause() {
	if stop := len(l.held) > 0 || l.channel.Full(); stop != l.c.stopped {
		l.heard = l.d.n.s.w.now
		l.c.pauseReading(stop)
	}
}

func (l *agentLine) ended(err error) {
	if !l.gone {
		l.gone = true
		l.c.close()
		l.channel.ended(err)
		l.d.look()
	}
}

// switchLink is one connection of a switch.
type switchLink struct {
	*agent.Switch
	d    *device
	line *agentLine
}

// Input tells the history what was taken.
func (l *switchLink) Input(batch []byte) ([]byte, error) {
	d := l.d
	rest, err := l.Switch.Input(batch)
	if err != nil {
		if d.session.Status().Connected {
			d.n.s.w.fail("agent %s: %v from switch %s", d.n.p.name, err, d.id)
		}
		return nil, err
	}
	history.Each(batch[:len(batch)-len(rest)], func(msg []byte) {
		if history.OfApplications(msg) {
			d.n.s.h.Read(d.id, d.session.Epoch(), msg)
		}
	})
	return rest, nil
}

// ended ends the epoch with the connection.
func (l *switchLink) ended(err error) {
	d, reason := l.d, experimenter.ReasonConnectionLost
	if err == errSilent {
		reason = experimenter.ReasonSilent
	}
	if d.sw == l.line {
		d.sw = nil
		if d.session.Status().Connected {
			d.n.s.h.Closed(d.id, d.session.Epoch(), reason.String())
		}
	}
	l.End(reason)
}

// controllerLink is the connection of one switch to one controller.
type controllerLink struct {
	*agent.Controller
	d       *device
	address string
	line    *agentLine         // nil while not connected
	idle    bool               // waits until it is to dial
	block   experimenter.Block // the rest of the block of commands that it sends
}

func (l *controllerLink) dial() {
	if l.idle = !l.Dial(); l.idle {
		return
	}
	l.address = l.d.n.s.instead(l.address, l.d.n.controllers)
	l.d.n.s.net.dial(l.d.n.p, l.address, func(c *conn, err error) {
		if err == nil {
			line := &agentLine{c: c}
			line.open(l.d, l)
			if err = l.Up(line, nil); err == nil {
				l.line, l.block = line, experimenter.Block{}
				return
			}
			c.close()
		}
		l.ended(err)
	})
}

// ended dials after a while.
func (l *controllerLink) ended(err error) {
	d, before := l.d, l.d.session.Epoch()
	if l.line != nil {
		d.n.s.w.note(d.n.p, "switch %s: controller %s: %v", d.id, l.address, err)
		l.line = nil
	}
	if errors.Is(err, agent.ErrLostLog) {
		d.n.s.w.fail("the agent of switch %s believes that the log of %s is lost; it is not", d.id, l.address)
	}
	pause, over := l.End(err)
	if over != nil {
		d.n.s.h.Refused(d.id, before)
	}
	d.n.p.after(pause, l.dial)
}

// Input checks what the session makes of a batch.
func (l *controllerLink) Input(batch []byte) ([]byte, error) {
	d, master, before := l.d, l.Master(), l.d.session.Status()
	if master {
		history.Each(batch, l.observe)
	}
	unfenced := uint64(0)
	history.Each(batch, func(msg []byte) {
		if l.unfenced(msg) {
			unfenced++
		}
	})
	rest, err := l.Controller.Input(batch)
	switch after := d.session.Status(); {
	case experimenter.Later(before.Generation, after.Generation):
		d.n.s.w.fail("the agent of switch %s took a leader of generation %#x after one of %#x", d.id, after.Generation,
			before.Generation)
	case !master && !l.Master() && judged(after.Counters) > judged(before.Counters):
		d.n.s.w.fail("commands to switch %s from %s, which is not its master, were taken for its master's", d.id,
			l.address)
	case after.Counters.BestEffort > before.Counters.BestEffort+unfenced:
		d.n.s.w.fail("the agent of switch %s has passed commands of %s in a generation before that of its last master",
			d.id, l.address)
	}
	return rest, err
}

// unfenced follows claims and blocks of commands, and reports whether a message is a command without a sequence in the
// generation of the last claim of any controller.
func (l *controllerLink) unfenced(msg []byte) bool {
	b := &l.block
	if b.Count > 0 {
		b.Count--
		return b.First == 0 && b.Generation == l.d.claimed
	}
	if t, _ := experimenter.Is(msg); t == experimenter.TypeCommands {
		*b, _ = experimenter.ParseBlock(msg, t) // the agent refuses one that is damaged
	}
	var role of13.RoleRequest
	if msg[1] == of13.TypeRoleRequest && role.Decode(msg) == nil && role.Role == of13.RoleMaster {
		l.d.claimed = max(l.d.claimed, role.GenerationID)
	}
	return false
}

// judged counts the commands that were not refused because of who sent them.
func judged(c agent.Counters) uint64 { return c.Forwarded + c.Duplicates + c.Stale + c.BestEffort }

// observe tells what the controller acknowledges.
func (l *controllerLink) observe(msg []byte) {
	if t, _ := experimenter.Is(msg); t == experimenter.TypeEventAck {
		if ack, err := experimenter.ParseAck(msg, t); err == nil {
			l.d.n.s.h.Acked(l.d.id, ack.Epoch, ack.Seq)
		}
	}
}
