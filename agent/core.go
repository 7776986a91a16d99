package agent

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// Core is the protocol of one switch and its controllers, without I/O, clock or locks. Bytes from the switch go in by
// FromSwitch, bytes from a controller by FromController, and the clock by Tick. What is to be written comes out of
// TakeSwitch and Take. A Core lives as long as the agent: the switch and the controllers may disconnect and return. The
// same calls in the same order have the same results.
//
// The handshake with the switch comes before SwitchUp; internal/handshake implements it.
type Core struct {
	version  uint8 // of the switch
	features []byte

	events stream.Outbox    // numbered across epochs
	bounds stream.Bounds    // of events, without what SWITCH_DOWN needs
	epochs []span           // of the events kept, oldest first; the last is the newest epoch, with events or without
	heard  bool             // something of the switch has come since the last tick
	wrote  bool             // something was written to it since then
	live   bool             // the switch is connected, and the newest epoch is open
	floor  uint64           // the newest epoch that controllers have refused as stale
	acked  experimenter.Ack // the newest event that a master has acknowledged
	lens   []int            // scratch of FromSwitch
	behind bool             // FromSwitch has left a rest, in which answers of the switch may be

	generation uint64 // the highest of any claim
	claimed    bool   // there was a master
	master     *Peer  // nil when none is connected
	orphaned   int    // ticks without a master in which some controller was refused as master
	commands   filter

	count Counters
}

// span is one epoch. The event that has the sequence number 1 in it is event before+1 of the outbox.
type span struct{ epoch, before uint64 }

const ownXID = handshake.OwnXID

// One event, and so many bytes, are kept free for the SWITCH_DOWN that ends an epoch: it must always fit.
const (
	downEvents = 1
	downBytes  = 64
)

// NewCore makes the core of a switch that has never connected. It keeps at most maxEvents events and maxBytes bytes:
// at least 4 events, and twice the largest message.
func NewCore(maxEvents, maxBytes int) *Core {
	return &Core{bounds: stream.Bounds{Items: maxEvents - downEvents, Bytes: maxBytes - downBytes}}
}

// SwitchUp says that the switch has completed its handshake. features and ports are its replies, as whole messages. It
// opens an epoch and returns it: now, in nanoseconds, or more if the agent or the controllers know an epoch as high. It
// fails if SWITCH_UP does not fit among the events that are kept; then the switch cannot be served yet. SwitchDown must
// come before the next SwitchUp.
func (c *Core) SwitchUp(now uint64, version uint8, features, ports []byte) (epoch uint64, err error) {
	up := experimenter.SwitchUp{Features: features, Ports: ports}
	msg := up.Append(nil, version)
	if n, bytes := c.events.Room(c.bounds); n < 1 || bytes < len(msg) {
		return 0, fmt.Errorf("its event buffer is full: %d events of earlier epochs wait for a controller",
			c.events.Len())
	}
	epoch = max(now, c.Epoch()+1, c.floor+1)
	c.version, c.features, c.live = version, features, true
	c.epochs = append(c.epochs, span{epoch, c.events.Last()})
	c.events.Push(msg)
	c.count.Events++
	c.commands, c.behind = newFilter(version), false
	return epoch, nil
}

// SwitchDown says that the switch has disconnected, and closes the epoch. Commands that were not written are dropped,
// since the next epoch is a clean slate. The events stay until they are acknowledged.
func (c *Core) SwitchDown(reason experimenter.Reason) {
	if !c.live {
		return
	}
	c.events.Push(experimenter.AppendSwitchDown(nil, c.version, reason))
	c.count.Events++
	c.live, c.commands = false, filter{}
}

// Stale takes a REFUSE for a stale epoch; newest is the newest epoch that the controllers know. Events of epochs up to
// newest are forgotten, since the controllers no longer accept them. If no newer epoch has begun, Stale returns true:
// then the caller closes the connections to the switch and to all controllers, so that the switch returns with an epoch
// above newest. If one has begun, it returns false, and the events of that epoch stay.
func (c *Core) Stale(newest uint64) bool {
	c.floor = max(c.floor, newest)
	keep := slices.IndexFunc(c.epochs, func(s span) bool { return s.epoch > newest })
	if keep < 0 {
		c.live, c.commands = false, filter{}
		c.epochs = c.epochs[:0]
		_ = c.events.Ack(c.events.Last())
		return true
	}
	_ = c.events.Ack(c.epochs[keep].before)
	c.epochs = c.epochs[keep:]
	return false
}

