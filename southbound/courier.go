package southbound

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// courier brings the commands of an epoch to a stock switch, in order and once. Commands go in
// bundles, each with the marker that says so much is done: all of a bundle is executed and marked, or
// none. Transactions that come together share a bundle; if the switch rejects it each gets its
// own, and the one that is bad is refused whole. One step is on its way at a time, and what comes
// meanwhile makes the next one larger. So what a new master may find is a marker, and nothing behind it.
//
// What no bundle takes goes by itself. A request that changes nothing is made again by a
// new master until its answer is logged. All else, and everything for a switch without
// bundles, goes command, barrier, marker, barrier: then a new master may repeat one command.
type courier struct {
	out []byte // for the switch

	table    uint8 // of the marker
	serial   bool  // the switch has no bundles
	unmarked bool  // and takes no marker

	active bool // the switch takes our commands
	lost   bool // it did, and refuses them now
	marker marker
	fresh  freshness // of the marker: it is to be set with the next step
	last   uint64    // highest sequence that was queued
	queue  []command
	step   *step
	solo   int  // so many transactions go alone
	hold   bool // until the last refusal is logged
	tries  int  // of a bundle that failed for no reason of its commands

	bundles, xids uint32
}

type freshness uint8

const (
	current freshness = iota
	renew             // it is of an earlier term
	found             // the epoch is new: markers of others are removed
)

type command struct {
	seq uint64
	msg []byte
}

// step is what is sent and answered as one.
type step struct {
	kind         stepKind
	fresh        freshness // of the marker, before it
	commands     []command
	transactions int
	bundle       uint32
	open, commit uint32   // xids of bundle control; commit is 0 until it is sent
	opened       bool     // the bundle
	retry        bool     // it could not be opened, for now
	marker       uint32   // xid of the last one
	barrier      uint32   // xid of the last one
	refusals     [][]byte // ERROR messages for commands in the bundle
}

type stepKind uint8

const (
	bundled stepKind = iota
	alone            // a request
	marked           // commands, with barriers and markers between
)

// Bounds of a step: commands, and bytes. A single transaction may go beyond.
const (
	stepCommands = 64
	stepBytes    = 32 << 10
	maxTries     = 3
)

// courierXIDs is where the courier's transaction ids begin: above those of handshake and filter.
const courierXIDs = handshake.OwnXID | 0x40000000

// bundleable reports whether a command can go in a bundle. It must fit the message that adds it. PORT_MODs can not:
// Open vSwitch refuses an atomic bundle with one. To repeat one does no harm.
func bundleable(msg []byte) bool {
	switch msg[1] {
	case of13.TypeFlowMod, of13.TypeGroupMod, of13.TypePacketOut:
		return len(msg) <= openflow.MaxMessageLen-of13.BundleAddLen
	}
	return false
}

// repeatable reports whether a command only asks.
func repeatable(typ uint8) bool {
	switch typ {
	case of13.TypeFeaturesRequest, of13.TypeGetConfigRequest, of13.TypeMultipartRequest, of13.TypeBarrierRequest,
		of13.TypeQueueGetConfigRequest, of13.TypeGetAsyncRequest, openflow.TypeEchoRequest:
		return true
	}
	return false
}

func (c *courier) xid() uint32 {
	c.xids = (c.xids + 1) & 0x3fffffff
	return courierXIDs | c.xids
}

// halt ends an epoch or a mastership: what is on its way is nobody's any more.
func (c *courier) halt() {
	*c = courier{out: c.out, table: c.table, serial: c.serial, unmarked: c.unmarked, bundles: c.bundles, xids: c.xids}
}

// start lets commands go that are behind the marker. Requests that are not known to be answered
// go again all the same.
func (c *courier) start(m marker, f freshness) {
	c.queue = slices.DeleteFunc(c.queue, func(x command) bool { return x.seq <= m.seq && !repeatable(x.msg[1]) })
	c.active, c.marker, c.fresh, c.last = true, m, f, max(c.last, m.seq)
	c.pump()
}

// renew sets the marker again.
func (c *courier) renew() {
	c.fresh = max(c.fresh, renew)
	c.pump()
}

// send queues commands, behind all others. What was queued before is not queued again.
func (c *courier) send(first uint64, messages []byte) {
	messages = slices.Clone(messages)
	for seq := first; len(messages) > 0; seq++ {
		n := int(messages[2])<<8 | int(messages[3])
		if msg := messages[:n:n]; seq > c.last {
			c.queue = append(c.queue, command{seq, msg})
			c.last = seq
		}
		messages = messages[n:]
	}
	c.pump()
}

