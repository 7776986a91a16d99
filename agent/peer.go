package agent

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Peer is the agent's side of one controller connection, for one switch. It belongs to the Core that made it.
type Peer struct {
	version uint8  // of the switch, when it was connected
	out     []byte // to be written before the next events
	ready   bool   // the controller's HELLO has come
	heard   bool   // it has sent something since the last tick
	wrote   bool   // something was written to it since then
	ackDue  bool   // a COMMAND_ACK is to be written
	// void acknowledges commands of an epoch that has ended. They are not executed, but would fill the controller's
	// queue while it processes the last events of that epoch.
	void    experimenter.Ack
	sent    uint64           // the last event, by its number in the outbox, that was written to it as master
	logged  experimenter.Ack // the newest event that its log has, as it has said
	refused uint64           // the generation of its last claim, if that was refused, and is repeated; else 0
	silent  int              // ticks since that claim
	block   block
}

// block is the rest of a COMMANDS block that has not come yet.
type block struct {
	experimenter.Block      // First, Count and Bytes are of the rest
	bestEffort         bool // its commands have no sequence: they pass as they come
	told               bool // the controller was told that the block is refused
	open               bool // Count or Bytes is not zero
}

// maxControl bounds the bytes, besides events, that wait for a controller which does not read.
const maxControl = 1 << 20

// takeAtMost is about how many bytes of events one Take appends.
const takeAtMost = 256 << 10

var errNotReading = errors.New("it does not read")

// ErrLostLog is the error of FromController for a claim of controllers whose log lacks events that were acknowledged,
// after nobody else has been master for some time. The session then calls BeginAnew, and closes the connections to the
// switch and to all controllers, so that the switch begins a new epoch with those controllers.
var ErrLostLog = errors.New("the controllers have lost their logs, or are a new cluster: the switch begins a new " +
	"epoch with them")

// Refused is the error of FromController for a REFUSE. The caller then calls Stale if the reason is a stale epoch.
type Refused struct{ experimenter.Refuse }

func (r *Refused) Error() string { return fmt.Sprintf("it refuses the switch: %s", r.Reason) }

// Attachable reports whether there is an epoch to attach with.
func (c *Core) Attachable() bool { return len(c.epochs) > 0 }

// Connect begins a controller connection. The core must be Attachable.
func (c *Core) Connect() *Peer {
	hello := of13.Hello{Version: c.version}
	if c.version >= openflow.Version13 {
		hello.Versions = of13.VersionsOf(c.version)
	}
	out := hello.Append(nil, ownXID)
	return &Peer{version: c.version, out: c.attach().Append(out, c.version)}
}

// Disconnect ends a controller connection. Events stay for the next master.
func (c *Core) Disconnect(p *Peer) {
	if c.master == p {
		c.master = nil
	}
}

// Outdated reports whether the switch has returned with another OpenFlow version since p connected. The connection must
// be closed and made again then.
func (c *Core) Outdated(p *Peer) bool { return p.version != c.version }

// Ready reports whether the controller has sent a HELLO that was accepted.
func (p *Peer) Ready() bool { return p.ready }

// FromController takes whole messages from a controller. An error ends the connection: it says what is wrong with the
// controller, or is a *Refused if the controller ends it.
func (c *Core) FromController(p *Peer, batch []byte) error {
	p.heard = p.heard || len(batch) > 0
	for len(batch) > 0 {
		n := int(batch[2])<<8 | int(batch[3])
		msg := batch[:n]
		batch = batch[n:]
		var err error
		switch {
		case p.block.open:
			err = c.command(p, msg)
		case !p.ready:
			err = c.controllerHello(p, msg)
		default:
			err = c.control(p, msg)
		}
		if err != nil {
			return err
		}
		if len(p.out) > maxControl {
			return errNotReading
		}
	}
	c.commands.ask()
	return nil
}

