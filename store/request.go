package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a request. What exceeds them fails with TooLarge or Invalid, and changes nothing.
const (
	MaxOps     = 128       // of a request
	MaxKey     = 512       // of a row, in bytes
	MaxColumns = 64        // of a table
	MaxValue   = 64 << 10  // of a column, in bytes
	MaxRow     = 128 << 10 // in bytes, all columns together
	MaxPage    = 1000      // rows of one list
	MaxTables  = 1024      // of a namespace
	MaxRows    = 100_000   // of a namespace
	MaxWritten = 1 << 20   // of all rows that one request writes, in bytes
	// MaxReply bounds what one request reads, in bytes of JSON. A list ends there, and says where to go on.
	MaxReply = 768 << 10
)

// Kind is what an Op does.
type Kind string

// The kinds. Those that create, put, update, delete and add change one row, which gets a new version. A request has at
// most one of list, list_tables and drop_table, which look at many rows or tables.
const (
	Get     Kind = "get"     // reads a row, or some of its columns
	List    Kind = "list"    // reads the rows of a range, in order
	Resolve Kind = "resolve" // reads the row of another table to which a row refers
	Create  Kind = "create"  // makes a row that is not there
	Put     Kind = "put"     // makes a row, or replaces all of its columns
	Update  Kind = "update"  // writes some columns of a row that is there
	Delete  Kind = "delete"  // removes a row that is there
	Add     Kind = "add"     // adds to a column, which is a counter; a row that is not there begins with 0

	CreateTable Kind = "create_table"
	DropTable   Kind = "drop_table"  // removes a table without rows
	ListTables  Kind = "list_tables" // reads the definitions of tables, in order

	OpenSession  Kind = "open_session"
	CloseSession Kind = "close_session" // ends the session of the request, after it
)

// Request is what a client asks of a namespace. Its ops are executed in order, as one transaction: if one fails, none
// takes effect. An op sees what those before it have written.
type Request struct {
	// Session, which OpenSession returned, makes a request that writes safe to repeat: the second time it is answered
	// as the first time. Seq numbers the requests of a session from 1. Acked says that the client has the answers to
	// all up to that one; at most Window may be without one.
	Session uint64 `json:"session,omitzero"`
	Seq     uint64 `json:"seq,omitzero"`
	Acked   uint64 `json:"acked,omitzero"`
	Ops     []Op   `json:"ops"`
}

// Op is one operation. Which fields it has depends on its kind.
type Op struct {
	Kind  Kind   `json:"op"`
	Table string `json:"table,omitzero"`
	Key   string `json:"key,omitzero"` // of the row: UTF-8

	Columns map[string][]byte `json:"columns,omitzero"` // Create, Put, Update: what is written
	Only    []string          `json:"only,omitzero"`    // Get, List, Resolve: which columns are read; none: all
	If      *Condition        `json:"if,omitzero"`      // Put, Update, Delete, Add: what must hold before

	Column string `json:"column,omitzero"` // Add: which one; "" is DefaultColumn
	Delta  int64  `json:"delta,omitzero"`  // Add

	// List: the rows with From <= key < To that begin with Prefix, at most Limit; "" and 0 are no bound. ListTables has
	// From.
	From   string `json:"from,omitzero"`
	To     string `json:"to,omitzero"`
	Prefix string `json:"prefix,omitzero"`
	Limit  int    `json:"limit,omitzero"`

	Definition *Definition `json:"definition,omitzero"` // CreateTable; none: one column, DefaultColumn
}

// Condition must hold for the row before an op changes it, or the op fails with Conflict.
type Condition struct {
	Version *uint64           `json:"version,omitzero"` // of the row; 0: it is not there
	Columns map[string][]byte `json:"columns,omitzero"` // the row has these, with these values
}

// DefaultColumn is the column of a table that is created without columns.
const DefaultColumn = "value"

// Definition says what a table has.
type Definition struct {
	Columns []string `json:"columns"`
	// RefersTo is another table: the value of the column Through is the key of a row there (section IV-A). It need not
	// be there, and the other table need not exist yet. Through is the first column unless it is given.
	RefersTo string `json:"refers_to,omitzero"`
	Through  string `json:"through,omitzero"`
}

