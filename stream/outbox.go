package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sort"
)

// Outbox is the sender's end of a stream: the items that are not acknowledged. The zero value is empty, and its first
// item gets the number 1.
//
// The bytes of the items lie one after the other in one buffer, and move only when its end is reached; so a run of
// items is one slice, and nothing is allocated for an item. Slices that an Outbox returns alias that buffer: they are
// valid until the next Push, PushRun, Ack or TakeBack. An Outbox that was copied shares it: use one of the two only.
//
// The buffer has at most twice the size of what was ever kept at once, and 1 MiB.
type Outbox struct {
	acked, last uint64 // numbers; acked+1 to last are kept

	buf  []byte   // buf[head:] are the bytes of the items kept
	head int      //
	base uint64   // position of buf[0] in the endless string of all items
	ends []uint64 // positions; that of item n at n modulo the length, which is a power of two
	peak int      // the most bytes since the outbox was empty
}

const (
	firstBytes = 4 << 10
	firstItems = 16
	keptBytes  = 1 << 20       // of the buffer of an empty outbox, unless it was in use
	mostBytes  = 8 * keptBytes // of it even then
)

// OutboxAfter returns an empty outbox whose next item gets the number acked+1.
func OutboxAfter(acked uint64) Outbox { return Outbox{acked: acked, last: acked} }

// Acked returns the number of the last item that was acknowledged.
func (o *Outbox) Acked() uint64 { return o.acked }

// Last returns the number of the newest item, acknowledged or not.
func (o *Outbox) Last() uint64 { return o.last }

// Len returns how many items are kept, and Bytes how many bytes they have.
func (o *Outbox) Len() int   { return int(o.last - o.acked) }
func (o *Outbox) Bytes() int { return len(o.buf) - o.head }

// Memory returns how many bytes of memory the items take. The buffer of an outbox that was fuller than it is does not
// count: it is used again.
func (o *Outbox) Memory() int { return min(cap(o.buf)+8*len(o.ends), MemoryFactor*o.Bytes()) }

// MemoryFactor bounds how many times its bytes an item takes of memory.
const MemoryFactor = 4

// Room returns how many items, and how many bytes, fit until most is reached; negative if it is exceeded.
func (o *Outbox) Room(most Bounds) (items, bytes int) {
	return most.Items - o.Len(), most.Bytes - o.Bytes()
}

// Full reports whether most is reached, in items or in bytes.
func (o *Outbox) Full(most Bounds) bool { return o.Len() >= most.Items || o.Bytes() >= most.Bytes }

// Push copies an item into the outbox and returns its number.
func (o *Outbox) Push(item []byte) uint64 {
	o.reserve(1, len(item))
	o.buf = append(o.buf, item...)
	o.peak = max(o.peak, o.Bytes())
	o.last++
	o.ends[o.last&uint64(len(o.ends)-1)] = o.end()
	return o.last
}

// PushRun copies items that lie one after the other; lengths has the length of each, and adds up to that of run.
func (o *Outbox) PushRun(run []byte, lengths []int) {
	o.reserve(len(lengths), len(run))
	end := o.end()
	o.buf = append(o.buf, run...)
	o.peak = max(o.peak, o.Bytes())
	for _, n := range lengths {
		end += uint64(n)
		o.last++
		o.ends[o.last&uint64(len(o.ends)-1)] = end
	}
	if end != o.end() {
		panic(fmt.Sprintf("stream: the lengths of %d items do not add up to the %d bytes of their run", len(lengths),
			len(run)))
	}
}

// end returns the position after the newest item.
func (o *Outbox) end() uint64 { return o.base + uint64(len(o.buf)) }

// reserve makes space for more items.
func (o *Outbox) reserve(items, bytes int) {
	if o.Len()+items > len(o.ends) {
		o.growIndex(items)
	}
	if len(o.buf)+bytes > cap(o.buf) {
		o.makeSpace(bytes)
	}
}

func (o *Outbox) growIndex(items int) {
	n := max(len(o.ends), firstItems)
	for n < o.Len()+items {
		n *= 2
	}
	ends := make([]uint64, n)
	for i := o.acked + 1; i <= o.last; i++ {
		ends[i&uint64(n-1)] = o.ends[i&uint64(len(o.ends)-1)]
	}
	o.ends = ends
}

// makeSpace moves the items to the start of the buffer, or to a larger one if they would fill more than five eighths of
// this one. So a byte is moved less than twice, on average, until it is acknowledged, and not at all while the receiver
// keeps up.
func (o *Outbox) makeSpace(bytes int) {
	kept, need := o.buf[o.head:], o.Bytes()+bytes
	buf := o.buf[:0]
	if need > cap(buf)/8*5 {
		buf = make([]byte, 0, max(firstBytes, 2*need+min(2*need, keptBytes)))
	}
	o.base += uint64(o.head)
	o.buf, o.head = append(buf, kept...), 0
}

