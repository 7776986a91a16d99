// Package feed tells watchers of the API what changes. It compares what there is with what there was, numbers the
// changes, and keeps the last ones. All watchers get the same encoded messages, and each goes through them at its own
// pace. So a watcher costs a copy of a message while that is sent, and one that is too slow finds that what it needs is
// not kept any more. News wakes a few watchers at a time: a thousand goroutines that are ready at once would delay
// everything else in the process.
//
// It knows neither where the state comes from nor how a message gets to a watcher.
package feed

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
)

// ErrSlow is the error of a watcher for which changes are not kept any more.
var ErrSlow = errors.New("changes were read too slowly, and are not kept any more: watch again, and be it for fewer " +
	"kinds")

// Bounds of what is kept.
const (
	maxBatches   = 128    // sets of changes; see Set
	maxChanges   = 32_768 // in all of them
	maxEvents    = 256    // that a snapshot has
	maxEncodings = 8      // of one set, for watchers of different kinds; for others, each encodes it
)

// Item is a thing as it is now.
type Item struct {
	Kind api.Kind
	Key  string
	// State and Counters are compared by ==. If only Counters has changed, that can wait.
	State, Counters any
	Change          func() *api.Change // called if it has changed
}

// name names an item.
type name struct {
	kind api.Kind
	key  string
}

// held is an item, as watchers know it.
type held struct {
	Item
	change *api.Change
}

// Feed is what watchers are told. It is safe for concurrent use; there is one that calls Set.
type Feed struct {
	id string

	mu       sync.Mutex // guards the fields below, and the encodings of batches
	items    map[name]held
	events   []change
	revision uint64
	batches  []*batch // up to revision, without a gap
	changes  int      // in batches
	snapshot *batch   // of the present revision; nil until somebody needs it
	resting  bool     // nobody looks at what there is, see Rest
	missed   bool     // events, see Missed
	whole    uint64   // the first revision after events were missed; who knows an earlier one gets a snapshot
	waiting  map[*Cursor]struct{}
	due      []*Cursor // those to wake, because there is news
	hurry    bool      // that is more than counters for some of them

	news chan struct{} // capacity 1: somebody is due
}

// change is one that a watcher gets if it asks for the kind.
type change struct {
	kind api.Kind
	*api.Change
}

// batch is the changes of one revision, or a snapshot.
type batch struct {
	revision uint64
	snapshot bool
	changes  []change
	kinds    kinds
	encoded  map[kinds]*api.Encoded
}

// kinds is a set of kinds.
type kinds uint32

func kindsOf(list []api.Kind) (k kinds, err error) {
	for _, kind := range list {
		if _, known := api.Kind_name[int32(kind)]; !known || kind == 0 {
			return 0, fmt.Errorf("kind %d is not known: this release has %d kinds", kind, len(api.Kind_name)-1)
		}
		k |= 1 << kind
	}
	if k == 0 {
		k = ^kinds(0)
	}
	return k, nil
}

// New returns a feed whose id tells it from others.
func New(id string) *Feed {
	return &Feed{id: id, items: map[name]held{}, waiting: map[*Cursor]struct{}{}, news: make(chan struct{}, 1)}
}

// Set says what there is, and which events have happened since the last call. An item that is missing is gone. Without
// counters, items of which only the counters have changed remain as watchers know them.
func (f *Feed) Set(items []Item, counters bool, events []*api.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var changes []change
	hurry := f.revision == 0 || f.missed || len(events) > 0
	there := make(map[name]bool, len(items))
	for _, i := range items {
		n := name{i.Kind, i.Key}
		there[n] = true
		old, known := f.items[n]
		if known && old.State == i.State && (!counters || old.Counters == i.Counters) {
			continue
		}
		hurry = hurry || !known || old.State != i.State
		h := held{i, i.Change()}
		f.items[n] = h
		changes = append(changes, change{i.Kind, h.change})
	}
	for n := range f.items {
		if !there[n] {
			delete(f.items, n)
			hurry = true
			changes = append(changes, change{n.kind, &api.Change{What: &api.Change_Removed{
				Removed: &api.Removed{Kind: n.kind, Key: n.key}}}})
		}
	}
	for _, e := range events {
		c := change{api.Kind_KIND_EVENT, &api.Change{What: &api.Change_Event{Event: e}}}
		changes = append(changes, c)
		f.events = append(f.events, c)
	}
	f.events = f.events[max(0, len(f.events)-maxEvents):]
	news := len(changes) > 0 || f.revision == 0 || f.missed
	if news {
		f.publish(changes)
	}
	if news || f.resting {
		f.stir(hurry || f.resting)
	}
	if f.resting = false; f.missed {
		f.whole, f.missed = f.revision, false
	}
}

// Missed says that there were events that are in no call of Set. Watchers who resume get a snapshot, from which they
// know that they have missed something.
func (f *Feed) Missed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.missed = true
}

// Rest says that the next Set may come late. Until then, watchers are told nothing: it may not be so any more.
func (f *Feed) Rest() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = true
}

// stir makes those due who wait for news. The caller holds mu.
func (f *Feed) stir(hurry bool) {
	for c := range f.waiting {
		f.due = append(f.due, c)
	}
	clear(f.waiting)
	if len(f.due) == 0 {
		return
	}
	f.hurry = f.hurry || hurry
	select {
	case f.news <- struct{}{}:
	default:
	}
}

