package app

import (
	"unsafe"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// memory has values of a table, decoded. The bytes of a value are never modified, so it is that of a row as long as the
// row has those bytes at that place. It is empty if there is room for none.
type memory[V any] struct {
	most  int
	known map[ledger.Key]remembered[V] // by key
}

// remembered keeps the bytes, so that nothing else comes to be at their place.
type remembered[V any] struct {
	bytes []byte
	value V
}

// recall returns the value of a row with these bytes, if it is known.
func (m *memory[V]) recall(key ledger.Key, b []byte) (v V, known bool) {
	if m.most == 0 {
		return v, false
	}
	r, known := m.known[key]
	if !known || len(r.bytes) != len(b) || unsafe.SliceData(r.bytes) != unsafe.SliceData(b) {
		return v, false
	}
	return r.value, true
}

// keep remembers a value. If there is no room, all others are forgotten.
func (m *memory[V]) keep(key ledger.Key, b []byte, v V) {
	switch {
	case m.most == 0:
		return
	case m.known == nil:
		m.known = map[ledger.Key]remembered[V]{}
	case len(m.known) >= m.most:
		clear(m.known)
	}
	m.known[key] = remembered[V]{b, v}
}
