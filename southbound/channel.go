package southbound

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// channel is the OpenFlow channel to a peer of any kind: the handshake, the translation of versions, the output, and
// the generation of the claim.
type channel struct {
	translator
	out      []byte // to be written, in the peer's version
	hs       handshake.Handshake
	id       openflow.DatapathID
	features []byte // FEATURES_REPLY as OpenFlow 1.3
	xids     uint32
	pool     *pool // of what sessions hold
	wrote    bool  // TakeOut has returned something since the last Beat

	master     bool
	generation uint64 // of the last Claim

	// For switches without an agent, whose events this session numbers.
	epoch uint64 // the newest; also that of an agent
	begun bool   // SWITCH_UP of the epoch was delivered, and it has not ended
	floor uint64 // epochs must be higher
}

// peer is one kind of peer on a channel. Core handles what all kinds have in common: handshake, generation and
// refusals. The methods are those of Core with the same names.
type peer interface {
	next(buf []byte, now uint64) (rest []byte, a Action, err error)
	more() bool // next has an action even without input
	full() bool // nothing should be read now

	claim(now uint64, r Resume) // the switch, in c.generation
	standby(generation uint64)
	logged(epoch, seq uint64, msg []byte) bool
	skipped(epoch, seq uint64, n int) bool
	acknowledge(a experimenter.Ack)
	send(b experimenter.Block, messages []byte) error // b.First is 0: best-effort
	hold()
	resend()
	refuse(now uint64) // an epoch that is not above c.floor: a new one begins
	end() (seq uint64) // the sequence of SWITCH_DOWN, when the epoch ends

	tick(now uint64, reading bool) error // ten times a second
	report(s *State)
}

// xid returns a transaction id for a message of our own. It is above those of handshake and filter.
func (c *channel) xid() uint32 {
	c.xids = (c.xids + 1) & 0x3fffffff
	return firstXID | c.xids
}

// firstXID is below all that xid returns.
const firstXID = handshake.OwnXID | 0x40000000

// put sends a message.
func (c *channel) put(m of13.Message, xid uint32) {
	at := len(c.out)
	c.out = m.Append(c.out, xid)
	c.translateOut(at)
}

// putAll sends messages of OpenFlow 1.3.
func (c *channel) putAll(messages []byte) {
	at := len(c.out)
	c.out = append(c.out, messages...)
	c.translateOut(at)
}

// translateOut translates the messages of OpenFlow 1.3 in out from offset at on into the peer's version.
func (c *channel) translateOut(at int) {
	if c.hs.Version != of13.Version {
		c.out = append(c.out[:at], c.commandsFromV13(c.hs.Version, c.out[at:])...)
	}
}

// ask sends a request that consists of a header only.
func (c *channel) ask(typ uint8, xid uint32) { c.out = handshake.Bare(c.out, c.hs.Version, typ, xid) }

// newEpoch chooses an epoch above now and above all known ones. It begins with SWITCH_UP.
func (c *channel) newEpoch(now uint64, known ...uint64) {
	newest := max(c.epoch, c.floor)
	for _, e := range known {
		newest = max(newest, e)
	}
	c.epoch, c.begun = max(now, newest+1), false
}

// switchUp returns the first event of an epoch.
func (c *channel) switchUp() []byte {
	c.begun = true
	return c.upToV13(c.hs.Features, c.hs.Ports)
}

// ended returns the action for the last event of the epoch.
func (c *channel) ended(seq uint64, r experimenter.Reason) Action {
	return Action{Kind: Events, Batch: Batch{Epoch: c.epoch, First: seq, Count: 1,
		Messages: experimenter.AppendSwitchDown(nil, of13.Version, r)}}
}

// Protocol errors of a switch.

func errVersion(has, agreed uint8) error {
	return fmt.Errorf("it sent a message of OpenFlow version %d after agreeing on %d", has, agreed)
}

func errPlaysAgent(t experimenter.Type) error {
	return fmt.Errorf("it sent %s without ATTACH: only an agent may", t)
}

func errRenamed(id openflow.DatapathID) error { return fmt.Errorf("its datapath id changed to %s", id) }
