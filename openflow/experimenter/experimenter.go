// Package experimenter holds Holdfast's own messages between an agent and a controller.
// They are OpenFlow EXPERIMENTER messages (type 4, VENDOR in 1.0, where the layout is the
// same), so captures still decode. A block header numbers the ordinary messages that follow
// it, and acknowledgements are cumulative in both directions. docs/design/control-path.md
// describes the protocol. This package only encodes and decodes: it has no state and does no I/O.
package experimenter

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// ID is the experimenter id of Holdfast's messages. It is not registered with the ONF.
const ID uint32 = 0xff00484f

// ProtocolVersion is what ATTACH carries. A peer with another one is refused.
const ProtocolVersion uint32 = 3

// Type is the experimenter type of a message.
type Type uint32

// The messages, with their direction.
const (
	TypeAttach     Type = 1  // agent to controller, first after HELLO
	TypeEvents     Type = 2  // agent to controller, numbers the events that follow
	TypeEventAck   Type = 3  // controller to agent
	TypeCommands   Type = 4  // controller to agent, numbers the commands that follow
	TypeCommandAck Type = 5  // agent to controller
	TypeSwitchUp   Type = 6  // an event: the first of every epoch
	TypeSwitchDown Type = 7  // an event: the last of every epoch
	TypeRefuse     Type = 8  // controller to agent, then the controller closes
	TypeSyncMarker Type = 9  // an event of a switch that has no agent: see SyncMarker
	TypeStream     Type = 10 // both directions, see Stream
)

func (t Type) String() string {
	names := [...]string{"type 0", "ATTACH", "EVENTS", "EVENT_ACK", "COMMANDS", "COMMAND_ACK", "SWITCH_UP",
		"SWITCH_DOWN", "REFUSE", "SYNC_MARKER", "STREAM"}
	if int(t) < len(names) {
		return "HOLDFAST_" + names[t]
	}
	return fmt.Sprintf("HOLDFAST type %d", uint32(t))
}

// Attach tells a controller what the agent holds. Sequence numbers start at 1 in every epoch.
type Attach struct {
	Epoch       uint64 // the incarnation of the switch
	FirstHeld   uint64 // the lowest event sequence still in the buffer
	NextEvent   uint64 // the sequence that the next event will get
	CommandDone uint64 // the highest command sequence that the switch executed
	Version     uint16 // of the assignment in the last claim that the agent accepted; 0: none, or an older agent
}

// Block numbers the messages that follow it: Count messages, Bytes long altogether, the
// first with sequence First. Generation is that of the claim in COMMANDS, and 0 in EVENTS.
// COMMANDS with First 0 are best-effort: the agent forwards each at once, and acknowledges none.
type Block struct {
	Generation uint64
	Epoch      uint64
	First      uint64
	Count      uint32
	Bytes      uint32
}

// Ack acknowledges everything up to and with Seq of an epoch: events that are logged
// (EVENT_ACK), commands that the switch has executed (COMMAND_ACK).
type Ack struct{ Epoch, Seq uint64 }

// SwitchUp starts an epoch. Features is a whole FEATURES_REPLY, Ports a whole PORT_DESC
// multipart reply (empty for OpenFlow 1.0, whose FEATURES_REPLY lists the ports).
type SwitchUp struct{ Features, Ports []byte }

// Reason says why a switch is down or an agent refused.
type Reason uint32

// The reasons.
const (
	ReasonConnectionLost     Reason = 1 // the switch closed its connection to the agent, or it broke
	ReasonSilent             Reason = 2 // the switch did not answer echo requests
	ReasonGarbage            Reason = 3 // the switch sent data that is not OpenFlow
	ReasonStaleEpoch         Reason = 4 // the controllers know a newer epoch: begin one above Refuse.Epoch
	ReasonDuplicateDatapath  Reason = 5 // another live agent or switch has this datapath id
	ReasonUnsupportedVersion Reason = 6 // ProtocolVersion differs
	ReasonUnreachable        Reason = 7 // the leader had no connection to the agent for the switch timeout
	ReasonElsewhere          Reason = 8 // this controller has no replica of the group of the switch
)

