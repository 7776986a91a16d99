// Package wire is the encoding of the messages between two controllers: a hello and its answer, then frames. One
// connection carries the messages of all groups. It does no I/O.
//
//	hello   "HOLDRAFT" | version u16 | from u64 | to u64 | founded u8 | length u8 | cluster name
//	answer  length u8 | reason, empty if the hello was accepted; Removed or Stranger if it never will be
//	frame   length u32 of what follows | type u8 | body
//
//	message      group uvarint | stored uvarint, see Message.stored | a raftpb.Message
//	state begin  u64: bytes of the state that belongs to the next snapshot message
//	state chunk  the next bytes of it
//	payload part the next bytes of a payload
//	payload end  group uvarint | the last bytes of it
//
// Numbers of a fixed size are big endian. The state of a snapshot is sent in chunks between other messages, so that a
// large snapshot does not delay heartbeats. A payload is a message between the owners of two replicas of a group, which
// this package does not interpret. It is sent in parts for the same reason. At any time one state and one payload, each
// of any group, are being sent on a connection.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Version of the protocol; controllers of different versions refuse each other.
const Version = 7

// Bounds of what a peer may send.
const (
	MaxFrame   = 8 << 20   // of one frame, in bytes: one entry of 4 MiB and what is around it
	MaxState   = 1 << 30   // of the state in a snapshot
	ChunkSize  = 256 << 10 // of a state chunk as it is sent: under a millisecond at 10 Gbit/s
	MaxCluster = 255       // of a cluster's name
	MaxPayload = 8 << 20   // of a payload
	PartSize   = 64 << 10  // of a part of a payload as it is sent
)

// Message is a Raft message of a group and, beside it, the state of the snapshot it carries; or, without a Raft
// message, a payload.
type Message struct {
	Group   uint64
	Raft    *raftpb.Message
	Stored  uint64 // of a MsgApp: up to which index its sender has stored its log; 0: it does not say
	Hasten  bool   // with Stored: its receiver is to commit at once what both have stored
	State   []byte // of a MsgSnap; shared, never modified
	Payload []byte
}

// stored is what a frame says about storing: Stored twice, and 1 if Hasten.
func (m Message) stored() uint64 {
	if m.Hasten {
		return m.Stored<<1 | 1
	}
	return m.Stored << 1
}

// Removed is the answer to a member that the group has removed.
const Removed = "this member was removed from the group"

// Stranger is the answer to a member with a log that Found made, if the group has had a leader and does not have that
// member.
const Stranger = "not a member here"

// Types of frames.
const (
	TypeMessage byte = iota + 1
	TypeStateBegin
	TypeStateChunk
	TypePayloadPart
	TypePayloadEnd
)

// FrameHeaderLen is the length field and the type.
const FrameHeaderLen = 5

const magic = "HOLDRAFT"

// HelloLen is the fixed part of a hello, up to and including the length of the name.
const HelloLen = len(magic) + 2 + 8 + 8 + 1 + 1

// Hello is what the dialing side says first.
type Hello struct {
	Version  uint16
	From, To uint64 // controllers
	Founded  bool   // its log of group 0 is as Found made it: it has known no leader yet
	Cluster  string
}

// AppendHello appends h; its cluster name has at most MaxCluster bytes.
func AppendHello(dst []byte, h Hello) []byte {
	dst = append(dst, magic...)
	dst = binary.BigEndian.AppendUint16(dst, h.Version)
	dst = binary.BigEndian.AppendUint64(dst, h.From)
	dst = binary.BigEndian.AppendUint64(dst, h.To)
	founded := byte(0)
	if h.Founded {
		founded = 1
	}
	dst = append(dst, founded, byte(len(h.Cluster)))
	return append(dst, h.Cluster...)
}

// ParseHello reads the fixed part of a hello, and says how many bytes of name follow.
func ParseHello(b []byte) (Hello, int, error) {
	if len(b) != HelloLen || string(b[:len(magic)]) != magic {
		return Hello{}, 0, errors.New("the peer does not speak Holdfast's consensus protocol")
	}
	b = b[len(magic):]
	h := Hello{Version: binary.BigEndian.Uint16(b), From: binary.BigEndian.Uint64(b[2:]),
		To: binary.BigEndian.Uint64(b[10:]), Founded: b[18] == 1}
	return h, int(b[19]), nil
}

// AppendMessage appends the frame of a Raft message, without the state of a snapshot.
func AppendMessage(dst []byte, m Message) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, TypeMessage)
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.Group), m.stored())
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m.Raft)
	if err != nil {
		return dst[:start], fmt.Errorf("encode %s: %w", m.Raft.GetType(), err)
	}
	if n := len(dst) - start - 4; n > MaxFrame {
		return dst[:start], fmt.Errorf("%s of %d bytes is larger than a frame of %d", m.Raft.GetType(), n, MaxFrame)
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, nil
}

