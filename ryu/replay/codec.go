package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// The parts of a snapshot, by their first byte. Numbers are varints.
const (
	partHosting   = iota + 1 // Hosting, and the switches
	partHistory              // number of a checkpoint's input, generation, state
	partChunk                // number of the first input, count, compressed inputs
	partOpenChunk            // number of the first input, inputs
	partDigests              // of results, four bytes each
	partSkipped              // numbers of inputs that are skipped
)

// freeze returns a function that yields the parts of the present history, while the history continues to grow.
func (h *history) freeze() func(yield func([]byte) bool) {
	f := *h // its slices do not change up to their present lengths
	return f.parts
}

func (h *history) parts(yield func([]byte) bool) {
	if !yield(append(appendUvarint([]byte{partHistory}, h.base, h.generation), h.state...)) {
		return
	}
	for _, c := range h.chunks {
		if !yield(append(appendUvarint([]byte{partChunk}, c.first, uint64(c.count)), c.data...)) {
			return
		}
	}
	if !yield(append(appendUvarint([]byte{partOpenChunk}, h.first), h.open...)) {
		return
	}
	digests := make([]byte, 1, 1+4*len(h.digests))
	digests[0] = partDigests
	for _, d := range h.digests {
		digests = binary.BigEndian.AppendUint32(digests, d)
	}
	if yield(digests) && len(h.skipped) > 0 {
		yield(appendUvarint([]byte{partSkipped}, slices.Sorted(maps.Keys(h.skipped))...))
	}
}

// part decodes one part of a snapshot.
func (h *history) part(r *reader, kind byte) error {
	switch kind {
	case partHistory:
		*h = newHistory()
		h.base, h.generation = r.uvarint(), r.uvarint()
		h.state = bytes.Clone(r.rest())
	case partChunk:
		c := chunk{first: r.uvarint(), count: int(r.uvarint())}
		c.data = bytes.Clone(r.rest())
		h.chunks = append(h.chunks, c)
		h.bytes += len(c.data)
	case partOpenChunk:
		h.first = r.uvarint()
		h.open = bytes.Clone(r.rest())
		ends, err := inputEnds(h.open, h.first)
		if err != nil {
			return err
		}
		h.offsets = ends
	case partDigests:
		h.digests = nil
		for d := r.rest(); len(d) >= 4; d = d[4:] {
			h.digests = append(h.digests, binary.BigEndian.Uint32(d))
		}
	case partSkipped:
		for len(r.b) > 0 && r.err == nil {
			h.skip(r.uvarint())
		}
	default:
		return fmt.Errorf("part of kind %d", kind)
	}
	return r.err
}

// Restore implements ledger.Replayed.
func (l *Log) Restore(parts [][]byte) error {
	next := Log{switches: map[openflow.DatapathID]*replayedSwitch{}, history: newHistory()}
	for _, part := range parts {
		r := reader{b: part}
		kind := r.byte()
		var err error
		if kind == partHosting {
			err = next.readHosting(&r)
		} else {
			err = next.history.part(&r, kind)
		}
		if err != nil {
			return fmt.Errorf("replayed applications: %w", err)
		}
	}
	if err := next.history.check(&next.hosting); err != nil {
		return err
	}
	l.hosting, l.switches, l.history, l.journal = next.hosting, next.switches, next.history, journal{}
	return nil
}

// appendHosting appends a partHosting.
func (l *Log) appendHosting(b []byte) []byte {
	h := &l.hosting
	b = append(appendUvarint(append(b, partHosting), uint64(len(h.Identity))), h.Identity...)
	b = appendUvarint(b, h.Seed, h.Generation, uint64(h.Began), h.Inputs, h.Results, h.woken, h.skips)
	for _, id := range slices.Sorted(maps.Keys(l.switches)) {
		sw := l.switches[id]
		newest := sw.newest()
		if sw.born == 0 && len(newest) == 0 {
			continue // equal to an unknown switch
		}
		b = appendUvarint(binary.BigEndian.AppendUint64(b, uint64(id)), sw.born, uint64(len(newest)))
		for _, a := range newest {
			b = appendUvarint(b, uint64(a.seq), uint64(a.xid))
		}
	}
	return b
}

func (l *Log) readHosting(r *reader) error {
	h := &l.hosting
	h.Identity = string(r.take(r.uvarint()))
	h.Seed, h.Generation, h.Began = r.uvarint(), r.uvarint(), int64(r.uvarint())
	h.Inputs, h.Results, h.woken, h.skips = r.uvarint(), r.uvarint(), r.uvarint(), r.uvarint()
	for len(r.b) > 0 && r.err == nil {
		sw := l.sw(openflow.DatapathID(r.uint64()))
		sw.born = r.uvarint()
		for n := r.uvarint(); n > 0 && r.err == nil; n-- {
			sw.asked = append(sw.asked, asked{uint32(r.uvarint()), uint32(r.uvarint())})
		}
	}
	return r.err
}

// check returns an error if the history in a snapshot does not fit its Hosting.
func (h *history) check(o *Hosting) error {
	next := h.base + 1
	for i, c := range h.chunks {
		if i == 0 && c.first <= next {
			next = c.first
		}
		if c.first != next || c.count <= 0 {
			return fmt.Errorf("replayed inputs from %d, %d of them, where %d is next", c.first, c.count, next)
		}
		next += uint64(c.count)
	}
	if len(h.chunks) == 0 && h.first <= next {
		next = h.first
	}
	switch {
	case h.first != next || h.last() < h.base:
		return fmt.Errorf("replayed inputs from %d, where %d is next", h.first, next)
	case h.generation != o.Generation || h.last() != o.Inputs || h.results() != o.Results || o.Results > o.Inputs:
		return fmt.Errorf("replayed generation %d has %d inputs and %d results; the history is of generation %d, "+
			"with %d and %d",
			o.Generation, o.Inputs, o.Results, h.generation, h.last(), h.results())
	}
	return nil
}