// start returns the index in buf where item n begins; n is one that is kept, or the next one.
func (o *Outbox) start(n uint64) int {
	if n == o.acked+1 {
		return o.head
	}
	return int(o.ends[(n-1)&uint64(len(o.ends)-1)] - o.base)
}

// Item returns an item; nil if it is not kept.
func (o *Outbox) Item(n uint64) []byte {
	if n <= o.acked || n > o.last {
		return nil
	}
	return o.buf[o.start(n):o.start(n+1)]
}

// Unsent reports whether there is an item after number after for Run to return.
func (o *Outbox) Unsent(after uint64) bool { return max(after, o.acked) < o.last }

// Run returns items after number after, up to number upTo, whose lengths add up to at most bytes, but at least one if
// there is any: count items, numbered from first on, which are contiguous in run.
//
// A reader stores only the number of the last item that it got. One that connects, or reconnects, begins with 0, and
// gets everything that is not acknowledged.
func (o *Outbox) Run(after, upTo uint64, bytes int) (first uint64, count int, run []byte) {
	after, upTo = max(after, o.acked), min(upTo, o.last)
	if after >= upTo {
		return after + 1, 0, nil
	}
	from := o.start(after + 1)
	to := o.start(upTo + 1)
	if to-from > bytes {
		n := sort.Search(int(upTo-after), func(i int) bool { return o.start(after+uint64(i)+2)-from > bytes })
		upTo = after + uint64(max(1, n))
		to = o.start(upTo + 1)
	}
	return after + 1, int(upTo - after), o.buf[from:to]
}

// All returns everything that is kept.
func (o *Outbox) All() []byte { return o.buf[o.head:] }

// Ack removes the items up to number n, which the receiver has acknowledged. It does nothing if they were removed
// before. The error for a number that was never assigned is a *RangeError.
func (o *Outbox) Ack(n uint64) error {
	switch {
	case n > o.last:
		return &RangeError{"acknowledge", n, o.acked, o.last}
	case n <= o.acked:
		return nil
	}
	o.head, o.acked = o.start(n+1), n
	o.rest()
	return nil
}

// TakeBack removes the newest items, those after number n, which have not been sent. The next item gets the number n+1.
// The error for items that are acknowledged is a *RangeError.
func (o *Outbox) TakeBack(n uint64) error {
	switch {
	case n < o.acked:
		return &RangeError{"take back to", n, o.acked, o.last}
	case n < o.last:
		o.buf, o.last = o.buf[:o.start(n+1)], n
		o.rest()
	}
	return nil
}

// rest returns to the start of the buffer if the outbox is empty. It drops a buffer that is much larger than was needed
// recently, or larger than mostBytes, so a receiver that stalled once does not cost the memory for ever.
func (o *Outbox) rest() {
	if o.acked != o.last {
		return
	}
	o.base, o.head, o.buf = o.end(), 0, o.buf[:0]
	if n := cap(o.buf); n > mostBytes || n > keptBytes && o.peak < n/4 {
		o.buf, o.ends = nil, nil
	}
	o.peak = 0
}

// AppendTo appends the outbox, for a snapshot or a move: equal outboxes give equal bytes.
func (o *Outbox) AppendTo(dst []byte) []byte {
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, o.acked), uint64(o.Len()))
	for n := o.acked + 1; n <= o.last; n++ {
		dst = binary.AppendUvarint(dst, uint64(o.start(n+1)-o.start(n)))
	}
	return append(dst, o.All()...)
}

// maxNumber is far above what an outbox can count to.
const maxNumber = math.MaxUint64 / 2

// ErrFormat is the error of ParseOutbox for bytes that AppendTo did not write.
var ErrFormat = errors.New("stream: not an outbox")

// ParseOutbox decodes an outbox that AppendTo has appended, and returns the bytes after it. The outbox shares nothing
// with b.
func ParseOutbox(b []byte) (o Outbox, rest []byte, err error) {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			err, n = ErrFormat, len(b)
		}
		b = b[max(n, 0):]
		return v
	}
	acked, count := number(), number()
	if err != nil || acked > maxNumber || count > uint64(len(b)) {
		return Outbox{}, nil, ErrFormat
	}
	lengths, sum := make([]int, count), uint64(0)
	for i := range lengths {
		n := number()
		if sum += n; err != nil || n > uint64(len(b)) || sum > uint64(len(b)) {
			return Outbox{}, nil, ErrFormat
		}
		lengths[i] = int(n)
	}
	o = OutboxAfter(acked)
	o.PushRun(b[:sum], lengths)
	return o, b[sum:], nil
}
