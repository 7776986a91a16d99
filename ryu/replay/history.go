package replay

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// history is what a new host of the replayed applications is built from: the inputs, encoded as in INPUTS frames, and a
// digest of the result of each. It contains only what is committed. Its slices are only appended to, so a snapshot can
// be encoded at the same time; but the space of offsets is reused.
type history struct {
	generation uint64

	chunks  []chunk
	open    []byte // of inputs, not compressed yet
	first   uint64 // number of the first input in open
	offsets []int  // of the ends of inputs in open
	base    uint64 // number of the input before the first one kept
	digests []uint32
	skipped map[uint64]bool // replaced, never changed
	bytes   int             // of chunks

	// state is the state of a host after input base; empty if base is 0.
	state []byte

	loaded  int // index of the chunk in data; -1 if there is none
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

// chunkBytes is how much is compressed at a time. maxChunk is the size of a chunk with the input that exceeds that,
// which the size of an entry bounds.
const (
	chunkBytes = 64 << 10
	maxChunk   = wire.FrameBytes
)

func newHistory() history { return history{first: 1, loaded: -1} }

func (h *history) last() uint64    { return h.first + uint64(len(h.offsets)) - 1 }
func (h *history) results() uint64 { return h.base + uint64(len(h.digests)) }

func (h *history) append(number uint64, input []byte) error {
	if number != h.last()+1 {
		return fmt.Errorf("replayed input %d after %d", number, h.last())
	}
	h.open = append(h.open, input...)
	h.offsets = append(h.offsets, len(h.open))
	if len(h.open) >= chunkBytes {
		h.close()
	}
	return nil
}

// close compresses open. Readers may still have slices of it.
func (h *history) close() {
	var out bytes.Buffer
	if h.deflate == nil {
		h.deflate, _ = flate.NewWriter(&out, flate.BestSpeed) // the level is valid
	} else {
		h.deflate.Reset(&out)
	}
	_, _ = h.deflate.Write(h.open) // writing to a bytes.Buffer does not fail
	_ = h.deflate.Close()
	c := chunk{h.first, len(h.offsets), slices.Clip(bytes.Clone(out.Bytes()))}
	h.chunks = append(h.chunks, c)
	h.bytes += len(c.data)
	h.first += uint64(c.count)
	h.open, h.offsets = make([]byte, 0, chunkBytes+chunkBytes/4), h.offsets[:0]
}

func (h *history) result(number uint64, digest uint32) error {
	if number != h.results()+1 || number > h.last() {
		return fmt.Errorf("result of replayed input %d after %d, of %d", number, h.results(), h.last())
	}
	h.digests = append(h.digests, digest)
	return nil
}

func (h *history) skip(number uint64) {
	h.skipped = maps.Clone(h.skipped)
	if h.skipped == nil {
		h.skipped = map[uint64]bool{}
	}
	h.skipped[number] = true
}

// trim deletes everything up to input number, and keeps the state of a host after that input.
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

// inputs returns inputs from number on: at most count, and at most one after size bytes, encoded as in an INPUTS frame.
// The result stays valid.
func (h *history) inputs(number uint64, count, size int) (data []byte, n int, err error) {
	if number <= h.base || number > h.last() || count <= 0 {
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
			return nil, 0, fmt.Errorf("replay: replayed input %d is not in the history from %d", number, h.base+1)
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

// load decompresses a chunk into data.
func (h *history) load(i int) error {
	if h.loaded == i {
		return nil
	}
	c := h.chunks[i]
	data, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(c.data)), maxChunk))
	if err != nil {
		return fmt.Errorf("replay: replayed inputs from %d: %w", c.first, err)
	}
	ends, err := inputEnds(data, c.first)
	if err == nil && len(ends) != c.count {
		err = fmt.Errorf("they are %d, not %d", len(ends), c.count)
	}
	if err != nil {
		return fmt.Errorf("replay: replayed inputs from %d: %w", c.first, err)
	}
	h.data, h.ends, h.loaded = data, ends, i
	return nil
}

// inputEnds returns where each of the inputs in data ends; number is that of the first.
func inputEnds(data []byte, number uint64) (ends []int, err error) {
	for rest := data; len(rest) > 0; number++ {
		in, after, err := wire.ParseInput(rest)
		if err != nil {
			return nil, err
		}
		if in.Number != number {
			return nil, fmt.Errorf("input %d stands where %d belongs", in.Number, number)
		}
		ends, rest = append(ends, len(data)-len(after)), after
	}
	return ends, nil
}

// withoutSkipped replaces each skipped input by a Timer.
func (h *history) withoutSkipped(data []byte, number uint64, n int) []byte {
	if !h.anySkipped(number, n) {
		return data
	}
	var out []byte
	for rest := data; len(rest) > 0; {
		in, after, err := wire.ParseInput(rest)
		if err != nil {
			return data // the host will report it
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

func (h *history) anySkipped(number uint64, n int) bool {
	for s := range h.skipped {
		if s >= number && s-number < uint64(n) {
			return true
		}
	}
	return false
}

func (h *history) digest(number uint64) (uint32, bool) {
	if number <= h.base || number > h.results() {
		return 0, false
	}
	return h.digests[number-h.base-1], true
}

// size is the memory that the history takes, in bytes.
func (h *history) size() int { return h.bytes + len(h.open) + 4*len(h.digests) + len(h.state) }
