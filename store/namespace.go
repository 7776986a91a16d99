package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// namespace is one namespace in a transaction.
type namespace struct {
	app       *Application
	tx        *ledger.Tx
	name      string
	client    string        // Request.Client
	bucket    int           // which one it is, of so many
	buckets   int           // 0: it is not a bucket
	cell      ledger.Key    // of all tables of the ledger but rowTable
	rowsTable *ledger.Table // the one called rowTable
	seen      []namedTable  // definitions that the request has used; see forgetSeen
	ran       ranComponent  // the component that the request has run last; see forgetSeen
	meta      meta
	changed   bool
	closes    bool // the session of the request
	read      int  // bytes
	written   int  // bytes, of rows
}

// meta is what a namespace has once.
type meta struct {
	revision               uint64
	rows, tables, sessions uint64 // how many there are
	lastSession            uint64
	components             uint64
	adopted                uint64 // of a bucket: the latest revision of bucket 0; see adopt
}

func (m *meta) fields() [7]*uint64 {
	return [...]*uint64{&m.revision, &m.rows, &m.tables, &m.sessions, &m.lastSession, &m.components, &m.adopted}
}

func open(a *Application, tx *ledger.Tx, name string) *namespace {
	n := &namespace{app: a, tx: tx, name: name, cell: ledger.Key{S: name}, rowsTable: tx.Table(rowTable)}
	_, n.bucket, n.buckets = parseBucket(name)
	b, _ := tx.Get(tx.Table(metaTable), n.cell, ledger.Key{})
	for _, v := range n.meta.fields() {
		if len(b) == 0 {
			break
		}
		value, size := binary.Uvarint(b)
		*v, b = value, b[max(size, 0):]
	}
	return n
}

// save stores meta.
func (n *namespace) save() {
	var b []byte
	for _, v := range n.meta.fields() {
		b = binary.AppendUvarint(b, *v)
	}
	n.tx.Put(n.tx.Table(metaTable), n.cell, ledger.Key{}, b)
}

// next returns the revision of the next change.
func (n *namespace) next() uint64 {
	n.changed = true
	n.meta.revision++
	return n.meta.revision
}

// tableID names a table of the store.
type tableID struct{ namespace, name string }

// table is a table as it is stored.
type table struct {
	ID uint64 `json:"id"` // of its rows; the revision at which it was created
	Definition
	encoded []byte
}

// namedTable is a table of the store, with its name.
type namedTable struct {
	name string
	*table
}

// maxSeen bounds the definitions that a request finds without asking the ledger: it looks at one after the other.
const maxSeen = 8

// forgetSeen is called when the definition of a table changes, or the component of that name.
func (n *namespace) forgetSeen() { n.seen, n.ran = nil, ranComponent{} }

// table returns a table.
func (n *namespace) table(name string) (*table, error) {
	for i := range n.seen {
		if n.seen[i].name == name {
			return n.seen[i].table, nil
		}
	}
	t, err := n.tableNow(name)
	if err == nil && len(n.seen) < maxSeen {
		n.seen = append(n.seen[:len(n.seen):len(n.seen)], namedTable{name, t})
	}
	return t, err
}

// tableNow returns a table as the ledger has it.
func (n *namespace) tableNow(name string) (*table, error) {
	b, there := n.tx.Get(n.tx.Table(tableTable), n.cell, ledger.Key{S: name})
	if !there {
		return nil, Fail(NoTable, "there is no table %q in namespace %s", name, n.name)
	}
	return n.decoded(name, b)
}

// decoded returns a table that is stored so.
func (n *namespace) decoded(name string, b []byte) (*table, error) {
	id := tableID{n.name, name}
	if t := n.app.tables[id]; t != nil && bytes.Equal(t.encoded, b) {
		return t, nil
	}
	t, err := decodeTable(n.name, name, b)
	if err != nil {
		return nil, err
	}
	if len(n.app.tables) >= maxDecoded {
		clear(n.app.tables)
	}
	n.app.tables[id] = t
	return t, nil
}

// decodeTable decodes a table of a namespace or bucket that is stored so.
func decodeTable(ns, name string, b []byte) (*table, error) {
	t := &table{encoded: b}
	if err := json.Unmarshal(b, t); err != nil {
		return nil, damaged("table "+name, ns, err)
	}
	return t, nil
}

// maxDecoded bounds the definitions that are kept decoded.
const maxDecoded = 4096

// rows returns the cell of a table's rows.
func (n *namespace) rows(t *table) ledger.Key { return ledger.Key{A: t.ID, S: n.name} }

// find returns a row, until the next call; false if it is not there.
func (n *namespace) find(t *table, key string) (r stored, there bool, err error) {
	if err := n.has(key); err != nil {
		return stored{}, false, err
	}
	b, there := n.tx.Get(n.rowsTable, n.rows(t), ledger.Key{S: key})
	if !there {
		return stored{columns: n.scratch(t)}, false, nil
	}
	if r, err = decodeRow(b, n.scratch(t)); err != nil {
		err = damaged("row "+strconv.Quote(key), n.name, err)
	}
	return r, true, err
}