// AppendStateBegin appends the frame that announces a state of n bytes.
func AppendStateBegin(dst []byte, n int) []byte {
	dst = append(dst, 0, 0, 0, 9, TypeStateBegin)
	return binary.BigEndian.AppendUint64(dst, uint64(n))
}

// AppendStateChunk appends the frame of one chunk, of at most ChunkSize bytes.
func AppendStateChunk(dst, chunk []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(chunk)+1))
	dst = append(dst, TypeStateChunk)
	return append(dst, chunk...)
}

// AppendPayload appends the frame of the next part of a payload of a group, of at most PartSize bytes, and returns the
// rest of the payload. After the last part the rest is empty.
func AppendPayload(dst []byte, group uint64, payload []byte) (frames, rest []byte) {
	start, n := len(dst), min(len(payload), PartSize)
	if n < len(payload) {
		dst = append(dst, 0, 0, 0, 0, TypePayloadPart)
	} else {
		dst = append(dst, 0, 0, 0, 0, TypePayloadEnd)
		dst = binary.AppendUvarint(dst, group)
	}
	dst = append(dst, payload[:n]...)
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, payload[n:]
}

// ParseFrameHeader returns the type of a frame and the length of its body.
func ParseFrameHeader(b [FrameHeaderLen]byte) (typ byte, body int, err error) {
	n := binary.BigEndian.Uint32(b[:])
	if n == 0 || n > MaxFrame {
		return 0, 0, fmt.Errorf("frame of %d bytes; 1 to %d are allowed", n, MaxFrame)
	}
	return b[4], int(n) - 1, nil
}

// Decoder turns the frames of one connection into messages.
type Decoder struct {
	state []byte // chunks so far
	want  int    // announced length of state

	payload []byte // parts so far
}

// Frame takes one frame. It returns a message when the frame completes one; the message
// does not alias body.
func (d *Decoder) Frame(typ byte, body []byte) (Message, bool, error) {
	switch typ {
	case TypeMessage:
		return d.message(body)
	case TypeStateBegin:
		if len(body) != 8 {
			return Message{}, false, fmt.Errorf("state begin of %d bytes instead of 8", len(body))
		}
		n := binary.BigEndian.Uint64(body)
		if n > MaxState {
			return Message{}, false, fmt.Errorf("state of %d bytes; at most %d are allowed", n, MaxState)
		}
		d.state, d.want = nil, int(n)
	case TypeStateChunk:
		if len(d.state)+len(body) > d.want {
			return Message{}, false, fmt.Errorf("state chunks exceed the %d bytes announced", d.want)
		}
		if d.state == nil {
			d.state = make([]byte, 0, min(d.want, 16<<20)) // the announcement alone must not cost memory
		}
		d.state = append(d.state, body...)
	case TypePayloadPart:
		return Message{}, false, d.part(body)
	case TypePayloadEnd:
		group, last, err := splitGroup(body)
		if err == nil {
			err = d.part(last)
		}
		if err != nil {
			return Message{}, false, err
		}
		m := Message{Group: group, Payload: d.payload}
		d.payload = nil
		return m, true, nil
	default:
		return Message{}, false, fmt.Errorf("unknown frame type %d", typ)
	}
	return Message{}, false, nil
}

func (d *Decoder) part(b []byte) error {
	if len(d.payload)+len(b) > MaxPayload {
		return fmt.Errorf("payload of more than %d bytes", MaxPayload)
	}
	d.payload = append(d.payload, b...)
	return nil
}

// splitGroup reads the group at the beginning of a body.
func splitGroup(body []byte) (group uint64, rest []byte, err error) {
	group, n := binary.Uvarint(body)
	if n <= 0 {
		return 0, nil, errors.New("a frame does not name its group")
	}
	return group, body[n:], nil
}

func (d *Decoder) message(body []byte) (Message, bool, error) {
	group, body, err := splitGroup(body)
	if err != nil {
		return Message{}, false, err
	}
	stored, n := binary.Uvarint(body)
	if n <= 0 {
		return Message{}, false, errors.New("a message does not say what its sender has stored")
	}
	m := Message{Group: group, Stored: stored >> 1, Hasten: stored&1 == 1, Raft: new(raftpb.Message)}
	if err := proto.Unmarshal(body[n:], m.Raft); err != nil {
		return Message{}, false, fmt.Errorf("decode message: %w", err)
	}
	if m.Raft.GetType() == raftpb.MsgSnap {
		if len(d.state) != d.want {
			return Message{}, false, fmt.Errorf("snapshot with %d of %d bytes of state", len(d.state), d.want)
		}
		m.State, d.state, d.want = d.state, nil, 0
	}
	return m, true, nil
}
