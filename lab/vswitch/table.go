package vswitch

import (
	"bytes"
	"math/bits"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// flow is a flow entry (section 5.2).
type flow struct {
	sub      *subtable
	value    key // the bits that sub.mask asks for
	hash     uint64
	priority uint16
	table    uint8

	match        of13.Match // as the controller wrote it
	instructions of13.Instructions
	program      *program
	cookie       uint64
	flags        uint16
	idle, hard   uint16 // seconds
	created      time.Duration
	used         time.Duration // when it last matched
	packets      uint64
	bytes        uint64

	chain      *flow // next of the same hash, of lower priority
	prev, next *flow // entries of the table, oldest first
	deadline   time.Duration
	heapAt     int    // place among the timeouts, -1 is none
	serial     uint64 // order of creation
}

// subtable holds the entries of a table that have one mask, by the hash of their value: tuple space
// search, one hash lookup for each mask in use.
type subtable struct {
	mask       key
	words      []uint8 // the words of the mask that are not 0
	flows      map[uint64]*flow
	count      int
	priorities map[uint16]int // how many entries have it
	highest    uint16
}

// table is a flow table.
type table struct {
	id      uint8
	subs    []*subtable // highest priority first, so that a lookup can stop early
	byMask  map[key]*subtable
	entries flow // root of the ring of entries
	count   int
	lookups uint64
	matched uint64
}

func newTable(id uint8) *table {
	t := &table{id: id, byMask: map[key]*subtable{}}
	t.entries.prev, t.entries.next = &t.entries, &t.entries
	return t
}

// all walks the entries, oldest first. The body may remove the entry that it is given.
func (t *table) all(yield func(*flow) bool) {
	for f := t.entries.next; f != &t.entries; {
		next := f.next
		if !yield(f) {
			return
		}
		f = next
	}
}

func (s *subtable) hash(k *key) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, w := range s.words {
		hi, lo := bits.Mul64(h^(k.word(w)&s.mask.word(w)), 0xd6e8feb86659fd93)
		h = hi ^ lo ^ uint64(w)<<56
	}
	return h
}

func (s *subtable) matches(f *flow, k *key) bool {
	for _, w := range s.words {
		if (f.value.word(w)^k.word(w))&s.mask.word(w) != 0 {
			return false
		}
	}
	return true
}

// lookup finds the entry of the highest priority that matches k.
func (t *table) lookup(k *key) *flow {
	var best *flow
	for _, s := range t.subs {
		if best != nil && s.highest <= best.priority {
			break
		}
		for f := s.flows[s.hash(k)]; f != nil; f = f.chain {
			if best != nil && f.priority <= best.priority {
				break
			}
			if s.matches(f, k) {
				best = f
				break
			}
		}
	}
	return best
}

// find returns the entry with exactly this match and priority.
func (t *table) find(value, mask *key, priority uint16) *flow {
	s := t.byMask[*mask]
	if s == nil {
		return nil
	}
	for f := s.flows[s.hash(value)]; f != nil; f = f.chain {
		if f.priority == priority && f.value == *value {
			return f
		}
	}
	return nil
}

// insert adds f as the newest entry; there is none with the same match and priority.
func (t *table) insert(f *flow, mask *key) {
	s := t.byMask[*mask]
	if s == nil {
		s = &subtable{mask: *mask, flows: map[uint64]*flow{}, priorities: map[uint16]int{}}
		for i := range uint8(keyWords) {
			if mask.word(i) != 0 {
				s.words = append(s.words, i)
			}
		}
		t.byMask[*mask] = s
		t.subs = append(t.subs, s)
	}
	f.sub, f.hash = s, s.hash(&f.value)
	f.prev, f.next = t.entries.prev, &t.entries
	t.link(f)
}

// link puts f, whose sub, hash, prev and next say where, into the table.
func (t *table) link(f *flow) {
	s := f.sub
	if s.count == 0 && t.byMask[s.mask] != s { // it had been dropped with its last entry
		t.byMask[s.mask] = s
		t.subs = append(t.subs, s)
	}
	f.prev.next, f.next.prev = f, f
	t.count++
	s.count++
	at := s.flows[f.hash]
	if at == nil || at.priority < f.priority {
		f.chain, s.flows[f.hash] = at, f
	} else {
		for at.chain != nil && at.chain.priority >= f.priority {
			at = at.chain
		}
		f.chain, at.chain = at.chain, f
	}
	s.priorities[f.priority]++
	if s.count == 1 || f.priority > s.highest {
		s.highest = f.priority
		t.order()
	}
}

// unlink removes f. It keeps f.prev and f.next, by which link puts it back into the same place.
func (t *table) unlink(f *flow) {
	s := f.sub
	f.prev.next, f.next.prev = f.next, f.prev
	t.count--
	s.count--
	if at := s.flows[f.hash]; at == f {
		if f.chain == nil {
			delete(s.flows, f.hash)
		} else {
			s.flows[f.hash] = f.chain
		}
	} else {
		for at.chain != f {
			at = at.chain
		}
		at.chain = f.chain
	}
	if s.priorities[f.priority]--; s.priorities[f.priority] == 0 {
		delete(s.priorities, f.priority)
	}
	switch {
	case s.count == 0:
		delete(t.byMask, s.mask)
		t.subs = slices.DeleteFunc(t.subs, func(o *subtable) bool { return o == s })
	case f.priority == s.highest && s.priorities[f.priority] == 0:
		s.highest = 0
		for p := range s.priorities {
			s.highest = max(s.highest, p)
		}
		t.order()
	}
}

// order sorts the subtables; the mask breaks ties, so that the order depends on the entries only.
func (t *table) order() {
	slices.SortFunc(t.subs, func(a, b *subtable) int {
		if a.highest != b.highest {
			return int(b.highest) - int(a.highest)
		}
		return bytes.Compare(a.mask[:], b.mask[:])
	})
}

// isMiss reports whether f is a table-miss entry (section 5.4).
func (f *flow) isMiss() bool { return f.priority == 0 && len(f.sub.words) == 0 }
