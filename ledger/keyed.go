package ledger

import (
	"iter"
	"slices"
)

// keyed is a map by Key. Keys that are one number, which most are, have a map of their own: to hash and compare a whole
// Key takes several times as long. A nil *keyed is empty, and can be read.
type keyed[V any] struct {
	numbers map[uint64]V
	others  map[Key]V
}

func (k Key) isNumber() bool { return k.B == 0 && k.S == "" }

func (m *keyed[V]) get(k Key) (v V, ok bool) {
	switch {
	case m == nil:
	case k.isNumber():
		v, ok = m.numbers[k.A]
	default:
		v, ok = m.others[k]
	}
	return v, ok
}

func (m *keyed[V]) put(k Key, v V) {
	switch {
	case !k.isNumber():
		if m.others == nil {
			m.others = make(map[Key]V, 1)
		}
		m.others[k] = v
	default:
		if m.numbers == nil {
			m.numbers = make(map[uint64]V, 1)
		}
		m.numbers[k.A] = v
	}
}

func (m *keyed[V]) delete(k Key) {
	if k.isNumber() {
		delete(m.numbers, k.A)
	} else {
		delete(m.others, k)
	}
}

func (m *keyed[V]) len() int {
	if m == nil {
		return 0
	}
	return len(m.numbers) + len(m.others)
}

// all yields the pairs in any order. The body of the loop may delete the present key.
func (m *keyed[V]) all() iter.Seq2[Key, V] {
	return func(yield func(Key, V) bool) {
		if m == nil {
			return
		}
		for n, v := range m.numbers {
			if !yield(Key{A: n}, v) {
				return
			}
		}
		for k, v := range m.others {
			if !yield(k, v) {
				return
			}
		}
	}
}

// sorted returns the keys, in order.
func (m *keyed[V]) sorted() []Key {
	keys := make([]Key, 0, m.len())
	for k := range m.all() {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, Key.Compare)
	return keys
}
