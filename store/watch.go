package store

import (
	"encoding/json"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// WatchRequest asks for the changes of a namespace.
type WatchRequest struct {
	Namespace string
	Table     string // "": all tables
	Prefix    string // of the keys of rows in Table
	// Tables are several tables, in place of Table. They need not be there yet.
	Tables []string
	// GatherMS is for how long changes are gathered before they are told, in ms, if others were told shortly before. 0:
	// as long as the controller gathers them for all watches.
	GatherMS uint32
	// After is the revision after which changes are told. nil is the present one.
	After *uint64
	// Revisions are After for each bucket of a namespace with Buckets.
	Revisions []uint64
}

// WatchResponse is a part of what a watch tells. The first one has no changes.
type WatchResponse struct {
	Revision uint64 // everything up to this one was told
	Changes  []Change
	Error    *Error // the end of the watch
	// In a namespace with Buckets, the first response has the revisions of all buckets. Each later one is of a Bucket,
	// and has its revision and changes.
	Bucket    int
	Revisions []uint64
}

// Change is a committed change of a row or, if Key is "", of a table.
type Change struct {
	Revision   uint64      `json:"revision"`
	Table      string      `json:"table"`
	Key        string      `json:"key,omitzero"`
	Removed    bool        `json:"removed,omitzero"`
	Columns    Columns     `json:"columns,omitzero"`    // all of the row
	Definition *Definition `json:"definition,omitzero"` // of a table that was created
}

// maxWatchedTables bounds WatchRequest.Tables: each change is looked up in it.
const maxWatchedTables = 64

// maxGatherMS bounds WatchRequest.GatherMS. A Feed keeps maxFeedChanges, or fewer if they are large. So many come
// within 0.14 s at the highest rate that was measured for a namespace: a watch that gathered for longer would find
// some forgotten.
const maxGatherMS = 100

// Check returns an *Error if the request is not what it should be.
func (w *WatchRequest) Check() error {
	if err := CheckNamespace(w.Namespace); err != nil {
		return err
	}
	switch {
	case w.Table != "" && !isName(w.Table):
		return Fail(Invalid, "%q is not the name of a table: %s", w.Table, nameRule)
	case w.Prefix != "" && w.Table == "":
		return Fail(Invalid, "a prefix is one of keys in a table: give that too")
	case len(w.Prefix) > MaxKey:
		return Fail(Invalid, "a key has at most %d bytes, the prefix has %d", MaxKey, len(w.Prefix))
	case len(w.Tables) > 0 && w.Table != "":
		return Fail(Invalid, "give either a table or several tables")
	case len(w.Tables) > maxWatchedTables:
		return Fail(Invalid, "a watch is of at most %d tables, or of all of them", maxWatchedTables)
	case w.GatherMS > maxGatherMS:
		return Fail(Invalid, "changes are gathered for at most %d ms", maxGatherMS)
	}
	for _, name := range w.Tables {
		if !isName(name) {
			return Fail(Invalid, "%q is not the name of a table: %s", name, nameRule)
		}
	}
	switch of := Buckets(w.Namespace); {
	case of > 0 && w.After != nil:
		return Fail(Invalid, "a namespace with buckets has a revision for each of them: give revisions, not after")
	case len(w.Revisions) > 0 && len(w.Revisions) != of:
		return Fail(Invalid, "namespace %s has %d buckets, %d revisions are given", w.Namespace, of,
			len(w.Revisions))
	}
	return nil
}

// Append encodes a WatchRequest.
func (w *WatchRequest) Append(b []byte) []byte {
	e := (*encoder)(&b)
	e.text(1, w.Namespace)
	e.text(2, w.Table)
	e.text(3, w.Prefix)
	if w.After != nil {
		b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), *w.After)
	}
	e.uints(5, w.Revisions)
	e.texts(6, w.Tables)
	e.uint(7, uint64(w.GatherMS))
	return b
}

// Decode sets the request to an encoded one.
func (w *WatchRequest) Decode(b []byte) error {
	var d decoder
	return fields(b, func(f field) error {
		switch f.num {
		case 1:
			w.Namespace = d.text(f)
		case 2:
			w.Table = d.text(f)
		case 3:
			w.Prefix = d.text(f)
		case 4:
			after := d.uint(f)
			w.After = &after
		case 5:
			w.Revisions = d.uints(f, w.Revisions)
		case 6:
			w.Tables = append(w.Tables, d.text(f))
		case 7:
			w.GatherMS = uint32(min(d.uint(f), math.MaxUint32))
		}
		return d.err
	})
}