// done returns the sequence up to which everything is executed, or refused.
func (c *courier) done() uint64 {
	if s := c.step; s != nil && len(s.commands) > 0 {
		return s.commands[0].seq - 1
	}
	if len(c.queue) > 0 {
		return c.queue[0].seq - 1
	}
	return c.last
}

// pump takes the next step.
func (c *courier) pump() {
	if !c.active || c.step != nil || c.hold || len(c.queue) == 0 && c.fresh == current {
		return
	}
	switch bundle := c.fresh != current || bundleable(c.queue[0].msg); {
	case bundle && !c.serial:
		c.fill()
	case c.fresh == current && repeatable(c.queue[0].msg[1]):
		c.ask()
	default:
		c.sendMarked()
	}
}

func (c *courier) control(s *step, what uint16, xid uint32) {
	m := of13.BundleControl{ID: s.bundle, CtrlType: what, Flags: of13.BundleAtomic | of13.BundleOrdered}
	c.out = m.Append(c.out, xid)
}

func (c *courier) add(s *step, msg []byte, xid uint32) {
	m := of13.BundleAdd{ID: s.bundle, Flags: of13.BundleAtomic | of13.BundleOrdered, Message: msg}
	c.out = m.Append(c.out, xid)
}

func (c *courier) barrier(s *step) {
	s.barrier = c.xid()
	c.out = handshake.Bare(c.out, of13.Version, of13.TypeBarrierRequest, s.barrier)
}

// begin takes n commands from the queue for the next step.
func (c *courier) begin(kind stepKind, n int) *step {
	c.step = &step{kind: kind, fresh: c.fresh, commands: slices.Clone(c.queue[:n])}
	c.queue, c.fresh = c.queue[n:], current
	return c.step
}

// fill sends the next bundle, but for its commit: a message that a switch cannot even read it
// refuses at once, and commits the rest all the same. A barrier tells that there is none.
func (c *courier) fill() {
	n, size, transactions := 0, 0, 0
	for ; n < len(c.queue) && bundleable(c.queue[n].msg); n++ {
		msg := c.queue[n].msg
		if n == 0 || openflow.XID(msg)&handshake.ContinuesXID == 0 {
			if n > 0 && (n >= stepCommands || size >= stepBytes || c.solo > 0) {
				break
			}
			transactions++
		}
		size += len(msg)
	}
	s := c.begin(bundled, n)
	s.transactions = transactions
	c.solo = max(0, c.solo-transactions)
	c.bundles++
	s.bundle, s.open = c.bundles, c.xid()
	c.control(s, of13.BundleOpenRequest, s.open)
	if s.fresh == found {
		c.add(s, forget(c.table).Append(nil, 0), c.xid())
	}
	for _, x := range s.commands {
		c.add(s, x.msg, openflow.XID(x.msg))
	}
	m := c.marker
	m.seq = max(m.seq, s.last())
	s.marker = c.xid()
	c.add(s, m.mod(c.table).Append(nil, 0), s.marker)
	c.barrier(s)
}

func (s *step) last() uint64 {
	if len(s.commands) == 0 {
		return 0
	}
	return s.commands[len(s.commands)-1].seq
}

// ask sends a request by itself.
func (c *courier) ask() {
	s := c.begin(alone, 1)
	c.out = append(c.out, s.commands[0].msg...)
	c.barrier(s)
}

// sendMarked sends commands with a marker behind each. The last barrier tells that all is done.
func (c *courier) sendMarked() {
	most := stepCommands
	if !c.serial {
		most = 1 // it stands between bundles
	}
	n := 0
	for n < min(len(c.queue), most) && !repeatable(c.queue[n].msg[1]) {
		n++
	}
	s := c.begin(marked, n)
	m := c.marker
	set := func() {
		if !c.unmarked {
			s.marker = c.xid()
			c.out = m.mod(c.table).Append(c.out, s.marker)
		}
		c.barrier(s)
	}
	if s.fresh == found {
		c.out = forget(c.table).Append(c.out, c.xid())
		c.barrier(s)
	}
	if s.fresh != current {
		set()
	}
	for _, x := range s.commands {
		c.out = append(c.out, x.msg...)
		c.barrier(s)
		m.seq = max(m.seq, x.seq)
		set()
	}
}