// followAfter is the number of ticks without a master, while some controller is refused as master, after which the
// agent follows controllers whose log lacks events that were acknowledged. A failover takes far less. It is also the
// number of ticks after which a refusal is forgotten: a leader repeats a refused claim about once a tick.
const followAfter = 5

// lacks reports whether the log of p lacks events that a master has acknowledged. A master acknowledges only what is
// committed, and a leader of a later term has all that was committed before. So if p claims the switch in a term that
// is not stale, either the log of those masters is lost, or p is of another cluster.
func (c *Core) lacks(p *Peer) bool { return later(c.acked, p.logged) }

func later(a, b experimenter.Ack) bool {
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Seq > b.Seq
}

// BeginAnew follows controllers that lack events which were acknowledged: all events are forgotten, as by Stale.
func (c *Core) BeginAnew() { c.orphaned, c.acked = 0, experimenter.Ack{}; c.Stale(c.Epoch()) }

// orphan counts the ticks in which the switch has no master though a controller has claimed it.
func (c *Core) orphan(peers []*Peer) {
	refused := false
	for _, p := range peers {
		if p.silent++; p.silent > followAfter { // it no longer leads
			p.refused = 0
		}
		refused = refused || p.refused > 0
	}
	switch {
	case c.master != nil:
		c.orphaned = 0
	case refused:
		c.orphaned++
	}
}

// FromSwitch takes whole messages from the switch and returns how many bytes of them it took. It takes fewer than all
// when the event buffer is full; then the caller offers the rest again, before anything else of the switch. An error
// says what is wrong with the switch, and ends its connection.
func (c *Core) FromSwitch(batch []byte) (taken int, err error) {
	if !c.live {
		return len(batch), nil // it was read before Stale closed the connection: it belongs to no epoch
	}
	c.heard = c.heard || len(batch) > 0
	c.behind = false
	freeEvents, freeBytes := c.events.Room(c.bounds)
	start, off := 0, 0 // batch[start:off] are events that are not in the buffer yet
	c.lens = c.lens[:0]
	flush := func() {
		if off > start {
			c.events.PushRun(batch[start:off], c.lens)
			c.count.Events += uint64(len(c.lens))
			c.lens = c.lens[:0]
		}
	}
	for off < len(batch) {
		n := int(batch[off+2])<<8 | int(batch[off+3])
		msg := batch[off : off+n]
		isEvent, err := c.isEvent(msg)
		if err != nil {
			flush()
			return off, err
		}
		if isEvent {
			if freeEvents < 1 || freeBytes < n {
				c.count.Full++
				c.behind = true
				break
			}
			freeEvents, freeBytes = freeEvents-1, freeBytes-n
			c.lens = append(c.lens, n)
			off += n
			continue
		}
		flush()
		c.answer(msg)
		off += n
		start = off
	}
	flush()
	return off, nil
}

// isEvent distinguishes events from what the switch says to the agent itself.
func (c *Core) isEvent(msg []byte) (bool, error) {
	if msg[0] != c.version {
		return false, fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", msg[0], c.version)
	}
	multipart, barrier := c.answerTypes()
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return false, nil
	case openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return false, fmt.Errorf("it sent a %s, which only an agent does: let the agent's switches connect to "+
				"it directly", t)
		}
	// FEATURES_REPLY has one number in all versions
	case openflow.TypeError, of13.TypeFeaturesReply, multipart, barrier:
		return openflow.XID(msg) < ownXID, nil
	}
	return true, nil
}