func (c *Core) controllerHello(p *Peer, msg []byte) error {
	var hello of13.Hello
	if err := hello.Decode(msg); err != nil {
		return fmt.Errorf("its first message is no OpenFlow HELLO, so this is no controller: %w", err)
	}
	if _, ok := hello.Negotiate(of13.VersionsOf(c.version)); !ok {
		return fmt.Errorf("it does not speak the switch's OpenFlow version %d", c.version)
	}
	p.ready = true
	return nil
}

// control handles a message outside of blocks.
func (c *Core) control(p *Peer, msg []byte) error {
	// ROLE messages are always of 1.3, since OpenFlow 1.0 has none.
	if msg[0] != c.version && msg[0] != of13.Version {
		return fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", msg[0], c.version)
	}
	switch msg[1] {
	case openflow.TypeHello, openflow.TypeEchoReply, openflow.TypeError:
		return nil
	case openflow.TypeEchoRequest:
		p.out = handshake.EchoReply(p.out, msg)
		return nil
	case of13.TypeFeaturesRequest: // the same number in 1.0
		n := len(p.out)
		p.out = append(p.out, c.features...)
		openflow.SetXID(p.out[n:], openflow.XID(msg))
		return nil
	case of13.TypeRoleRequest:
		return c.role(p, msg)
	case openflow.TypeExperimenter:
		switch t, _ := experimenter.Is(msg); t {
		case experimenter.TypeEventAck:
			ack, err := experimenter.ParseAck(msg, t)
			if err != nil {
				return err
			}
			if later(ack, p.logged) {
				p.logged = ack
			}
			if p != c.master {
				return nil
			}
			return c.ackEvents(ack)
		case experimenter.TypeCommands:
			b, err := experimenter.ParseBlock(msg, t)
			if err != nil {
				return err
			}
			return c.beginBlock(p, b)
		case experimenter.TypeRefuse:
			r, err := experimenter.ParseRefuse(msg)
			if err != nil {
				return err
			}
			return &Refused{r}
		}
	}
	return fmt.Errorf("it sent a message of type %d outside of a block of commands: is it a Holdfast controller?",
		msg[1])
}

// role handles a claim to be master, or to be none. A new master gets every event that is not acknowledged (Ravana,
// section 3.1).
func (c *Core) role(p *Peer, msg []byte) error {
	var req of13.RoleRequest
	if err := req.Decode(msg); err != nil {
		return err
	}
	claims := req.Role == of13.RoleMaster || req.Role == of13.RoleSlave
	stale := claims && c.claimed && experimenter.Later(c.generation, req.GenerationID)
	foreign := req.Role == of13.RoleMaster && c.lacks(p)
	if stale || foreign && (c.master != nil || c.orphaned < followAfter) {
		c.count.RefusedRoles++
		p.refused, p.silent = req.GenerationID, 0
		p.out = appendError(p.out, msg, of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedStale)
		return nil
	}
	if claims {
		c.generation, c.claimed, p.refused = req.GenerationID, true, 0
	}
	if foreign {
		return ErrLostLog
	}
	switch {
	case req.Role == of13.RoleMaster:
		c.master, c.orphaned = p, 0
		p.sent = 0 // so it gets all that is not acknowledged
		p.ackDue = c.commands.done > 0
	case req.Role != of13.RoleNoChange && c.master == p:
		c.master = nil
	}
	reply := of13.RoleReply{Role: of13.RoleSlave, GenerationID: c.generation}
	if c.master == p {
		reply.Role = of13.RoleMaster
	}
	p.out = reply.Append(p.out, openflow.XID(msg))
	return nil
}

// beginBlock handles the header of a COMMANDS block.
func (c *Core) beginBlock(p *Peer, b experimenter.Block) error {
	p.block = block{Block: b, open: b.Count > 0, bestEffort: b.First == 0}
	if b.Count == 0 && b.Bytes != 0 {
		return fmt.Errorf("it sent a block of %d commands of %d bytes", b.Count, b.Bytes)
	}
	return nil
}

func (c *Core) fenced(p *Peer, generation uint64) bool {
	return p != c.master || generation != c.generation
}

func (c *Core) current(epoch uint64) bool { return c.live && epoch == c.Epoch() }

