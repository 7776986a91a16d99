package store

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Feed has the latest changes of namespaces that one controller knows to be committed, for watches. It learns them from
// the logs of the groups of which the controller has a replica, so they cost nothing in the log, and another controller
// has the same. It is safe for concurrent use.
type Feed struct {
	mu     sync.Mutex // guards what follows
	spaces map[string]*space
	news   chan struct{} // closed when there is another space; nil: nobody waits for that
	bytes  int           // of all changes
}

// The bounds of a Feed. The oldest changes are forgotten first: those of the namespace that has most of them if the
// whole feed is too large.
const (
	maxFeedChanges = 1 << 16  // of a namespace
	maxSpaceBytes  = 16 << 20 // of a namespace
	maxFeedBytes   = 64 << 20 // of all
)

// space is what a Feed has of one namespace.
type space struct {
	runs  []*run
	bytes int
	news  chan struct{} // closed when a change is added; nil if nobody waits
	// made are the tables whose making was seen, by the id of their rows: what they were called, also after they are
	// dropped.
	made      map[uint64]named
	madeBytes int // of their definitions, about
}

// maxMadeBytes bounds the tables of a namespace that are remembered. Then they are forgotten, and watches that begin
// before one of them was dropped end with Forgotten.
const maxMadeBytes = 2 << 20

// run is changes from the log of one group, without gaps. A namespace that moves goes on in the log of another one.
type run struct {
	group uint64
	first uint64 // revision of the first change, or of the next one

	ring []committed // a power of two
	head int         // of the first change in it
	len  int
}

func (r *run) next() uint64 { return r.first + uint64(r.len) }

// at returns change i.
func (r *run) at(i int) *committed { return &r.ring[(r.head+i)&(len(r.ring)-1)] }

// minRing is the smallest ring.
const minRing = 64

func (r *run) push(c committed) {
	if r.len == len(r.ring) {
		r.resize(max(minRing, 2*len(r.ring)))
	}
	r.len++
	*r.at(r.len - 1) = c
}

func (r *run) resize(size int) {
	ring := make([]committed, size)
	for i := range r.len {
		ring[i] = *r.at(i)
	}
	r.ring, r.head = ring, 0
}

// committed is a change of a row, or if the table is 0, of the table that has the key as its name.
type committed struct {
	revision uint64
	table    uint64
	key      string
	value    []byte // nil: it was removed
}

// notRows is the table of changes that are not told.
const notRows = math.MaxUint64

// size is that of a change in memory, in bytes.
func (c *committed) size() int { return 96 + len(c.key) + len(c.value) }

// NewFeed returns an empty feed.
func NewFeed() *Feed { return &Feed{spaces: map[string]*space{}} }

// Follow returns a function that takes the changes of the store's tables in the log of a group, in order. It is for one
// goroutine.
func (f *Feed) Follow(group uint64) func(ledger.Change) {
	var of string           // namespace
	var changes []committed // of a request, which ends with that of metaTable
	return func(c ledger.Change) {
		switch c.Table {
		case rowTable:
			of, changes = c.Cell.S, append(changes, committed{table: c.Cell.A, key: c.Field.S, value: c.Value})
		case tableTable:
			of, changes = c.Cell.S, append(changes, committed{key: c.Field.S, value: c.Value})
		case componentTable: // it has a revision
			of, changes = c.Cell.S, append(changes, committed{table: notRows})
		case metaTable:
			if revision, _ := binary.Uvarint(c.Value); len(changes) > 0 && c.Cell.S == of {
				f.add(group, of, revision, changes)
			}
			clear(changes)
			changes = changes[:0]
		}
	}
}

// space returns that of a namespace. f.mu is held.
func (f *Feed) space(namespace string) *space {
	s := f.spaces[namespace]
	if s == nil {
		s = new(space)
		f.spaces[namespace] = s
		if f.news != nil {
			close(f.news)
			f.news = nil
		}
	}
	return s
}

