package ledger

import (
	"bytes"
	"cmp"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryuhost/wire"
)

// history is what brings a host of the hosted application up to date: its inputs, as they stand in INPUTS frames, and a digest of what each caused. It
// has only what is committed. Its slices are only appended to, so that a snapshot can be encoded beside it.
type history struct {
	generation uint64

	chunks  []chunk
	open    []byte // of inputs, not compressed yet
	first   uint64 // number of the first input in open
	offsets []int  // of the ends of inputs in open
	base    uint64 // number of the input before the first that is kept
	digests []uint32
	skipped map[uint64]bool // replaced, never changed
	bytes   int             // of chunks

	// state is that of a host after input base; empty if base is 0.
	state []byte

	loaded  int // index of the chunk that is in data; -1 is none
	data    []byte
	ends    []int
	deflate *flate.Writer
}

// chunk is a part of the inputs, compressed.
type chunk struct {
	first uint64
	count int
	data  []byte
}

// chunkBytes is how much is compressed at a time.
const chunkBytes = 64 << 10

func newHistory() history { return history{first: 1, loaded: -1} }

func (h *history) last() uint64 { return h.first + uint64(len(h.offsets)) - 1 }

func (h *history) append(number uint64, input []byte) {
	if number != h.last()+1 {
		panic(fmt.Sprintf("ledger: hosted input %d after %d", number, h.last())) // numbers are given in one place
	}
	h.open = append(h.open, input...)
	h.offsets = append(h.offsets, len(h.open))
	if len(h.open) >= chunkBytes {
		h.close()
	}
}

// close compresses what is open. Readers may still have slices of it.
func (h *history) close() {
	var out bytes.Buffer
	if h.deflate == nil {
		h.deflate, _ = flate.NewWriter(&out, flate.BestSpeed) // the level is valid
	} else {
		h.deflate.Reset(&out)
	}
	_, _ = h.deflate.Write(h.open) // a bytes.Buffer takes everything
	_ = h.deflate.Close()
	c := chunk{h.first, len(h.offsets), slices.Clip(bytes.Clone(out.Bytes()))}
	h.chunks = append(h.chunks, c)
	h.bytes += len(c.data)
	h.first += uint64(c.count)
	h.open, h.offsets = make([]byte, 0, chunkBytes+chunkBytes/4), h.offsets[:0]
}

func (h *history) result(number uint64, digest uint32) {
	if number == h.base+uint64(len(h.digests))+1 {
		h.digests = append(h.digests, digest)
	}
}

func (h *history) skip(number uint64) {
	h.skipped = maps.Clone(h.skipped)
	if h.skipped == nil {
		h.skipped = map[uint64]bool{}
	}
	h.skipped[number] = true
}

// trim forgets what comes before the state of a host after input number.
func (h *history) trim(number uint64, state []byte) {
	n := 0
	for n < len(h.chunks) && h.chunks[n].first+uint64(h.chunks[n].count) <= number+1 {
		h.bytes -= len(h.chunks[n].data)
		n++
	}
	h.chunks, h.loaded = slices.Clone(h.chunks[n:]), -1
	h.digests = slices.Clone(h.digests[min(number-h.base, uint64(len(h.digests))):])
	h.base, h.state = number, state
}

// inputs returns inputs from number on, at most count of them and one beyond size bytes, as they stand in an INPUTS frame. They may be read for good.
func (h *history) inputs(number uint64, count, size int) (data []byte, n int, err error) {
	if number <= h.base || number > h.last() {
		return nil, 0, nil
	}
	buf, ends, first := h.open, h.offsets, h.first
	if number < h.first {
		i, ok := slices.BinarySearchFunc(h.chunks, number, func(c chunk, n uint64) int {
			if c.first+uint64(c.count) <= n {
				return -1
			}
			return min(1, int(max(c.first, n)-n))
		})
		if !ok {
			return nil, 0, fmt.Errorf("ledger: hosted input %d is not in the history from %d", number, h.base+1)
		}
		if err := h.load(i); err != nil {
			return nil, 0, err
		}
		buf, ends, first = h.data, h.ends, h.chunks[i].first
	}
	at := int(number - first)
	from := 0
	if at > 0 {
		from = ends[at-1]
	}
	for n < count && at+n < len(ends) && (n == 0 || ends[at+n-1]-from < size) {
		n++
	}
	data = buf[from:ends[at+n-1]:ends[at+n-1]]
	return h.withoutSkipped(data, number, n), n, nil
}

