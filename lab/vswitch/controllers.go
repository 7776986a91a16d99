package vswitch

import (
	"bytes"
	"errors"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ConnID names a connection to a controller. The caller chooses it.
type ConnID uint64

// hardLimit times QueueLimit is the most that may be pending for one controller.
const hardLimit = 64

// conn is the connection to one controller.
type conn struct {
	id      ConnID
	hello   bool // negotiated
	closing bool // nothing is sent or received any more
	role    of13.Role
	async   of13.Async
	out     []byte // out[sent:] is pending
	sent    int
	bundles map[uint32]*bundle
}

// Bits of all reasons.
const (
	portReasons = 1<<of13.PortAdd | 1<<of13.PortDelete | 1<<of13.PortModify
	flowReasons = 1<<of13.FlowRemovedIdleTimeout | 1<<of13.FlowRemovedHardTimeout | 1<<of13.FlowRemovedDelete |
		1<<of13.FlowRemovedGroupDelete
)

// Connect begins a connection to a controller, with the role equal. The HELLO is pending at once. A connection with the
// same id is dropped.
func (s *Switch) Connect(id ConnID) {
	s.Disconnect(id)
	c := &conn{id: id, role: of13.RoleEqual, bundles: map[uint32]*bundle{}}
	// A slave gets only port statuses; packets with an expired TTL go only to controllers that ask for them (as in Open
	// vSwitch).
	c.async = of13.Async{
		PacketIn:    [2]uint32{1<<of13.PacketInNoMatch | 1<<of13.PacketInAction, 0},
		PortStatus:  [2]uint32{portReasons, portReasons},
		FlowRemoved: [2]uint32{flowReasons, 0},
	}
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	c.out = hello.Append(c.out, 0)
	s.conns = append(s.conns, c)
}

// Open begins a connection to a controller whose HELLO has come, with OpenFlow 1.3. The switch's own is pending.
func (s *Switch) Open(now time.Duration, id ConnID) {
	s.Connect(id)
	hello := of13.NewHello(of13.VersionsOf(of13.Version))
	s.Message(now, id, hello.Append(nil, 1))
}

// Disconnect ends a connection, if there is one. What is pending is lost, and its bundles are discarded.
func (s *Switch) Disconnect(id ConnID) {
	for i, c := range s.conns {
		if c.id == id {
			s.conns = append(s.conns[:i:i], s.conns[i+1:]...)
			return
		}
	}
}

// Pending returns what has to be sent over a connection, valid until the next call of a method, and whether the
// connection stays open. If not, the caller sends the rest, closes, and calls Disconnect.
func (s *Switch) Pending(id ConnID) (out []byte, open bool) {
	c := s.conn(id)
	if c == nil {
		return nil, false
	}
	return c.out[c.sent:], !c.closing
}

// Sent reports that the first n bytes of what was pending have been sent.
func (s *Switch) Sent(id ConnID, n int) {
	c := s.conn(id)
	if c == nil {
		return
	}
	if c.sent += n; c.sent >= len(c.out) {
		c.out, c.sent = c.out[:0], 0
	} else if c.sent > len(c.out)/2 {
		c.out, c.sent = c.out[:copy(c.out, c.out[c.sent:])], 0
	}
}

// Take is Pending and Sent for one who has no connection: it returns the messages that were pending, which are the
// caller's.
func (s *Switch) Take(id ConnID) (messages [][]byte) {
	out, _ := s.Pending(id)
	s.Sent(id, len(out))
	for out = bytes.Clone(out); len(out) > 0; {
		msg, rest, err := openflow.Next(out)
		if err != nil {
			panic("vswitch: " + err.Error()) // the switch has made it
		}
		messages, out = append(messages, msg), rest
	}
	return messages
}

// Role returns the role of the controller behind a connection, RoleNoChange if there is no such connection.
func (s *Switch) Role(id ConnID) of13.Role {
	if c := s.conn(id); c != nil {
		return c.role
	}
	return of13.RoleNoChange
}

func (s *Switch) conn(id ConnID) *conn {
	for _, c := range s.conns {
		if c.id == id {
			return c
		}
	}
	return nil
}

func (c *conn) pending() int { return len(c.out) - c.sent }

// send queues a message. A connection over the hard limit is closed.
func (s *Switch) send(c *conn, m of13.Message, xid uint32) {
	if c.closing {
		return
	}
	c.out = m.Append(c.out, xid)
	c.closing = c.pending() > hardLimit*s.config.QueueLimit
}

// column is the index of the role in the masks of Async.
func (c *conn) column() int {
	if c.role == of13.RoleSlave {
		return 1
	}
	return 0
}

func wants(mask uint32, reason uint8) bool { return mask&(1<<reason) != 0 }

func (c *conn) wantsPacketIn(reason uint8) bool {
	return c.hello && !c.closing && wants(c.async.PacketIn[c.column()], reason)
}

// portStatus notifies the controllers of a port (section 7.4.3).
func (s *Switch) portStatus(reason uint8, p *port) {
	for _, c := range s.conns {
		if c.hello && wants(c.async.PortStatus[c.column()], reason) {
			s.send(c, &of13.PortStatus{Reason: reason, Port: p.PortDesc}, 0)
		}
	}
}

// flowRemoved notifies the controllers of a removed entry (section 7.4.2).
func (s *Switch) flowRemoved(now time.Duration, f *flow, reason uint8) {
	d := since(f.created, now)
	m := of13.FlowRemoved{
		Cookie: f.cookie, Priority: f.priority, Reason: reason, TableID: f.table, DurationSec: d.Sec,
		DurationNsec: d.Nsec,
		IdleTimeout:  f.idle, HardTimeout: f.hard, PacketCount: f.packets, ByteCount: f.bytes, Match: f.match,
	}
	for _, c := range s.conns {
		if c.hello && wants(c.async.FlowRemoved[c.column()], reason) {
			s.send(c, &m, 0)
		}
	}
}

// roleRequest executes a ROLE_REQUEST (section 6.3.6).
func (s *Switch) roleRequest(c *conn, m *of13.RoleRequest, xid uint32) error {
	switch m.Role {
	case of13.RoleNoChange:
	case of13.RoleEqual:
		c.role = of13.RoleEqual
	case of13.RoleMaster, of13.RoleSlave:
		// Older than the current one, in serial number arithmetic: an earlier mastership.
		if s.hasGeneration && int64(m.GenerationID-s.generation) < 0 {
			return refuse(of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedStale)
		}
		s.generation, s.hasGeneration = m.GenerationID, true
		if m.Role == of13.RoleMaster {
			for _, other := range s.conns {
				if other.role == of13.RoleMaster {
					other.role = of13.RoleSlave
				}
			}
		}
		c.role = m.Role
	default:
		return refuse(of13.ErrTypeRoleRequestFailed, of13.RoleRequestFailedBadRole)
	}
	generation := ^uint64(0) // section 7.3.9: not known
	if s.hasGeneration {
		generation = s.generation
	}
	s.send(c, &of13.RoleReply{Role: c.role, GenerationID: generation}, xid)
	return nil
}

// greet handles the first message of a connection, which must be a HELLO (section 6.3.1).
func (s *Switch) greet(c *conn, msg []byte) {
	var h of13.Hello
	err := h.Decode(msg)
	if _, ok := h.Negotiate(of13.VersionsOf(of13.Version)); err == nil && ok {
		c.hello = true
		return
	}
	text := "this switch speaks OpenFlow 1.3 only"
	if err != nil {
		text = "a connection begins with HELLO"
	}
	s.send(c, &of13.Error{ErrType: of13.ErrTypeHelloFailed, Code: of13.HelloFailedIncompatible, Data: []byte(text)},
		xidOf(msg))
	c.closing = true
}

// sendError answers msg with err, which is what a decoder or a command returned.
func (s *Switch) sendError(c *conn, msg []byte, err error) {
	var answer of13.Error
	var wire *openflow.Error
	var refused *of13.Error
	switch {
	case errors.As(err, &refused):
		answer = *refused
	case errors.As(err, &wire):
		answer = of13.Refusal(wire, msg)
	}
	if answer.Data == nil {
		answer.Data = msg[:min(len(msg), 64)]
	}
	s.send(c, &answer, xidOf(msg))
}

// xidOf returns the transaction id of a message, 0 when even the header is cut short.
func xidOf(msg []byte) uint32 {
	if len(msg) < openflow.HeaderLen {
		return 0
	}
	return openflow.XID(msg)
}

// since is the time since created.
func since(created, now time.Duration) of13.Duration {
	d := max(now-created, 0)
	return of13.Duration{Sec: uint32(d / time.Second), Nsec: uint32(d % time.Second)}
}
