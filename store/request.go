package store

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of a request. What exceeds them fails with TooLarge or Invalid, and changes nothing.
const (
	MaxRequest = 512 << 10 // in bytes
	MaxOps     = 512       // of a request, in all its transactions
	MaxKey     = 512       // of a row, in bytes
	MaxColumns = 64        // of a table
	MaxValue   = 64 << 10  // of a column, in bytes
	MaxRow     = 128 << 10 // in bytes, all columns together
	MaxPage    = 1000      // rows of one list
	MaxTables  = 1024      // of a namespace
	MaxRows    = 100_000   // of a namespace
	MaxWritten = 1 << 20   // of all that one request writes, in bytes, with keys, and 160 for each change
	// MaxReply bounds what one request reads, in bytes. A list ends there, and says where to go on.
	MaxReply = 768 << 10
)

// Kind is what an Op does.
type Kind uint8

// The kinds. Those that create, put, update, delete and add change one row, which gets a new version. A request has at
// most one of list, list_tables and drop_table, which look at many rows or tables.
const (
	Get     Kind = iota + 1 // reads a row, or some of its columns
	List                    // reads the rows of a range, in order
	Resolve                 // reads the row of another table to which a row refers
	Create                  // makes a row that is not there
	Put                     // makes a row, or replaces all of its columns
	Update                  // writes some columns of a row that is there
	Delete                  // removes a row that is there
	Add                     // adds to a column, which is a counter; a row that is not there begins with 0

	CreateTable
	DropTable  // removes a table without rows
	ListTables // reads the definitions of tables, in order

	OpenSession
	CloseSession // ends the session of the request, after it

	Upload          // makes a component, or replaces it
	RemoveComponent // removes one that is there
	ListComponents  // reads components, in the order of their names
	Run             // runs a component, which may do what ops on rows do
)

var kindNames = [...]string{"unspecified", "get", "list", "resolve", "create", "put", "update", "delete", "add",
	"create_table", "drop_table", "list_tables", "open_session", "close_session", "upload", "remove_component",
	"list_components", "run"}

