package ledger

import (
	"encoding/binary"
	"fmt"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// commandQueue holds the commands of one switch that are not complete, as the bytes that
// go on the wire: whole messages, one after the other, numbered from first. Positions are
// absolute offsets in the stream of all commands of the epoch, so that they stay valid
// when the front is popped.
type commandQueue struct {
	buf   []byte
	head  int    // buf[head:] is live
	base  uint64 // absolute position of buf[head]
	first uint64 // sequence of the message at base
	next  uint64 // sequence that the next command gets
}

// keepCapacity is what an empty queue keeps of its buffer, in bytes.
const keepCapacity = 1 << 20

func newCommandQueue() commandQueue { return commandQueue{first: 1, next: 1} }

func (q *commandQueue) len() int        { return int(q.next - q.first) }
func (q *commandQueue) bytes() int      { return len(q.buf) - q.head }
func (q *commandQueue) end() uint64     { return q.base + uint64(q.bytes()) }
func (q *commandQueue) done() uint64    { return q.first - 1 }
func (q *commandQueue) all() []byte     { return q.buf[q.head:] }
func (q *commandQueue) push(msg []byte) { q.buf = append(q.buf, msg...); q.next++ }

// slice returns the messages between two positions; the part before base is gone.
func (q *commandQueue) slice(from, to uint64) []byte {
	from = max(from, q.base)
	if to <= from {
		return nil
	}
	return q.buf[q.head+int(from-q.base) : q.head+int(to-q.base)]
}

// find returns the command with that transaction id, or nil.
func (q *commandQueue) find(xid uint32) []byte {
	seq := q.first + uint64((xid-uint32(q.first))&message.SequenceMask) // the only one that it can be
	if seq >= q.next {
		return nil
	}
	rest := q.all()
	for range seq - q.first {
		rest = rest[binary.BigEndian.Uint16(rest[2:]):]
	}
	if msg := rest[:binary.BigEndian.Uint16(rest[2:])]; openflow.XID(msg) == xid {
		return msg
	}
	return nil
}

// pop forgets the commands up to and with seq.
func (q *commandQueue) pop(seq uint64) {
	for q.first <= seq && q.first < q.next {
		n := int(binary.BigEndian.Uint16(q.buf[q.head+2:]))
		q.head += n
		q.base += uint64(n)
		q.first++
	}
	if q.head == len(q.buf) {
		q.buf, q.head = q.buf[:0], 0
		if cap(q.buf) > keepCapacity {
			q.buf = nil // a switch that was stalled once does not hold it for ever
		}
	} else if q.head > 64<<10 && q.head > len(q.buf)/2 {
		q.buf = append(q.buf[:0], q.buf[q.head:]...)
		q.head = 0
	}
}

// truncate takes back every command from position pos, whose sequence is next, on.
func (q *commandQueue) truncate(pos, next uint64) error {
	if pos < q.base || next < q.first {
		return fmt.Errorf("command queue: cannot take back to %d (sequence %d): already complete to %d (sequence %d)",
			pos, next, q.base, q.done())
	}
	q.buf = q.buf[:q.head+int(pos-q.base)]
	q.next = next
	return nil
}
