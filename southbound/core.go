package southbound

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Core is the protocol of one session, without I/O, clock or locks. Next takes the bytes from the peer, and the other
// methods are the calls of the controller. After each of them TakeOut returns the bytes for the peer. The zero value is
// a new connection on which the peer sends first. Equal calls in the same order have equal results. Session documents
// what each call means.
type Core struct {
	channel
	peer    peer // nil until the handshake is complete
	ability ability
	attach  *experimenter.Attach // of an agent, during the handshake
	claimed uint16               // see State.Claimed
	refused bool                 // nothing is read from it any more
}

// Action is a call of the Handler that an input causes.
type Action struct {
	Kind  Kind
	Batch Batch  // of Events. Messages may alias the input of Next, and is valid until the next call of it
	Done  uint64 // of CommandsDone: every command of Batch.Epoch up to it is executed
}

// Kind names the method of Handler that an Action is for.
type Kind uint8

// The kinds.
const (
	Nothing Kind = iota
	// Attached: the handshake is complete. Before it calls the Handler, the caller ensures that no other session has
	// the same datapath id (see Probe).
	Attached
	Events
	CommandsDone
	// Carries: the peer has opened a connection of several switches (package trunk). What is left is for that; Next
	// must not be called again.
	Carries
)

// ErrNotMaster is returned if a command is sent before Claim, or in an earlier generation.
var ErrNotMaster = errors.New("southbound: not master of the switch in this generation")

// unable is the error of a peer of kind Bundles for a switch that lacks something that bundles need. Such a switch is a
// legacy switch.
type unable struct{ why string }

func (e unable) Error() string { return e.why }

// Next handles some of buf, which contains whole messages, and returns the rest and an action. The caller repeats this
// until nothing is left and More is false. now is in nanoseconds. An error describes what is wrong with the peer, and
// ends the session, after TakeOut.
func (c *Core) Next(buf []byte, now uint64) (rest []byte, a Action, err error) {
	switch {
	case c.refused:
		return nil, Action{}, nil
	case c.peer == nil:
		return c.handshake(buf)
	}
	rest, a, err = c.peer.next(buf, now)
	var cannot unable
	if errors.As(err, &cannot) {
		c.leavePool()
		c.peer, err = &legacy{channel: &c.channel, why: cannot.why}, nil
		if c.master {
			c.peer.claim(now, Resume{})
		}
	}
	return rest, a, err
}

func (c *Core) handshake(buf []byte) ([]byte, Action, error) {
	msg, rest, err := openflow.Next(buf)
	if err != nil {
		return nil, Action{}, err
	}
	if t, ours := experimenter.Is(msg); ours {
		if t == experimenter.TypeStream && c.hs.Version == 0 {
			return buf, Action{Kind: Carries}, nil
		}
		if t != experimenter.TypeAttach || c.hs.Version == 0 || c.attach != nil {
			return rest, Action{}, fmt.Errorf("it sent %s where only HELLO and one ATTACH belong", t)
		}
		attach, err := experimenter.ParseAttach(msg)
		c.attach, c.hs.NoPorts = &attach, true
		if unsupported(err) {
			c.refuseAgent(experimenter.Refuse{Reason: experimenter.ReasonUnsupportedVersion})
		}
		return rest, Action{}, err
	}
	if c.attach == nil && c.ability.takes(&c.channel, msg) {
		return rest, Action{}, nil
	}
	if c.out, err = c.hs.Input(c.out, msg); err != nil || !c.hs.Done {
		return rest, Action{}, err
	}
	if c.features, err = c.featuresToV13(nil, c.hs.Features); err != nil {
		return rest, Action{}, err
	}
	c.id, c.claimed = c.hs.Datapath, c.ability.claimed
	c.peer = c.kind()
	if len(c.hs.Early) > 0 {
		rest = append(c.hs.Early, rest...)
		c.hs.Early = nil
	}
	return rest, Action{Kind: Attached}, nil
}

// kind returns the peer for the kind that the handshake has found.
func (c *Core) kind() peer {
	switch {
	case c.attach != nil:
		c.epoch, c.claimed = c.attach.Epoch, c.attach.Version
		return &agent{channel: &c.channel}
	case c.hs.Version == openflow.Version10:
		return &legacy{channel: &c.channel, fresh: freshTicks, why: "OpenFlow 1.0 without an agent: run one beside it"}
	case !c.ability.opened:
		return &legacy{channel: &c.channel, fresh: freshTicks, why: noBundles}
	case !c.ability.roles:
		return &legacy{channel: &c.channel, fresh: freshTicks, why: noRoles}
	}
	return newBundles(&c.channel)
}

const noBundles = "it has no bundles: run an agent beside it"

