package agent

import (
	"fmt"
	"sort"
)

// buffer holds the events of one switch that are not acknowledged: a ring of their bytes
// and a ring of where each ends. Both grow by doubling up to their bounds; nothing is
// allocated per event. Events are counted by ordinals, which never start again.
type buffer struct {
	maxEvents, maxBytes int

	data       []byte   // length is a power of two
	ends       []uint64 // length is a power of two; of event n at n modulo the length
	head, tail uint64   // positions in the endless string of all events: held is [head, tail)
	first      uint64   // ordinal of the oldest event held, if any is
	next       uint64   // ordinal that the next event will get
}

// downReserve is kept free for the SWITCH_DOWN that ends an epoch: it must always fit.
const downReserve = 64

func (b *buffer) held() int      { return int(b.next - b.first) }
func (b *buffer) heldBytes() int { return int(b.tail - b.head) }

// room returns how many events, and how many bytes, still fit.
func (b *buffer) room() (events, bytes int) {
	return b.maxEvents - 1 - b.held(), b.maxBytes - downReserve - b.heldBytes()
}

// start returns the position where event n starts; n may be next.
func (b *buffer) start(n uint64) uint64 {
	if n == b.first {
		return b.head
	}
	return b.ends[(n-1)&uint64(len(b.ends)-1)]
}

// add appends events whole messages: run is one after the other, and lengths gives the length
// of each in turn. The caller has seen to the room.
func (b *buffer) add(run []byte, lengths []int) {
	if b.held()+len(lengths) > b.maxEvents || b.heldBytes()+len(run) > b.maxBytes {
		panic(fmt.Sprintf("agent: event buffer overrun: %d events of %d bytes on top of %d of %d", len(lengths),
			len(run), b.held(), b.heldBytes()))
	}
	b.grow(len(lengths), len(run))
	at := int(b.tail & uint64(len(b.data)-1))
	if n := copy(b.data[at:], run); n < len(run) {
		copy(b.data, run[n:])
	}
	for _, n := range lengths {
		b.tail += uint64(n)
		b.ends[b.next&uint64(len(b.ends)-1)] = b.tail
		b.next++
	}
}

func (b *buffer) grow(events, bytes int) {
	if n := powerAbove(len(b.ends), b.held()+events, 64); n != len(b.ends) {
		ends := make([]uint64, n)
		for i := b.first; i < b.next; i++ {
			ends[i&uint64(n-1)] = b.ends[i&uint64(len(b.ends)-1)]
		}
		b.ends = ends
	}
	if n := powerAbove(len(b.data), b.heldBytes()+bytes, 4096); n != len(b.data) {
		data := make([]byte, n)
		for pos := b.head; pos < b.tail; {
			part := b.at(pos, b.tail)
			at := int(pos & uint64(n-1))
			k := copy(data[at:], part)
			pos += uint64(k)
		}
		b.data = data
	}
}

// powerAbove doubles n, from least on, until want fits.
func powerAbove(n, want, least int) int {
	n = max(n, least)
	for n < want {
		n *= 2
	}
	return n
}

// at returns what lies contiguous from position pos, at most up to end.
func (b *buffer) at(pos, end uint64) []byte {
	i := int(pos & uint64(len(b.data)-1))
	return b.data[i:min(len(b.data), i+int(end-pos))]
}

// appendTo appends the bytes of the events from (inclusive) to to (exclusive).
func (b *buffer) appendTo(dst []byte, from, to uint64) []byte {
	pos, end := b.start(from), b.start(to)
	for pos < end {
		part := b.at(pos, end)
		dst = append(dst, part...)
		pos += uint64(len(part))
	}
	return dst
}

// upTo returns the ordinal, greater than from and at most limit, of the event before which
// at most bytes have passed since from; at least one event passes.
func (b *buffer) upTo(from, limit uint64, bytes int) uint64 {
	start := b.start(from)
	if b.start(limit)-start <= uint64(bytes) {
		return limit
	}
	n := sort.Search(int(limit-from), func(i int) bool { return b.start(from+1+uint64(i))-start > uint64(bytes) })
	return from + max(1, uint64(n))
}

// release forgets every event before ordinal n.
func (b *buffer) release(n uint64) {
	if n > b.first {
		b.head, b.first = b.start(n), n
	}
}