// answer handles a message from the switch that is not an event.
func (c *Core) answer(msg []byte) {
	_, barrier := c.answerTypes()
	switch msg[1] {
	case openflow.TypeEchoRequest:
		c.commands.out = handshake.EchoReply(c.commands.out, msg)
	case openflow.TypeError, barrier:
		if c.commands.answered(openflow.XID(msg)) {
			c.tellDone()
		}
	}
}

// ackEvents forgets the events that are logged. The error says that the acknowledgement is impossible.
func (c *Core) ackEvents(a experimenter.Ack) error {
	for i, s := range c.epochs {
		if s.epoch != a.Epoch {
			continue
		}
		last := c.events.Last()
		if i+1 < len(c.epochs) {
			last = c.epochs[i+1].before
		}
		if a.Seq > last-s.before {
			return fmt.Errorf("it acknowledges event %d of epoch %d, which has %d", a.Seq, a.Epoch, last-s.before)
		}
		if later(a, c.acked) {
			c.acked = a
		}
		acked := c.events.Acked()
		if err := c.events.Ack(s.before + a.Seq); err != nil {
			return err
		}
		c.count.Acked += c.events.Acked() - acked
		for len(c.epochs) > 1 && c.epochs[1].before <= c.events.Acked() {
			c.epochs = c.epochs[1:]
		}
		return nil
	}
	// The epoch is one whose events are all acknowledged. Or it is a higher one than any here, of an earlier agent
	// whose clock was ahead: then a REFUSE follows once the controller has heard of this agent's epoch.
	return nil
}

// Newest returns the newest epoch, and the sequence of the last event in it.
func (c *Core) Newest() (epoch, seq uint64) {
	if len(c.epochs) == 0 {
		return 0, 0
	}
	s := c.epochs[len(c.epochs)-1]
	return s.epoch, c.events.Last() - s.before
}

// Oldest returns the oldest epoch that has not ended, or of which events are kept. 0: there is none.
func (c *Core) Oldest() uint64 {
	if len(c.epochs) == 0 {
		return 0
	}
	return c.epochs[0].epoch
}

// attach describes the newest epoch for ATTACH.
func (c *Core) attach() experimenter.Attach {
	s := c.epochs[len(c.epochs)-1]
	_, last := c.Newest()
	return experimenter.Attach{
		Epoch:       s.epoch,
		FirstHeld:   max(c.events.Acked(), s.before) - s.before + 1,
		NextEvent:   last + 1,
		CommandDone: c.commands.done,
		Version:     experimenter.Version(c.generation),
	}
}

// Tick sends an echo request on every connection on which nothing has come, or nothing was written, since the last
// tick: a live peer answers, and hears from the agent. If all asked always, most of what an idle agent sends and reads
// would be that. It is to be called about once a second, with all peers that are connected.
func (c *Core) Tick(peers []*Peer) {
	for _, p := range peers {
		if !p.heard || !p.wrote {
			p.echo(c.version)
		}
		p.heard, p.wrote = false, false
	}
	c.orphan(peers)
	if !c.live {
		return
	}
	if !c.heard || !c.wrote {
		c.commands.out = handshake.Bare(c.commands.out, c.version, openflow.TypeEchoRequest, ownXID)
	}
	c.heard, c.wrote = false, false
	if c.commands.tick(c.behind) {
		c.tellDone()
	}
}

// tellDone has the master told which commands are done.
func (c *Core) tellDone() {
	if c.master != nil {
		c.master.ackDue = true
	}
}

// TakeSwitch appends what is to be written to the switch now.
func (c *Core) TakeSwitch(dst []byte) []byte {
	c.wrote = c.wrote || len(c.commands.out) > 0
	dst = append(dst, c.commands.out...)
	c.commands.out = c.commands.out[:0]
	if c.commands.written() {
		c.tellDone()
	}
	return dst
}

// answerTypes returns the types of the replies, other than FEATURES_REPLY, to what the agent asks a switch.
func (c *Core) answerTypes() (multipart, barrier uint8) {
	if c.version == openflow.Version10 {
		return of10.TypeStatsReply, of10.TypeBarrierReply
	}
	return of13.TypeMultipartReply, of13.TypeBarrierReply
}