func (k Kind) String() string { return nameOf(kindNames[:], int(k)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprint(i)
}

// Request is what a client asks of a namespace. Its transactions are executed in order. One that is refused changes
// nothing, and does not hold up the next.
type Request struct {
	ID        uint64 // chosen by the client, and returned with the Response
	Namespace string
	// Session, which OpenSession returned, makes a request that writes safe to repeat: the second time it is answered
	// as the first time. Seq numbers the requests of a session from 1. Acked says that the client has the answers to
	// all up to that one; at most Window may be without one.
	Session, Seq, Acked uint64
	// Client is who asks, as the controller that is asked knows it; "" without TLS. A session is for the client that
	// has opened it.
	Client string
	// Transactions are lists of ops, which are executed in order. If one fails, none of its transaction takes effect.
	// An op sees what those before it have written.
	Transactions [][]Op
	// MaxAge above 0 lets any replica answer a request that only reads, from what the namespace had at one time in that
	// last time, in ms. It has no Session then.
	MaxAge uint32
}

// Op is one operation. Which fields it has depends on its kind.
type Op struct {
	Kind       Kind
	Table, Key string // the key of the row: UTF-8; Run: in a namespace with Buckets, one of the bucket

	Columns   Columns    // Create, Put, Update: what is written; Run: the arguments
	Only      []string   // Get, List, Resolve: which columns are read; none: all
	Condition *Condition // Put, Update, Delete, Add, Upload: what must hold before

	Column string // Add: which one; "" is DefaultColumn
	Delta  int64  // Add

	// List: the rows with Start <= key < End that begin with Prefix, at most Limit; "" and 0 are no bound. ListTables
	// and ListComponents have Start and Limit.
	Start, End, Prefix string
	Limit              int

	Definition *Definition // CreateTable; none: one column, DefaultColumn

	Component string // Upload, RemoveComponent, Run: its name
	Source    string // Upload; see package component
}

// Condition must hold for the row before an op changes it, or the op fails with Conflict.
type Condition struct {
	Version *uint64 // of the row; 0: it is not there
	Columns Columns // the row has these, with these values
}

// AfterAll comes after the names of all tables. ListTables from there on reads nothing but the revision.
const AfterAll = "~"

// DefaultColumn is the column of a table that is created without columns.
const DefaultColumn = "value"

// Column is a column of a row.
type Column struct {
	Name  string
	Value []byte
}

// Columns are some columns of a row. If a name is there twice, the last one counts.
type Columns []Column

// Value returns DefaultColumn with a value.
func Value(v []byte) Columns { return Columns{{DefaultColumn, v}} }

// Get returns the value of a column; false if it is not there.
func (c Columns) Get(name string) (value []byte, there bool) {
	for _, c := range c {
		if c.Name == name {
			value, there = c.Value, true
		}
	}
	return value, there
}

// MarshalJSON returns an object, with the values in base64.
func (c Columns) MarshalJSON() ([]byte, error) {
	object := map[string][]byte{}
	for _, c := range c {
		object[c.Name] = c.Value
	}
	return json.Marshal(object)
}

// Definition says what a table has.
type Definition struct {
	Columns []string `json:"columns"`
	// RefersTo is another table: the value of the column Through is the key of a row there (section IV-A). It need not
	// be there, and the other table need not exist yet. Through is the first column unless it is given.
	RefersTo string `json:"refers_to,omitzero"`
	Through  string `json:"through,omitzero"`
}

// Response is the answer to a Request: an Outcome for each transaction.
type Response struct {
	ID       uint64
	Outcomes []Outcome
	Error    *Error // why nothing was executed; if its code is Unknown, it may have been
}

// Outcome is the end of a transaction: a Result for each op, or an error.
type Outcome struct {
	// Revision is that of the namespace: it grows by 1 with each row or table that changes, and is the version of what
	// has changed.
	Revision uint64
	Results  []Result
	Error    *Error
	// Revisions of List in a namespace with Buckets are those of the buckets.
	Revisions []uint64
}

// Result is what an op has read, or the version of what it has written.
type Result struct {
	Version uint64           `json:"version,omitzero"` // of the row or table, or the revision that removed it
	Row     *Row             `json:"row,omitzero"`     // of Get and Resolve; of Run: what it returns
	Rows    []Row            `json:"rows,omitzero"`    // of List; of Run, if it returns several
	Next    string           `json:"next,omitzero"`    // if there is more: Start of the next list
	Value   int64            `json:"value,omitzero"`   // of Add: the sum
	Session uint64           `json:"session,omitzero"` // of OpenSession
	Tables  map[string]Table `json:"tables,omitzero"`  // of ListTables

	Components map[string]Component `json:"components,omitzero"` // of ListComponents
}

// Component is a micro component (section IV-D).
type Component struct {
	Version uint64 `json:"version"`
	Source  string `json:"source"`
}

// Row is one row.
type Row struct {
	Key     string  `json:"key"`
	Version uint64  `json:"version"`
	Columns Columns `json:"columns"`
}

// Table is a table with its version.
type Table struct {
	Version uint64 `json:"version"`
	Definition
}

// Code says what kind of error a request has.
type Code uint8

// The codes.
const (
	Invalid         Code = iota + 1 // the request is not what it should be
	NotFound                        // there is no such row
	Exists                          // there is such a row, or table, already
	Conflict                        // a Condition does not hold, or a table to drop has rows
	NoTable                         // there is no such table
	NoColumn                        // the table has no such column
	WrongType                       // a counter is no number, or would need more than 64 bits
	TooLarge                        // a bound is exceeded
	Expired                         // there is no such session any more
	Outdated                        // the client had acknowledged the answer to this request
	Failed                          // a controller cannot execute the request; the same one fails again
	Unavailable                     // nothing was executed, because nobody leads or too many wait: repeat it
	Unknown                         // it may have been executed: with a session, repeat it
	Forgotten                       // changes that a watch asks for are not known here any more
	ComponentFailed                 // a component has failed, or needs too much
	Denied                          // the client may not do that in this namespace
	SeveralBuckets                  // the rows of the transaction are in several buckets
	NoReplica                       // a watch needs another controller: this one has no replica of a bucket
)

var codeNames = [...]string{"unspecified", "invalid", "not_found", "exists", "conflict", "no_table", "no_column",
	"wrong_type", "too_large", "expired", "outdated", "failed", "unavailable", "unknown", "forgotten",
	"component", "denied", "several_buckets", "no_replica"}

func (c Code) String() string { return nameOf(codeNames[:], int(c)) }

// Error is why a request or a transaction changed nothing.
type Error struct {
	Code    Code
	Message string
	Op      int // index of the op that failed; -1: none of them
}

func (e *Error) Error() string { return e.Message }

// maxMessage bounds the message of an Error, in bytes.
const maxMessage = 512

// Fail returns an Error of no op.
func Fail(code Code, format string, args ...any) *Error {
	e := &Error{code, strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD"), -1}
	e.cut(maxMessage)
	return e
}

// cut shortens the message to so many bytes. It stays UTF-8: clients cannot decode other text.
func (e *Error) cut(size int) {
	if len(e.Message) > size {
		e.Message = strings.ToValidUTF8(e.Message[:max(0, size)], "")
	}
}

// maxName bounds names, in bytes.
const maxName = 128

// isName reports whether a namespace, a table or a column may be called that.
func isName(name string) bool {
	if len(name) == 0 || len(name) > maxName {
		return false
	}
	for i, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_':
		case i > 0 && (c == '.' || c == ':' || c == '-'):
		default:
			return false
		}
	}
	return true
}

