package disk

// The log is a queue of segments, and only the oldest can be released. A group that writes little would keep it for
// ever, with all segments behind it. So the entries of the oldest segment that are still needed are written again at
// the end of the log (carried forward) when the log has more than manySegments and the rest of it is more than twice as
// large as what is needed of it. Then at least half of the segments that come to the front are free at once, so
// carrying costs at most as many bytes as the groups write.
//
// A Save carries entries until they have as many bytes as it has written itself, or leastCarried if that is more. The
// last entry may exceed that. So the log stays below manySegments plus about three times what is needed of it, and a
// Save writes at most twice as much, or leastCarried more, and one entry.
const (
	manySegments = 8
	leastCarried = 64 << 10
)

// crowded reports whether entries are to be carried forward.
func (d *Disk) crowded() bool {
	beyond := len(d.wal.segments) - manySegments
	if beyond <= 0 || len(d.groups) < 2 { // of one group, all that follows the snapshot is needed
		return false
	}
	needed := int64(0)
	for _, g := range d.groups {
		needed += g.bytes
	}
	return int64(beyond)*segmentSize() > 2*needed
}

// carry writes entries of the oldest segment again, until they have at least budget bytes. They are equal to those that
// the log has already, so it has the same content whether it ends before them, between them or behind them. The old
// segment is released when the copies are durable.
func (d *Disk) carry(budget int64) error {
	oldest := d.wal.segments[0].seq
	for _, g := range d.groups {
		for i := g.in(oldest); i >= 0 && budget > 0; i = g.in(oldest) {
			last := g.first(i) - 1
			for last < g.spans[i].last && budget > 0 {
				last++
				e := g.entries[last-g.snapshot-1]
				if err := d.wal.entry(g, e); err != nil {
					return err
				}
				budget -= size(e)
			}
			g.moved(i, last, d.wal.seq)
		}
	}
	return nil
}