// load has a chunk in data.
func (h *history) load(i int) error {
	if h.loaded == i {
		return nil
	}
	c := h.chunks[i]
	data, err := io.ReadAll(flate.NewReader(bytes.NewReader(c.data)))
	if err != nil {
		return fmt.Errorf("ledger: hosted inputs %d to %d: %w", c.first, c.first+uint64(c.count)-1, err)
	}
	h.data, h.ends, h.loaded = data, make([]int, 0, c.count), i
	for rest := data; len(rest) > 0; {
		if _, rest, err = wire.ParseInput(rest); err != nil {
			return fmt.Errorf("ledger: hosted inputs from %d: %w", c.first, err)
		}
		h.ends = append(h.ends, len(data)-len(rest))
	}
	if len(h.ends) != c.count {
		return fmt.Errorf("ledger: hosted inputs from %d are %d, not %d", c.first, len(h.ends), c.count)
	}
	return nil
}

// withoutSkipped puts a Timer in the place of each input that is skipped.
func (h *history) withoutSkipped(data []byte, number uint64, n int) []byte {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(h.skipped)), func(s uint64) bool { return s >= number && s < number+uint64(n) }) {
		return data
	}
	var out []byte
	for rest := data; len(rest) > 0; {
		in, after, err := wire.ParseInput(rest)
		if err != nil {
			return data // the host will say so
		}
		if h.skipped[in.Number] {
			out = (&wire.Input{Number: in.Number, Time: in.Time, Kind: wire.Timer}).Append(out)
		} else {
			out = append(out, rest[:len(rest)-len(after)]...)
		}
		rest = after
	}
	return out
}

// freeze returns what encodes the history as it is now, while it goes on.
func (h *history) freeze() func([]byte) []byte {
	f := *h
	f.chunks, f.open, f.digests = slices.Clone(h.chunks), slices.Clip(h.open), slices.Clip(h.digests)
	f.offsets = slices.Clone(h.offsets)
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
		h.first, h.open, h.offsets = r.Seq, bytes.Clone(r.Bytes), nil
		for rest := h.open; len(rest) > 0; {
			_, after, err := wire.ParseInput(rest)
			if err != nil {
				return err
			}
			h.offsets, rest = append(h.offsets, len(h.open)-len(after)), after
		}
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

// Inputs returns committed inputs of the hosted application, from a number on: at most count, and one beyond size bytes, as
// they stand in an INPUTS frame. They may be read for good, by any goroutine.
func (c *Core) Inputs(number uint64, count, size int) (data []byte, n int, err error) {
	return c.state.history.inputs(number, count, size)
}

// Committed is what is committed of the hosted application.
type Committed struct {
	Generation uint64
	Input      uint64 // number of the last
	Result     uint64 // number of the last input whose result is logged
	Skipped    int    // how many inputs no host is to execute
}

// Committed returns how far the hosted application is committed.
func (c *Core) Committed() Committed {
	h := &c.state.history
	return Committed{h.generation, h.last(), h.base + uint64(len(h.digests)), len(h.skipped)}
}

// Digest returns that of a committed result.
func (c *Core) Digest(number uint64) (uint32, bool) {
	h := &c.state.history
	if number <= h.base || number > h.base+uint64(len(h.digests)) {
		return 0, false
	}
	return h.digests[number-h.base-1], true
}

// Checkpoint returns from where a host can be built: its state after an input, or 0 and nothing: from the beginning.
func (c *Core) Checkpoint() (number uint64, state []byte) {
	return c.state.history.base, c.state.history.state
}

// Trim keeps the state of a host after an input, and forgets that input and those before, at this controller and
// in its snapshots. The caller has proved that a host goes on from there as one that executed all of them.
func (c *Core) Trim(number uint64, state []byte) {
	if h := &c.state.history; number > h.base && number <= h.last() && number <= h.base+uint64(len(h.digests)) {
		h.trim(number, state)
	}
}

// HistoryBytes returns the memory that the history takes.
func (c *Core) HistoryBytes() int {
	h := &c.state.history
	return h.bytes + len(h.open) + 4*len(h.digests) + len(h.state)
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
		h.Inputs, h.Results, h.woken = d.uvarint(), d.uvarint(), d.uvarint()
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
	b = binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(b, h.Inputs), h.Results), h.woken)
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
