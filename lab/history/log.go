package history

import (
	"bytes"
	"sort"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// entry is an entry of the log.
type entry struct {
	index, term uint64
	header      ledger.Header
	body        int // where the operations begin
	data        []byte
}

// sharedLog is the log that all controllers must agree on.
type sharedLog struct {
	entries []entry
	nodes   map[uint64]int    // number of entries that each controller has
	leaders map[uint64]uint64 // by term
}

func newSharedLog() sharedLog {
	return sharedLog{nodes: map[uint64]int{}, leaders: map[uint64]uint64{}}
}

// last is the index of the last entry.
func (l *sharedLog) last() uint64 {
	if len(l.entries) == 0 {
		return 0
	}
	return l.entries[len(l.entries)-1].index
}

func (l *sharedLog) lead(node, term uint64) error {
	if other, ok := l.leaders[term]; ok {
		return violated("term %d is led twice: by controller %d, and by controller %d", term, other, node)
	}
	l.leaders[term] = node
	return nil
}

// deliver checks an entry that is delivered to a controller, and reports whether this controller is the first to have
// it. After a restart a controller has the log from its beginning, or from a snapshot.
func (l *sharedLog) deliver(node, index, term uint64, data []byte) (fresh bool, err error) {
	position := l.nodes[node]
	if len(l.entries) > 0 && index == l.entries[0].index {
		position = 0
	}
	l.nodes[node] = position + 1
	if position == len(l.entries) {
		return true, l.append(node, index, term, data)
	}
	switch e := &l.entries[position]; {
	case index != e.index:
		return false, violated("controller %d is handed entry %d where %d is next", node, index, e.index)
	case term != e.term:
		return false, violated("controller %d is handed entry %d with term %d; others with %d", node, index, term,
			e.term)
	case !bytes.Equal(data, e.data):
		return false, violated("controller %d is handed entry %d with %d bytes that are not the %d that others were",
			node, index, len(data), len(e.data))
	}
	return false, nil
}

func (l *sharedLog) append(node, index, term uint64, data []byte) error {
	body := HeaderLen(data)
	header, err := ledger.Walk(data[:body], nil)
	if err != nil {
		return violated("controller %d is handed entry %d: %v", node, index, err)
	}
	if _, led := l.leaders[term]; !led {
		return violated("entry %d has term %d, in which nobody leads", index, term)
	}
	if header.Term != term {
		return violated("entry %d was cut in term %d and is committed in term %d", index, header.Term, term)
	}
	if n := len(l.entries); n > 0 {
		switch before := &l.entries[n-1]; {
		case index <= before.index:
			return violated("controller %d is handed entry %d after %d", node, index, before.index)
		case term < before.term:
			return violated("entry %d has term %d; entry %d has %d", index, term, before.index, before.term)
		case header.Time < before.header.Time:
			return violated("entry %d: ledger time goes back by %d ns since entry %d", index,
				before.header.Time-header.Time, before.index)
		case term == before.term && header.Batch != before.header.Batch+1:
			return violated("entry %d is batch %d of term %d; entry %d is %d", index, header.Batch, term, before.index,
				before.header.Batch)
		case term != before.term && header.Batch != 1:
			return violated("entry %d is batch %d of term %d, whose first it is", index, header.Batch, term)
		}
	}
	l.entries = append(l.entries, entry{index, term, header, body, data})
	return nil
}

// HeaderLen is the number of bytes before the operations: a version, whether it is relayed, and three varints.
func HeaderLen(data []byte) int {
	varints := 0
	for i := 2; i < len(data); i++ {
		if data[i] < 0x80 {
			if varints++; varints == 3 {
				return i + 1
			}
		}
	}
	return len(data)
}

// restore moves a controller to the end of a snapshot.
func (l *sharedLog) restore(node, index uint64) (position int, err error) {
	position, err = l.position(index)
	if err == nil {
		l.nodes[node] = position
	}
	return position, err
}

// position is the position of the first entry after index.
func (l *sharedLog) position(index uint64) (int, error) {
	if index > l.last() {
		return 0, violated("no controller was handed an entry after %d", l.last())
	}
	return sort.Search(len(l.entries), func(i int) bool { return l.entries[i].index > index }), nil
}
