package oracle

import (
	"bytes"
	"slices"
	"sync"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Stock is a Tally for switches without an agent, each connected to every controller, with a witness on each
// of these connections.
//
// An event counts as sent if any connection carried it: the n-th of equal events to one controller is the n-th to
// another. An answer goes to one controller only. The commands of a bundle count as executed when its commit was
// answered; if the answer was never seen, the marker that the next master reads decides. A bundle that the switch
// rejected, and that is not sent again, counts as executed: the switch got it, and refused. A command outside of a
// bundle counts as executed when the switch got it, unless it answers that it refuses commands of that controller.
//
// ERRORs are ignored: an error about a command in a bundle quotes the bundle, may be repeated with the next attempt,
// and is logged as an error about the command.
type Stock struct {
	*Tally
	observed bool // Executes reports commands, and the connections do not

	mu       sync.Mutex                        // guards the fields below and the connections; taken before Tally.mu
	heard    map[int]map[content]int           // by controller
	open     map[openflow.DatapathID][]*bundle // committed and not answered, in order
	rejected map[openflow.DatapathID]*bundle   // the last one, as long as it may come again
}

// NewStock returns an empty tally. If observed, the switches report what they execute: see Executes.
func NewStock(observed bool) *Stock {
	t := NewTally()
	t.noErrors = true
	return &Stock{Tally: t, observed: observed, heard: map[int]map[content]int{},
		open: map[openflow.DatapathID][]*bundle{}, rejected: map[openflow.DatapathID]*bundle{}}
}

// Executes records a command that a switch executed.
func (s *Stock) Executes(sw openflow.DatapathID, msg []byte) { s.Tally.ToSwitch(sw, msg) }

// Connection is what passes between one switch and one controller, until the connection ends.
type Connection struct {
	stock      *Stock
	controller int
	filling    map[uint32]*bundle // by bundle id
	committing map[uint32]*bundle // by xid of the commit
	told       []command          // the last commands outside of bundles
}

// bundle is a transaction in transit to a switch.
type bundle struct {
	from     *Connection
	commands []command
	marker   uint64 // cookie of the switch's marker afterwards; 0: none
	table    uint8  // of the marker
	slave    bool   // the switch refuses commands of this controller
}

type command struct {
	xid    uint32
	digest string
}

// maxTold is how many of the last commands a late refusal can refer to.
const maxTold = 4096

// Connection begins a connection to a controller, named by a number.
func (s *Stock) Connection(controller int) *Connection {
	return &Connection{stock: s, controller: controller, filling: map[uint32]*bundle{},
		committing: map[uint32]*bundle{}}
}

// FromSwitch records a message of a switch.
func (c *Connection) FromSwitch(sw openflow.DatapathID, msg []byte) {
	s := c.stock
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.observed {
		c.answer(sw, msg)
	}
	switch msg[1] {
	case openflow.TypeError:
		return
	case of13.TypePortStatus, of13.TypeFlowRemoved:
	case of13.TypePacketIn:
		if isPoint(msg) {
			return
		}
	default:
		var m of13.Experimenter
		if m.Decode(msg) != nil || m.ID != of13.OnfID { // bundle answers, and refusals because of the role
			s.Tally.FromSwitch(sw, msg)
		}
		return
	}
	heard := s.heard[c.controller]
	if heard == nil {
		heard = map[content]int{}
		s.heard[c.controller] = heard
	}
	k := content{sw, audit.Digest(msg)}
	heard[k]++
	s.Tally.sentAtLeast(k, sending{heard[k], msg[1]})
}

// isPoint reports whether a packet was sent by the controller to itself, to mark a point of the stream. Packets that
// applications send to themselves have another content.
func isPoint(msg []byte) bool {
	var in of13.PacketIn
	if in.Decode(msg) != nil {
		return false
	}
	port, ok := in.Match.InPort()
	return ok && port == of13.PortController && bytes.Contains(in.Data, []byte("Holdfast sync"))
}

// ToSwitch records a message of a controller.
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
			c.told = append(c.told[max(0, len(c.told)-maxTold):], command{openflow.XID(msg), audit.Digest(msg)})
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
		if b := c.filling[id]; b != nil {
			delete(c.filling, id)
			c.stock.reject(sw, b)
		}
	case of13.BundleCommitRequest:
		if b := c.filling[id]; b != nil {
			delete(c.filling, id)
			c.stock.forget(sw, b)
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
		b.commands = append(b.commands, command{openflow.XID(inner), audit.Digest(inner)})
		return
	}
	var mark of13.FlowMod
	if inner[1] == of13.TypeFlowMod && mark.Decode(inner) == nil {
		b.marker, b.table = mark.Cookie, mark.TableID
	}
}

