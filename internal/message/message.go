// Package message says what the ledger must know of the OpenFlow messages that it logs, and that are bytes to it
// otherwise: which of them a switch sends of its own accord, and how the transaction id of a command names the
// application that sent it. It neither decodes messages nor makes any: that is package of13.
package message

import (
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The transaction id of a command (docs/decisions/0003): bits 24 to 30 are the tag of the application that sent it,
// bit 23 says that it continues a transaction, and the rest is its sequence, modulo 2^23. Bit 31 is for requests of the
// agent's, or the session's, own.
const (
	tagShift = 24

	// Continues is set in all commands but the first of a transaction to one switch.
	Continues = handshake.ContinuesXID
	// SequenceMask selects the sequence.
	SequenceMask = Continues - 1
)

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
	if len(msg) < openflow.HeaderLen || Asynchronous(msg[1]) {
		return 0
	}
	return TagOf(openflow.XID(msg))
}

// Asynchronous reports whether a switch sends messages of a type of its own accord: PACKET_IN, FLOW_REMOVED and
// PORT_STATUS.
func Asynchronous(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}
