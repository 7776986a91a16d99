package southbound

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// bundleSender sends the commands of an epoch to a switch without an agent, in order and once. Commands are sent in
// bundles. Each bundle also contains the marker with the sequence of its last command, so either all its commands are
// executed and the marker is set, or nothing is. Transactions that arrive together share a bundle. If the switch
// rejects it, each is sent in a bundle of its own, and the bad one is refused as a whole. One step is outstanding at a
// time; what arrives meanwhile makes the next one larger. So a new master needs to read only the marker.
//
// Commands that cannot be in a bundle are sent alone. Some switches refuse more types in bundles than others: the
// sender learns these from the refusals. A request, which changes nothing, is repeated by a new master until its answer
// is logged. Other commands are sent as command, barrier, marker, barrier: if the connection ends between the first and
// the last, a new master may repeat that command.
type bundleSender struct {
	*channel
	table uint8 // of the marker

	active bool   // this controller may send commands
	fenced bool   // the switch refuses them: it has another master
	cannot string // why the switch cannot be used with bundles; empty if it can

	marker  marker
	fresh   freshness     // how the next step must set the marker
	box     stream.Outbox // commands that are not done
	step    *step
	solo    int  // number of transactions that are sent in their own bundles
	hold    bool // nothing is sent until the last refusal is logged
	tries   int  // of a bundle that failed for another reason than its commands
	bundles uint32
	alone   uint32 // a bit for each type of command that this switch refuses in bundles
}

type freshness uint8

const (
	current freshness = iota
	renew             // it may have been deleted
	found             // the epoch is new: markers of other epochs are removed
)

// step is what is sent and answered together: the commands from first to last, or none if last is less than first.
type step struct {
	bundled      bool // false for one command that is sent alone
	fresh        freshness
	first, last  uint64
	transactions int
	bundle       uint32
	open, commit uint32   // xids of bundle control; commit is 0 until it is sent
	opened       bool     // the bundle
	retry        bool     // it could not be opened; try again
	excluded     bool     // it contains a command that this switch refuses in bundles; try again without
	marker       uint32   // xid
	barrier      uint32   // xid of the last one
	refusals     [][]byte // ERROR messages for commands in the bundle
}

// Bounds of a step: commands, and bytes. A single transaction may exceed them.
const (
	stepCommands = 64
	stepBytes    = 32 << 10
	maxTries     = 3
)

// bundleFlags make a bundle all or nothing, and ordered.
const bundleFlags = of13.BundleAtomic | of13.BundleOrdered

// bundleable reports whether a command can be in a bundle. It must fit into the BUNDLE_ADD message. PORT_MODs cannot:
// Open vSwitch refuses an atomic bundle with one. Repeating a PORT_MOD does no harm.
func bundleable(msg []byte) bool {
	switch msg[1] {
	case of13.TypeFlowMod, of13.TypeGroupMod, of13.TypePacketOut:
		return len(msg) <= openflow.MaxMessageLen-of13.BundleAddLen
	}
	return false
}

// fits reports whether a command can be in a bundle of this switch. OpenFlow 1.4 demands only that a switch takes
// FLOW_MOD and PORT_MOD there, and Open vSwitch 2.5 and 2.6 take no other.
func (b *bundleSender) fits(msg []byte) bool { return bundleable(msg) && b.alone&(1<<msg[1]) == 0 }

// repeatable reports whether a command is a request, which changes nothing.
func repeatable(typ uint8) bool {
	switch typ {
	case of13.TypeFeaturesRequest, of13.TypeGetConfigRequest, of13.TypeMultipartRequest, of13.TypeBarrierRequest,
		of13.TypeQueueGetConfigRequest, of13.TypeGetAsyncRequest, openflow.TypeEchoRequest:
		return true
	}
	return false
}

// halt ends an epoch or a mastership. Answers to outstanding messages are ignored.
func (b *bundleSender) halt() {
	*b = bundleSender{channel: b.channel, table: b.table, bundles: b.bundles, alone: b.alone}
}

// start begins to send the commands that are not done. Those up to done are, according to the log. The marker alone
// does not say that: a request before it may not have been answered.
func (b *bundleSender) start(m marker, f freshness, done uint64) {
	if b.box.Len() == 0 {
		b.box = stream.OutboxAfter(max(b.box.Last(), done))
	}
	b.active, b.marker, b.fresh = true, m, f
	b.pump()
}

// renew sets the marker again.
func (b *bundleSender) renew() {
	b.fresh = max(b.fresh, renew)
	b.pump()
}