// unsupported reports whether err is that of an agent of another release, which gets an answer.
func unsupported(err error) bool {
	var e *openflow.Error
	return errors.As(err, &e) && e.Kind == openflow.Unsupported && e.Message == experimenter.TypeAttach.String()
}

// ability finds out during the handshake whether a switch supports bundles and roles: it opens a bundle and discards
// it, and asks for the present role. These requests are sent before that for the ports, so the answers have arrived
// when the handshake is complete. All controllers find out the same, also those that never lead.
type ability struct {
	open   uint32 // xid of the first request
	role   uint32 // xid of the request for the role
	last   uint32 // xid of the last request
	opened bool
	roles  bool

	claimed uint16 // see State.Claimed
}

// noGeneration is the generation_id of a switch that no controller has claimed yet.
const noGeneration = ^uint64(0)

// takes sends the requests once the features have arrived, and reports whether msg answers one of them.
func (a *ability) takes(c *channel, msg []byte) bool {
	if msg[1] == of13.TypeFeaturesReply && a.open == 0 && c.hs.Version > openflow.Version10 {
		a.open = c.xid()
		c.put(&of13.BundleControl{CtrlType: of13.BundleOpenRequest, Flags: bundleFlags}, a.open)
		c.put(&of13.BundleControl{CtrlType: of13.BundleDiscardRequest, Flags: bundleFlags}, c.xid())
		a.role = c.xid()
		c.put(&of13.RoleRequest{Role: of13.RoleNoChange}, a.role)
		a.last = c.xid()
		c.ask(of13.TypeBarrierRequest, a.last)
		return false
	}
	xid := openflow.XID(msg)
	if a.open == 0 || xid < a.open || xid > a.last {
		return false
	}
	if c.hs.Version != msg[0] {
		return true
	}
	v13, _ := c.runToV13(msg)
	switch xid {
	case a.open:
		var reply of13.BundleControl
		a.opened = reply.Decode(v13) == nil && reply.CtrlType == of13.BundleOpenReply
	case a.role:
		var reply of13.RoleReply
		a.roles = reply.Decode(v13) == nil
		if reply.GenerationID != noGeneration {
			a.claimed = experimenter.Version(reply.GenerationID)
		}
	}
	return true
}

// More reports whether Next has an action even without input.
func (c *Core) More() bool { return c.peer != nil && !c.refused && c.peer.more() }

// Full reports whether the switch should not be read for now: until events are logged, or until a leader has claimed
// it.
func (c *Core) Full() bool { return c.peer != nil && !c.refused && c.peer.full() }

// Switch returns the datapath id, once the switch is attached.
func (c *Core) Switch() openflow.DatapathID { return c.id }

// Features is the switch's FEATURES_REPLY when it connected, a whole message of OpenFlow 1.3; nil before. Read only.
func (c *Core) Features() []byte { return c.features }

// Untranslated counts the messages that the other OpenFlow version cannot express.
func (c *Core) Untranslated() uint64 { return c.untranslated }

// State returns the state of the peer, except its address.
func (c *Core) State() State {
	s := State{Version: c.hs.Version, Epoch: c.epoch, InSync: true, Claimed: c.claimed}
	if c.peer != nil {
		c.peer.report(&s)
	}
	return s
}

// Claim is Session.Claim.
func (c *Core) Claim(generation, now uint64, r Resume) error {
	switch {
	case c.master && experimenter.Later(c.generation, generation):
		return ErrNotMaster
	case c.refused || c.master && generation == c.generation:
		return nil
	}
	c.master, c.generation = true, generation
	c.peer.claim(now, r)
	return nil
}

// Standby is Session.Standby.
func (c *Core) Standby(generation uint64) {
	c.master = false
	if !c.refused {
		c.peer.standby(generation)
	}
}

// Logged is Session.Logged.
func (c *Core) Logged(epoch, seq uint64, msg []byte) bool { return c.peer.logged(epoch, seq, msg) }

// Skipped is Session.Skipped.
func (c *Core) Skipped(epoch, seq uint64, n int) bool { return c.peer.skipped(epoch, seq, n) }

// Acknowledge is Session.Acknowledge.
func (c *Core) Acknowledge(epoch, seq uint64) {
	if !c.refused {
		c.peer.acknowledge(experimenter.Ack{Epoch: epoch, Seq: seq})
	}
}

// Send is Session.Send.
func (c *Core) Send(b experimenter.Block, messages []byte) error {
	if !c.master || b.Generation != c.generation {
		return ErrNotMaster
	}
	if n := countMessages(messages); n != int(b.Count) {
		return fmt.Errorf("southbound: %d messages in a block of %d", n, b.Count)
	}
	if c.refused || b.Count == 0 {
		return nil
	}
	return c.peer.send(b, messages)
}

// Hold is Session.Hold.
func (c *Core) Hold() { c.peer.hold() }

// Resend is Session.Resend.
func (c *Core) Resend() {
	if !c.refused && c.master {
		c.peer.resend()
	}
}

