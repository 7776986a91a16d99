// Package digest names messages by their content: by the log, where it holds no more of an event than that,
// and by those who compare what switches said with the log. It is no protection against somebody who wants
// two messages to have one name.
package digest

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// spread is odd, so that no two headers become one number.
const spread = 0x9e3779b97f4a7c15

// Of returns the digest of a message. It is part of the format of the log, and the same in every process. The
// xid does not count, nor where a switch keeps the packet of a PACKET_IN: both may differ from one controller
// to the next.
func Of(msg []byte) uint64 {
	if len(msg) < openflow.HeaderLen {
		return xxhash.Sum64(msg)
	}
	body := msg[openflow.HeaderLen:]
	if msg[1] == of13.TypePacketIn && len(body) >= 4 {
		body = body[4:]
	}
	return xxhash.Sum64(body) ^ uint64(binary.BigEndian.Uint32(msg))*spread
}
