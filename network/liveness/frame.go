package liveness

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/app"
)

// etherType is the first of the two EtherTypes that IEEE 802 (9.2.4) reserves for local experiments.
const etherType = 0x88b5

const (
	ethLen   = 14
	saidLen  = 4 + 1 + 8 + 4 + 8 // magic, kind, switch, port, sequence
	tagLen   = 16
	frameLen = 60 // the minimum of Ethernet, without its checksum
)

// Both are among the addresses that no bridge forwards (IEEE 802.1Q, table 8-1).
var (
	outward  = app.MAC{0x01, 0x80, 0xc2, 0, 0, 0x0e}
	homeward = app.MAC{0x01, 0x80, 0xc2, 0, 0, 0x03}
)

const magic = "hflv"

// frame is the content of a frame of a pair.
type frame struct {
	from app.PortOf
	seq  uint64
	over bool // the one that crosses the link and returns
}

// ours reports whether a frame looks like one of a pair.
func ours(data []byte) bool {
	return len(data) >= ethLen+saidLen+tagLen && binary.BigEndian.Uint16(data[12:]) == etherType &&
		string(data[ethLen:ethLen+len(magic)]) == magic
}

func appendFrame(dst, key []byte, f frame) []byte {
	start := len(dst)
	dst = append(append(dst, outward[:]...), 2, 0, 0, 0, 0, 0) // a locally administered address that nobody has
	dst = binary.BigEndian.AppendUint16(dst, etherType)
	said := len(dst)
	dst = append(dst, magic...)
	kind := byte(0)
	if f.over {
		kind = 1
	}
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint64(dst, uint64(f.from.Switch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.from.Port))
	dst = binary.BigEndian.AppendUint64(dst, f.seq)
	dst = append(dst, tagOf(key, dst[said:])...)
	return append(dst, make([]byte, max(0, start+frameLen-len(dst)))...)
}

// tagOf is the authentication code of the frame's content under the key.
func tagOf(key, said []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(said)
	return mac.Sum(nil)[:tagLen]
}

// parseFrame reads a frame that was made with the key.
func parseFrame(data, key []byte) (f frame, ok bool) {
	if !ours(data) || len(key) == 0 {
		return f, false
	}
	said, tag := data[ethLen:ethLen+saidLen], data[ethLen+saidLen:][:tagLen]
	if !hmac.Equal(tag, tagOf(key, said)) || said[4] > 1 {
		return f, false
	}
	f.over = said[4] == 1
	f.from.Switch = app.Switch(binary.BigEndian.Uint64(said[5:]))
	f.from.Port = app.Port(binary.BigEndian.Uint32(said[13:]))
	f.seq = binary.BigEndian.Uint64(said[17:])
	return f, true
}
