package replay

import (
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// journal contains the changes of a Log that are not committed, oldest first, each with its inverse. Positions count
// all changes ever made. At a leader it has the changes of a few entries, which the ledger bounds.
type journal struct {
	changes []change
	head    int // changes[head:] are not committed
	base    uint64
	inputs  []byte // of those changes that are inputs
	from    int    // where the first of them begins
}

// change is one change. The comment at each kind lists the fields that it uses.
type change struct {
	kind   changeKind
	number uint64
	before uint64
	digest uint32
	end    int // of an input, in journal.inputs
	sw     *replayedSwitch
	was    replayedSwitch
	old    *generation
}

// generation is the state that a new generation replaces.
type generation struct {
	hosting  Hosting
	switches map[openflow.DatapathID]*replayedSwitch
}

type changeKind uint8

const (
	changedInputs     changeKind = iota + 1 // number, end: an input was added
	changedWoken                            // number: the previous one
	changedResults                          // number, digest; before: the previous number
	changedSkips                            // number: of an input that is skipped
	changedSwitch                           // sw, was
	changedGeneration                       // number, old
)

func (j *journal) end() uint64  { return j.base + uint64(len(j.changes)-j.head) }
func (j *journal) add(c change) { j.changes = append(j.changes, c) }

func (j *journal) input(in *wire.Input) {
	j.inputs = in.Append(j.inputs)
	j.add(change{kind: changedInputs, number: in.Number, end: len(j.inputs)})
}

// pop removes the newest change.
func (j *journal) pop() change {
	c := j.changes[len(j.changes)-1]
	j.changes[len(j.changes)-1] = change{}
	j.changes = j.changes[:len(j.changes)-1]
	if c.kind == changedInputs {
		j.inputs = j.inputs[:j.lastEnd()]
	}
	return c
}

// lastEnd returns where the newest input ends.
func (j *journal) lastEnd() int {
	for i := len(j.changes) - 1; i >= j.head; i-- {
		if j.changes[i].kind == changedInputs {
			return j.changes[i].end
		}
	}
	return j.from
}

// commit moves the changes before a position to the history.
func (j *journal) commit(position uint64, h *history) error {
	for j.base < position && j.head < len(j.changes) {
		c := &j.changes[j.head]
		var err error
		switch c.kind {
		case changedInputs:
			err = h.append(c.number, j.inputs[j.from:c.end])
			j.from = c.end
		case changedResults:
			err = h.result(c.number, c.digest)
		case changedSkips:
			h.skip(c.number)
		case changedGeneration:
			*h = newHistory()
			h.generation = c.number
		}
		if err != nil {
			return err
		}
		*c = change{}
		j.head++
		j.base++
	}
	j.compact()
	return nil
}

// compact reuses the space of committed changes, once they take most of it.
func (j *journal) compact() {
	switch n := len(j.changes) - j.head; {
	case n == 0:
		j.changes, j.head, j.inputs, j.from = j.changes[:0], 0, j.inputs[:0], 0
		if cap(j.inputs) > maxKept {
			j.inputs = nil
		}
	case j.head > n:
		copy(j.changes, j.changes[j.head:])
		clear(j.changes[n:])
		for i := range j.changes[:n] {
			j.changes[i].end -= j.from
		}
		j.inputs = j.inputs[:copy(j.inputs, j.inputs[j.from:])]
		j.changes, j.head, j.from = j.changes[:n], 0, 0
	}
}

// maxKept is the size of the buffer that an empty journal keeps, in bytes.
const maxKept = 4 << 20
