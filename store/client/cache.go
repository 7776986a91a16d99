package client

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/store"
)

// Cache keeps rows that were read or written, for reads that may be somewhat old (Botelho et al., section IV-E). A
// watch keeps them up to date. It is safe for concurrent use.
//
// A read says how old its answer may be. The answer is then a row that the store had at some time since, with all that
// Do has written before, except by components. It comes from memory if that is known of the row there, and else from
// the store. A write that depends on such a row should have the row's version as a condition: if the row has changed
// meanwhile, it is refused.
type Cache struct {
	client *Client
	tables []string // that it keeps; none: all
	stop   context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex // guards what follows
	rows   map[place]*cached
	told   uint64    // everything up to this revision was told by the watch; 0: it does not run
	least  uint64    // what was read at an earlier revision is not kept
	asOf   time.Time // all rows here were the newest ones at this time, or are newer
	marks  []mark    // that are later than what was told, oldest first
	wanted bool      // rows were read since the last mark
	hits   uint64
}

type place struct{ table, key string }

// cached is a row. If it is not known, it has at least that version.
type cached struct {
	row   store.Row
	known bool
	at    time.Time // it was the newest one at this time
	since uint64    // what the watch had told when this was made; it has not missed changes after that
}

// mark says that a revision was the newest one at a time.
type mark struct {
	revision uint64
	at       time.Time
}

const (
	// maxCached bounds the rows of a Cache. For another one, any of them is forgotten.
	maxCached = 10_000
	// markEvery is how often a Cache that is used asks which revision is the newest one.
	markEvery = 20 * time.Millisecond
	// maxMarks bounds those that wait for the watch. Then the cache asks no more.
	maxMarks = 64
)

// NewCache returns a Cache of tables of the client's namespace, or of all of them if none are given. It is told each
// change of these, so give those that are read from it. Close ends it, and is called before that of the client. In a
// namespace with buckets it keeps nothing: what a revision says there is not said of all rows. A name that no table can
// have, and too many names, are a *store.Error.
func NewCache(c *Client, tables ...string) (*Cache, error) {
	of := store.WatchRequest{Namespace: c.namespace, Tables: tables, GatherMS: uint32(markEvery.Milliseconds())}
	if err := of.Check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &Cache{client: c, tables: tables, stop: cancel, rows: map[place]*cached{}}
	if store.Buckets(c.namespace) == 0 {
		k.ended.Go(func() { k.watch(ctx, of) }) // both end with Close
		k.ended.Go(func() { k.mark(ctx) })
	}
	return k, nil
}

// Close ends the watch of the cache.
func (k *Cache) Close() {
	k.stop()
	k.ended.Wait()
}

// Hits returns how many reads were answered from memory.
func (k *Cache) Hits() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hits
}

// Get returns a row that the store had at some time in the last maxAge. It is shared with the cache, so it must not be
// changed. The error is that of Client.Do.
func (k *Cache) Get(ctx context.Context, table, key string, maxAge time.Duration) (store.Row, error) {
	began := time.Now()
	p := place{table, key}
	if row, ok := k.find(p, began.Add(-maxAge)); ok {
		return row, nil
	}
	out, err := k.client.Do(ctx, store.Op{Kind: store.Get, Table: table, Key: key})
	if err != nil {
		return store.Row{}, err
	}
	row := *out.Results[0].Row
	k.mu.Lock()
	defer k.mu.Unlock()
	k.keep(p, row, out.Revision, began)
	return row, nil
}

// find returns a row of the cache that the store had since a time.
func (k *Cache) find(p place, since time.Time) (store.Row, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = true
	e := k.rows[p]
	if e == nil || !e.known || e.at.Before(since) && k.asOf.Before(since) {
		k.expect(p)
		return store.Row{}, false
	}
	k.hits++
	return e.row, true
}

// expect makes room for a row, so that changes which the watch tells before it is read are not missed. k.mu is held.
func (k *Cache) expect(p place) {
	if k.rows[p] == nil && k.keeps(p) {
		k.add(p, &cached{since: k.told})
	}
}

// keeps reports whether the watch tells changes of a row. k.mu is held.
func (k *Cache) keeps(p place) bool { return k.told > 0 && k.of(p.table) }

// of reports whether the cache is of a table.
func (k *Cache) of(table string) bool { return len(k.tables) == 0 || slices.Contains(k.tables, table) }

// keep keeps a row that was read or written at a revision, and was the newest one at a time. k.mu is held.
func (k *Cache) keep(p place, row store.Row, revision uint64, at time.Time) {
	e := k.rows[p]
	switch {
	case !k.keeps(p) || revision < k.least: // nobody would tell its next change, or it is old
	case e == nil && revision >= k.told:
		k.add(p, &cached{row, true, at, k.told})
	case e != nil && revision >= e.since && row.Version >= e.row.Version:
		*e = cached{row, true, at, e.since}
	}
}

