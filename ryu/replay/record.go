package replay

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
)

// RecordKind is the kind of a record of the replayed applications.
type RecordKind uint8

// The kinds of record. All but Asked begin a transaction.
const (
	Begin   RecordKind = iota + 1 // Seed, Identity: the applications start, with an empty state; no identity: they end
	Request                       // Request
	Result                        // Number, Digest
	Skip                          // Number
	Asked                         // the transaction ids of the commands of the result before
	Files                         // Files
	Stir                          // a Timer at once: something came to the leader's host from outside of the log
)

// Record is a decoded record. Its slices alias the encoded one. The comment at each RecordKind lists the fields that it
// uses.
type Record struct {
	Kind     RecordKind
	Seed     uint64
	Identity []byte
	Request  []byte // an HTTP request
	Files    []byte // a wire.FileSet
	Number   uint64 // of an input
	Digest   uint32
	asked    []byte
}

// ParseRecord decodes a record: a byte for the kind, then the fields. Numbers are varints; a last field of bytes
// extends to the end.
func ParseRecord(b []byte) (Record, error) {
	r := reader{b: b}
	v := Record{Kind: RecordKind(r.byte())}
	switch v.Kind {
	case Begin:
		v.Seed, v.Identity = r.uint64(), r.rest()
	case Request:
		v.Request = r.rest()
	case Result:
		v.Number, v.Digest = r.uvarint(), uint32(r.uvarint())
	case Skip:
		v.Number = r.uvarint()
	case Asked:
		v.asked = r.rest()
	case Files:
		v.Files = r.rest()
	case Stir:
	default:
		r.fail()
	}
	if r.err != nil || len(r.b) > 0 {
		return Record{}, fmt.Errorf("record of kind %d, with %d bytes: %w", v.Kind, len(b), errRecord)
	}
	return v, nil
}

// append encodes a record.
func (r *Record) append(b []byte) []byte {
	b = append(b, byte(r.Kind))
	switch r.Kind {
	case Begin:
		b = append(binary.BigEndian.AppendUint64(b, r.Seed), r.Identity...)
	case Request:
		b = append(b, r.Request...)
	case Result:
		b = appendUvarint(b, r.Number, uint64(r.Digest))
	case Skip:
		b = appendUvarint(b, r.Number)
	case Asked:
		b = append(b, r.asked...)
	case Files:
		b = append(b, r.Files...)
	}
	return b
}

// appendUvarint appends numbers as varints.
func appendUvarint(b []byte, list ...uint64) []byte {
	for _, v := range list {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

var errRecord = errors.New("is damaged, or written by another release")

// reader reads fields; after the first error it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail() {
	r.err = cmp.Or(r.err, errRecord)
	r.b = nil
}

func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) rest() []byte { return r.take(uint64(len(r.b))) }

func (r *reader) byte() byte {
	if v := r.take(1); v != nil {
		return v[0]
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if v := r.take(8); v != nil {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}
