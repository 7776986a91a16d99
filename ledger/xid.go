package ledger

import (
	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Continues reports, from the xid of a command, whether it belongs to the same transaction as the command before it to
// the same switch. It is never true of the first command of an epoch.
func Continues(xid uint32) bool { return xid&message.Continues != 0 }

// find returns the command with that transaction id, or nil.
func (i *incarnation) find(xid uint32) []byte {
	first := i.queue.Acked() + 1
	number := first + uint64((xid-uint32(first))&message.SequenceMask) // the only possible one
	if msg := i.queue.Item(number); msg != nil && openflow.XID(msg) == xid {
		return msg
	}
	return nil
}
