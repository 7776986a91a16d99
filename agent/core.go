package agent

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/filter"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Core is the protocol of one switch and its controllers, without I/O, clock or locks.
// Bytes from the switch go in by FromSwitch, bytes from a controller by FromController,
// the clock by Tick; what is to be written is taken by TakeSwitch and Take. It lives as
// long as the agent: epochs of the switch come and go, and so do controllers. The same
// calls in the same order have the same results.
//
// The handshake with the switch comes before SwitchUp; internal/handshake is that.
type Core struct {
	version  uint8 // of the switch
	features []byte

	events buffer
	epochs []span // of the events held, oldest first; the last is the newest, held or not
	live   bool   // the switch is there, and the newest epoch is open
	floor  uint64 // the newest epoch that controllers have refused as stale
	lens   []int  // scratch of FromSwitch

	generation uint64 // the highest of any master
	claimed    bool   // there was a master
	master     *Peer  // nil when none is connected
	orphaned   int    // ticks that somebody was refused as master and nobody else was it
	commands   filter.Filter

	count Counters
}

// span is one epoch: its first event has the ordinal base.
type span struct{ epoch, base uint64 }

const ownXID = handshake.OwnXID

// NewCore makes the core of a switch that was never there. Its buffer holds as many events
// and bytes: at least 4, and two of the largest messages.
func NewCore(maxEvents, maxBytes int) *Core {
	return &Core{events: buffer{maxEvents: maxEvents, maxBytes: maxBytes}}
}

// SwitchUp says that the switch has completed its handshake, with the whole messages that
// told features and ports. It opens an epoch and returns it: now, in nanoseconds, unless the
// agent or the controllers know one as high. It fails when the buffer has no room for the
// event that says so; then the switch cannot be taken yet. SwitchDown comes before the next.
func (c *Core) SwitchUp(now uint64, version uint8, features, ports []byte) (epoch uint64, err error) {
	up := experimenter.SwitchUp{Features: features, Ports: ports}
	msg := up.Append(nil, version)
	if n, bytes := c.events.room(); n < 1 || bytes < len(msg) {
		return 0, fmt.Errorf("its event buffer is full: %d events of earlier epochs wait for a controller",
			c.events.held())
	}
	epoch = max(now, c.Epoch()+1, c.floor+1)
	c.version, c.features, c.live = version, features, true
	c.epochs = append(c.epochs, span{epoch, c.events.next})
	c.events.add(msg, []int{len(msg)})
	c.count.Events++
	c.commands = filter.New(version)
	return epoch, nil
}

// SwitchDown says that the switch's connection is gone, and closes the epoch. Commands that
// were not written are dropped: the next epoch is a clean slate. The events held stay.
func (c *Core) SwitchDown(reason experimenter.Reason) {
	if !c.live {
		return
	}
	msg := experimenter.AppendSwitchDown(nil, c.version, reason)
	c.events.add(msg, []int{len(msg)})
	c.count.Events++
	c.live, c.commands = false, filter.Filter{}
}

// Stale takes a refusal for a stale epoch, with the newest that the controllers know. What is held
// of epochs up to that is over for them, and is forgotten. True: that is all there is; every
// connection to a controller, and the switch's, is to be closed, so that the switch returns with
// an epoch above newest. False: such an epoch has begun already, and its events stay.
func (c *Core) Stale(newest uint64) bool {
	c.floor = max(c.floor, newest)
	keep := slices.IndexFunc(c.epochs, func(s span) bool { return s.epoch > newest })
	if begun := keep >= 0; begun {
		c.events.release(c.epochs[keep].base)
		c.epochs = c.epochs[keep:]
	} else {
		c.live, c.commands = false, filter.Filter{}
		c.events.release(c.events.next)
		c.epochs = c.epochs[:0]
	}
	if c.master != nil {
		c.master.cursor = max(c.master.cursor, c.events.first)
	}
	return keep < 0
}

// yieldAfter is how many ticks somebody is refused for its term, while nobody is master, before the agent
// takes a controller's word that nobody can have the higher one any more. A failover is over long before.
const yieldAfter = 5

// Yield takes a refusal of p for a lost log: its group has proved, by an entry committed after its claim was refused,
// that no member led in the term that outdid it. It follows p's term from then on, so that who was deposed before
// stays fenced, and all that is held is forgotten, as by Stale, whose result it has. False also if
// there is another master, or was until just now, or p was not refused for the term as it is: then nothing changes.
func (c *Core) Yield(p *Peer) bool {
	if c.master != nil || c.orphaned < yieldAfter || p.refused.by == 0 || p.refused.by != c.generation {
		return false
	}
	c.generation, c.orphaned = p.refused.term, 0
	return c.Stale(c.Epoch())
}