// add adds the changes of a request in the log of a group; the last one has a revision.
func (f *Feed) add(group uint64, namespace string, revision uint64, changes []committed) {
	first := revision - uint64(len(changes)) + 1
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.space(namespace)
	i := slices.IndexFunc(s.runs, func(r *run) bool { return r.group == group })
	if i < 0 {
		i = len(s.runs)
		s.runs = append(s.runs, &run{group: group, first: first})
	}
	r := s.runs[i]
	if r.next() != first { // a snapshot has replaced a part of the log, or the namespace was elsewhere
		f.forget(s, r, r.len)
		r.first = first
	}
	for i := range changes {
		changes[i].revision = first + uint64(i)
		size := changes[i].size()
		s.bytes, f.bytes = s.bytes+size, f.bytes+size
		r.push(changes[i])
		s.remember(&changes[i])
	}
	for s.bytes > maxSpaceBytes || r.len > maxFeedChanges {
		f.forgetSome(s)
	}
	for f.bytes > maxFeedBytes {
		f.forgetSome(f.largest())
	}
	if s.news != nil {
		close(s.news)
		s.news = nil
	}
}

// remember notes a table that is made.
func (s *space) remember(c *committed) {
	if c.table != 0 || c.value == nil {
		return
	}
	var t table
	if json.Unmarshal(c.value, &t) != nil {
		return // a watch will say so
	}
	size := c.size()
	if s.made == nil || s.madeBytes+size > maxMadeBytes {
		s.made, s.madeBytes = map[uint64]named{}, 0
	}
	s.madeBytes += size
	s.made[t.ID] = named{c.key, &t.Definition}
}

func (f *Feed) largest() (most *space) {
	for _, s := range f.spaces {
		if most == nil || s.bytes > most.bytes {
			most = s
		}
	}
	return most
}

// forgetSome forgets a part of the oldest changes of a namespace: not one at a time, because that would be slow.
func (f *Feed) forgetSome(s *space) {
	var oldest *run
	s.runs = slices.DeleteFunc(s.runs, func(r *run) bool { return r.len == 0 })
	for _, r := range s.runs {
		if oldest == nil || r.first < oldest.first {
			oldest = r
		}
	}
	f.forget(s, oldest, max(1, oldest.len/8))
}

// forget forgets the first n changes of a run.
func (f *Feed) forget(s *space, r *run, n int) {
	for i := range n {
		size := r.at(i).size()
		s.bytes, f.bytes = s.bytes-size, f.bytes-size
		*r.at(i) = committed{}
	}
	r.head, r.len, r.first = r.head+n, r.len-n, r.first+uint64(n)
	size := len(r.ring)
	for size > minRing && r.len <= size/4 {
		size /= 2
	}
	if size < len(r.ring) {
		r.resize(size)
	}
}

// after appends changes after a revision to list, at most most. news is closed when there may be more. gap says that
// there are later ones, but not the next one.
func (f *Feed) after(namespace string, revision uint64, most int, list []committed) (
	_ []committed, news <-chan struct{}, gap bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spaces[namespace]
	if s == nil { // nothing is kept for a name that somebody only asks for
		if f.news == nil {
			f.news = make(chan struct{})
		}
		return list, f.news, false
	}
	next := revision + 1
	for _, r := range s.runs {
		if next >= r.first && next < r.next() {
			for i := next - r.first; i < uint64(r.len) && len(list) < most; i++ {
				list = append(list, *r.at(int(i)))
			}
			return list, nil, false
		}
		gap = gap || r.first > next
	}
	if s.news == nil {
		s.news = make(chan struct{})
	}
	return list, s.news, gap
}

// gapTimeout is how long a Cursor waits for changes that should be there: the log that has them may be behind here.
const gapTimeout = time.Second

