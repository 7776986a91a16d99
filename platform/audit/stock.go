package audit

import (
	"sync"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Stock is a Tally for switches without an agent, each connected to every controller, with a witness on each
// of these connections.
//
// An event was sent if any connection carried it: the n-th of equal ones to one controller is the n-th to another. An
// answer goes to one controller only. The commands of a bundle were executed, or refused, when its commit was answered;
// where the answer was never seen, the marker that the next master reads decides. A command outside of a bundle
// was executed when the switch was told, unless it answers that it takes none from there.
type Stock struct {
	*Tally
	observed bool // Executes tells of commands, and not the connections

	mu    sync.Mutex                        // guards the fields below and the connections; taken before Tally.mu
	heard map[int]map[content]int           // by controller
	open  map[openflow.DatapathID][]*bundle // committed and not answered, in order
}

// NewStock returns an empty tally. If observed, the switches say themselves what they execute: see Executes.
func NewStock(observed bool) *Stock {
	return &Stock{Tally: NewTally(), observed: observed, heard: map[int]map[content]int{}, open: map[openflow.DatapathID][]*bundle{}}
}

// Executes notes what a switch itself executed.
func (s *Stock) Executes(sw openflow.DatapathID, msg []byte) { s.Tally.ToSwitch(sw, msg) }

// Connection is what passes between one switch and one controller, until the connection ends.
type Connection struct {
	stock      *Stock
	controller int
	filling    map[uint32]*bundle // by bundle id
	committing map[uint32]*bundle // by xid of the commit
	told       []command          // the last ones outside of bundles
}

// bundle is a transaction on its way to a switch.
type bundle struct {
	from     *Connection
	commands []command
	marker   uint64 // the sequence that the switch's marker has afterwards; 0: none
	table    uint8  // of the marker
	slave    bool   // the switch takes nothing from this controller
}

type command struct {
	xid    uint32
	digest string
}

// maxTold is how many of the last commands a late refusal can be about.
const maxTold = 4096

// Connection begins a connection to a controller, named by a number.
func (s *Stock) Connection(controller int) *Connection {
	return &Connection{stock: s, controller: controller, filling: map[uint32]*bundle{}, committing: map[uint32]*bundle{}}
}

// FromSwitch notes what a switch says.
func (c *Connection) FromSwitch(sw openflow.DatapathID, msg []byte) {
	s := c.stock
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.observed {
		c.answer(sw, msg)
	}
	switch msg[1] {
	case of13.TypePortStatus, of13.TypeFlowRemoved:
	case of13.TypePacketIn:
		if isPoint(msg) {
			return
		}
	default:
		if t, _ := onf(msg); t == 0 {
			s.Tally.FromSwitch(sw, msg)
		}
		return
	}
	heard := s.heard[c.controller]
	if heard == nil {
		heard = map[content]int{}
		s.heard[c.controller] = heard
	}
	k := content{sw, Digest(msg)}
	heard[k]++
	s.Tally.sentAtLeast(k, heard[k])
}

// isPoint reports whether a packet comes from the controller itself, which marks points of the stream so.
func isPoint(msg []byte) bool {
	var in of13.PacketIn
	if in.Decode(msg) != nil {
		return false
	}
	port, ok := in.Match.InPort()
	return ok && port == of13.PortController
}

// ToSwitch notes what a controller tells a switch.
func (c *Connection) ToSwitch(sw openflow.DatapathID, msg []byte) {
	s := c.stock
	if s.observed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t, id := onf(msg); t {
	case of13.OnfBundleControl:
		c.control(sw, id, msg)
	case of13.OnfBundleAdd:
		b := c.filling[id]
		if b == nil {
			b = &bundle{from: c}
			c.filling[id] = b
		}
		b.add(msg)
	default:
		if isCommand(msg) {
			s.Tally.ToSwitch(sw, msg)
			c.told = append(c.told[max(0, len(c.told)-maxTold):], command{openflow.XID(msg), Digest(msg)})
		}
	}
}

// control follows a bundle to its commit.
func (c *Connection) control(sw openflow.DatapathID, id uint32, msg []byte) {
	var m of13.BundleControl
	if m.Decode(msg) != nil {
		return
	}
	switch m.CtrlType {
	case of13.BundleOpenRequest:
		c.filling[id] = &bundle{from: c}
	case of13.BundleDiscardRequest:
		delete(c.filling, id)
	case of13.BundleCommitRequest:
		if b := c.filling[id]; b != nil {
			delete(c.filling, id)
			c.committing[openflow.XID(msg)] = b
			c.stock.open[sw] = append(c.stock.open[sw], b)
		}
	}
}

func (b *bundle) add(msg []byte) {
	var m of13.BundleAdd
	if m.Decode(msg) != nil || len(m.Message) < openflow.HeaderLen {
		return
	}
	inner := m.Message[:min(int(m.Message[2])<<8|int(m.Message[3]), len(m.Message))]
	if isCommand(inner) {
		b.commands = append(b.commands, command{openflow.XID(inner), Digest(inner)})
		return
	}
	var mark of13.FlowMod
	if inner[1] == of13.TypeFlowMod && mark.Decode(inner) == nil {
		b.marker, b.table = markerSequence(mark.Cookie), mark.TableID
	}
}

// markerSequence is the sequence in the cookie of a marker: the commands up to it are done.
func markerSequence(cookie uint64) uint64 { return cookie & (1<<40 - 1) }

// answer takes what decides about commands.
func (c *Connection) answer(sw openflow.DatapathID, msg []byte) {
	xid := openflow.XID(msg)
	switch msg[1] {
	case openflow.TypeExperimenter:
		var m of13.BundleControl
		if m.Decode(msg) == nil && m.CtrlType == of13.BundleCommitReply {
			c.settle(sw, xid, true)
		}
	case openflow.TypeError:
		var e of13.Error
		if e.Decode(msg) != nil {
			return
		}
		slave := e.ErrType == of13.ErrTypeBadRequest && e.Code == of13.BadRequestIsSlave
		if b := c.committing[xid]; b != nil {
			code, ok := e.BundleError()
			c.settle(sw, xid, ok && code == of13.BundleMsgFailed && !b.slave) // it was told, and refuses
		} else if slave {
			c.refuse(sw, xid)
		}
	case of13.TypeMultipartReply:
		var m of13.MultipartReply
		if xid >= handshake.OwnXID && m.Decode(msg) == nil && m.Part == of13.PartFlow {
			c.read(sw, m.Flows())
		}
	}
}

// settle ends a bundle whose commit was answered.
func (c *Connection) settle(sw openflow.DatapathID, xid uint32, executed bool) {
	b := c.committing[xid]
	delete(c.committing, xid)
	list := c.stock.open[sw]
	for i, o := range list {
		if o == b {
			c.stock.open[sw] = append(list[:i:i], list[i+1:]...)
			c.stock.end(sw, b, executed)
			return
		}
	}
}

func (s *Stock) end(sw openflow.DatapathID, b *bundle, executed bool) {
	if !executed {
		return
	}
	for _, cmd := range b.commands {
		s.Tally.toldTo(sw, cmd.digest)
	}
}

// refuse takes back a command that the switch did not want from this controller.
func (c *Connection) refuse(sw openflow.DatapathID, xid uint32) {
	for _, b := range c.committing {
		for _, cmd := range b.commands {
			b.slave = b.slave || cmd.xid == xid
		}
	}
	for i, cmd := range c.told {
		if cmd.xid == xid {
			c.told = append(c.told[:i], c.told[i+1:]...)
			c.stock.Tally.notTold(sw, cmd.digest)
			return
		}
	}
}

// read decides about bundles of earlier masters by the marker that this one reads.
func (c *Connection) read(sw openflow.DatapathID, flows of13.List[of13.FlowStats]) {
	s := c.stock
	var mine []*bundle
	for _, b := range s.open[sw] {
		if b.from == c {
			mine = append(mine, b) // its answer comes here
			continue
		}
		done := uint64(0)
		for f := range flows.All() {
			if f.TableID == b.table {
				done = max(done, markerSequence(f.Cookie))
			}
		}
		s.end(sw, b, b.marker != 0 && b.marker <= done)
	}
	s.open[sw] = mine
}

// Commands counts the commands in a message to a switch: one, or that which it adds to a bundle.
func Commands(msg []byte) int {
	if t, _ := onf(msg); t == of13.OnfBundleAdd {
		var b bundle
		b.add(msg)
		return len(b.commands)
	}
	if isCommand(msg) {
		return 1
	}
	return 0
}

// onf returns the type of a message of the bundle extension and the id of the bundle, 0 for other messages.
func onf(msg []byte) (expType, bundle uint32) {
	if msg[1] != openflow.TypeExperimenter {
		return 0, 0
	}
	var add of13.BundleAdd
	var control of13.BundleControl
	switch {
	case add.Decode(msg) == nil:
		return of13.OnfBundleAdd, add.ID
	case control.Decode(msg) == nil:
		return of13.OnfBundleControl, control.ID
	}
	return 0, 0
}
