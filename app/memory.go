package app

import (
	"hash/maphash"
	"unsafe"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// memory has values of a table, decoded. The bytes of a value are never modified, so it is that of a row as long as the
// row has those bytes at that place. It is empty if there is room for none.
type memory[V any] struct {
	most  int
	known []*remembered[V] // one for the keys of each remainder
}

// remembered keeps the bytes, so that nothing else comes to be at their place.
type remembered[V any] struct {
	key   ledger.Key
	bytes []byte
	value V
}

var memorySeed = maphash.MakeSeed()

// slot is where a key may be: numbers in a row have slots of their own.
func (m *memory[V]) slot(key ledger.Key) int {
	n := key.A + key.B
	if key.S != "" {
		n += maphash.String(memorySeed, key.S)
	}
	return int(n % uint64(m.most))
}

// recall returns the value of a row with these bytes; nil if it is not known.
func (m *memory[V]) recall(key ledger.Key, b []byte) *V {
	if m.known == nil {
		return nil
	}
	r := m.known[m.slot(key)]
	if r == nil || r.key != key || len(r.bytes) != len(b) || unsafe.SliceData(r.bytes) != unsafe.SliceData(b) {
		return nil
	}
	return &r.value
}

// keep remembers a value, in place of that of another key.
func (m *memory[V]) keep(key ledger.Key, b []byte, v V) {
	if m.most == 0 {
		return
	}
	if m.known == nil {
		m.known = make([]*remembered[V], m.most)
	}
	m.known[m.slot(key)] = &remembered[V]{key, b, v}
}
