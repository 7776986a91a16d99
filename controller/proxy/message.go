package proxy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Kind is the kind of a message.
type Kind uint8

// The kinds of messages from a follower to the leader, and then those from the leader to a follower.
const (
	Beat     Kind = iota + 1 // the follower lives, and has handled Consumed
	Begin                    // begins a link, in Term
	Offer                    // a session of a switch, with its state
	Changed                  // the state of a session has changed
	Withdraw                 // a session has ended
	Claimed                  // the session has been claimed, and takes commands
	Events                   // a batch of events
	Done                     // commands up to Seq of Epoch are done
	Restart                  // the link is not known: begin a new one
	Alive                    // the leader lives, and has handled Consumed
	Claim                    // claim the switch, once entry Index is applied
	Standby                  // the claim has ended
	Commands                 // a block of commands
	Executed                 // the events are executed; or refused, and Text says why
	Hold
	Resend
	Refuse // Reason, Epoch
	Close  // Text says why
)

// Message is one message of a link. The first fields are of every message, and the others of some kinds.
type Message struct {
	Kind     Kind
	Link     uint64 // chosen by the follower
	Number   uint64 // of the message in its direction of the link, from 1 on
	Consumed uint64 // bytes of messages of the link that the sender has handled
	Session  uint64 // number of the session, chosen by the follower; 0: none
	Claim    uint32 // number of the claim of the session, chosen by the leader

	Term       uint64              // Begin
	Switch     openflow.DatapathID // Offer
	Age        time.Duration       // Offer: since the session was attached
	State      southbound.State    // Offer, Changed
	Generation uint64              // Claim, Commands
	Index      uint64              // Claim
	Resume     southbound.Resume   // Claim
	Epoch      uint64              // Events, Done, Commands, Refuse
	Seq        uint64              // Events, Commands: the first; Done: the last
	Count      uint32              // Events, Commands
	Done       uint64              // Events
	Reason     experimenter.Reason // Refuse
	Text       string              // Executed, Close
	Bytes      []byte              // Events, Commands; decoded, it aliases the input
}

// fromLeader reports whether a payload is a message from a leader to a follower.
func fromLeader(payload []byte) bool { return len(payload) > 0 && Kind(payload[0]) >= Restart }

// textLen bounds Text, and the texts of a State.
const textLen = 1 << 10

// append appends the encoding of m. All numbers are big endian; a text has its length before it.
func (m *Message) append(b []byte) []byte {
	put := binary.BigEndian.AppendUint64
	b = put(put(put(put(append(b, byte(m.Kind)), m.Link), m.Number), m.Consumed), m.Session)
	b = binary.BigEndian.AppendUint32(b, m.Claim)
	switch m.Kind {
	case Begin:
		b = put(b, m.Term)
	case Offer:
		b = appendState(put(put(b, uint64(m.Switch)), uint64(m.Age)), &m.State)
	case Changed:
		b = appendState(b, &m.State)
	case Claim:
		r := &m.Resume
		b = put(put(put(put(b, m.Generation), m.Index), r.Epoch), r.Events)
		b = appendBool(put(put(b, r.Commands), r.Done), r.Live)
	case Events:
		b = put(put(put(b, m.Epoch), m.Seq), m.Done)
		b = append(binary.BigEndian.AppendUint32(b, m.Count), m.Bytes...)
	case Commands:
		b = put(put(put(b, m.Epoch), m.Seq), m.Generation)
		b = append(binary.BigEndian.AppendUint32(b, m.Count), m.Bytes...)
	case Done:
		b = put(put(b, m.Epoch), m.Seq)
	case Refuse:
		b = append(put(b, m.Epoch), byte(m.Reason))
	case Executed, Close:
		b = appendText(b, m.Text)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), textLen)]
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

func appendState(b []byte, s *southbound.State) []byte {
	b = append(b, byte(s.Peer), s.Version)
	b = appendBool(appendBool(b, s.InSync), s.Fenced)
	b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint64(b, s.Epoch), s.Claimed)
	return appendText(appendText(appendText(b, s.Remote), s.Guarantee), s.Why)
}