// command handles the next message of the block. Each message is judged by itself, since another controller may become
// master, or the epoch may end, in the middle of a block.
func (c *Core) command(p *Peer, msg []byte) error {
	b := &p.block
	if len(msg) > int(b.Bytes) {
		return fmt.Errorf("a block of commands is longer than its header says")
	}
	seq := b.First
	b.First, b.Count, b.Bytes = b.First+1, b.Count-1, b.Bytes-uint32(len(msg))
	if b.open = b.Count > 0; !b.open && b.Bytes > 0 {
		return fmt.Errorf("a block of commands is %d bytes shorter than its header says", b.Bytes)
	}
	switch {
	case c.fenced(p, b.Generation):
		if !b.told {
			b.told = true
			c.count.RefusedBlocks++
			p.out = appendError(p.out, msg, of13.ErrTypeBadRequest, of13.BadRequestIsSlave)
		}
		return nil
	case !c.current(b.Epoch):
		c.count.Stale++
		if b.Epoch <= c.Epoch() && !b.bestEffort {
			p.void = experimenter.Ack{Epoch: b.Epoch, Seq: seq}
		}
		return nil
	case msg[0] != c.version:
		return fmt.Errorf("it sent a command of OpenFlow version %d to a switch of version %d", msg[0], c.version)
	case b.bestEffort:
		c.commands.pass(msg)
		c.count.BestEffort++
		return nil
	}
	switch duplicates, err := c.commands.passed.Accept(seq, 1); {
	case err != nil:
		return fmt.Errorf("its commands: %w", err)
	case duplicates > 0:
		c.count.Duplicates++
	default:
		c.commands.pass(msg)
		c.count.Forwarded++
	}
	return nil
}

// appendError appends an ERROR about msg. It is of OpenFlow 1.3, since 1.0 lacks the codes.
func appendError(dst, msg []byte, typ, code uint16) []byte {
	e := of13.Error{ErrType: typ, Code: code, Data: msg[:min(len(msg), 64)]}
	return e.Append(dst, openflow.XID(msg))
}

func (p *Peer) echo(version uint8) {
	p.out = handshake.Bare(p.out, version, openflow.TypeEchoRequest, ownXID)
}

// Pending reports whether Take has something to append.
func (c *Core) Pending(p *Peer) bool {
	return len(p.out) > 0 || p.ackDue || p.void.Seq > 0 || p == c.master && c.events.Unsent(p.sent)
}

// Take appends what is to be written to the controller now. More may be pending after that.
func (c *Core) Take(p *Peer, dst []byte) []byte {
	n := len(dst)
	dst = c.take(p, dst)
	p.wrote = p.wrote || len(dst) > n
	return dst
}

func (c *Core) take(p *Peer, dst []byte) []byte {
	dst = append(dst, p.out...)
	p.out = p.out[:0]
	if p != c.master {
		p.ackDue, p.void = false, experimenter.Ack{}
		return dst
	}
	if p.void.Seq > 0 {
		dst = p.void.Append(dst, c.version, experimenter.TypeCommandAck)
		p.void = experimenter.Ack{}
	}
	if p.ackDue {
		p.ackDue = false
		if c.live {
			dst = experimenter.Ack{Epoch: c.Epoch(), Seq: c.commands.done}.Append(dst, c.version,
				experimenter.TypeCommandAck)
		}
	}
	for i := 0; c.events.Unsent(p.sent) && len(dst) < takeAtMost; {
		for i+1 < len(c.epochs) && c.epochs[i+1].before <= max(p.sent, c.events.Acked()) {
			i++
		}
		last := c.events.Last()
		if i+1 < len(c.epochs) {
			last = c.epochs[i+1].before
		}
		first, count, run := c.events.Run(p.sent, last, takeAtMost-len(dst))
		dst = experimenter.Block{
			Epoch: c.epochs[i].epoch,
			First: first - c.epochs[i].before,
			Count: uint32(count),
			Bytes: uint32(len(run)),
		}.Append(dst, c.version, experimenter.TypeEvents)
		dst = append(dst, run...)
		p.sent = first + uint64(count) - 1
		c.count.Sent += uint64(count)
	}
	return dst
}
