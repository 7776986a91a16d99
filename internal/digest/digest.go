// Package digest computes 64-bit digests of messages. The log contains only the digest of most events, and audits use
// it to compare the messages of switches with the log. The function is not cryptographic: an attacker can construct two
// messages with the same digest.
package digest

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// spread is odd, so that no two headers become one number.
const spread = 0x9e3779b97f4a7c15

// Of returns the digest of a message. It is part of the format of the log, and the same in every process. The xid and
// the buffer id of a PACKET_IN are left out, because both may differ between controllers. Input that is shorter than a
// header is not a message. It has the digest of a header of zeros with the input as its body.
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