// orphan counts how long the switch has no master, though somebody wants to be it.
func (c *Core) orphan(peers []*Peer) {
	refused := slices.ContainsFunc(peers, func(p *Peer) bool { return p.refused.by > 0 })
	switch {
	case c.master != nil:
		c.orphaned = 0
	case refused:
		c.orphaned++
	}
}

// FromSwitch takes whole messages from the switch and returns how many bytes of them it
// took: fewer than all when the buffer is full, and then the rest is to be offered again,
// before anything else of the switch. An error says what is wrong with the switch, and ends
// the connection.
func (c *Core) FromSwitch(batch []byte) (taken int, err error) {
	if !c.live {
		return len(batch), nil // read before Stale closed the connection: of no epoch
	}
	freeEvents, freeBytes := c.events.room()
	start, off := 0, 0 // batch[start:off] are events that are not in the buffer yet
	c.lens = c.lens[:0]
	flush := func() {
		if off > start {
			c.events.add(batch[start:off], c.lens)
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

// isEvent tells what the switch has to say from what is between it and the agent.
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
	case openflow.TypeError, of13.TypeFeaturesReply, multipart, barrier: // FEATURES has one number in both versions
		return openflow.XID(msg) < ownXID, nil
	}
	return true, nil
}

// answer deals with a message from the switch that is no event.
func (c *Core) answer(msg []byte) {
	_, barrier := c.answerTypes()
	switch msg[1] {
	case openflow.TypeEchoRequest:
		c.commands.Out = handshake.EchoReply(c.commands.Out, msg)
	case openflow.TypeError, barrier:
		if c.commands.Answered(openflow.XID(msg)) {
			c.tellDone()
		}
	}
}

// ackEvents releases what is logged. The error says that the acknowledgement is impossible.
func (c *Core) ackEvents(a experimenter.Ack) error {
	for i, s := range c.epochs {
		if s.epoch != a.Epoch {
			continue
		}
		end := c.events.next
		if i+1 < len(c.epochs) {
			end = c.epochs[i+1].base
		}
		if a.Seq > end-s.base {
			return fmt.Errorf("it acknowledges event %d of epoch %d, which has %d", a.Seq, a.Epoch, end-s.base)
		}
		before := c.events.first
		c.events.release(s.base + a.Seq)
		c.count.Acked += c.events.first - before
		for len(c.epochs) > 1 && c.epochs[1].base <= c.events.first {
			c.epochs = c.epochs[1:]
		}
		return nil
	}
	// Of an epoch whose events are all acknowledged; or of a higher one, from before this agent, when the
	// clock was ahead. Then a refusal comes, once the controller has heard of this agent's epoch.
	return nil
}

// attach describes what is held, for ATTACH.
func (c *Core) attach() experimenter.Attach {
	s := c.epochs[len(c.epochs)-1]
	return experimenter.Attach{
		Epoch:       s.epoch,
		FirstHeld:   max(c.events.first, s.base) - s.base + 1,
		NextEvent:   c.events.next - s.base + 1,
		CommandDone: c.commands.Done,
	}
}

// Tick sends an echo request to everyone, so that everyone hears from the agent, and a live
// peer has something to answer. It is to be called about once a second, with all that Connect
// returned and Disconnect did not get yet.
func (c *Core) Tick(peers []*Peer) {
	for _, p := range peers {
		p.echo(c.version)
	}
	c.orphan(peers)
	if !c.live {
		return
	}
	c.commands.Out = handshake.Bare(c.commands.Out, c.version, openflow.TypeEchoRequest, ownXID)
	if c.commands.Tick() {
		c.tellDone()
	}
}

// tellDone tells the master which commands are executed.
func (c *Core) tellDone() {
	if c.master != nil {
		c.master.ackDue = true
	}
}

// TakeSwitch appends what is to be written to the switch now.
func (c *Core) TakeSwitch(dst []byte) []byte {
	dst = append(dst, c.commands.Out...)
	c.commands.Out = c.commands.Out[:0]
	if c.commands.Written() {
		c.tellDone()
	}
	return dst
}

// answerTypes are the types of the replies, other than FEATURES_REPLY, to what the agent
// asks a switch.
func (c *Core) answerTypes() (multipart, barrier uint8) {
	if c.version == openflow.Version10 {
		return of10.TypeStatsReply, of10.TypeBarrierReply
	}
	return of13.TypeMultipartReply, of13.TypeBarrierReply
}
