package ledger

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// bestEffortCommands are commands below ExactlyOnce, in the order in which they were sent. They are not logged, have no
// sequence, and are forgotten when they are taken.
type bestEffortCommands struct {
	buf  []byte // whole messages
	runs []bestEffortRun
	out  []byte // returned by the last take
}

// bestEffortRun is a run of consecutive commands to one epoch of a switch.
type bestEffortRun struct {
	sw         *switchState
	epoch      uint64
	start, end int // in buf
	count      int
}

// bestEffortSavepoint is a point to which rewind returns.
type bestEffortSavepoint struct {
	runs int
	last bestEffortRun
}

func (l *bestEffortCommands) savepoint() bestEffortSavepoint {
	m := bestEffortSavepoint{runs: len(l.runs)}
	if m.runs > 0 {
		m.last = l.runs[m.runs-1]
	}
	return m
}

func (l *bestEffortCommands) rewind(m bestEffortSavepoint) {
	l.runs, l.buf = l.runs[:m.runs], l.buf[:m.last.end]
	if m.runs > 0 {
		l.runs[m.runs-1] = m.last
	}
}

// note adds the message that was appended to buf at start to the runs.
func (l *bestEffortCommands) note(sw *switchState, start int) {
	if n := len(l.runs); n > 0 && l.runs[n-1].sw == sw && l.runs[n-1].epoch == sw.epoch {
		l.runs[n-1].end = len(l.buf)
		l.runs[n-1].count++
		return
	}
	l.runs = append(l.runs, bestEffortRun{sw, sw.epoch, start, len(l.buf), 1})
}

// move appends everything that o has, and empties o.
func (l *bestEffortCommands) move(o *bestEffortCommands) {
	shift := len(l.buf)
	l.buf = append(l.buf, o.buf...)
	for _, r := range o.runs {
		r.start, r.end = r.start+shift, r.end+shift
		l.runs = append(l.runs, r)
	}
	o.buf, o.runs = o.buf[:0], o.runs[:0]
}

// take appends a release for each switch, except for those whose epoch has ended, and empties l. The releases are valid
// until the next call.
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

// bestEffort returns where commands of a level below ExactlyOnce are collected.
func (c *Core) bestEffort(l Level) *bestEffortCommands {
	if l == Ordered {
		return &c.batch.bestEffort
	}
	return &c.immediate
}

// Immediate returns the best-effort commands since the last call that need not wait for a commit, and forgets them. The
// caller asks after some events, and when there is no Room. Valid until the next call of any method.
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
	checkCommand(sw.id, l.buf[start:])
	l.note(sw, start)
	tx.countCommand(sw, l.buf[start:])
	return openflow.XID(l.buf[start:])
}

// bestEffortXID gives xids far from those of the commands in the queue, so that an ERROR is not taken for an answer to
// one of them.
func (tx *Tx) bestEffortXID(sw *switchState) uint32 {
	const span = 1 << 21
	sw.master.bestEffort++
	return tx.tag | (uint32(sw.queue.Last()+1)+message.Far+sw.master.bestEffort%span)&message.SequenceMask
}

// rawMessage is a message that is encoded already.
type rawMessage []byte

func (m rawMessage) Append(dst []byte, xid uint32) []byte {
	n := len(dst)
	dst = append(dst, m...)
	openflow.SetXID(dst[n:], xid)
	return dst
}

// skip begins a transaction for an event that is Unordered. Many of these events share one record in the log.
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

// logSkipped logs the events that were skipped so far.
func (b *batch) logSkipped(sw *switchState) {
	if sw.master.skipped == 0 {
		return
	}
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, byte(OpSkipped)), uint64(sw.id))
	b.buf = binary.BigEndian.AppendUint64(b.buf, sw.epoch)
	b.buf = binary.AppendUvarint(binary.AppendUvarint(b.buf, uint64(sw.events)), sw.master.skippedAsynchronous)
	sw.master.skipped, sw.master.skippedAsynchronous = 0, 0
}