// Response is the answer to a Request that took effect: a Result for each op.
type Response struct {
	// Revision is that of the namespace: it grows by 1 with each row or table that changes, and is the version of what
	// has changed.
	Revision uint64   `json:"revision"`
	Results  []Result `json:"results"`
}

// Result is what an op has read, or the version of what it has written.
type Result struct {
	Version uint64           `json:"version,omitzero"` // of the row or table, or the revision that removed it
	Row     *Row             `json:"row,omitzero"`     // of Get and Resolve
	Rows    []Row            `json:"rows,omitzero"`    // of List
	Next    string           `json:"next,omitzero"`    // if there is more: From of the next list
	Value   int64            `json:"value,omitzero"`   // of Add: the sum
	Session uint64           `json:"session,omitzero"` // of OpenSession
	Tables  map[string]Table `json:"tables,omitzero"`  // of ListTables
}

// Row is one row.
type Row struct {
	Key     string            `json:"key"`
	Version uint64            `json:"version"`
	Columns map[string][]byte `json:"columns"`
}

// Table is a table with its version.
type Table struct {
	Version uint64 `json:"version"`
	Definition
}

// Code says what kind of error a request has.
type Code string

// The codes.
const (
	Invalid   Code = "invalid"    // the request is not what it should be
	NotFound  Code = "not_found"  // there is no such row
	Exists    Code = "exists"     // there is such a row, or table, already
	Conflict  Code = "conflict"   // a Condition does not hold, or a table to drop has rows
	NoTable   Code = "no_table"   // there is no such table
	NoColumn  Code = "no_column"  // the table has no such column
	WrongType Code = "wrong_type" // a counter is no number, or would need more than 64 bits
	TooLarge  Code = "too_large"  // a bound is exceeded
	Expired   Code = "expired"    // there is no such session any more
	Outdated  Code = "outdated"   // the client had acknowledged the answer to this request
	Failed    Code = "failed"     // package client: a controller does not execute it; see the message
)

// Error is why a request changed nothing.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Op      int    `json:"index"` // of the op that failed; -1: none of them
}

func (e *Error) Error() string { return e.Message }

// maxMessage bounds the message of an Error, in bytes.
const maxMessage = 512

func fail(code Code, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return &Error{code, strings.ToValidUTF8(text[:min(len(text), maxMessage)], ""), -1}
}

// names are what namespaces, tables and columns may be called.
var names = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)

const nameRule = "use 1 to 128 of the characters A-Z a-z 0-9 _ . : - and begin with one of the first"

// CheckNamespace returns an error for a name that no namespace can have.
func CheckNamespace(name string) error {
	if !names.MatchString(name) {
		return fail(Invalid, "%q is not the name of a namespace: %s", name, nameRule)
	}
	return nil
}

// Writes reports whether an op of this kind may change something.
func (k Kind) Writes() bool {
	switch k {
	case Get, List, Resolve, ListTables:
		return false
	}
	return true
}

// looksAtMany reports whether an op takes time that grows with the table, or the namespace.
func (k Kind) looksAtMany() bool { return k == List || k == ListTables || k == DropTable }

