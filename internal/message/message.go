// Package message says what the ledger must know of the OpenFlow messages that it logs, and that are bytes to it
// otherwise: which begin and end an epoch, which of them a switch sends of its own accord, and how the transaction id
// of a command names the application that sent it. It neither decodes messages nor makes any: those are packages of13
// and experimenter. See docs/decisions/0031.
package message

import (
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Kind is what an event means to the ledger.
type Kind uint8

// The kinds.
const (
	Ordinary   Kind = iota // a message of the switch
	SwitchUp               // the first event of an epoch
	SwitchDown             // the last one
	SyncMarker             // for standbys of a switch without an agent, and no event of applications
	Own                    // another message of Holdfast's
)

// KindOf returns the kind of a message.
func KindOf(msg []byte) Kind {
	special, ours := experimenter.Is(msg)
	if !ours {
		return Ordinary
	}
	switch special {
	case experimenter.TypeSwitchUp:
		return SwitchUp
	case experimenter.TypeSwitchDown:
		return SwitchDown
	case experimenter.TypeSyncMarker:
		return SyncMarker
	}
	return Own
}

// Reason says why an epoch has ended.
type Reason = experimenter.Reason

// Those of the ledger's own.
const (
	ConnectionLost = experimenter.ReasonConnectionLost
	Unreachable    = experimenter.ReasonUnreachable
)

// ReasonOf returns that of a SwitchDown; 0 if it is damaged.
func ReasonOf(msg []byte) Reason {
	r, _ := experimenter.ParseSwitchDown(msg) // applications get the zero Reason, which is none
	return r
}

// MaxEpoch returns the highest epoch of a switch that is taken after the epoch last.
func MaxEpoch(last uint64) uint64 { return experimenter.MaxEpoch(last) }

// Type returns the OpenFlow type of a message, which has at least two bytes.
func Type(msg []byte) uint8 { return msg[1] }

// Refusal reports whether a message of a switch is an error, which may answer a command.
func Refusal(msg []byte) bool { return Type(msg) == openflow.TypeError }

// Single reports whether b is one message and nothing else, by its header.
func Single(b []byte) bool {
	h, err := openflow.ParseHeader(b)
	return err == nil && int(h.Length) == len(b)
}

// The transaction id of a command (docs/decisions/0003): bits 24 to 30 are the tag of the application that sent it,
// bit 23 says that it continues a transaction, and the rest is its sequence, modulo 2^23. Bit 31 is for requests of the
// agent's, or the session's, own.
const (
	tagShift = 24

	// Continues is set in all commands but the first of a transaction to one switch.
	Continues = handshake.ContinuesXID
	// SequenceMask selects the sequence.
	SequenceMask = Continues - 1

	// Far is how far the sequences in the transaction ids of best-effort commands are ahead of the others.
	Far = SequenceMask/2 + 1
)

// BestEffort reports whether a transaction id is that of a best-effort command, if its switch has had fewer than Far
// others. It is for tests.
func BestEffort(xid uint32) bool { return xid&SequenceMask >= Far }

// Tag names an application in the transaction ids of its commands.
type Tag uint8

const (
	// MaxTag bounds the tags of applications that the ledger runs, which are numbered from 1. Tag 0 is nobody's.
	MaxTag Tag = 1<<7 - 2
	// Replayed is the tag of the application that hosts execute.
	Replayed Tag = 1<<7 - 1
)

// XID returns the bits of a transaction id that name an application.
func (t Tag) XID() uint32 { return uint32(t) << tagShift }

// TagOf returns the tag in a transaction id.
func TagOf(xid uint32) Tag { return Tag(xid >> tagShift & uint32(Replayed)) }

// Asker returns the tag of the application whose command a message of a switch answers. It is 0 if the message answers
// no command of an application, as all do not that the switch sends of its own accord.
func Asker(msg []byte) Tag {
	if len(msg) < openflow.HeaderLen || Asynchronous(Type(msg)) {
		return 0
	}
	return TagOf(openflow.XID(msg))
}

// Asynchronous reports whether a switch sends messages of a type of its own accord: PACKET_IN, FLOW_REMOVED and
// PORT_STATUS.
func Asynchronous(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}
