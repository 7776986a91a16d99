package ledger

import "github.com/holdfast-sdn/holdfast/internal/message"

// Continues tells from the xid of a command whether it belongs to the same transaction as the
// command before it to the same switch. The first command of an epoch never does.
func Continues(xid uint32) bool { return xid&message.Continues != 0 }