// Refuse sends a REFUSE. It returns true if the peer may stay all the same: a switch without an agent whose epoch is
// stale begins an epoch above r.Epoch and now. Otherwise the peer is Refused, and the caller closes the connection,
// after a moment in which an agent can read the reason.
func (c *Core) Refuse(r experimenter.Refuse, now uint64) (stays bool) {
	switch {
	case c.attach != nil:
		c.refuseAgent(r)
	case r.Reason == experimenter.ReasonStaleEpoch && !c.refused:
		c.floor = max(c.floor, r.Epoch)
		c.peer.refuse(now)
		return true
	}
	c.refused = true
	return false
}

func (c *Core) refuseAgent(r experimenter.Refuse) {
	c.refused = true
	c.out = r.Append(c.out, c.hs.Version)
}

// Refused reports whether the peer was refused. Its messages are ignored from then on.
func (c *Core) Refused() bool { return c.refused }

// Told reports whether the peer knows already what is wrong with events of an epoch: an agent from a REFUSE; a switch
// without an agent has begun a new epoch. Then an error of Handler.Events about them does not end the session.
func (c *Core) Told(epoch uint64) bool {
	return c.refused || c.attach == nil && (c.epoch != epoch || !c.begun)
}

// End ends the session. If the epoch of a switch without an agent has begun, its last event ends it.
func (c *Core) End(r experimenter.Reason) Action {
	if !c.begun {
		return Action{}
	}
	c.begun = false
	return c.ended(c.peer.end(), r)
}

// Tick must be called ten times a second; now is in nanoseconds. reading reports whether the switch was read since the
// last call: only then it is to blame for an answer that is missing. An error says that the switch does not answer, and
// ends the session.
func (c *Core) Tick(now uint64, reading bool) error {
	if c.refused || c.peer == nil {
		return nil
	}
	return c.peer.tick(now, reading)
}

// Echo sends an echo request. It should be called about once a second.
func (c *Core) Echo() {
	switch {
	case c.refused:
	case c.hs.Version == 0:
		c.out = c.hs.Tick(c.out)
	default:
		c.ask(openflow.TypeEchoRequest, handshake.OwnXID)
	}
}

// Share makes what other sessions on the connection of this agent send and hear count for this one.
func (c *Core) Share(p *heartbeat.Pair) {
	if g, ok := c.peer.(*agent); ok {
		g.pulse.Pair = p
	}
}

// Beat must be called heartbeat.Ticks times in each interval of heartbeats. reading reports whether the peer is being
// read now; for crowd see heartbeat.Seen. It has an effect with an agent that this session claims: then it sends
// heartbeats, and an error says that the agent is silent, and ends the session.
func (c *Core) Beat(reading bool, crowd func() int) error {
	if g, ok := c.peer.(*agent); ok && c.master && !c.refused {
		return g.beat(reading, crowd)
	}
	return nil
}

// Silence says that the connection of an agent is silent, as another session of it has found.
func (c *Core) Silence() {
	if g, ok := c.peer.(*agent); ok && c.master {
		g.silent = true
	}
}

// keepOut is the largest out that a session keeps for reuse.
const keepOut = 256 << 10

// TakeOut returns the bytes to write to the peer now, valid until the next call of the Core.
func (c *Core) TakeOut() []byte {
	out := c.out
	c.out, c.wrote = out[:0], c.wrote || len(out) > 0
	if cap(out) > keepOut {
		c.out = nil
	}
	return out
}

// WriteMark is called after TakeOut. If commands count as done when they are written, it returns a mark for Written,
// which is different for each epoch; else 0.
func (c *Core) WriteMark() uint64 {
	if l, ok := c.peer.(*legacy); ok {
		return l.writeMark()
	}
	return 0
}

// Written reports that everything is written that was taken out before WriteMark returned mark.
func (c *Core) Written(mark uint64) Action {
	if l, ok := c.peer.(*legacy); ok {
		return l.written(mark)
	}
	return Action{}
}

// Held returns how many events of a switch of kind Bundles are held here: those that are not known to be in the log.
func (c *Core) Held() int {
	if b, ok := c.peer.(*bundles); ok {
		return b.held.Len()
	}
	return 0
}

// leavePool is called when nothing more is held: what was held no longer counts.
func (c *Core) leavePool() {
	if b, ok := c.peer.(*bundles); ok {
		b.held.pool.add(-b.held.Bytes())
		b.held.pool = nil
	}
}

// HeldBytes is the size of these events, and during a handshake of those that arrived before its end.
func (c *Core) HeldBytes() int {
	if b, ok := c.peer.(*bundles); ok {
		return b.held.Bytes()
	}
	return len(c.hs.Early)
}

// countMessages returns the number of messages in b; -1 if the last one is incomplete.
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
