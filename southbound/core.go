package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Core is the protocol of one session, without I/O, clock or locks. Bytes from the peer go
// in by Next, calls of the controller by the other methods; after any of them TakeOut has
// the bytes to the peer. The zero value is a new connection, and Start opens it. The same
// calls in the same order have the same results.
type Core struct {
	out  []byte
	hs   handshake.Handshake
	mode Mode
	id   openflow.DatapathID

	attach   experimenter.Attach
	features []byte // FEATURES_REPLY as OpenFlow 1.3
	epoch    uint64
	master   bool
	term     uint64 // of the last TakeMaster
	refused  bool   // nothing is read any more

	block    block // Agent: what is still to come of an EVENTS block
	accepted bool  // Agent: it has accepted the claim of term, so events continue from there
	outdone  bool  // Agent: it has refused the last claim, since it had a master with a later term

	floor uint64 // Stock, Direct: epochs must be higher
	up    bool   // Stock, Direct: the epoch has begun

	stock  stock
	direct direct

	translator
}

// block is the rest of an EVENTS block.
type block struct {
	experimenter.Block
	open bool
}

// Action is what came out of some input, for the Handler.
type Action struct {
	Kind  Kind
	Batch Batch  // of Events: Messages may be part of what Next got, and is valid until the next Next
	Done  uint64 // of CommandsDone: every command up to it, of Batch.Epoch, is executed
}

// Kind names the method of Handler that an Action is for.
type Kind uint8

// The kinds.
const (
	Nothing Kind = iota
	// Attached: the handshake is complete. The caller sees to it that a datapath id has one
	// session (see Probe) before it tells the Handler.
	Attached
	Events
	CommandsDone
)

// Start begins the connection: the peer has the first word.
func (c *Core) Start() {
	c.mode = Direct // unless it says otherwise
}

// Next takes some of buf, whole messages one after the other, and returns the rest with
// what came out; it is to be called until nothing is left, and there is no More. now is in
// nanoseconds. An error says what is wrong with the peer, and ends the session, after TakeOut.
func (c *Core) Next(buf []byte, now uint64) (rest []byte, a Action, err error) {
	switch {
	case c.refused:
		return nil, Action{}, nil
	case c.block.open:
		return c.blockEvents(buf)
	case c.mode == Stock: // which asks its switch again for features by itself
		return c.stockMessages(buf, now)
	case !c.hs.Done:
		return c.handshake(buf)
	case c.mode == Agent:
		return c.agentMessage(buf)
	}
	return c.switchMessages(buf)
}

func (c *Core) handshake(buf []byte) ([]byte, Action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, Action{}, err
	}
	if t, ours := experimenter.Is(msg); ours && c.features == nil {
		if t != experimenter.TypeAttach || c.hs.Version == 0 || c.mode == Agent {
			return rest, Action{}, fmt.Errorf("it sent %s where only HELLO and one ATTACH belong", t)
		}
		c.mode, c.hs.NoPorts = Agent, true
		if c.attach, err = experimenter.ParseAttach(msg); err != nil {
			if unsupported(err) {
				c.Refuse(experimenter.Refuse{Reason: experimenter.ReasonUnsupportedVersion}, 0)
			}
			return rest, Action{}, err
		}
		c.epoch = c.attach.Epoch
		return rest, Action{}, nil
	}
	if c.features != nil {
		c.hs.Early = nil // between two epochs: nobody's
	}
	if c.out, err = c.hs.Input(c.out, msg); err != nil || !c.hs.Done {
		return rest, Action{}, err
	}
	if c.features != nil { // it was a restart
		if c.hs.Datapath != c.id {
			return rest, Action{}, fmt.Errorf("its datapath id changed to %s", c.hs.Datapath)
		}
		return rest, c.begin(), nil
	}
	if c.features, err = c.featuresToV13(nil, c.hs.Features); err != nil {
		return rest, Action{}, err
	}
	if c.mode == Direct && c.hs.Version != openflow.Version10 {
		c.mode = Stock
		c.attachStock()
	}
	c.id, c.direct.fresh = c.hs.Datapath, c.mode == Direct
	if len(c.hs.Early) > 0 {
		rest = append(c.hs.Early, rest...)
		c.hs.Early = nil
	}
	return rest, Action{Kind: Attached}, nil
}

// unsupported tells an agent of another release, which deserves an answer.
func unsupported(err error) bool {
	var e *openflow.Error
	return errors.As(err, &e) && e.Kind == openflow.Unsupported && e.Message == experimenter.TypeAttach.String()
}

// agentMessage deals with one message that stands outside of blocks.
func (c *Core) agentMessage(buf []byte) ([]byte, Action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, Action{}, err
	}
	switch msg[1] {
	case of13.TypeRoleReply:
		var r of13.RoleReply
		err := r.Decode(msg)
		c.accepted = err == nil && c.master && r.Role == of13.RoleMaster && r.GenerationID == c.term
		c.outdone = c.outdone && !c.accepted
		return rest, Action{}, err
	case openflow.TypeError: // the log of the group tells the leader soon whether somebody else leads
		var e of13.Error
		err := e.Decode(msg)
		c.outdone = c.outdone || err == nil && c.master && e.ErrType == of13.ErrTypeRoleRequestFailed &&
			e.Code == of13.RoleRequestFailedStale
		return rest, Action{}, err
	case openflow.TypeHello, openflow.TypeEchoReply:
		return rest, Action{}, nil
	case openflow.TypeEchoRequest:
		c.out = handshake.EchoReply(c.out, msg)
		return rest, Action{}, nil
	}
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeEvents:
		b, err := experimenter.ParseBlock(msg, t)
		if err == nil && (b.First == 0 || b.Count == 0 || b.First+uint64(b.Count) < b.First) {
			err = fmt.Errorf("it sent a block of %d events that begins at %d", b.Count, b.First)
		}
		c.block = block{b, true}
		c.epoch = max(c.epoch, b.Epoch)
		return rest, Action{}, err
	case experimenter.TypeCommandAck:
		ack, err := experimenter.ParseAck(msg, t)
		if err != nil {
			return rest, Action{}, err
		}
		return rest, Action{Kind: CommandsDone, Batch: Batch{Epoch: ack.Epoch}, Done: ack.Seq}, nil
	}
	return rest, Action{}, fmt.Errorf("it sent a message of type %d outside of a block of events", msg[1])
}

// blockEvents takes as many events of the block as are there. A block need not come whole:
// its parts are as good.
func (c *Core) blockEvents(buf []byte) ([]byte, Action, error) {
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
		return nil, Action{}, errors.New("a block of events does not have the length that its header says")
	}
	b.Bytes -= uint32(n)
	b.open = b.Count > 0
	if !c.accepted { // the rest of what an earlier claim got: after this one it comes again
		return buf[n:], Action{}, nil
	}
	messages := buf[:n]
	if foreign {
		messages = c.eventsToV13(messages)
	}
	return buf[n:], Action{Kind: Events, Batch: Batch{Epoch: b.Epoch, First: first, Count: int(count),
		Messages: messages}}, nil
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