var errShort = errors.New("proxy: the message ends within a field")

// decoder reads fields; after the first error it returns zero values.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.b, d.err = nil, errShort
	}
	if d.err != nil {
		return make([]byte, min(n, 8))
	}
	v := d.b[:n:n]
	d.b = d.b[n:]
	return v
}

func (d *decoder) byte() byte     { return d.take(1)[0] }
func (d *decoder) bool() bool     { return d.byte() != 0 }
func (d *decoder) uint32() uint32 { return binary.BigEndian.Uint32(d.take(4)) }
func (d *decoder) uint64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

func (d *decoder) text() string {
	n := int(binary.BigEndian.Uint16(d.take(2)))
	if n > textLen && d.err == nil {
		d.b, d.err = nil, fmt.Errorf("proxy: a text of %d bytes; at most %d are allowed", n, textLen)
	}
	if d.err != nil {
		return ""
	}
	return string(d.take(n))
}

func (d *decoder) state() (s southbound.State) {
	s.Peer, s.Version, s.InSync, s.Fenced = southbound.Peer(d.byte()), d.byte(), d.bool(), d.bool()
	s.Epoch, s.Claimed = d.uint64(), binary.BigEndian.Uint16(d.take(2))
	s.Remote, s.Guarantee, s.Why = d.text(), d.text(), d.text()
	return s
}

// Parse decodes a message. Events and commands are whole messages of OpenFlow.
func Parse(b []byte) (Message, error) {
	d := decoder{b: b}
	m := Message{Kind: Kind(d.byte()), Link: d.uint64(), Number: d.uint64(), Consumed: d.uint64(),
		Session: d.uint64(), Claim: d.uint32()}
	switch m.Kind {
	case Beat, Withdraw, Claimed, Restart, Alive, Standby, Hold, Resend:
	case Begin:
		m.Term = d.uint64()
	case Offer:
		m.Switch, m.Age, m.State = openflow.DatapathID(d.uint64()), time.Duration(d.uint64()), d.state()
	case Changed:
		m.State = d.state()
	case Claim:
		m.Generation, m.Index = d.uint64(), d.uint64()
		m.Resume = southbound.Resume{Epoch: d.uint64(), Events: d.uint64(), Commands: d.uint64(), Done: d.uint64(),
			Live: d.bool()}
	case Events:
		m.Epoch, m.Seq, m.Done = d.uint64(), d.uint64(), d.uint64()
		m.Count, m.Bytes = d.messages()
	case Commands:
		m.Epoch, m.Seq, m.Generation = d.uint64(), d.uint64(), d.uint64()
		m.Count, m.Bytes = d.messages()
	case Done:
		m.Epoch, m.Seq = d.uint64(), d.uint64()
	case Refuse:
		m.Epoch, m.Reason = d.uint64(), experimenter.Reason(d.byte())
	case Executed, Close:
		m.Text = d.text()
	default:
		return Message{}, fmt.Errorf("proxy: unknown kind of message %d", m.Kind)
	}
	if d.err == nil && len(d.b) > 0 {
		d.err = fmt.Errorf("proxy: %d bytes behind a message of kind %d", len(d.b), m.Kind)
	}
	if d.err != nil {
		return Message{}, d.err
	}
	return m, nil
}

// messages reads the count of the messages and the messages, which are the rest.
func (d *decoder) messages() (uint32, []byte) {
	count, b := d.uint32(), d.b
	n := uint32(0)
	for len(d.b) > 0 && d.err == nil {
		if len(d.b) < openflow.HeaderLen || int(binary.BigEndian.Uint16(d.b[2:])) < openflow.HeaderLen {
			d.err = errShort
			break
		}
		d.take(int(binary.BigEndian.Uint16(d.b[2:])))
		n++
	}
	if d.err == nil && n != count {
		d.err = fmt.Errorf("proxy: %d messages where %d are announced", n, count)
	}
	return count, b
}