const nameRule = "use 1 to 128 of the characters A-Z a-z 0-9 _ . : - and begin with one of the first"

// CheckNamespace returns an error for a name that no namespace can have.
func CheckNamespace(name string) error {
	if !isName(name) && Buckets(name) == 0 {
		return Fail(Invalid, "%q is not the name of a namespace: %s; /N at the end divides it into N buckets, 2 to %d",
			name, nameRule, MaxBuckets)
	}
	return nil
}

// IsText reports whether all texts of an op are UTF-8. Requests with others cannot be decoded.
func (o *Op) IsText() bool {
	ok := utf8.ValidString
	bad := func(s string) bool { return !ok(s) }
	badName := func(c Column) bool { return !ok(c.Name) }
	c, d := o.Condition, o.Definition
	return ok(o.Table) && ok(o.Key) && ok(o.Column) && ok(o.Start) && ok(o.End) && ok(o.Prefix) &&
		ok(o.Component) && ok(o.Source) &&
		!slices.ContainsFunc(o.Only, bad) && !slices.ContainsFunc(o.Columns, badName) &&
		(c == nil || !slices.ContainsFunc(c.Columns, badName)) &&
		(d == nil || ok(d.RefersTo) && ok(d.Through) && !slices.ContainsFunc(d.Columns, bad))
}

// Writes reports whether an op of this kind may change something.
func (k Kind) Writes() bool {
	switch k {
	case Get, List, Resolve, ListTables, ListComponents:
		return false
	}
	return true
}

func errMany() *Error {
	return Fail(Invalid, "a request has at most one of %s, %s, %s and %s, in its components too", List, ListTables,
		ListComponents, DropTable)
}

// LooksAtMany reports whether an op takes time that grows with the table, or the namespace.
func (k Kind) LooksAtMany() bool {
	return k == List || k == ListTables || k == DropTable || k == ListComponents
}

// writes reports whether an op of the request may change something.
func (r *Request) writes() bool {
	return slices.ContainsFunc(r.Transactions, func(ops []Op) bool {
		return slices.ContainsFunc(ops, func(o Op) bool { return o.Kind.Writes() })
	})
}

// check returns an error for a request that cannot be executed as a whole.
func (r *Request) check() *Error {
	ops, many, opens, closes, empty := 0, 0, false, false, false
	for _, transaction := range r.Transactions {
		ops, empty = ops+len(transaction), empty || len(transaction) == 0
		for i := range transaction {
			opens = opens || transaction[i].Kind == OpenSession
			closes = closes || transaction[i].Kind == CloseSession
			if transaction[i].Kind.LooksAtMany() {
				many++
			}
		}
	}
	switch {
	case len(r.Transactions) == 0:
		return Fail(Invalid, "the request has no transactions")
	case empty:
		return Fail(Invalid, "a transaction of the request has no ops")
	case ops > MaxOps:
		return Fail(Invalid, "a request has at most %d ops, this one has %d", MaxOps, ops)
	case many > 1:
		return errMany()
	case r.Session == 0 && closes:
		return Fail(Invalid, "%s is for the session of the request, which has none", CloseSession)
	case r.Session != 0 && opens:
		return Fail(Invalid, "%s is for a request without a session", OpenSession)
	case r.MaxAge > 0 && (r.Session != 0 || r.writes()):
		return Fail(Invalid, "max_age_ms is for a request that only reads, and has no session")
	case (r.Session == 0) != (r.Seq == 0):
		return Fail(Invalid, "session and seq belong together: give both or none")
	case r.Acked >= r.Seq && r.Acked > 0:
		return Fail(Invalid, "acked %d is not below seq %d", r.Acked, r.Seq)
	}
	return nil
}

