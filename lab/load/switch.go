package load

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

var be = binary.BigEndian

// The types of the two commands that can be answers are the same in 1.0 and 1.3.
const (
	typePacketOut = of13.TypePacketOut
	typeFlowMod   = of13.TypeFlowMod
)

// dialect is what differs between the OpenFlow versions.
type dialect struct {
	// hello is the first message of the switch.
	hello []byte
	// control appends the answer to a message other than flow-mod and packet-out.
	control func(s *fakeSwitch, dst, msg []byte) ([]byte, error)
	// answers reports whether a flow-mod or packet-out can be an answer, and its buffer id.
	answers func(msg []byte) (id uint32, ok bool, err error)
	// anyID: an answer without an outstanding buffer id counts for the oldest packet-in.
	anyID bool
	// ids is the number of buffer ids.
	ids uint64
}

// fakeSwitch is the protocol of one switch: no I/O, no clock, no lock. Times are relative to any moment before the
// first packet-in.
type fakeSwitch struct {
	dialect
	id   openflow.DatapathID
	macs uint32

	packetIn  []byte // template
	xidAt     int    // offsets in it
	bufferAt  int
	sourceAt  int // the byte of the source address where its rotating part begins
	portAt    int // the port where the packet came in; 0: it is always the same
	announce  []byte
	win       *window // nil: no bound
	config    [2]uint16
	role      of13.RoleReply
	replies   []byte
	ready     bool // features, or ports, were requested: packet-ins may be sent
	stopped   bool // no more packet-ins
	measuring bool

	// In Paced mode a packet-in is due every so long, the next one at next. 0: as the window allows.
	every, next time.Duration
	late        Histogram

	afterPorts bool // ports have to be requested first
	taps       Taps

	xid     uint32
	mac     uint32
	number  uint64 // of the next packet-in without a window
	counts  Counts
	latency Histogram
}

// maxReplies bounds the replies that wait for a controller which does not read, in bytes.
const maxReplies = 4 << 20

// receive handles whole messages that arrived at a time.
func (s *fakeSwitch) receive(batch []byte, now time.Duration) error {
	for {
		msg, rest, err := openflow.Next(batch)
		if err != nil {
			return err
		}
		if msg == nil {
			return nil
		}
		batch = rest
		switch msg[1] {
		case typeFlowMod, typePacketOut:
			if err := s.command(msg, now); err != nil {
				return err
			}
		case openflow.TypeError:
			return fmt.Errorf("load: switch %v: the controller sent an error: %x", s.id,
				msg[openflow.HeaderLen:min(len(msg), 64)])
		default:
			if s.replies, err = s.control(s, s.replies, msg); err != nil {
				return err
			}
			if len(s.replies) > maxReplies {
				return fmt.Errorf("load: switch %v: the controller asks and does not read: %d bytes of replies wait",
					s.id, len(s.replies))
			}
		}
	}
}

// command counts a flow-mod or packet-out.
func (s *fakeSwitch) command(msg []byte, now time.Duration) error {
	id, ok, err := s.answers(msg)
	if err != nil {
		return err
	}
	if msg[1] == typeFlowMod {
		s.counts.FlowMods++
	} else {
		s.counts.PacketOuts++
	}
	if err := s.tap(msg); err != nil {
		return err
	}
	switch {
	case !ok || !s.ready:
		s.counts.Unexpected++
	case s.win == nil:
		s.counts.Answered++
	default:
		sent, found := s.win.answer(id)
		if !found && s.anyID {
			sent, found = s.win.answerOldest()
		}
		switch {
		case found:
			s.counts.Answered++
			if s.measuring {
				s.latency.Record(now - sent)
			}
		case s.anyID: // more answers than packet-ins
			s.counts.Answered++
		default:
			s.counts.Unexpected++
		}
	}
	return nil
}

// tap passes a command on.
func (s *fakeSwitch) tap(msg []byte) error {
	switch {
	case msg[1] == typeFlowMod && s.taps.FlowMod != nil:
		var m of13.FlowMod
		if err := m.Decode(msg); err != nil {
			return err
		}
		s.taps.FlowMod(&m)
	case msg[1] == typePacketOut && s.taps.PacketOut != nil:
		var m of13.PacketOut
		if err := m.Decode(msg); err != nil {
			return err
		}
		s.taps.PacketOut(&m)
	}
	return nil
}

// fill appends what has to be sent at a time after 0: the replies, and packet-ins that are due, until dst has limit
// bytes or the window is full.
func (s *fakeSwitch) fill(dst []byte, now time.Duration, limit int) []byte {
	dst = append(dst, s.replies...)
	s.replies = s.replies[:0]
	if !s.ready || s.stopped {
		return dst
	}
	n := max(limit-len(dst), 0) / len(s.packetIn)
	if s.win != nil {
		n = min(n, s.win.room())
	}
	n = min(n, s.due(now))
	for range n {
		id, since := uint32(s.number%s.ids), now
		if s.every > 0 {
			since = s.next
			s.next += s.every
			if s.measuring {
				s.late.Record(now - since)
			}
		}
		if s.win != nil {
			id = s.win.send(since)
		}
		s.number++
		at := len(dst)
		dst = append(dst, s.packetIn...)
		msg := dst[at:]
		be.PutUint32(msg[s.xidAt:], s.xid)
		be.PutUint32(msg[s.bufferAt:], id)
		binary.LittleEndian.PutUint32(msg[s.sourceAt:], s.mac)
		msg[s.sourceAt+4] = byte(s.id) // as cbench: the last byte is the switch's
		if s.portAt > 0 {
			be.PutUint32(msg[s.portAt:], portOf(s.mac))
		}
		s.xid++
		if s.mac++; s.mac == s.macs {
			s.mac = 0
		}
	}
	s.counts.Sent += uint64(n)
	return dst
}

// due returns how many packet-ins are due.
func (s *fakeSwitch) due(now time.Duration) int {
	switch {
	case s.every == 0:
		return math.MaxInt
	case now < s.next:
		return 0
	}
	return int((now-s.next)/s.every) + 1
}

// waits reports whether fill has something to send, apart from packet-ins that become due.
func (s *fakeSwitch) waits() bool {
	return len(s.replies) > 0 || s.ready && !s.stopped && s.every == 0 && (s.win == nil || s.win.room() > 0)
}

// becomeReady allows packet-ins, after the announcement of the destination.
func (s *fakeSwitch) becomeReady(dst []byte) []byte {
	if s.ready {
		return dst
	}
	s.ready = true
	return append(dst, s.announce...)
}

// expire counts packet-ins sent before a time as lost.
func (s *fakeSwitch) expire(before time.Duration) {
	if s.win != nil {
		s.counts.Lost += s.win.expire(before)
	}
}

// short is the error for a message that is too short for its type.
func short(msg []byte, size int) error {
	return &openflow.Error{Version: msg[0], Type: msg[1], Message: of13.TypeName(msg[1]), Offset: len(msg),
		Kind:   openflow.Truncated,
		Detail: fmt.Sprintf("at least %d bytes expected", size)}
}