// scratch returns columns without values, which are valid until the next call.
func (n *namespace) scratch(t *table) [][]byte {
	columns := n.app.columns[:len(t.Columns)]
	clear(columns)
	return columns
}

// existing is find for a row that must be there.
func (n *namespace) existing(t *table, key string) (stored, error) {
	r, there, err := n.find(t, key)
	if err == nil && !there {
		err = Fail(NotFound, "there is no row %q", key)
	}
	return r, err
}

// put stores a row, with the next version.
func (n *namespace) put(t *table, key string, r *stored, there bool) (version uint64, err error) {
	if size := r.size(); size > MaxRow {
		return 0, Fail(TooLarge, "the row would have %d bytes, %d are possible", size, MaxRow)
	}
	if !there {
		if n.meta.rows++; n.meta.rows > MaxRows {
			return 0, Fail(TooLarge, "namespace %s has %d rows, no more are possible", n.name, MaxRows)
		}
	}
	r.version = n.next()
	b := r.append(n.app.row[:0])
	n.app.row = b
	if err := n.writes(len(key) + len(b)); err != nil {
		return 0, err
	}
	n.tx.Put(n.rowsTable, n.rows(t), ledger.Key{S: key}, b)
	return r.version, nil
}

// changeSize is what a change has in an entry besides its key and value, in bytes, at most.
const changeSize = 160

// writes counts a change of so many bytes.
func (n *namespace) writes(size int) error {
	if n.written += changeSize + size; n.written > MaxWritten {
		return Fail(TooLarge, "the request writes more than %d bytes: write less at a time", MaxWritten)
	}
	return nil
}

// do executes an op.
func (n *namespace) do(o *Op, out *Result) error {
	if o.Kind.LooksAtMany() {
		if n.app.many++; n.app.many > 1 {
			return errMany()
		}
	}
	switch o.Kind {
	case Upload, RemoveComponent, ListComponents, Run:
		return n.onComponent(o, out)
	case CreateTable:
		return n.createTable(o, out)
	case DropTable:
		return n.dropTable(o, out)
	case ListTables:
		return n.listTables(o, out)
	case OpenSession:
		return n.openSession(out)
	case join:
		return n.join(o)
	case adopt:
		return n.adopt(o, out)
	case refuseDrop:
		return errRows(o.Table)
	case CloseSession:
		n.closes = true
		return nil
	}
	t, err := n.table(o.Table)
	if err != nil {
		return err
	}
	switch o.Kind {
	case Get, Resolve:
		return n.get(t, o, out)
	case List:
		return n.list(t, o, out)
	case Delete:
		return n.delete(t, o, out)
	case Add:
		return n.add(t, o, out)
	}
	return n.write(t, o, out)
}

// fits reports whether the answer has room for so many more bytes, and counts them.
func (n *namespace) fits(size int) bool {
	n.read += size
	return n.read <= MaxReply
}

func errReply() error {
	return Fail(TooLarge, "the request reads more than %d bytes: ask for less at a time", MaxReply)
}

// list reads the rows of a range. Rows end early, with Next, where the answer has no room.
func (n *namespace) list(t *table, o *Op, out *Result) error {
	limit := o.Limit
	if limit == 0 {
		limit = MaxPage
	}
	selected, failed := t.selection(o.Only)
	if failed != nil {
		return failed
	}
	from := max(o.Start, o.Prefix)
	out.Rows = []Row{}
	for field, b := range n.tx.FieldsFrom(n.rowsTable, n.rows(t), ledger.Key{S: from}) {
		switch key := field.S; {
		case o.End != "" && key >= o.End || !strings.HasPrefix(key, o.Prefix):
			return nil
		case len(out.Rows) == limit:
			out.Next = key
			return nil
		}
		r, err := decodeRow(b, n.scratch(t))
		if err != nil {
			return damaged("row "+strconv.Quote(field.S), n.name, err)
		}
		row := t.row(field.S, &r, selected)
		if !n.fits(row.size()) {
			if len(out.Rows) == 0 {
				return errReply()
			}
			out.Next = field.S
			return nil
		}
		out.Rows = append(out.Rows, row)
	}
	return nil
}

// holds returns an error if a condition does not hold for a row.
func (c *Condition) holds(t *table, r *stored, there bool) error {
	if c == nil {
		return nil
	}
	if c.Version != nil && *c.Version != r.version {
		return Fail(Conflict, "the row has version %d, not %d", r.version, *c.Version)
	}
	for _, of := range c.Columns {
		name := of.Name
		want, _ := c.Columns.Get(name) // the last one
		i, err := t.index(name)
		switch {
		case err != nil:
			return err
		case !there || r.columns[i] == nil:
			return Fail(Conflict, "the row has no column %q", name)
		case !bytes.Equal(r.columns[i], want):
			return Fail(Conflict, "column %q has another value", name)
		}
	}
	return nil
}

