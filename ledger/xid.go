package ledger

import "github.com/holdfast-sdn/holdfast/internal/handshake"

// The xid of a command tells whose it is (bits 24 to 30: the application's place, plus 1), whether
// it continues a transaction (bit 23), and, modulo 2^23, its sequence. Bit 31 is for requests of
// the agent's, or the session's, own.
const (
	tagShift     = 24
	maxApps      = 1<<7 - 1
	continues    = handshake.ContinuesXID
	sequenceMask = continues - 1
)

// Continues tells from the xid of a command whether it belongs to the same transaction as the
// command before it to the same switch. The first command of an epoch never does.
func Continues(xid uint32) bool { return xid&continues != 0 }