// send queues commands behind all others. Commands that were queued before are ignored.
func (b *bundleSender) send(first uint64, messages []byte) error {
	if last := b.box.Last(); first > last+1 {
		if b.box.Len() > 0 {
			return fmt.Errorf("southbound: commands: %w", &stream.GapError{Number: first, Next: last + 1})
		}
		b.box = stream.OutboxAfter(first - 1)
	}
	for seq := first; len(messages) > 0; seq++ {
		n := int(messages[2])<<8 | int(messages[3])
		if seq > b.box.Last() {
			b.box.Push(messages[:n])
		}
		messages = messages[n:]
	}
	b.pump()
	return nil
}

// done returns the sequence up to which everything is executed, or refused.
func (b *bundleSender) done() uint64 { return b.box.Acked() }

// command returns the i-th command that is not done, from 1 on; nil if there is none.
func (b *bundleSender) command(i int) []byte { return b.box.Item(b.box.Acked() + uint64(i)) }

// skip marks commands as done that are at or below the marker, except requests, which may not have been answered.
func (b *bundleSender) skip() {
	for n := b.box.Acked() + 1; n <= min(b.marker.seq, b.box.Last()) && !repeatable(b.command(1)[1]); n++ {
		b.settle(n)
	}
}

// settle removes the commands up to seq from the outbox.
func (b *bundleSender) settle(seq uint64) { _ = b.box.Ack(seq) }

// pump begins the next step, if none is outstanding.
func (b *bundleSender) pump() {
	if !b.active || b.step != nil || b.hold {
		return
	}
	b.skip()
	switch next := b.command(1); {
	case b.fresh != current || next != nil && b.fits(next):
		b.fill()
	case next != nil:
		b.sendAlone()
	}
}

// begin starts a step with the next n commands.
func (b *bundleSender) begin(n int) *step {
	b.step = &step{fresh: b.fresh, first: b.box.Acked() + 1, last: b.box.Acked() + uint64(n)}
	b.fresh = current
	return b.step
}

// fill sends the next bundle without its commit. The barrier shows whether the switch has refused a message of it. That
// matters because a switch refuses a message that it cannot decode at once, and would still commit the others.
func (b *bundleSender) fill() {
	n, size, transactions := 0, 0, 0
	for next := b.command(1); next != nil && b.fits(next); next = b.command(n + 1) {
		if n == 0 || openflow.XID(next)&handshake.ContinuesXID == 0 {
			if n > 0 && (n >= stepCommands || size >= stepBytes || b.solo > 0) {
				break
			}
			transactions++
		}
		n++
		size += len(next)
	}
	s := b.begin(n)
	s.bundled, s.transactions = true, transactions
	b.solo = max(0, b.solo-transactions)
	b.bundles++
	s.bundle, s.open = b.bundles, b.xid()
	b.control(s, of13.BundleOpenRequest, s.open)
	if s.fresh == found {
		b.add(s, forget(b.table).Append(nil, 0), b.xid())
	}
	for i := range n {
		msg := b.command(i + 1)
		b.add(s, msg, openflow.XID(msg))
	}
	s.marker = b.xid()
	b.add(s, b.behind(s).mod(b.table).Append(nil, 0), s.marker)
	b.barrier(s)
}

// behind returns the marker for the state after a step.
func (b *bundleSender) behind(s *step) marker {
	if s.last < s.first {
		return b.marker
	}
	return marker{b.marker.epoch, max(b.marker.seq, s.last)}
}

// sendAlone sends a command that cannot be in a bundle.
func (b *bundleSender) sendAlone() {
	s, msg := b.begin(1), b.command(1)
	b.putAll(msg)
	b.barrier(s)
	if !repeatable(msg[1]) {
		s.marker = b.xid()
		b.put(b.behind(s).mod(b.table), s.marker)
		b.barrier(s)
	}
}

func (b *bundleSender) control(s *step, what uint16, xid uint32) {
	m, at := of13.BundleControl{ID: s.bundle, CtrlType: what, Flags: bundleFlags}, len(b.out)
	b.out = m.Append(b.out, xid)
	b.translateOut(at)
}

func (b *bundleSender) add(s *step, msg []byte, xid uint32) {
	m, at := of13.BundleAdd{ID: s.bundle, Flags: bundleFlags, Message: msg}, len(b.out)
	b.out = m.Append(b.out, xid)
	b.translateOut(at)
}

func (b *bundleSender) barrier(s *step) {
	s.barrier = b.xid()
	b.ask(of13.TypeBarrierRequest, s.barrier)
}
