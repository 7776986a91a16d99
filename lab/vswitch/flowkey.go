package vswitch

import (
	"encoding/binary"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const (
	numFields = int(of13.FieldIPv6ExtHdr) + 1
	keyWords  = 21
	keyLen    = 8 * keyWords
	// pipelineLen is the part of a key that does not come from the packet's bytes.
	pipelineLen = 24
)

// key holds the value of every match field of a packet, or the value or the mask of a match. All three have the same
// layout, so that matching is and-and-compare of words.
type key [keyLen]byte

// fieldAt is where each field is in a key. The fields of the pipeline come first.
var fieldAt = func() (at [numFields]uint8) {
	pipeline := []of13.Field{of13.FieldInPort, of13.FieldInPhyPort, of13.FieldMetadata, of13.FieldTunnelID}
	n := 0
	var placed uint64
	for _, f := range pipeline {
		at[f] = uint8(n)
		n += f.Size()
		placed |= 1 << f
	}
	if n != pipelineLen {
		panic("vswitch: pipelineLen does not fit the fields")
	}
	for f := range of13.Field(numFields) {
		if placed&(1<<f) == 0 {
			at[f] = uint8(n)
			n += f.Size()
		}
	}
	if n > keyLen {
		panic("vswitch: keyLen is too small for the fields")
	}
	return at
}()

// field returns the bytes of a field, for reading and writing.
func (k *key) field(f of13.Field) []byte {
	at := int(fieldAt[f])
	return k[at : at+f.Size()]
}

func (k *key) put8(f of13.Field, v uint8)   { k[fieldAt[f]] = v }
func (k *key) put16(f of13.Field, v uint16) { binary.BigEndian.PutUint16(k[fieldAt[f]:], v) }
func (k *key) put32(f of13.Field, v uint32) { binary.BigEndian.PutUint32(k[fieldAt[f]:], v) }
func (k *key) put64(f of13.Field, v uint64) { binary.BigEndian.PutUint64(k[fieldAt[f]:], v) }

func (k *key) uint16(f of13.Field) uint16 { return binary.BigEndian.Uint16(k[fieldAt[f]:]) }
func (k *key) uint64(f of13.Field) uint64 { return binary.BigEndian.Uint64(k[fieldAt[f]:]) }

// word returns the i-th 8 bytes; only equality and bits matter, so the byte order does not.
func (k *key) word(i uint8) uint64 { return binary.LittleEndian.Uint64(k[int(i)*8:]) }

// compile turns a valid match into its value and mask.
func compile(m of13.Match) (value, mask key) {
	for o := range m.All() {
		v, b := value.field(o.Field), mask.field(o.Field)
		for i := range v {
			b[i] = 0xff
			if o.HasMask {
				b[i] = o.Mask[i]
			}
			v[i] = o.Value[i] & b[i]
		}
	}
	return value, mask
}

// covers reports whether a match with value and mask includes everything that a match with other and otherMask does
// (section 6.4, non-strict commands).
func covers(value, mask, other, otherMask *key) bool {
	for i := range uint8(keyWords) {
		m := mask.word(i)
		if m&^otherMask.word(i) != 0 || (value.word(i)^other.word(i))&m != 0 {
			return false
		}
	}
	return true
}

// overlaps reports whether one packet could match both (section 6.4, check overlap).
func overlaps(value, mask, other, otherMask *key) bool {
	for i := range uint8(keyWords) {
		if (value.word(i)^other.word(i))&mask.word(i)&otherMask.word(i) != 0 {
			return false
		}
	}
	return true
}