// parse decodes a request. The error is an *Error.
func parse(body []byte) (r Request, err error) {
	if !utf8.Valid(body) { // else different keys could become one
		return r, fail(Invalid, "the request is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, fail(Invalid, "the request cannot be decoded: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return r, fail(Invalid, "something follows the JSON of the request")
	}
	switch {
	case len(r.Ops) == 0 || len(r.Ops) > MaxOps:
		return r, fail(Invalid, "a request has 1 to %d ops, this one has %d", MaxOps, len(r.Ops))
	case r.Session == 0 && slices.ContainsFunc(r.Ops, func(o Op) bool { return o.Kind == CloseSession }):
		return r, fail(Invalid, "%s is for the session of the request, which has none", CloseSession)
	case (r.Session == 0) != (r.Seq == 0):
		return r, fail(Invalid, "session and seq belong together: give both or none")
	case r.Acked >= r.Seq && r.Acked > 0:
		return r, fail(Invalid, "acked %d is not below seq %d", r.Acked, r.Seq)
	}
	many := 0
	for i := range r.Ops {
		err := r.Ops[i].check()
		if r.Ops[i].Kind.looksAtMany() {
			if many++; many > 1 && err == nil {
				err = fail(Invalid, "a request has at most one of %s, %s and %s", List, ListTables, DropTable)
			}
		}
		if err != nil {
			err.Op = i
			return r, err
		}
	}
	return r, nil
}

// check returns an error for an op that cannot be, whatever the namespace has.
func (o *Op) check() *Error {
	writes := o.Kind == Create || o.Kind == Put || o.Kind == Update
	changes := writes || o.Kind == Delete || o.Kind == Add
	row := changes || o.Kind == Get || o.Kind == Resolve
	table := row || o.Kind == List || o.Kind == CreateTable || o.Kind == DropTable
	switch {
	case !table && o.Kind != ListTables && o.Kind != OpenSession && o.Kind != CloseSession:
		return fail(Invalid, "there is no op %q", o.Kind)
	case !table && o.Table != "":
		return fail(Invalid, "%s has no table", o.Kind)
	case table && !names.MatchString(o.Table):
		return fail(Invalid, "%q is not the name of a table: %s", o.Table, nameRule)
	case row && (o.Key == "" || len(o.Key) > MaxKey):
		return fail(Invalid, "a key has 1 to %d bytes, this one has %d", MaxKey, len(o.Key))
	case !row && o.Key != "":
		return fail(Invalid, "%s has no key", o.Kind)
	case !writes && o.Columns != nil:
		return fail(Invalid, "%s has no columns", o.Kind)
	case writes && len(o.Columns) == 0:
		return fail(Invalid, "%s needs columns", o.Kind)
	case o.If != nil && (!changes || o.Kind == Create):
		return fail(Invalid, "%s has no condition", o.Kind)
	case len(o.Only) > MaxColumns:
		return fail(Invalid, "a table has at most %d columns, %d are asked for", MaxColumns, len(o.Only))
	case o.Only != nil && o.Kind != Get && o.Kind != List && o.Kind != Resolve:
		return fail(Invalid, "%s does not select columns", o.Kind)
	case o.Kind != Add && (o.Column != "" || o.Delta != 0):
		return fail(Invalid, "%s has no column and delta: they are for add", o.Kind)
	case o.Kind != List && (o.From != "" && o.Kind != ListTables || o.To != "" || o.Prefix != "" || o.Limit != 0):
		return fail(Invalid, "%s has no range", o.Kind)
	case o.Limit < 0 || o.Limit > MaxPage:
		return fail(Invalid, "a list has at most %d rows: read the next ones from next on", MaxPage)
	case o.Kind != CreateTable && o.Definition != nil:
		return fail(Invalid, "%s has no definition", o.Kind)
	}
	return o.checkSizes()
}

func (o *Op) checkSizes() *Error {
	size := 0
	for name, value := range o.Columns {
		if size += len(value); len(value) > MaxValue {
			return fail(TooLarge, "column %q has %d bytes, %d are possible", name, len(value), MaxValue)
		}
	}
	if size > MaxRow {
		return fail(TooLarge, "the columns have %d bytes, a row may have %d", size, MaxRow)
	}
	if o.Definition == nil {
		return nil
	}
	return o.Definition.check()
}

func (d *Definition) check() *Error {
	if len(d.Columns) == 0 || len(d.Columns) > MaxColumns {
		return fail(Invalid, "a table has 1 to %d columns, this one has %d", MaxColumns, len(d.Columns))
	}
	seen := map[string]bool{}
	for _, c := range d.Columns {
		switch {
		case !names.MatchString(c):
			return fail(Invalid, "%q is not the name of a column: %s", c, nameRule)
		case seen[c]:
			return fail(Invalid, "column %q is there twice", c)
		}
		seen[c] = true
	}
	switch {
	case d.RefersTo != "" && !names.MatchString(d.RefersTo):
		return fail(Invalid, "%q is not the name of a table: %s", d.RefersTo, nameRule)
	case d.Through != "" && (d.RefersTo == "" || !seen[d.Through]):
		return fail(Invalid, "through %q is for the column of this table whose values are keys of refers_to", d.Through)
	}
	return nil
}