func (r Reason) String() string {
	names := [...]string{"unknown reason", "connection lost", "silent", "sent garbage", "stale epoch",
		"duplicate datapath id", "unsupported protocol version", "unreachable", "served elsewhere"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}

// Refuse ends a session. Epoch is the newest epoch that the controllers know.
type Refuse struct {
	Reason Reason
	Epoch  uint64
}

// SyncMarker is a numbered point in the stream of events of a switch that has no agent. The switch's master puts it
// there, and the standbys find by it how far their own copies of the stream go. It stands in the log like an event.
// No two sync markers of one switch are equal.
type SyncMarker struct {
	Generation uint64 // generation_id of the master
	Number     uint64 // grows within a generation
}

// Stream is the header of a frame on a connection that carries those of several switches, see package trunk. Number is
// less than 1<<24.
type Stream struct {
	ID     uint32
	Kind   StreamKind
	Number uint32
}

// StreamKind is the kind of a frame.
type StreamKind uint8

// The kinds of frames.
const (
	StreamData   StreamKind = 1 // Number bytes follow: whole messages of the stream. The first one opens it
	StreamCredit StreamKind = 2 // the receiver has taken Number bytes, and so many more may be sent
	StreamEnd    StreamKind = 3 // the sender has closed the stream
)

const prefixLen = openflow.HeaderLen + 8

// Lengths of the fixed messages, in bytes, header included.
const (
	attachLen     = prefixLen + 40
	BlockLen      = prefixLen + 32
	AckLen        = prefixLen + 16
	switchDownLen = prefixLen + 8
	refuseLen     = prefixLen + 16
	syncMarkerLen = prefixLen + 16
	StreamLen     = prefixLen + 8
)

func begin(dst []byte, version uint8, t Type) []byte {
	dst = openflow.AppendHeader(dst, version, openflow.TypeExperimenter, 0)
	dst = binary.BigEndian.AppendUint32(dst, ID)
	return binary.BigEndian.AppendUint32(dst, uint32(t))
}

// Append appends the message, in the given OpenFlow version, to dst.
func (a Attach) Append(dst []byte, version uint8) []byte {
	n := len(dst)
	dst = begin(dst, version, TypeAttach)
	dst = binary.BigEndian.AppendUint32(dst, ProtocolVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(a.Version))
	for _, v := range [...]uint64{a.Epoch, a.FirstHeld, a.NextEvent, a.CommandDone} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the block header as a message of type t, EVENTS or COMMANDS.
func (b Block) Append(dst []byte, version uint8, t Type) []byte {
	n := len(dst)
	dst = begin(dst, version, t)
	for _, v := range [...]uint64{b.Generation, b.Epoch, b.First, uint64(b.Count)<<32 | uint64(b.Bytes)} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the acknowledgement as a message of type t, EVENT_ACK or COMMAND_ACK.
func (a Ack) Append(dst []byte, version uint8, t Type) []byte {
	n := len(dst)
	dst = begin(dst, version, t)
	dst = binary.BigEndian.AppendUint64(dst, a.Epoch)
	dst = binary.BigEndian.AppendUint64(dst, a.Seq)
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the event. It must fit one message: a switch with more than about 1,000
// ports does not, and its Ports are to be left out.
func (u SwitchUp) Append(dst []byte, version uint8) []byte {
	n := len(dst)
	dst = begin(dst, version, TypeSwitchUp)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(u.Features)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(u.Ports)))
	dst = append(append(dst, u.Features...), u.Ports...)
	openflow.SetLength(dst[n:])
	return dst
}

// AppendSwitchDown appends a SWITCH_DOWN event.
func AppendSwitchDown(dst []byte, version uint8, r Reason) []byte {
	n := len(dst)
	dst = begin(dst, version, TypeSwitchDown)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r))
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the message to dst.
func (r Refuse) Append(dst []byte, version uint8) []byte {
	n := len(dst)
	dst = begin(dst, version, TypeRefuse)
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.Reason))
	dst = binary.BigEndian.AppendUint64(dst, r.Epoch)
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the event to dst.
func (m SyncMarker) Append(dst []byte, version uint8) []byte {
	n := len(dst)
	dst = begin(dst, version, TypeSyncMarker)
	dst = binary.BigEndian.AppendUint64(dst, m.Generation)
	dst = binary.BigEndian.AppendUint64(dst, m.Number)
	openflow.SetLength(dst[n:])
	return dst
}

// Append appends the header of a frame to dst.
func (s Stream) Append(dst []byte) []byte {
	n := len(dst)
	dst = begin(dst, openflow.Version13, TypeStream)
	dst = binary.BigEndian.AppendUint32(dst, s.ID)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Kind)<<24|s.Number)
	openflow.SetLength(dst[n:])
	return dst
}

// Is reports whether msg, one whole message, is one of Holdfast's, and of which type.
func Is(msg []byte) (Type, bool) {
	if len(msg) < prefixLen || msg[1] != openflow.TypeExperimenter || binary.BigEndian.Uint32(msg[8:]) != ID {
		return 0, false
	}
	return Type(binary.BigEndian.Uint32(msg[12:])), true
}

