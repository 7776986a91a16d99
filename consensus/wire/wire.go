// Package wire is the encoding of the messages between the members of one group: a hello and its answer, then frames.
// It does no I/O.
//
//	hello   "HOLDRAFT" | version u16 | from u64 | to u64 | founded u8 | length u8 | cluster name
//	answer  length u8 | reason, empty if the hello was accepted; Removed or Stranger if it never will be
//	frame   length u32 of what follows | type u8 | body
//
//	message      a raftpb.Message
//	state begin  u64: bytes of the state that belongs to the next snapshot message
//	state chunk  the next bytes of it
//	payload part the next bytes of a payload
//	payload end  the last bytes of it
//
// All numbers are big endian. The state of a snapshot is sent in chunks between other messages, so that a large
// snapshot does not delay heartbeats. A payload is a message between the owners of two members, which this package does
// not interpret. It is sent in parts for the same reason.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Version of the protocol; controllers of different versions refuse each other.
const Version = 3

// Bounds of what a peer may send.
const (
	MaxFrame   = 8 << 20   // of one frame, in bytes: one entry of 4 MiB and what is around it
	MaxState   = 1 << 30   // of the state in a snapshot
	ChunkSize  = 256 << 10 // of a state chunk as it is sent: under a millisecond at 10 Gbit/s
	MaxCluster = 255       // of a cluster's name
	MaxPayload = 8 << 20   // of a payload
	PartSize   = 64 << 10  // of a part of a payload as it is sent
)

// Message is a Raft message and, beside it, the state of the snapshot it carries; or, without a Raft message, a
// payload.
type Message struct {
	Raft    *raftpb.Message
	State   []byte // of a MsgSnap; shared, never modified
	Payload []byte
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
	From, To uint64
	Founded  bool // its log is as Found made it: it has known no leader yet
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

// AppendMessage appends the frame of m, without its state.
func AppendMessage(dst []byte, m *raftpb.Message) ([]byte, error) {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0, TypeMessage)
	dst, err := proto.MarshalOptions{}.MarshalAppend(dst, m)
	if err != nil {
		return dst[:start], fmt.Errorf("encode %s: %w", m.GetType(), err)
	}
	if n := len(dst) - start - 4; n > MaxFrame {
		return dst[:start], fmt.Errorf("%s of %d bytes is larger than a frame of %d", m.GetType(), n, MaxFrame)
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

// AppendPayload appends the frame of the next part of a payload, of at most PartSize bytes, and returns the rest of the
// payload. After the last part the rest is empty.
func AppendPayload(dst, payload []byte) (frames, rest []byte) {
	n, typ := min(len(payload), PartSize), TypePayloadPart
	if n == len(payload) {
		typ = TypePayloadEnd
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(n+1))
	dst = append(dst, typ)
	return append(dst, payload[:n]...), payload[n:]
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
	case TypePayloadPart, TypePayloadEnd:
		if len(d.payload)+len(body) > MaxPayload {
			return Message{}, false, fmt.Errorf("payload of more than %d bytes", MaxPayload)
		}
		d.payload = append(d.payload, body...)
		if typ == TypePayloadEnd {
			m := Message{Payload: d.payload}
			d.payload = nil
			return m, true, nil
		}
	default:
		return Message{}, false, fmt.Errorf("unknown frame type %d", typ)
	}
	return Message{}, false, nil
}

func (d *Decoder) message(body []byte) (Message, bool, error) {
	m := Message{Raft: new(raftpb.Message)}
	if err := proto.Unmarshal(body, m.Raft); err != nil {
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
