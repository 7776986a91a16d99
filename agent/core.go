package agent

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/filter"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// core is the protocol of one switch and its controllers, without I/O, clock or locks.
// Bytes from the switch go in by fromSwitch, bytes from a controller by fromController,
// the clock by tick; what is to be written is taken by takeSwitch and take. It lives as
// long as the agent: epochs of the switch come and go.
type core struct {
	version  uint8 // of the switch
	features []byte

	events buffer
	epochs []span // of the events held, oldest first; the last is the newest, held or not
	live   bool   // the switch is there, and the newest epoch is open
	lens   []int  // scratch of fromSwitch

	generation uint64 // the highest of any master
	claimed    bool   // there was a master
	master     *peer  // nil when none is connected
	commands   filter.Filter

	count Counters
}

// span is one epoch: its first event has the ordinal base.
type span struct{ epoch, base uint64 }

const ownXID = handshake.OwnXID

func newCore(maxEvents, maxBytes int) *core {
	return &core{events: buffer{maxEvents: maxEvents, maxBytes: maxBytes}}
}

// epoch returns the newest epoch, open or closed; 0 before the first.
func (c *core) epoch() uint64 {
	if len(c.epochs) == 0 {
		return 0
	}
	return c.epochs[len(c.epochs)-1].epoch
}

// switchUp opens an epoch, which must be higher than every earlier one. It fails when the
// buffer has no room for the event that says so.
func (c *core) switchUp(epoch uint64, version uint8, features, ports []byte) error {
	up := experimenter.SwitchUp{Features: features, Ports: ports}
	msg := up.Append(nil, version)
	if n, bytes := c.events.room(); n < 1 || bytes < len(msg) {
		return fmt.Errorf("its event buffer is full: %d events of earlier epochs wait for a controller", c.events.held())
	}
	if epoch <= c.epoch() {
		panic(fmt.Sprintf("agent: epoch %d after %d", epoch, c.epoch()))
	}
	c.version, c.features, c.live = version, features, true
	c.epochs = append(c.epochs, span{epoch, c.events.next})
	c.events.add(msg, []int{len(msg)})
	c.count.Events++
	c.commands = filter.New(version, true)
	return nil
}

// switchDown closes the epoch. Commands that were not written are dropped: the next epoch
// is a clean slate. The events held stay.
func (c *core) switchDown(reason experimenter.Reason) {
	if !c.live {
		return
	}
	msg := experimenter.AppendSwitchDown(nil, c.version, reason)
	c.events.add(msg, []int{len(msg)})
	c.count.Events++
	c.live, c.commands = false, filter.Filter{}
}

// forget drops all epochs and events: the controllers know a newer epoch.
func (c *core) forget() {
	c.live, c.commands = false, filter.Filter{}
	c.events.release(c.events.next)
	c.epochs = c.epochs[:0]
	if c.master != nil {
		c.master.cursor = c.events.next
	}
}

// fromSwitch takes whole messages from the switch and returns how many bytes of them it
// took: fewer than all when the buffer is full. An error says what is wrong with the switch.
func (c *core) fromSwitch(batch []byte) (int, error) {
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
func (c *core) isEvent(msg []byte) (bool, error) {
	if msg[0] != c.version {
		return false, fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", msg[0], c.version)
	}
	multipart, barrier := c.answerTypes()
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return false, nil
	case openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return false, fmt.Errorf("it sent a %s, which only an agent does: let the agent's switches connect to it directly", t)
		}
	case openflow.TypeError, of13.TypeFeaturesReply, multipart, barrier: // FEATURES has one number in both versions
		return openflow.XID(msg) < ownXID, nil
	}
	return true, nil
}

// answer deals with a message from the switch that is no event.
func (c *core) answer(msg []byte) {
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
func (c *core) ackEvents(a experimenter.Ack) error {
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
	if a.Epoch > c.epoch() {
		return fmt.Errorf("it acknowledges an event of epoch %d, and the newest is %d", a.Epoch, c.epoch())
	}
	return nil // of an epoch whose events are all acknowledged
}

// attach describes what is held, for ATTACH.
func (c *core) attach() experimenter.Attach {
	s := c.epochs[len(c.epochs)-1]
	return experimenter.Attach{
		Epoch:       s.epoch,
		FirstHeld:   max(c.events.first, s.base) - s.base + 1,
		NextEvent:   c.events.next - s.base + 1,
		CommandDone: c.commands.Done,
	}
}

// tick sends an echo request to everyone, so that everyone hears from the agent, and a live
// peer has something to answer. It is to be called about once a second.
func (c *core) tick(peers []*peer) {
	for _, p := range peers {
		p.echo(c.version)
	}
	if !c.live {
		return
	}
	c.commands.Out = handshake.Bare(c.commands.Out, c.version, openflow.TypeEchoRequest, ownXID)
	if c.commands.Tick() {
		c.tellDone()
	}
}

// tellDone tells the master which commands are executed.
func (c *core) tellDone() {
	if c.master != nil {
		c.master.ackDue = true
	}
}

// answerTypes are the types of the replies, other than FEATURES_REPLY, to what the agent
// asks a switch.
func (c *core) answerTypes() (multipart, barrier uint8) {
	if c.version == openflow.Version10 {
		return of10.TypeStatsReply, of10.TypeBarrierReply
	}
	return of13.TypeMultipartReply, of13.TypeBarrierReply
}
