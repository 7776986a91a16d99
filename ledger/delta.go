package ledger

import (
	"encoding/binary"
	"errors"
	"math/bits"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// deltas is the state of delta encoding (docs/decisions/0023). OpSeenNext and OpCommandNext leave out what earlier
// operations of the entry contain. The writer and the reader of an entry keep equal states.
type deltas struct {
	seen    seenEvent
	command sentCommand
	models  [modelTypes][]byte // the last command of each type; empty if there is none
	scratch []byte             // used by the writer only
}

type seenEvent struct {
	id         openflow.DatapathID
	epoch, seq uint64 // 0 if there is none
}

type sentCommand struct {
	id  openflow.DatapathID
	seq uint64 // 0 if there is none
}

const (
	modelTypes = 32 // of messages; OpenFlow 1.3 has fewer
	wordLen    = 4  // commands are compared in words of this many bytes, the length of most fields
)

var errDelta = errors.New("goes on with what is not in the entry")

func (x *deltas) reset() {
	x.seen = seenEvent{}
	x.forgetCommands()
}

// forgetCommands is called when the last commands were removed from the entry.
func (x *deltas) forgetCommands() {
	x.command = sentCommand{}
	for i, m := range x.models {
		x.models[i] = m[:0]
	}
}

// next records an event, and reports whether it is the next one of the same switch and epoch.
func (x *deltas) next(id openflow.DatapathID, epoch, seq uint64) bool {
	e := seenEvent{id, epoch, seq - 1}
	ok := x.seen == e && e.seq > 0
	e.seq = seq
	x.seen = e
	return ok
}

// short records a command, and returns OpCommandNext for it, which is valid until the next call. ok is false if the
// command must be written whole: it goes to another switch than the last one, or its length differs from the last one
// of its type.
func (x *deltas) short(id openflow.DatapathID, seq uint64, msg []byte) (op []byte, ok bool) {
	before := x.command
	x.command = sentCommand{id, seq}
	typ := message.Type(msg)
	if typ >= modelTypes {
		return nil, false
	}
	m := x.models[typ]
	if ok = before == (sentCommand{id, seq - 1}) && before.seq > 0 && len(m) == len(msg); ok {
		x.scratch = appendChanges(append(x.scratch[:0], byte(OpCommandNext), typ), m, msg)
	}
	x.models[typ] = append(m[:0], msg...)
	return x.scratch, ok
}

// words returns how many words of a message of n bytes are compared with those of its model: an even number.
func words(n int) int { return n / (2 * wordLen) * 2 }

// appendChanges appends the difference between msg and its model: a bit for each word, the words that differ, and the
// bytes after the last word.
func appendChanges(dst, model, msg []byte) []byte {
	masks := len(dst)
	dst = append(dst, make([]byte, (words(len(msg))+7)/8)...)
	i := 0
	for ; i+8 <= len(msg) && i+8 <= len(model); i += 8 {
		is, was := binary.LittleEndian.Uint64(msg[i:]), binary.LittleEndian.Uint64(model[i:])
		if is == was {
			continue
		}
		if uint32(is) != uint32(was) {
			dst[masks+i/32] |= 1 << (i / wordLen % 8)
			dst = binary.LittleEndian.AppendUint32(dst, uint32(is))
		}
		if is>>32 != was>>32 {
			dst[masks+i/32] |= 2 << (i / wordLen % 8)
			dst = binary.LittleEndian.AppendUint32(dst, uint32(is>>32))
		}
	}
	return append(dst, msg[i:]...)
}

// whole records a command that was written whole.
func (x *deltas) whole(id openflow.DatapathID, seq uint64, msg []byte) {
	x.command = sentCommand{id, seq}
	if len(msg) < openflow.HeaderLen {
		return
	}
	if typ := message.Type(msg); typ < modelTypes {
		x.models[typ] = append(x.models[typ][:0], msg...)
	}
}

// seenNext reads OpSeenNext.
func (d *decoder) seenNext(x *deltas, r *Record) {
	if x.seen.seq == 0 {
		d.fail(errDelta)
		return
	}
	x.seen.seq++
	r.Op, r.Switch, r.Epoch, r.Seq = OpSeen, x.seen.id, x.seen.epoch, x.seen.seq
}

// commandNext reads OpCommandNext. The message is valid until the next one is read.
func (d *decoder) commandNext(x *deltas, r *Record) {
	typ := d.byte()
	if x.command.seq == 0 || typ >= modelTypes || len(x.models[typ]) == 0 {
		d.fail(errDelta)
		return
	}
	m := x.models[typ]
	end := words(len(m)) * wordLen
	for i, mask := range d.take(uint64(words(len(m))+7) / 8) {
		for ; mask != 0; mask &= mask - 1 {
			at := (8*i + bits.TrailingZeros8(mask)) * wordLen
			if at >= end {
				d.fail(errDelta)
				return
			}
			copy(m[at:], d.take(wordLen))
		}
	}
	copy(m[end:], d.take(uint64(len(m)-end)))
	x.command.seq++
	r.Op, r.Switch, r.Seq, r.Bytes = OpCommand, x.command.id, x.command.seq, m[:len(m):len(m)]
}
