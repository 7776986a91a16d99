package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// freeze returns what encodes the history as it is now, while it goes on.
func (h *history) freeze() func([]byte) []byte {
	f := *h // what it has up to its lengths is not written any more; of offsets encode needs nothing but the length
	return f.encode
}

func (h *history) encode(b []byte) []byte {
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(OpHistory)), h.base), h.generation)
	b = appendBytes(b, h.state)
	for _, c := range h.chunks {
		b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(OpChunk)), c.first), uint64(c.count))
		b = appendBytes(b, c.data)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(append(b, byte(OpOpenChunk)), h.first), uint64(len(h.offsets)))
	b = appendBytes(b, h.open)
	digests := make([]byte, 0, 4*len(h.digests))
	for _, d := range h.digests {
		digests = binary.BigEndian.AppendUint32(digests, d)
	}
	b = appendBytes(append(b, byte(OpDigests)), digests)
	for _, n := range slices.Sorted(maps.Keys(h.skipped)) {
		b = binary.AppendUvarint(append(b, byte(OpPassed)), n)
	}
	return b
}

// decode takes one record of a snapshot.
func (h *history) decode(r *Record) error {
	switch r.Op {
	case OpHistory:
		*h = newHistory()
		h.base, h.generation, h.state = r.Seq, r.Epoch, bytes.Clone(r.Bytes)
	case OpChunk:
		h.chunks = append(h.chunks, chunk{r.Seq, int(r.Epoch), bytes.Clone(r.Bytes)})
		h.bytes += len(r.Bytes)
	case OpOpenChunk:
		ends, err := inputEnds(r.Bytes, r.Seq)
		if err != nil {
			return err
		}
		h.first, h.open, h.offsets = r.Seq, bytes.Clone(r.Bytes), ends
	case OpDigests:
		h.digests = nil
		for d := r.Bytes; len(d) >= 4; d = d[4:] {
			h.digests = append(h.digests, binary.BigEndian.Uint32(d))
		}
	case OpPassed:
		h.skip(r.Seq)
	}
	return nil
}

// append encodes what a leader decides when the application begins.
func (h *Hosting) append(b []byte) []byte {
	b = appendString(appendString(binary.BigEndian.AppendUint64(b, h.Seed), h.app), h.Identity)
	return append(b, h.tag, h.apps)
}

// hosting decodes that, and in a snapshot the rest.
func (d *decoder) hosting(whole bool) Hosting {
	h := Hosting{Seed: d.uint64(), app: d.string(), Identity: d.string(), tag: d.byte(), apps: d.byte()}
	if whole {
		h.Generation, h.Began = d.uvarint(), int64(d.uvarint())
		h.Inputs, h.Results, h.woken, h.skips = d.uvarint(), d.uvarint(), d.uvarint(), d.uvarint()
	}
	return h
}

// appendHosting encodes what is replicated of the hosted application but for its history.
func (s *state) appendHosting(b []byte) []byte {
	h := &s.hosting
	if h.Generation == 0 {
		return b
	}
	b = h.append(append(b, byte(OpHosting)))
	b = binary.AppendUvarint(binary.AppendUvarint(b, h.Generation), uint64(h.Began))
	for _, n := range []uint64{h.Inputs, h.Results, h.woken, h.skips} {
		b = binary.AppendUvarint(b, n)
	}
	for _, sw := range sortedSwitches(s.switches) {
		if sw.epoch == 0 {
			continue
		}
		newest := sw.asked[max(0, len(sw.asked)-maxAsked):]
		pairs := make([]byte, 0, 8*len(newest))
		for _, a := range newest {
			pairs = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(pairs, a.seq), a.xid)
		}
		b = binary.BigEndian.AppendUint64(append(b, byte(OpHostedSwitch)), uint64(sw.id))
		b = appendBytes(binary.AppendUvarint(b, sw.born), pairs)
	}
	return b
}

// check tells whether a snapshot's history is that of what it says to be hosted.
func (h *history) check(o *Hosting) error {
	next := h.base + 1
	for i, c := range h.chunks {
		if i == 0 && c.first <= next {
			next = c.first
		}
		if c.first != next || c.count <= 0 {
			return fmt.Errorf("hosted inputs from %d, %d of them, where %d is next", c.first, c.count, next)
		}
		next += uint64(c.count)
	}
	if len(h.chunks) == 0 && h.first <= next {
		next = h.first
	}
	switch {
	case h.first != next || h.last() < h.base:
		return fmt.Errorf("hosted inputs from %d, where %d is next", h.first, next)
	case h.generation != o.Generation || h.last() != o.Inputs || h.results() != o.Results || o.Results > o.Inputs:
		return fmt.Errorf("hosted generation %d has %d inputs and %d results; the history is of generation %d, "+
			"with %d and %d",
			o.Generation, o.Inputs, o.Results, h.generation, h.last(), h.results())
	}
	return nil
}

func (sw *switchState) loadHosted(born uint64, pairs []byte) error {
	sw.born, sw.asked = born, nil
	for ; len(pairs) >= 8; pairs = pairs[8:] {
		sw.asked = append(sw.asked, asked{binary.BigEndian.Uint32(pairs), binary.BigEndian.Uint32(pairs[4:])})
	}
	if len(pairs) > 0 {
		return fmt.Errorf("switch %s: the hosted application's transaction ids end within one: %w", sw.id, errShort)
	}
	return nil
}

// sortedSwitches returns them by datapath id.
func sortedSwitches(m map[openflow.DatapathID]*switchState) []*switchState {
	return slices.SortedFunc(maps.Values(m), func(a, b *switchState) int { return cmp.Compare(a.id, b.id) })
}