// write executes Create, Put and Update.
func (n *namespace) write(t *table, o *Op, out *Result) error {
	r, there, err := n.find(t, o.Key)
	switch {
	case err != nil:
		return err
	case o.Kind == Create && there:
		return Fail(Exists, "there is a row %q already, with version %d", o.Key, r.version)
	case o.Kind == Update && !there:
		return Fail(NotFound, "there is no row %q", o.Key)
	}
	if err := o.Condition.holds(t, &r, there); err != nil {
		return err
	}
	if o.Kind != Update {
		clear(r.columns)
	}
	for _, c := range o.Columns {
		i, err := t.index(c.Name)
		if err != nil {
			return err
		}
		if r.columns[i] = c.Value; c.Value == nil {
			r.columns[i] = []byte{}
		}
	}
	out.Version, err = n.put(t, o.Key, &r, there)
	return err
}

func (n *namespace) delete(t *table, o *Op, out *Result) error {
	r, err := n.existing(t, o.Key)
	if err != nil {
		return err
	}
	if err := o.Condition.holds(t, &r, true); err != nil {
		return err
	}
	if err := n.writes(len(o.Key)); err != nil {
		return err
	}
	n.meta.rows--
	out.Version = n.next()
	n.tx.Delete(n.rowsTable, n.rows(t), ledger.Key{S: o.Key})
	return nil
}

// add adds to a counter.
func (n *namespace) add(t *table, o *Op, out *Result) error {
	name := o.Column
	if name == "" {
		name = DefaultColumn
	}
	i, failed := t.index(name)
	if failed != nil {
		return failed
	}
	r, there, err := n.find(t, o.Key)
	if err != nil {
		return err
	}
	if err := o.Condition.holds(t, &r, there); err != nil {
		return err
	}
	v := int64(0)
	if r.columns[i] != nil {
		v, err = strconv.ParseInt(string(r.columns[i]), 10, 64)
	}
	switch {
	case err != nil:
		return Fail(WrongType, "column %q is not a decimal number of 64 bits", name)
	case o.Delta > 0 && v > math.MaxInt64-o.Delta || o.Delta < 0 && v < math.MinInt64-o.Delta:
		return Fail(WrongType, "%d and %d is more than 64 bits hold", v, o.Delta)
	}
	out.Value = v + o.Delta
	r.columns[i] = strconv.AppendInt(nil, out.Value, 10)
	out.Version, err = n.put(t, o.Key, &r, there)
	return err
}

func (n *namespace) createTable(o *Op, out *Result) error {
	if _, there := n.tx.Get(n.tx.Table(tableTable), n.cell, ledger.Key{S: o.Table}); there {
		return Fail(Exists, "there is a table %q already", o.Table)
	}
	if n.meta.tables++; n.meta.tables > MaxTables {
		return Fail(TooLarge, "namespace %s has %d tables, no more are possible", n.name, MaxTables)
	}
	d := Definition{Columns: []string{DefaultColumn}}
	if o.Definition != nil {
		d = *o.Definition
	}
	out.Version = n.next()
	b, err := json.Marshal(&table{ID: out.Version, Definition: d})
	if err != nil {
		return err
	}
	n.tx.Put(n.tx.Table(tableTable), n.cell, ledger.Key{S: o.Table}, b)
	n.forgetSeen()
	return nil
}

func (n *namespace) dropTable(o *Op, out *Result) error {
	t, err := n.table(o.Table)
	if err != nil {
		return err
	}
	if n.tx.Count(n.rowsTable, n.rows(t)) > 0 {
		return errRows(o.Table)
	}
	n.meta.tables--
	out.Version = n.next()
	n.tx.Delete(n.tx.Table(tableTable), n.cell, ledger.Key{S: o.Table})
	n.forgetSeen()
	return nil
}

func errRows(table string) error {
	return Fail(Conflict, "table %q has rows: delete them first", table)
}

// listTables reads definitions, as list reads rows.
func (n *namespace) listTables(o *Op, out *Result) error {
	out.Tables = map[string]Table{}
	for field, b := range n.tx.FieldsFrom(n.tx.Table(tableTable), n.cell, ledger.Key{S: o.Start}) {
		t, err := n.decoded(field.S, b)
		if err != nil {
			return err
		}
		if o.Limit > 0 && len(out.Tables) == o.Limit {
			out.Next = field.S
			return nil
		}
		listed := Table{t.ID, t.Definition}
		if !n.fits(listed.size(field.S)) {
			if len(out.Tables) == 0 {
				return errReply()
			}
			out.Next = field.S
			return nil
		}
		out.Tables[field.S] = listed
	}
	return nil
}
