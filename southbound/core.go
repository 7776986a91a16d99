package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/filter"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// core is the protocol of one session, without I/O, clock or locks. Bytes from the peer go
// in by next, calls of the controller by the other methods; bytes to the peer gather in out.
type core struct {
	out  []byte
	hs   handshake.Handshake
	mode Mode
	id   openflow.DatapathID

	attach   experimenter.Attach
	features []byte // FEATURES_REPLY as OpenFlow 1.3
	epoch    uint64
	master   bool
	term     uint64 // of the last takeMaster
	refused  bool   // nothing is read any more

	block    block // Agent: what is still to come of an EVENTS block
	accepted bool  // Agent: it has accepted the claim of term, so events continue from there

	floor     uint64        // Direct: epochs must be higher
	up        bool          // Direct: the epoch has begun
	nextEvent uint64        // Direct
	commands  filter.Filter // Direct

	translator
}

// block is the rest of an EVENTS block.
type block struct {
	experimenter.Block
	open bool
}

// action is what came out of some input, for the handler.
type action struct {
	kind  kind
	batch Batch  // of events
	done  uint64 // of done
}

type kind uint8

const (
	nothing  kind = iota
	attached      // the first handshake is complete
	events
	done // of commands
)

// start opens the connection.
func (c *core) start() {
	c.mode = Direct // unless it says otherwise
	c.out = handshake.Start(c.out)
}

// next takes some of buf, whole messages one after the other, and returns the rest with
// what came out. An error says what is wrong with the peer.
func (c *core) next(buf []byte) ([]byte, action, error) {
	switch {
	case c.refused:
		return nil, action{}, nil
	case c.block.open:
		return c.blockEvents(buf)
	case !c.hs.Done:
		return c.handshake(buf)
	case c.mode == Agent:
		return c.agentMessage(buf)
	}
	return c.switchMessages(buf)
}

func (c *core) handshake(buf []byte) ([]byte, action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, action{}, err
	}
	if t, ours := experimenter.Is(msg); ours && c.features == nil {
		if t != experimenter.TypeAttach || c.hs.Version == 0 || c.mode == Agent {
			return rest, action{}, fmt.Errorf("it sent %s where only HELLO and one ATTACH belong", t)
		}
		if c.attach, err = experimenter.ParseAttach(msg); err != nil {
			return rest, action{}, err
		}
		c.mode, c.hs.NoPorts, c.epoch = Agent, true, c.attach.Epoch
		return rest, action{}, nil
	}
	if c.features != nil {
		c.hs.Early = nil // between two epochs: nobody's
	}
	if c.out, err = c.hs.Input(c.out, msg); err != nil || !c.hs.Done {
		return rest, action{}, err
	}
	if c.features != nil { // it was a restart
		if c.hs.Datapath != c.id {
			return rest, action{}, fmt.Errorf("its datapath id changed to %s", c.hs.Datapath)
		}
		return rest, c.begin(), nil
	}
	if c.features, err = c.featuresToV13(nil, c.hs.Features); err != nil {
		return rest, action{}, err
	}
	c.id = c.hs.Datapath
	if len(c.hs.Early) > 0 {
		rest = append(c.hs.Early, rest...)
		c.hs.Early = nil
	}
	return rest, action{kind: attached}, nil
}

// agentMessage deals with one message that stands outside of blocks.
func (c *core) agentMessage(buf []byte) ([]byte, action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, action{}, err
	}
	switch msg[1] {
	case of13.TypeRoleReply:
		var r of13.RoleReply
		err := r.Decode(msg)
		c.accepted = err == nil && c.master && r.Role == of13.RoleMaster && r.GenerationID == c.term
		return rest, action{}, err
	case openflow.TypeHello, openflow.TypeEchoReply, openflow.TypeError:
		// Of an error (stale term, not master) the log of the group tells the leader soon.
		return rest, action{}, nil
	case openflow.TypeEchoRequest:
		c.out = handshake.EchoReply(c.out, msg)
		return rest, action{}, nil
	}
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeEvents:
		b, err := experimenter.ParseBlock(msg, t)
		if err == nil && (b.First == 0 || b.Count == 0 || b.First+uint64(b.Count) < b.First) {
			err = fmt.Errorf("it sent a block of %d events that begins at %d", b.Count, b.First)
		}
		c.block = block{b, true}
		c.epoch = max(c.epoch, b.Epoch)
		return rest, action{}, err
	case experimenter.TypeCommandAck:
		ack, err := experimenter.ParseAck(msg, t)
		if err != nil {
			return rest, action{}, err
		}
		return rest, action{kind: done, batch: Batch{Epoch: ack.Epoch}, done: ack.Seq}, nil
	}
	return rest, action{}, fmt.Errorf("it sent a message of type %d outside of a block of events", msg[1])
}