// check returns an error for an op that cannot be, whatever the namespace has.
func (o *Op) check() *Error {
	if o.Kind >= Upload && o.Kind <= Run {
		return o.checkComponent()
	}
	writes := o.Kind == Create || o.Kind == Put || o.Kind == Update
	changes := writes || o.Kind == Delete || o.Kind == Add
	row := changes || o.Kind == Get || o.Kind == Resolve
	table := row || o.Kind == List || o.Kind == CreateTable || o.Kind == DropTable
	switch {
	case !table && o.Kind != ListTables && o.Kind != OpenSession && o.Kind != CloseSession:
		return Fail(Invalid, "there is no op %s", o.Kind)
	case !table && o.Table != "":
		return Fail(Invalid, "%s has no table", o.Kind)
	case table && !isName(o.Table):
		return Fail(Invalid, "%q is not the name of a table: %s", o.Table, nameRule)
	case row && (o.Key == "" || len(o.Key) > MaxKey):
		return Fail(Invalid, "a key has 1 to %d bytes, this one has %d", MaxKey, len(o.Key))
	case !row && o.Key != "":
		return Fail(Invalid, "%s has no key", o.Kind)
	case !writes && o.Columns != nil:
		return Fail(Invalid, "%s has no columns", o.Kind)
	case writes && len(o.Columns) == 0:
		return Fail(Invalid, "%s needs columns", o.Kind)
	case o.Condition != nil && (!changes || o.Kind == Create):
		return Fail(Invalid, "%s has no condition", o.Kind)
	case len(o.Only) > MaxColumns:
		return Fail(Invalid, "a table has at most %d columns, %d are asked for", MaxColumns, len(o.Only))
	case o.Only != nil && o.Kind != Get && o.Kind != List && o.Kind != Resolve:
		return Fail(Invalid, "%s does not select columns", o.Kind)
	case o.Kind != Add && (o.Column != "" || o.Delta != 0):
		return Fail(Invalid, "%s has no column and delta: they are for add", o.Kind)
	case o.Kind != List && (o.Kind != ListTables && (o.Start != "" || o.Limit != 0) || o.End != "" || o.Prefix != ""):
		return Fail(Invalid, "%s has no range", o.Kind)
	case o.Limit < 0 || o.Limit > MaxPage:
		return Fail(Invalid, "limit %d: a list has at most %d rows, and then next says where the others begin", o.Limit,
			MaxPage)
	case o.Kind != CreateTable && o.Definition != nil:
		return Fail(Invalid, "%s has no definition", o.Kind)
	case o.Component != "" || o.Source != "":
		return Fail(Invalid, "%s has no component", o.Kind)
	}
	return o.checkSizes()
}

func (o *Op) checkSizes() *Error {
	size := 0
	for _, c := range o.Columns {
		if size += len(c.Value); len(c.Value) > MaxValue {
			return Fail(TooLarge, "column %q has %d bytes, %d are possible", c.Name, len(c.Value), MaxValue)
		}
	}
	if size > MaxRow {
		return Fail(TooLarge, "the columns have %d bytes, a row may have %d", size, MaxRow)
	}
	if o.Definition == nil {
		return nil
	}
	return o.Definition.check()
}

func (d *Definition) check() *Error {
	if len(d.Columns) == 0 || len(d.Columns) > MaxColumns {
		return Fail(Invalid, "a table has 1 to %d columns, this one has %d", MaxColumns, len(d.Columns))
	}
	seen := map[string]bool{}
	for _, c := range d.Columns {
		switch {
		case !isName(c):
			return Fail(Invalid, "%q is not the name of a column: %s", c, nameRule)
		case seen[c]:
			return Fail(Invalid, "column %q is there twice", c)
		}
		seen[c] = true
	}
	switch {
	case d.RefersTo != "" && !isName(d.RefersTo):
		return Fail(Invalid, "%q is not the name of a table: %s", d.RefersTo, nameRule)
	case d.Through != "" && (d.RefersTo == "" || !seen[d.Through]):
		return Fail(Invalid, "through %q is for the column of this table whose values are keys of refers_to", d.Through)
	}
	return nil
}