// News receives when there is news for watchers that wait. Wake is to be called then, until it returns false.
func (f *Feed) News() <-chan struct{} { return f.news }

// Wake wakes at most n watchers for which there is news, or calm if that is counters alone, those that have waited
// longest first. It reports whether there are more.
func (f *Feed) Wake(n, calm int) (more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.hurry {
		n = calm
	}
	n = min(n, len(f.due))
	for _, c := range f.due[:n] {
		select {
		case c.woken <- struct{}{}:
		default: // it has not looked since it was woken
		}
	}
	f.due = slices.Delete(f.due, 0, n)
	more = len(f.due) > 0
	f.hurry = f.hurry && more
	return more
}

func (f *Feed) publish(changes []change) {
	f.revision++
	f.snapshot = nil
	b := &batch{revision: f.revision, changes: changes, encoded: map[kinds]*api.Encoded{}}
	for _, c := range changes {
		b.kinds |= 1 << c.kind
	}
	f.batches = append(f.batches, b)
	f.changes += len(changes)
	for len(f.batches) > 1 && (len(f.batches) > maxBatches || f.changes > maxChanges) {
		f.changes -= len(f.batches[0].changes)
		f.batches = slices.Delete(f.batches, 0, 1)
	}
}

// Cursor is a watcher's place. It is used by one goroutine.
type Cursor struct {
	f        *Feed
	kinds    kinds
	revision uint64        // up to which all was told; 0: nothing
	woken    chan struct{} // capacity 1
}

// idFor is the id of the feed for watchers of some kinds. It tells of which kinds a watcher that resumes knows all.
func (f *Feed) idFor(k kinds) string { return fmt.Sprintf("%s.%x", f.id, uint32(k)) }

// resumes reports whether id is of this feed, and for all kinds of k.
func (f *Feed) resumes(id string, k kinds) bool {
	of, known, _ := strings.Cut(id, ".")
	had, err := strconv.ParseUint(known, 16, 32)
	return of == f.id && err == nil && k&^kinds(had) == 0
}

// Cursor returns the place after a revision of the feed with that id, if that is kept and the watcher asks for no kinds
// that it did not ask for before. Otherwise the watcher begins with a snapshot.
func (f *Feed) Cursor(of []api.Kind, id string, revision uint64) (*Cursor, error) {
	k, err := kindsOf(of)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.resumes(id, k) || revision > f.revision || !f.keeps(revision) {
		revision = 0
	}
	return &Cursor{f, k, revision, make(chan struct{}, 1)}, nil
}

// keeps reports whether all changes after a revision are kept. The caller holds mu.
func (f *Feed) keeps(revision uint64) bool {
	return revision == f.revision || len(f.batches) > 0 && revision+1 >= f.batches[0].revision
}

// Next returns what the watcher is to be told next. If there is nothing until a time has passed, that is an empty
// message, which shows that the controller lives. The error is ErrSlow, or that of ctx.
func (c *Cursor) Next(ctx context.Context, pause time.Duration) (*api.Encoded, error) {
	late := time.NewTimer(pause)
	defer late.Stop()
	defer c.leave()
	for {
		m, news, err := c.step()
		if m != nil || err != nil {
			return m, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-late.C:
			return api.NewEncoded(&api.WatchResponse{Feed: c.f.idFor(c.kinds), Revision: c.revision}), nil
		case <-news:
		}
	}
}

// leave waits no more.
func (c *Cursor) leave() {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	delete(c.f.waiting, c)
}

// step returns the next message. If there is none, the cursor waits, and step returns what receives when there may be
// one.
func (c *Cursor) step() (*api.Encoded, <-chan struct{}, error) {
	f := c.f
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.revision == 0 || f.resting:
		f.waiting[c] = struct{}{}
		return nil, c.woken, nil
	case c.revision < max(f.whole, 1):
		c.revision = f.revision
		return f.encode(f.everything(), c.kinds), nil, nil
	case !f.keeps(c.revision):
		return nil, nil, ErrSlow
	}
	for c.revision < f.revision {
		b := f.batches[len(f.batches)-int(f.revision-c.revision)]
		c.revision = b.revision
		if b.kinds&c.kinds != 0 {
			return f.encode(b, c.kinds), nil, nil
		}
	}
	f.waiting[c] = struct{}{}
	return nil, c.woken, nil
}

// everything returns a snapshot. The caller holds mu.
func (f *Feed) everything() *batch {
	if f.snapshot != nil {
		return f.snapshot
	}
	b := &batch{revision: f.revision, snapshot: true, encoded: map[kinds]*api.Encoded{}}
	for n, h := range f.items {
		b.changes = append(b.changes, change{n.kind, h.change})
	}
	b.changes = append(b.changes, f.events...)
	slices.SortStableFunc(b.changes, func(a, b change) int { return int(a.kind) - int(b.kind) })
	f.snapshot = b
	return b
}

// encode returns what a batch has for kinds. The caller holds mu; the message is encoded later.
func (f *Feed) encode(b *batch, k kinds) *api.Encoded {
	if m, is := b.encoded[k]; is {
		return m
	}
	r := &api.WatchResponse{Feed: f.idFor(k), Revision: b.revision, Snapshot: b.snapshot}
	for _, c := range b.changes {
		if k&(1<<c.kind) != 0 {
			r.Changes = append(r.Changes, c.Change)
		}
	}
	m := api.NewEncoded(r)
	if len(b.encoded) < maxEncodings {
		b.encoded[k] = m
	}
	return m
}