// Cursor reads the changes that one watch asks for. It is for one goroutine.
type Cursor struct {
	feed    *Feed
	watch   watcher
	at      uint64 // the revision up to which everything was read
	current uint64 // at least this one is committed
	missing time.Time
	list    []committed
	more    bool // Next has left changes that were there
}

// maxRead bounds the changes, and maxReadBytes about their bytes, that a Cursor returns at a time.
const (
	maxRead      = 1000
	maxReadBytes = 256 << 10
)

// Cursor returns where a watch begins. tables are those that the namespace had at a revision, as the leader has just
// told it.
func (f *Feed) Cursor(w WatchRequest, tables map[string]Table, revision uint64) (*Cursor, error) {
	r := &Cursor{feed: f, watch: watcher{w, map[uint64]named{}}, at: revision, current: revision}
	f.mu.Lock()
	if s := f.spaces[w.Namespace]; s != nil {
		maps.Copy(r.watch.tables, s.made)
	}
	f.mu.Unlock()
	for name, t := range tables {
		r.watch.learn(t.Version, name, &t.Definition)
	}
	if w.After == nil || *w.After == revision {
		if _, there := tables[w.Table]; !there && w.Table != "" {
			return nil, Fail(NoTable, "there is no table %q in namespace %s", w.Table, w.Namespace)
		}
		return r, nil
	}
	if r.at = *w.After; r.at > revision {
		return nil, Fail(Invalid, "namespace %s has no revision %d yet: the present one is %d", w.Namespace, r.at,
			revision)
	}
	return r, nil
}

// Revision is the one up to which everything was read.
func (r *Cursor) Revision() uint64 { return r.at }

// More reports whether Next has left changes that it could have returned.
func (r *Cursor) More() bool { return r.more }

// Current says that a revision is committed, which Next then expects to see.
func (r *Cursor) Current(revision uint64) { r.current = max(r.current, revision) }

// Next waits for changes and returns them; none if ctx has ended, or only others were read. The error is an *Error:
// Forgotten, or Unavailable if the logs of this controller are behind.
func (r *Cursor) Next(ctx context.Context) ([]Change, error) {
	for {
		list, news, gap := r.feed.after(r.watch.Namespace, r.at, maxRead, r.list[:0])
		r.list = list
		if len(list) > 0 {
			r.missing = time.Time{}
			return r.take(list)
		}
		late, err := r.late(gap)
		if err != nil {
			return nil, err
		}
		select {
		case <-news:
		case <-late:
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// late returns an error if changes should be there for gapTimeout, and else a channel that says when to look again.
func (r *Cursor) late(gap bool) (<-chan time.Time, error) {
	if !gap && r.at >= r.current {
		r.missing = time.Time{}
		return nil, nil
	}
	if r.missing.IsZero() {
		r.missing = time.Now()
	}
	rest := gapTimeout - time.Since(r.missing)
	switch {
	case rest > 0:
		return time.After(rest), nil
	case gap || !r.feed.has(r.watch.Namespace):
		return nil, Fail(Forgotten, "the changes after revision %d of namespace %s are not known here any more: read "+
			"what is there now, and watch from its revision on", r.at, r.watch.Namespace)
	}
	return nil, Fail(Unavailable, "this controller does not have the changes after revision %d of namespace %s yet: "+
		"ask another one", r.at, r.watch.Namespace)
}

// has reports whether a namespace has any changes.
func (f *Feed) has(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.spaces[namespace]
	return s != nil && len(s.runs) > 0
}

// take converts changes.
func (r *Cursor) take(list []committed) (changes []Change, err error) {
	size := 0
	r.more = len(list) == maxRead
	for i := range list {
		c, err := r.watch.change(&list[i])
		if err != nil && i > 0 {
			return changes, nil // and the error next time
		}
		if err != nil {
			return nil, err
		}
		r.at = list[i].revision
		if c == nil {
			continue
		}
		changes = append(changes, *c)
		if size += list[i].size(); size > maxReadBytes {
			r.more = true
			break
		}
	}
	return changes, nil
}