// blockEvents takes as many events of the block as are there. A block need not come whole:
// its parts are as good.
func (c *core) blockEvents(buf []byte) ([]byte, action, error) {
	b := &c.block
	n, count, foreign := 0, uint32(0), false
	for n < len(buf) && count < b.Count {
		foreign = foreign || buf[n] != of13.Version
		n += int(buf[n+2])<<8 | int(buf[n+3])
		count++
	}
	first := b.First
	b.First, b.Count = b.First+uint64(count), b.Count-count
	if n > int(b.Bytes) || b.Count == 0 && n != int(b.Bytes) {
		return nil, action{}, errors.New("a block of events does not have the length that its header says")
	}
	b.Bytes -= uint32(n)
	b.open = b.Count > 0
	if !c.accepted { // the rest of what an earlier claim got: after this one it comes again
		return buf[n:], action{}, nil
	}
	messages := buf[:n]
	if foreign {
		messages = c.eventsToV13(messages)
	}
	return buf[n:], action{kind: events, batch: Batch{b.Epoch, first, int(count), messages}}, nil
}

// switchMessages takes a run of events from a switch that has no agent, or one message
// that is no event.
func (c *core) switchMessages(buf []byte) ([]byte, action, error) {
	n, count := 0, 0
	for n < len(buf) {
		size := int(buf[n+2])<<8 | int(buf[n+3])
		isEvent, err := c.isEvent(buf[n : n+size])
		if err != nil {
			return nil, action{}, err
		}
		if !isEvent {
			break
		}
		n, count = n+size, count+1
	}
	if n == 0 {
		msg, rest, err := openflow.Next(buf)
		if err != nil {
			return nil, action{}, err
		}
		return rest, c.answer(msg), nil
	}
	if !c.up { // nobody's: the epoch begins when a leader takes the switch
		return buf[n:], action{}, nil
	}
	messages := buf[:n]
	if c.hs.Version != of13.Version {
		messages, count = c.runToV13(messages)
	}
	first := c.nextEvent
	c.nextEvent += uint64(count)
	return buf[n:], action{kind: events, batch: Batch{c.epoch, first, count, messages}}, nil
}

// isEvent tells what the switch has to say from what is between it and the session.
func (c *core) isEvent(msg []byte) (bool, error) {
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
func (c *core) answer(msg []byte) action {
	switch msg[1] {
	case openflow.TypeEchoRequest:
		c.out = handshake.EchoReply(c.out, msg)
	case openflow.TypeError, of13.TypeBarrierReply:
		if c.commands.Answered(openflow.XID(msg)) {
			c.takeCommands()
			return c.doneAction()
		}
	}
	return action{}
}

func (c *core) doneAction() action {
	return action{kind: done, batch: Batch{Epoch: c.epoch}, done: c.commands.Done}
}

// begin opens the epoch of a switch without agent, by its first event.
func (c *core) begin() action {
	c.up, c.nextEvent = true, 2
	c.commands = filter.New(c.hs.Version, c.hs.Version == of13.Version)
	msg := c.upToV13(c.hs.Features, c.hs.Ports)
	return action{kind: events, batch: Batch{c.epoch, 1, 1, msg}}
}

// end closes it, by its last event, if it has begun.
func (c *core) end(r experimenter.Reason) (Batch, bool) {
	if c.mode != Direct || !c.up {
		return Batch{}, false
	}
	c.up = false
	return Batch{c.epoch, c.nextEvent, 1, experimenter.AppendSwitchDown(nil, of13.Version, r)}, true
}

// takeMaster claims the switch. For one without agent each claim begins an epoch, above now
// (in nanoseconds): at once if fresh, that is if nothing of what it said is lost yet; else
// its features and ports are asked for again.
func (c *core) takeMaster(term, now uint64, fresh bool) error {
	if c.master && term <= c.term {
		if term < c.term {
			return ErrNotMaster
		}
		return nil
	}
	c.master, c.term, c.accepted = true, term, false
	if c.mode == Agent || c.hs.Version == of13.Version {
		role := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: term}
		c.out = role.Append(c.out, handshake.OwnXID)
	}
	if c.mode == Direct {
		c.newEpoch(now)
		if !fresh {
			c.out = c.hs.Restart(c.out)
		}
	}
	return nil
}