// add adds a row. k.mu is held.
func (k *Cache) add(p place, c *cached) {
	if len(k.rows) >= maxCached {
		for other, e := range k.rows {
			if e.row.Version > k.told {
				k.least = max(k.least, e.row.Version)
			}
			delete(k.rows, other)
			break
		}
	}
	k.rows[p] = c
}

// Do is Client.Do, and keeps what it writes. What a component writes is known when the watch tells it.
func (k *Cache) Do(ctx context.Context, ops ...store.Op) (store.Outcome, error) {
	began := time.Now()
	k.mu.Lock()
	for _, o := range ops {
		if o.Kind == store.Create || o.Kind == store.Put {
			k.expect(place{o.Table, o.Key})
		}
	}
	k.mu.Unlock()
	out, err := k.client.Do(ctx, ops...)
	if err != nil {
		return out, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, o := range ops {
		k.wrote(&o, out.Results[i].Version, out.Revision, began)
	}
	return out, nil
}

// wrote keeps what an op has written. k.mu is held.
func (k *Cache) wrote(o *store.Op, version, revision uint64, at time.Time) {
	if !k.of(o.Table) {
		return
	}
	p := place{o.Table, o.Key}
	e := k.rows[p]
	switch o.Kind {
	case store.Create, store.Put:
		k.keep(p, store.Row{Key: o.Key, Version: version, Columns: merged(nil, o.Columns)}, revision, at)
	case store.Update:
		if c := o.Condition; e != nil && e.known && c != nil && c.Version != nil && *c.Version == e.row.Version {
			k.keep(p, store.Row{Key: o.Key, Version: version, Columns: merged(e.row.Columns, o.Columns)}, revision, at)
		}
	case store.Delete, store.Add:
	default:
		return
	}
	if e := k.rows[p]; e == nil || e.row.Version < version { // it was not kept
		k.unknown(p, version)
	}
}

// unknown says that a row has at least a version. k.mu is held.
func (k *Cache) unknown(p place, version uint64) {
	if !k.keeps(p) || version <= k.told {
		delete(k.rows, p)
		k.least = max(k.least, version)
		return
	}
	c := &cached{row: store.Row{Version: version}, since: k.told}
	if e := k.rows[p]; e != nil {
		*e = *c
		return
	}
	k.add(p, c)
}

// merged returns columns with copies of some that were written.
func merged(all, wrote store.Columns) store.Columns {
	all = slices.Clone(all)
	for _, c := range wrote {
		c.Value = bytes.Clone(c.Value)
		i := slices.IndexFunc(all, func(o store.Column) bool { return o.Name == c.Name })
		if i < 0 {
			all = append(all, c)
		} else {
			all[i] = c
		}
	}
	return all
}

// watch keeps the rows up to date, until ctx ends.
func (k *Cache) watch(ctx context.Context, of store.WatchRequest) {
	pause := time.NewTicker(mostPause)
	defer pause.Stop()
	for ctx.Err() == nil {
		for told, err := range k.client.watch(ctx, of) {
			if err != nil {
				break // a *store.Error: changes were forgotten, or it is refused
			}
			k.update(told)
		}
		k.forget()
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// forget forgets everything: nobody tells changes any more.
func (k *Cache) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.rows {
		k.least = max(k.least, e.row.Version)
	}
	clear(k.rows)
	k.told, k.asOf, k.marks = 0, time.Time{}, nil
}

func (k *Cache) update(told store.WatchResponse) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range told.Changes {
		p := place{c.Table, c.Key}
		e := k.rows[p]
		switch {
		case e == nil || c.Revision < e.row.Version || c.Revision == e.row.Version && e.known:
		case c.Removed:
			delete(k.rows, p)
		default:
			*e = cached{store.Row{Key: c.Key, Version: c.Revision, Columns: c.Columns}, true, e.at, e.since}
		}
	}
	k.told = told.Revision
	k.pass()
}

// pass takes the marks that were told. k.mu is held.
func (k *Cache) pass() {
	for len(k.marks) > 0 && k.marks[0].revision <= k.told {
		k.asOf = k.marks[0].at
		k.marks = k.marks[1:]
	}
}

// mark asks again and again which revision is the newest one, until ctx ends.
func (k *Cache) mark(ctx context.Context) {
	tick := time.NewTicker(markEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if !k.marking() {
			continue
		}
		began := time.Now()
		out, err := k.client.Do(ctx, store.Op{Kind: store.ListTables, Start: store.AfterAll})
		if err != nil {
			continue
		}
		k.mu.Lock()
		k.marks = append(k.marks, mark{out.Revision, began})
		k.pass()
		k.mu.Unlock()
	}
}

// marking reports whether a mark is needed.
func (k *Cache) marking() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := k.wanted
	k.wanted = false
	return wanted && k.told > 0 && len(k.marks) < maxMarks
}
