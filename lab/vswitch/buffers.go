package vswitch

import (
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// buffers keeps packets that a controller may send on by their id (section 6.1.2). When all are in use, packets are not
// kept but sent to the controllers whole.
type buffers struct {
	slots    []buffered
	next     int
	lifetime time.Duration
}

type buffered struct {
	generation uint32
	kept       bool
	expires    time.Duration
	inPort     of13.Port
	data       []byte
}

func newBuffers(n int, lifetime time.Duration) buffers {
	return buffers{slots: make([]buffered, n), lifetime: lifetime}
}

// An id is generation times the number of slots, plus the slot. Generations are bounded so that no id is NoBuffer.
func (b *buffers) id(slot int) uint32 {
	return b.slots[slot].generation*uint32(len(b.slots)) + uint32(slot)
}

// keep copies a packet and returns its id, or NoBuffer.
func (b *buffers) keep(now time.Duration, inPort of13.Port, data []byte) uint32 {
	for range min(len(b.slots), 8) { // the oldest are next: looking further finds nothing
		slot := b.next
		b.next = (b.next + 1) % len(b.slots)
		s := &b.slots[slot]
		if s.kept && now < s.expires {
			continue
		}
		if s.generation++; s.generation >= of13.NoBuffer/uint32(len(b.slots)) {
			s.generation = 1
		}
		s.kept, s.expires, s.inPort = true, now+b.lifetime, inPort
		s.data = append(s.data[:0], data...)
		return b.id(slot)
	}
	return of13.NoBuffer
}

// takeBuffer returns a packet and releases its buffer. The caller owns the bytes, because the buffer may be reused
// while they are processed.
func (s *Switch) takeBuffer(now time.Duration, id uint32) (inPort of13.Port, data []byte, err error) {
	b := &s.buffers
	if len(b.slots) == 0 {
		return 0, nil, refuse(of13.ErrTypeBadRequest, of13.BadRequestBufferUnknown)
	}
	slot := int(id % uint32(len(b.slots)))
	at := &b.slots[slot]
	switch {
	case at.generation == 0 || b.id(slot) != id:
		return 0, nil, refuse(of13.ErrTypeBadRequest, of13.BadRequestBufferUnknown)
	case !at.kept || now >= at.expires:
		return 0, nil, refuse(of13.ErrTypeBadRequest, of13.BadRequestBufferEmpty)
	}
	at.kept, data = false, at.data
	if s.rehearsing {
		s.undo = append(s.undo, func() { at.kept = true })
	} else {
		at.data = nil
	}
	return at.inPort, data, nil
}
