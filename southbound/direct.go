package southbound

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/filter"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Here is what Core does for a switch of OpenFlow 1.0 that has no agent: it numbers the events and
// filters the commands itself.

// switchMessages takes a run of events from a switch that has no agent, or one message
// that is no event.
func (c *Core) switchMessages(buf []byte) ([]byte, Action, error) {
	n, count := 0, 0
	for n < len(buf) {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		isEvent, err := c.isEvent(buf[n : n+size])
		if err != nil {
			return nil, Action{}, err
		}
		if !isEvent {
			break
		}
		n, count = n+size, count+1
	}
	if n == 0 {
		msg, rest, err := openflow.Next(buf)
		if err != nil {
			return nil, Action{}, err
		}
		return rest, c.answer(msg), nil
	}
	if !c.up { // nobody's: the epoch begins when a leader takes the switch
		return buf[n:], Action{}, nil
	}
	messages := buf[:n]
	if c.hs.Version != of13.Version {
		messages, count = c.runToV13(messages)
	}
	first := c.nextEvent
	c.nextEvent += uint64(count)
	return buf[n:], Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: first, Count: count, Messages: messages}}, nil
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
	case openflow.TypeError, of13.TypeFeaturesReply, of13.TypeBarrierReply, of13.TypeMultipartReply, of13.TypeRoleReply, of10.TypeStatsReply: // of10.TypeBarrierReply is of13.TypeMultipartReply
		return openflow.XID(msg) < handshake.OwnXID, nil
	}
	return true, nil
}

// answer deals with a message of a switch that is no event.
func (c *Core) answer(msg []byte) Action {
	if msg[1] == openflow.TypeEchoRequest {
		c.out = handshake.EchoReply(c.out, msg)
	}
	return Action{}
}

func (c *Core) doneAction() Action {
	return Action{Kind: CommandsDone, Batch: Batch{Epoch: c.epoch}, Done: c.commands.Done}
}

// Fresh reports that nothing a switch without agent has said is lost yet: it has just
// connected, and nobody has claimed it. Leave it unread for a while, so that a leader can;
// Begin ends that.
func (c *Core) Fresh() bool { return c.fresh }

// Begin says that a switch without agent is going to be read from here on. It begins the
// epoch, by its first event, if a leader has claimed the switch.
func (c *Core) Begin() Action {
	c.fresh = false
	if c.mode != Direct || c.up || !c.master || !c.hs.Done { // not Done: claimed twice, and being asked
		return Action{}
	}
	return c.begin()
}

// begin opens the epoch of a switch without agent, by its first event.
func (c *Core) begin() Action {
	c.up, c.nextEvent, c.passed = true, 2, c.passed+c.commands.Forwarded
	c.commands = filter.New(c.hs.Version, false)
	msg := c.upToV13(c.hs.Features, c.hs.Ports)
	return Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: 1, Count: 1, Messages: msg}}
}

// End says that the connection is over. It closes the epoch of a switch without agent, by
// its last event, if it has begun.
func (c *Core) End(r experimenter.Reason) Action {
	if c.mode == Agent || !c.up {
		return Action{}
	}
	next := c.nextEvent
	if c.mode == Stock {
		next = c.stock.end() + 1
	}
	c.up = false
	return Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: next, Count: 1, Messages: experimenter.AppendSwitchDown(nil, of13.Version, r)}}
}

func (c *Core) newEpoch(now uint64) { c.epoch, c.up = max(now, c.epoch+1, c.floor+1), false }

// forward lets through those of the commands that did not pass yet.
func (c *Core) forward(first uint64, messages []byte) error {
	if first > c.commands.Forwarded+1 {
		return fmt.Errorf("southbound: gap in the commands: %d after %d", first, c.commands.Forwarded)
	}
	for seq := first; len(messages) > 0; seq++ {
		n := int(messages[2])<<8 | int(messages[3])
		if seq > c.commands.Forwarded {
			c.commands.Pass(messages[:n])
		}
		messages = messages[n:]
	}
	c.commands.Ask()
	c.takeCommands()
	return nil
}

func (c *Core) takeCommands() {
	c.out = append(c.out, c.commands.Out...)
	c.commands.Out = c.commands.Out[:0]
}

// DoneAtWrite is for after TakeOut. It reports whether commands count as done when they are
// written, and what Written is to be told then: never the same for two epochs.
func (c *Core) DoneAtWrite() (mark uint64, yes bool) {
	return c.passed + c.commands.Forwarded, c.mode == Direct && c.hs.Version == openflow.Version10
}

// Written says that everything is written that was taken out before DoneAtWrite gave mark.
func (c *Core) Written(mark uint64) Action {
	if !c.up || mark <= c.passed+c.commands.Done || mark > c.passed+c.commands.Forwarded {
		return Action{}
	}
	c.commands.Done = mark - c.passed
	return c.doneAction()
}
