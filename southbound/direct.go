package southbound

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// direct is what Core knows of a switch of OpenFlow 1.0 that has no agent: it numbers the events and
// filters the commands itself.
type direct struct {
	fresh     bool   // nothing that the switch said is lost yet
	nextEvent uint64 // of the epoch
	forwarded uint64 // the highest command of the epoch that passed
	done      uint64 // and that was written
	passed    uint64 // commands of the epochs before
}

// switchMessages takes a run of events from a switch that has no agent, or one message
// that is no event.
func (c *Core) switchMessages(buf []byte) ([]byte, Action, error) {
	n := 0
	for n < len(buf) {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		isEvent, err := c.isEvent(buf[n : n+size])
		if err != nil {
			return nil, Action{}, err
		}
		if !isEvent {
			break
		}
		n += size
	}
	if n == 0 {
		msg, rest, err := openflow.Next(buf)
		if err != nil {
			return nil, Action{}, err
		}
		if msg[1] == openflow.TypeEchoRequest {
			c.out = handshake.EchoReply(c.out, msg)
		}
		return rest, Action{}, nil
	}
	if !c.up { // nobody's: the epoch begins when a leader takes the switch
		return buf[n:], Action{}, nil
	}
	messages, count := c.runToV13(buf[:n])
	first := c.direct.nextEvent
	c.direct.nextEvent += uint64(count)
	return buf[n:], Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: first, Count: count, Messages: messages}},
		nil
}

// isEvent tells what the switch has to say from what is between it and the session.
func (c *Core) isEvent(msg []byte) (bool, error) {
	if msg[0] != c.hs.Version {
		return false, fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", msg[0], c.hs.Version)
	}
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoRequest, openflow.TypeEchoReply:
		return false, nil
	case openflow.TypeExperimenter:
		if t, ours := experimenter.Is(msg); ours {
			return false, fmt.Errorf("it sent %s without ATTACH: only an agent may", t)
		}
	case openflow.TypeError, of13.TypeFeaturesReply, of10.TypeStatsReply, of10.TypeBarrierReply:
		return openflow.XID(msg) < handshake.OwnXID, nil
	}
	return true, nil
}

// Fresh reports that nothing a switch without agent has said is lost yet: it has just
// connected, and nobody has claimed it. Leave it unread for a while, so that a leader can;
// Begin ends that.
func (c *Core) Fresh() bool { return c.direct.fresh }

// Begin says that a switch without agent is going to be read from here on. It begins the
// epoch, by its first event, if a leader has claimed the switch.
func (c *Core) Begin() Action {
	c.direct.fresh = false
	if c.mode != Direct || c.up || !c.master || !c.hs.Done { // not Done: claimed twice, and being asked
		return Action{}
	}
	return c.begin()
}

// begin opens the epoch of a switch without agent, by its first event.
func (c *Core) begin() Action {
	c.up, c.direct = true, direct{nextEvent: 2, passed: c.direct.passed + c.direct.forwarded}
	msg := c.upToV13(c.hs.Features, c.hs.Ports)
	return Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: 1, Count: 1, Messages: msg}}
}

// End says that the connection is over. It closes the epoch of a switch without agent, by
// its last event, if it has begun.
func (c *Core) End(r experimenter.Reason) Action {
	if c.mode == Agent || !c.up {
		return Action{}
	}
	next := c.direct.nextEvent
	if c.mode == Stock {
		next = c.stock.end() + 1
	}
	c.up = false
	return Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: next, Count: 1,
		Messages: experimenter.AppendSwitchDown(nil, of13.Version, r)}}
}

func (c *Core) newEpoch(now uint64) { c.epoch, c.up = max(now, c.epoch+1, c.floor+1), false }

// forward lets through those of the commands that did not pass yet.
func (c *Core) forward(first uint64, messages []byte) error {
	d := &c.direct
	if first > d.forwarded+1 {
		return fmt.Errorf("southbound: gap in the commands: %d after %d", first, d.forwarded)
	}
	for seq := first; len(messages) > 0; seq++ {
		n := int(messages[2])<<8 | int(messages[3])
		if seq > d.forwarded {
			c.out = append(c.out, messages[:n]...)
			d.forwarded = seq
		}
		messages = messages[n:]
	}
	return nil
}

// DoneAtWrite is for after TakeOut. It reports whether commands count as done when they are
// written, and what Written is to be told then: never the same for two epochs.
func (c *Core) DoneAtWrite() (mark uint64, yes bool) {
	return c.direct.passed + c.direct.forwarded, c.mode == Direct
}

// Written says that everything is written that was taken out before DoneAtWrite gave mark.
func (c *Core) Written(mark uint64) Action {
	d := &c.direct
	if !c.up || mark <= d.passed+d.done || mark > d.passed+d.forwarded {
		return Action{}
	}
	d.done = mark - d.passed
	return Action{Kind: CommandsDone, Batch: Batch{Epoch: c.epoch}, Done: d.done}
}