// body checks that msg is of type t and has the length want (at least, when open).
func body(msg []byte, t Type, want int, open bool) ([]byte, error) {
	got, ok := Is(msg)
	fail := func(kind openflow.Kind, offset int, detail string) ([]byte, error) {
		e := &openflow.Error{Type: openflow.TypeExperimenter, Message: t.String(), Offset: offset, Kind: kind,
			Detail: detail}
		if len(msg) > 0 {
			e.Version = msg[0]
		}
		return nil, e
	}
	switch {
	case !ok || got != t:
		return fail(openflow.BadValue, 8, "not this message")
	case len(msg) < want:
		return fail(openflow.Truncated, len(msg), fmt.Sprintf("%d bytes expected", want))
	case len(msg) > want && !open:
		return fail(openflow.BadLength, want, fmt.Sprintf("%d bytes expected, %d found", want, len(msg)))
	}
	return msg[prefixLen:], nil
}

// ParseAttach reads an ATTACH. The error is of kind Unsupported for another protocol version.
func ParseAttach(msg []byte) (Attach, error) {
	b, err := body(msg, TypeAttach, prefixLen+4, true) // another version may have another length
	if err != nil {
		return Attach{}, err
	}
	if v := binary.BigEndian.Uint32(b); v != ProtocolVersion {
		return Attach{}, &openflow.Error{Version: msg[0], Type: openflow.TypeExperimenter, Message: TypeAttach.String(),
			Offset: prefixLen,
			Kind:   openflow.Unsupported, Detail: fmt.Sprintf(
				"agent speaks protocol %d, this controller %d: install the same release on both", v, ProtocolVersion)}
	}
	if b, err = body(msg, TypeAttach, attachLen, false); err != nil {
		return Attach{}, err
	}
	u := func(i int) uint64 { return binary.BigEndian.Uint64(b[8+8*i:]) }
	return Attach{u(0), u(1), u(2), u(3), binary.BigEndian.Uint16(b[6:])}, nil
}

// ParseBlock reads an EVENTS or COMMANDS header.
func ParseBlock(msg []byte, t Type) (Block, error) {
	b, err := body(msg, t, BlockLen, false)
	if err != nil {
		return Block{}, err
	}
	return Block{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:]),
		binary.BigEndian.Uint32(b[24:]), binary.BigEndian.Uint32(b[28:])}, nil
}

// ParseAck reads an EVENT_ACK or COMMAND_ACK.
func ParseAck(msg []byte, t Type) (Ack, error) {
	b, err := body(msg, t, AckLen, false)
	if err != nil {
		return Ack{}, err
	}
	return Ack{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

// ParseSwitchUp reads a SWITCH_UP. Its fields alias msg.
func ParseSwitchUp(msg []byte) (SwitchUp, error) {
	b, err := body(msg, TypeSwitchUp, prefixLen+8, true)
	if err != nil {
		return SwitchUp{}, err
	}
	f, p := uint64(binary.BigEndian.Uint32(b)), uint64(binary.BigEndian.Uint32(b[4:]))
	if f+p != uint64(len(b)-8) {
		return SwitchUp{}, &openflow.Error{Version: msg[0], Type: openflow.TypeExperimenter,
			Message: TypeSwitchUp.String(), Offset: prefixLen,
			Kind: openflow.BadLength, Detail: fmt.Sprintf("parts of %d and %d bytes in %d", f, p, len(b)-8)}
	}
	return SwitchUp{b[8 : 8+f], b[8+f:]}, nil
}

// ParseSwitchDown reads a SWITCH_DOWN.
func ParseSwitchDown(msg []byte) (Reason, error) {
	b, err := body(msg, TypeSwitchDown, switchDownLen, false)
	if err != nil {
		return 0, err
	}
	return Reason(binary.BigEndian.Uint64(b)), nil
}

// ParseRefuse reads a REFUSE.
func ParseRefuse(msg []byte) (Refuse, error) {
	b, err := body(msg, TypeRefuse, refuseLen, false)
	if err != nil {
		return Refuse{}, err
	}
	return Refuse{Reason(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:])}, nil
}

// ParseSyncMarker reads a SYNC_MARKER.
func ParseSyncMarker(msg []byte) (SyncMarker, error) {
	b, err := body(msg, TypeSyncMarker, syncMarkerLen, false)
	if err != nil {
		return SyncMarker{}, err
	}
	return SyncMarker{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}, nil
}

// ParseStream reads the header of a frame.
func ParseStream(msg []byte) (Stream, error) {
	b, err := body(msg, TypeStream, StreamLen, false)
	if err != nil {
		return Stream{}, err
	}
	n := binary.BigEndian.Uint32(b[4:])
	return Stream{binary.BigEndian.Uint32(b), StreamKind(n >> 24), n & 0xffffff}, nil
}