// hold drops events until the agent has accepted the claim that resend makes.
func (c *core) hold() {
	if c.mode == Agent {
		c.accepted = false
	}
}

func (c *core) resend() {
	if c.mode == Agent && c.master && !c.refused {
		role := of13.RoleRequest{Role: of13.RoleMaster, GenerationID: c.term}
		c.out = role.Append(c.out, handshake.OwnXID)
	}
}

func (c *core) newEpoch(now uint64) { c.epoch, c.up = max(now, c.epoch+1, c.floor+1), false }

// refuse tells the peer why it cannot stay. It reports whether it can, all the same.
func (c *core) refuse(r experimenter.Refuse, now uint64) (stays bool) {
	if c.mode == Direct {
		if r.Reason != experimenter.ReasonStaleEpoch {
			c.refused = true
			return false
		}
		if c.floor = max(c.floor, r.Epoch); c.epoch <= c.floor {
			c.newEpoch(now)
			c.out = c.hs.Restart(c.out)
		}
		return true
	}
	c.refused = true
	c.out = r.Append(c.out, c.hs.Version)
	return false
}

func (c *core) ackEvents(a experimenter.Ack) {
	if c.mode == Agent && !c.refused {
		c.out = a.Append(c.out, c.hs.Version, experimenter.TypeEventAck)
	}
}

// send queues a block of commands.
func (c *core) send(b experimenter.Block, messages []byte) error {
	if !c.master || b.Term != c.term {
		return ErrNotMaster
	}
	if n := countMessages(messages); n != int(b.Count) {
		return fmt.Errorf("southbound: %d messages in a block of %d", n, b.Count)
	}
	if c.refused || b.Count == 0 || c.mode == Direct && (b.Epoch != c.epoch || !c.up) {
		return nil // of an epoch that is over
	}
	if c.hs.Version != of13.Version {
		messages = c.commandsToV10(messages)
	}
	if c.mode == Agent {
		b.Bytes = uint32(len(messages))
		c.out = append(b.Append(c.out, c.hs.Version, experimenter.TypeCommands), messages...)
		return nil
	}
	if b.First > c.commands.Forwarded+1 {
		return fmt.Errorf("southbound: gap in the commands: %d after %d", b.First, c.commands.Forwarded)
	}
	for seq := b.First; len(messages) > 0; seq++ {
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

func (c *core) takeCommands() {
	c.out = append(c.out, c.commands.Out...)
	c.commands.Out = c.commands.Out[:0]
}

// doneAtWrite reports whether commands count as done when they are written, and which.
func (c *core) doneAtWrite() (seq uint64, yes bool) {
	return c.commands.Forwarded, c.mode == Direct && c.hs.Version == openflow.Version10
}

func (c *core) echo() {
	if c.hs.Version != 0 && !c.refused {
		c.out = handshake.Bare(c.out, c.hs.Version, openflow.TypeEchoRequest, handshake.OwnXID)
	}
}

func countMessages(b []byte) int {
	n := 0
	for len(b) >= openflow.HeaderLen {
		size := int(b[2])<<8 | int(b[3])
		if size < openflow.HeaderLen || size > len(b) {
			break
		}
		b = b[size:]
		n++
	}
	if len(b) > 0 {
		return -1
	}
	return n
}
