package disk

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"go.etcd.io/raft/v3/raftpb"
)

// group is what the log holds of the replica of one group. The entries are those that were saved or loaded, whose data
// raft keeps in memory as well, so knowing them costs a pointer each.
type group struct {
	id       uint64
	hard     *raftpb.HardState // nil: none was saved
	pending  bool              // hard has no record yet
	snapshot uint64            // index of the newest one that is in effect
	entries  []*raftpb.Entry   // those that follow it
	bytes    int64             // that they take in the log
	spans    []span            // where they are, by index
}

// span is a run of entries in one segment. It begins where the previous one ends.
type span struct{ last, segment uint64 }

// size is about what an entry takes in the log.
func size(e *raftpb.Entry) int64 { return int64(len(e.GetData())) + 40 }

func (g *group) last() uint64 { return g.snapshot + uint64(len(g.entries)) }

// follows checks that an entry at index can be appended, perhaps in the place of others.
func (g *group) follows(index uint64) error {
	if index <= g.snapshot || index > g.last()+1 {
		return fmt.Errorf("entry %d of group %d does not follow a log of %d to %d", index, g.id, g.snapshot+1, g.last())
	}
	return nil
}

// append adds the next entry, whose record is in a segment.
func (g *group) append(e *raftpb.Entry, segment uint64) {
	g.entries = append(g.entries, e)
	g.bytes += size(e)
	if n := len(g.spans); n > 0 && g.spans[n-1].segment == segment {
		g.spans[n-1].last++
	} else {
		g.spans = append(g.spans, span{g.last(), segment})
	}
}

// truncate removes the entries after index.
func (g *group) truncate(index uint64) {
	keep := index - g.snapshot
	g.remove(g.entries[keep:])
	g.entries = g.entries[:keep]
	n := len(g.spans)
	for n > 0 && g.first(n-1) > index {
		n--
	}
	if g.spans = g.spans[:n]; n > 0 {
		g.spans[n-1].last = min(g.spans[n-1].last, index)
	}
}

// compact removes the entries up to index, which a snapshot contains.
func (g *group) compact(index uint64) {
	if index <= g.snapshot {
		return
	}
	n := min(index-g.snapshot, uint64(len(g.entries)))
	g.remove(g.entries[:n])
	rest := copy(g.entries, g.entries[n:])
	clear(g.entries[rest:])
	g.entries, g.snapshot = g.entries[:rest], index
	g.spans = slices.DeleteFunc(g.spans, func(s span) bool { return s.last <= index })
}

// remove takes entries out of the account.
func (g *group) remove(entries []*raftpb.Entry) {
	for i, e := range entries {
		g.bytes -= size(e)
		entries[i] = nil
	}
}

// first is the index with which a span begins.
func (g *group) first(i int) uint64 {
	if i == 0 {
		return g.snapshot + 1
	}
	return g.spans[i-1].last + 1
}

// oldest is the first segment with an entry of the group.
func (g *group) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for _, s := range g.spans {
		oldest = min(oldest, s.segment)
	}
	return oldest
}

// in returns the first span in a segment, or -1.
func (g *group) in(segment uint64) int {
	return slices.IndexFunc(g.spans, func(s span) bool { return s.segment == segment })
}

// moved notes that the entries of a span up to last are in another segment now.
func (g *group) moved(i int, last, segment uint64) {
	if i > 0 && g.spans[i-1].segment == segment {
		g.spans[i-1].last = last
	} else {
		g.spans = slices.Insert(g.spans, i, span{last, segment})
		i++
	}
	if g.spans[i].last == last {
		g.spans = slices.Delete(g.spans, i, i+1)
	}
}

// groups are those that the log holds, by id.
type groups []*group

func (gs groups) search(id uint64) (int, bool) {
	return slices.BinarySearchFunc(gs, id, func(g *group, id uint64) int { return cmp.Compare(g.id, id) })
}

// of returns a group, and makes one without content if there is none.
func (gs *groups) of(id uint64) *group {
	i, ok := gs.search(id)
	if !ok {
		*gs = slices.Insert(*gs, i, &group{id: id})
	}
	return (*gs)[i]
}

func (gs *groups) remove(id uint64) {
	if i, ok := gs.search(id); ok {
		*gs = slices.Delete(*gs, i, i+1)
	}
}

// oldest is the first segment with an entry that is needed.
func (gs groups) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for _, g := range gs {
		oldest = min(oldest, g.oldest())
	}
	return oldest
}