// The highest byte of a marker's cookie says which program owns it; the others are a sequence: the commands up to it
// are done.
const (
	markerOwner    = 0xff << 56
	markerSequence = 1<<56 - 1
)

// says reports whether the flow entry is the marker of this bundle or of a later one.
func (b *bundle) says(f of13.FlowStats) bool {
	return b.marker != 0 && f.TableID == b.table && f.Cookie&markerOwner == b.marker&markerOwner &&
		f.Cookie&markerSequence >= b.marker&markerSequence
}

// answer handles the messages that decide about commands.
func (c *Connection) answer(sw openflow.DatapathID, msg []byte) {
	xid := openflow.XID(msg)
	switch msg[1] {
	case openflow.TypeExperimenter:
		var m of13.BundleControl
		if m.Decode(msg) == nil && m.CtrlType == of13.BundleCommitReply {
			c.stock.execute(sw, c.settle(sw, xid))
		}
	case openflow.TypeError:
		var e of13.Error
		if e.Decode(msg) != nil {
			return
		}
		slave := e.ErrType == of13.ErrTypeBadRequest && e.Code == of13.BadRequestIsSlave
		if b := c.committing[xid]; b != nil {
			c.settle(sw, xid)
			if code, ok := e.BundleError(); ok && code == of13.BundleMsgFailed && !b.slave {
				c.stock.reject(sw, b)
			}
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

// settle returns the bundle whose commit was answered, or nil if that has been decided.
func (c *Connection) settle(sw openflow.DatapathID, xid uint32) *bundle {
	b := c.committing[xid]
	delete(c.committing, xid)
	list := c.stock.open[sw]
	i := slices.Index(list, b)
	if i < 0 {
		return nil
	}
	c.stock.open[sw] = append(list[:i:i], list[i+1:]...)
	return b
}

// execute counts a bundle, unless it is nil, as executed.
func (s *Stock) execute(sw openflow.DatapathID, b *bundle) {
	if b == nil {
		return
	}
	for _, cmd := range b.commands {
		s.Tally.toldTo(sw, cmd.digest)
	}
}

// reject keeps a bundle that the switch rejected: its transactions may be sent again, one by one.
func (s *Stock) reject(sw openflow.DatapathID, b *bundle) {
	s.execute(sw, s.rejected[sw])
	s.rejected[sw] = b
}

// forget decides about the rejected bundle when the next one comes.
func (s *Stock) forget(sw openflow.DatapathID, next *bundle) {
	b := s.rejected[sw]
	if b == nil || len(next.commands) == 0 {
		return
	}
	delete(s.rejected, sw)
	if len(b.commands) == 0 || b.commands[0].xid != next.commands[0].xid {
		s.execute(sw, b)
	}
}

// Compare is Compare of Tally.
func (s *Stock) Compare(records []audit.Record) Result {
	s.mu.Lock()
	for sw, b := range s.rejected {
		s.execute(sw, b)
		delete(s.rejected, sw)
	}
	s.mu.Unlock()
	return s.Tally.Compare(records)
}

// refuse removes a command that the switch refused from this controller.
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
			mine = append(mine, b) // its own answer follows
			continue
		}
		for f := range flows.All() {
			if b.says(f) {
				s.execute(sw, b)
				break
			}
		}
	}
	s.open[sw] = mine
}

// Commands returns the number of commands in a message to a switch: one, or that which it adds to a bundle.
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