// Append encodes a WatchResponse.
func (w *WatchResponse) Append(b []byte) []byte {
	e := (*encoder)(&b)
	e.uint(1, w.Revision)
	for i := range w.Changes {
		e.message(2, func() { e.change(&w.Changes[i]) })
	}
	if w.Error != nil {
		e.message(3, func() { e.error(w.Error) })
	}
	e.uint(4, uint64(w.Bucket))
	e.uints(5, w.Revisions)
	return b
}

func (e *encoder) change(c *Change) {
	e.uint(1, c.Revision)
	e.text(2, c.Table)
	e.text(3, c.Key)
	if c.Removed {
		e.uint(4, 1)
	}
	e.columns(5, c.Columns)
	if c.Definition != nil {
		e.message(6, func() { e.definition(c.Definition) })
	}
}

// Decode sets the response to an encoded one. Values of columns alias b.
func (w *WatchResponse) Decode(b []byte) error {
	var d decoder
	d.trust()
	return fields(b, func(f field) error {
		switch f.num {
		case 1:
			w.Revision = d.uint(f)
		case 2:
			w.Changes = append(w.Changes, Change{})
			d.change(f, &w.Changes[len(w.Changes)-1])
		case 3:
			w.Error = d.error(f)
		case 4:
			w.Bucket = int(min(d.uint(f), MaxBuckets))
		case 5:
			w.Revisions = d.uints(f, w.Revisions)
		}
		return d.err
	})
}

func (d *decoder) change(f field, c *Change) {
	d.message(f, func(f field) {
		switch f.num {
		case 1:
			c.Revision = d.uint(f)
		case 2:
			c.Table = d.text(f)
		case 3:
			c.Key = d.text(f)
		case 4:
			c.Removed = d.uint(f) != 0
		case 5:
			d.column(f, &c.Columns)
		case 6:
			c.Definition = new(Definition)
			d.definition(f, c.Definition)
		}
	})
}

// watcher selects the changes that a WatchRequest asks for.
type watcher struct {
	WatchRequest
	tables map[uint64]named // by the id of their rows
}

type named struct {
	name string
	*Definition
}

// learn adds a table.
func (w *watcher) learn(id uint64, name string, d *Definition) { w.tables[id] = named{name, d} }

// change converts a committed change; nil if the watch does not ask for it.
func (w *watcher) change(c *committed) (*Change, error) {
	if c.table == 0 {
		return w.tableChange(c)
	}
	of, known := w.tables[c.table]
	switch {
	case c.table == notRows:
		return nil, nil
	case !known:
		return nil, Fail(Forgotten, "rows of a table have changed that was dropped since: read what is there now")
	case !w.selects(of.name):
		return nil, nil
	case len(c.key) < len(w.Prefix) || c.key[:len(w.Prefix)] != w.Prefix:
		return nil, nil
	}
	out := &Change{Revision: c.revision, Table: of.name, Key: c.key, Removed: c.value == nil}
	if out.Removed {
		return out, nil
	}
	r, err := decodeRow(c.value, make([][]byte, len(of.Columns)))
	if err != nil {
		return nil, damaged("a change of row "+c.key, w.Namespace, err)
	}
	all, _ := of.selection(nil)
	out.Columns = of.row(c.key, &r, all).Columns
	return out, nil
}

// selects reports whether the watch asks for changes of a table.
func (w *watcher) selects(table string) bool {
	if len(w.Tables) > 0 {
		return slices.Contains(w.Tables, table)
	}
	return w.Table == "" || w.Table == table
}

func (w *watcher) tableChange(c *committed) (*Change, error) {
	out := &Change{Revision: c.revision, Table: c.key, Removed: c.value == nil}
	if !out.Removed {
		var t table
		if err := json.Unmarshal(c.value, &t); err != nil {
			return nil, damaged("table "+c.key, w.Namespace, err)
		}
		w.learn(t.ID, c.key, &t.Definition)
		out.Definition = &t.Definition
	}
	if !w.selects(c.key) || w.Prefix != "" {
		return nil, nil
	}
	return out, nil
}
