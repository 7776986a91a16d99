package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// NamespaceContents is what a namespace has, for operators.
type NamespaceContents struct {
	Namespace string          `json:"namespace"`
	Buckets   int             `json:"buckets"`  // into which it is divided; 0: it is not
	Revision  uint64          `json:"revision"` // of buckets, the sum of all
	Tables    []TableContents `json:"tables"`   // by name
}

// TableContents is what a table has, for operators.
type TableContents struct {
	Table string `json:"table"`
	Definition
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"` // of keys and encoded rows
	// Newest is the highest version of a row; 0: there is none. Each bucket counts versions of its own.
	Newest uint64 `json:"newest_version"`
}

// cellID names the cell of a table's rows in the ledger.
type cellID struct {
	namespace string // or a bucket
	id        uint64
}

// namespaceOf returns the namespace of the cells with this name, which may be a bucket.
func namespaceOf(cell string) (namespace string, buckets int) {
	if ns, _, of := parseBucket(cell); of > 0 {
		return ns, of
	}
	return cell, 0
}

// Contents returns what is in the store, by namespace, of the rows of its application, in any order.
func Contents(rows iter.Seq[ledger.Row]) ([]NamespaceContents, error) {
	namespaces := map[string]*NamespaceContents{}
	tables := map[string]map[string]*TableContents{} // by namespace and name
	ofCell := map[cellID]*TableContents{}
	for r := range rows {
		switch r.Table {
		case metaTable:
			ns, buckets := namespaceOf(r.Cell.S)
			if namespaces[ns] == nil {
				namespaces[ns] = &NamespaceContents{Namespace: ns, Buckets: buckets, Tables: []TableContents{}}
			}
			revision, _ := binary.Uvarint(r.Value)
			namespaces[ns].Revision += revision
		case tableTable:
			ns, _ := namespaceOf(r.Cell.S)
			t, err := decodeTable(r.Cell.S, r.Field.S, r.Value)
			if err != nil {
				return nil, err
			}
			if tables[ns] == nil {
				tables[ns] = map[string]*TableContents{}
			}
			if tables[ns][r.Field.S] == nil {
				tables[ns][r.Field.S] = &TableContents{Table: r.Field.S, Definition: t.Definition}
			}
			ofCell[cellID{r.Cell.S, t.ID}] = tables[ns][r.Field.S]
		}
	}
	for r := range rows {
		if t := ofCell[cellID{r.Cell.S, r.Cell.A}]; r.Table == rowTable && t != nil {
			version, _ := binary.Uvarint(r.Value)
			t.Rows++
			t.Bytes += int64(len(r.Field.S) + len(r.Value))
			t.Newest = max(t.Newest, version)
		}
	}
	list := []NamespaceContents{}
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		n := namespaces[name]
		for _, table := range slices.Sorted(maps.Keys(tables[name])) {
			n.Tables = append(n.Tables, *tables[name][table])
		}
		list = append(list, *n)
	}
	return list, nil
}

// Range says which rows of a table are asked for.
type Range struct {
	Namespace, Table string
	Prefix           string // of the keys
	After            string // only rows with a key behind this one; "": all
	Most             int    // rows
}

// Page is rows of a table.
type Page struct {
	Columns []string  `json:"columns"` // of the table; of all its definitions, if buckets have different ones
	Rows    []PageRow `json:"rows"`    // by key
	More    bool      `json:"-"`       // there are rows behind
}

// PageRow is a Row, with its columns as messages of the API have them.
type PageRow struct {
	Key     string       `json:"key"`
	Version uint64       `json:"version"`
	Columns []PageColumn `json:"columns"` // those that it has
}

// PageColumn is a Column.
type PageColumn struct {
	Name  string `json:"name"`
	Value []byte `json:"value"`
}

// Read returns rows of a table, of the rows of the application, in any order. An error is an *Error, unless something
// is damaged.
func (q Range) Read(rows iter.Seq[ledger.Row]) (*Page, error) {
	cells := map[cellID]*Definition{}
	for r := range rows {
		if ns, _ := namespaceOf(r.Cell.S); r.Table != tableTable || r.Field.S != q.Table || ns != q.Namespace {
			continue
		}
		t, err := decodeTable(r.Cell.S, r.Field.S, r.Value)
		if err != nil {
			return nil, err
		}
		cells[cellID{r.Cell.S, t.ID}] = &t.Definition
	}
	if len(cells) == 0 {
		return nil, Fail(NoTable, "there is no table %q in namespace %s", q.Table, q.Namespace)
	}
	var found []ledger.Row
	for r := range rows {
		if key := r.Field.S; r.Table == rowTable && key > q.After && strings.HasPrefix(key, q.Prefix) &&
			cells[cellID{r.Cell.S, r.Cell.A}] != nil {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b ledger.Row) int { return strings.Compare(a.Field.S, b.Field.S) })
	p := &Page{Columns: columnsOf(cells), Rows: []PageRow{}, More: len(found) > q.Most}
	for _, r := range found[:min(q.Most, len(found))] {
		d := cells[cellID{r.Cell.S, r.Cell.A}]
		s, err := decodeRow(r.Value, make([][]byte, len(d.Columns)))
		if err != nil {
			return nil, fmt.Errorf("row %q of table %s in namespace %s: %w", r.Field.S, q.Table, q.Namespace, err)
		}
		row := PageRow{Key: r.Field.S, Version: s.version}
		for i, value := range s.columns {
			if value != nil {
				row.Columns = append(row.Columns, PageColumn{d.Columns[i], value})
			}
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

// columnsOf returns the columns of all definitions of a table, in the order of the first cell that has them.
func columnsOf(cells map[cellID]*Definition) (columns []string) {
	ids := slices.SortedFunc(maps.Keys(cells), func(a, b cellID) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), cmp.Compare(a.id, b.id))
	})
	for _, id := range ids {
		for _, c := range cells[id].Columns {
			if !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	return columns
}
