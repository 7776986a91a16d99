package ledger

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// bestEffortCommands are commands below ExactlyOnce, in the order in which they were sent: not in the
// log, without a sequence, and gone once they are taken.
type bestEffortCommands struct {
	buf  []byte // whole messages
	runs []bestEffortRun
	out  []byte // what the last take returned
}

// bestEffortRun are commands that follow each other, to one epoch of a switch.
type bestEffortRun struct {
	sw         *switchState
	epoch      uint64
	start, end int // in buf
	count      int
}

// bestEffortMark is a point to which rewind goes back.
type bestEffortMark struct {
	runs int
	last bestEffortRun
}

func (l *bestEffortCommands) mark() bestEffortMark {
	m := bestEffortMark{runs: len(l.runs)}
	if m.runs > 0 {
		m.last = l.runs[m.runs-1]
	}
	return m
}

func (l *bestEffortCommands) rewind(m bestEffortMark) {
	l.runs, l.buf = l.runs[:m.runs], l.buf[:m.last.end]
	if m.runs > 0 {
		l.runs[m.runs-1] = m.last
	}
}

// note adds to the runs the message that was appended to buf at start.
func (l *bestEffortCommands) note(sw *switchState, start int) {
	if n := len(l.runs); n > 0 && l.runs[n-1].sw == sw && l.runs[n-1].epoch == sw.epoch {
		l.runs[n-1].end = len(l.buf)
		l.runs[n-1].count++
		return
	}
	l.runs = append(l.runs, bestEffortRun{sw, sw.epoch, start, len(l.buf), 1})
}

// move takes over all that o has.
func (l *bestEffortCommands) move(o *bestEffortCommands) {
	shift := len(l.buf)
	l.buf = append(l.buf, o.buf...)
	for _, r := range o.runs {
		r.start, r.end = r.start+shift, r.end+shift
		l.runs = append(l.runs, r)
	}
	o.buf, o.runs = o.buf[:0], o.runs[:0]
}

// take appends a release for each switch, but for those whose epoch is over, and empties l. The
// releases are valid until the next call.
func (l *bestEffortCommands) take(list []Release) []Release {
	slices.SortStableFunc(l.runs, func(a, b bestEffortRun) int { return cmp.Compare(a.sw.id, b.sw.id) })
	l.out = slices.Grow(l.out[:0], len(l.buf))
	var last *switchState
	from := 0
	for _, r := range l.runs {
		if r.epoch != r.sw.epoch || !r.sw.live {
			continue
		}
		if r.sw != last {
			last, from = r.sw, len(l.out)
			list = append(list, Release{Switch: r.sw.id, Epoch: r.epoch})
		}
		l.out = append(l.out, l.buf[r.start:r.end]...)
		to := &list[len(list)-1]
		to.BestEffort, to.BestEffortCount = l.out[from:], to.BestEffortCount+r.count
	}
	l.buf, l.runs = l.buf[:0], l.runs[:0]
	return list
}

// best-effort is where commands of a level below ExactlyOnce go.
func (c *Core) bestEffort(l Level) *bestEffortCommands {
	if l == Ordered {
		return &c.batch.bestEffort
	}
	return &c.immediate
}

// Immediate returns the commands that wait for no commit, since the last call, and forgets them.
// Whoever executes events asks after some, and when there is no Room. Valid until the next call of any method.
func (c *Core) Immediate() []Release {
	c.releases = c.immediate.take(c.releases[:0])
	return c.releases
}

// sendBestEffort is Send below ExactlyOnce.
func (tx *Tx) sendBestEffort(id openflow.DatapathID, m Encoder) uint32 {
	sw := tx.c.state.find(id)
	if sw == nil || !sw.live {
		return 0
	}
	l := tx.bestEffort
	start := len(l.buf)
	l.buf = m.Append(l.buf, tx.bestEffortXID(sw))
	checkCommand(sw, l.buf[start:])
	l.note(sw, start)
	return openflow.XID(l.buf[start:])
}

// bestEffortXID numbers commands far from those in the queue, so that an ERROR cannot be taken for an answer to one
// of those.
func (tx *Tx) bestEffortXID(sw *switchState) uint32 {
	const far, span = message.SequenceMask/2 + 1, 1 << 21
	sw.master.bestEffort++
	return tx.tag | (uint32(sw.queue.Last()+1)+far+sw.master.bestEffort%span)&message.SequenceMask
}

// rawMessage is a message that is encoded already.
type rawMessage []byte

func (m rawMessage) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(dst, m...)
	openflow.SetXID(dst[n:], xid)
	return dst
}

// skip begins a transaction for an event that is Unordered: the log gets one record for many of them.
func (c *Core) skip(sw *switchState, typ uint8) {
	c.open()
	c.transaction++
	b := &c.batch
	b.touch(sw)
	if sw.master.skipped == 0 {
		b.undo = append(b.undo, undo{kind: undoSkipped, sw: sw, before: uint64(sw.events)})
		b.skipping = append(b.skipping, sw)
	}
	sw.master.skipped++
	if message.Asynchronous(typ) {
		sw.master.skippedAsynchronous++
	}
	sw.events++
	sw.totalEvents++
}

// logSkipped logs what was skipped so far.
func (b *batch) logSkipped(sw *switchState) {
	if sw.master.skipped == 0 {
		return
	}
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(OpSkipped)), uint64(sw.id))
	b.buf = binary.BigEndian.AppendUint64(b.buf, sw.epoch)
	b.buf = binary.AppendUvarint(binary.AppendUvarint(b.buf, uint64(sw.events)), sw.master.skippedAsynchronous)
	sw.master.skipped, sw.master.skippedAsynchronous = 0, 0
}
