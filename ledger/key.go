package ledger

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// Key names a cell of a table, or a field within a cell.
type Key = cells.Key

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendBytes(dst []byte, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}
