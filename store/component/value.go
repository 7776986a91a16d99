package component

import (
	"cmp"
	"strconv"
	"strings"

	"go.starlark.net/syntax"
)

// Value is nil (None), bool, int64, string, *List, Tuple, *Dict, or one that only the interpreter has.
type Value any

// List is a list.
type List struct {
	Items   []Value
	looping int // how many loops are over it; it does not change meanwhile
}

// Tuple is a tuple.
type Tuple []Value

// Dict is a dictionary, whose keys are strings, numbers and truth values. It keeps their order.
type Dict struct {
	index   map[Value]int // in entries; nil: there are at most unindexed of them
	entries []Entry
	removed int      // how many entries are
	looping int      // as in List
	few     [2]Entry // where entries are at first: most dictionaries are that small
	unread  Fields   // which it has, instead of entries; see read
	texts   string   // of unread, one after the other, once they are copied
	copied  bool     // because one of them was read
}

// Entry is one of a Dict.
type Entry struct {
	key, value Value
	removed    bool
}

// numbers is range(…): numbers that are not stored.
type numbers struct{ start, stop, step int64 }

func (r numbers) len() int64 {
	switch {
	case r.step > 0 && r.start < r.stop:
		return int64((uint64(r.stop)-uint64(r.start)-1)/uint64(r.step)) + 1
	case r.step < 0 && r.start > r.stop:
		return int64((uint64(r.start)-uint64(r.stop)-1)/(-uint64(r.step))) + 1
	}
	return 0
}

// function is one of the component.
type function syntax.DefStmt

// host is the predeclared name of what Host does.
type host struct{}

const hostName = "store"

// unindexed is how many entries a dictionary has at most without an index. Rows and arguments are that small, and then
// an index costs more than all else that is done with them.
const unindexed = 8

// NewDict returns an empty dictionary, with room for so many entries.
func NewDict(room int) *Dict {
	d := new(Dict)
	if d.entries = d.few[:0]; room > len(d.few) {
		d.entries = make([]Entry, 0, room)
	}
	return d
}

// Len returns how many entries there are.
func (d *Dict) Len() int {
	if d.unread != nil {
		return d.unread.Len()
	}
	return len(d.entries) - d.removed
}

// place returns where a key is in entries; -1 if it is not there.
func (d *Dict) place(key Value) int {
	if d.index != nil {
		if i, there := d.index[key]; there {
			return i
		}
		return -1
	}
	s, is := key.(string)
	for i := range d.entries {
		e := &d.entries[i]
		if is {
			if other, also := e.key.(string); also && other == s {
				return i
			}
		} else if e.key == key && !e.removed {
			return i
		}
	}
	return -1
}

// empty makes the dictionary as NewDict makes it.
func (d *Dict) empty() {
	clear(d.entries)
	if d.entries = d.entries[:0]; cap(d.entries) > maxKeptEntries {
		d.entries = nil
	}
	d.index, d.removed, d.looping = nil, 0, 0
	d.unread, d.texts, d.copied = nil, "", false
}

// Get returns the value of a key.
func (d *Dict) Get(key Value) (Value, bool) {
	if d.unread != nil {
		return d.text(key)
	}
	i := d.place(key)
	if i < 0 {
		return nil, false
	}
	return d.entries[i].Value(), true
}

// Value returns the value.
func (e *Entry) Value() Value {
	if t, is := e.value.(*text); is {
		e.value = t.s
	}
	return e.value
}

// Text returns the value if it is a string.
func (e *Entry) Text() (s string, is bool) {
	if t, unread := e.value.(*text); unread {
		return t.s, true
	}
	s, is = e.value.(string)
	return s, is
}

// Set sets the value of a key, which must be a string, int64 or bool.
func (d *Dict) Set(key, value Value) {
	d.read()
	if i := d.place(key); i >= 0 {
		d.entries[i].value = value
		return
	}
	d.entries = append(d.entries, Entry{key: key, value: value})
	switch {
	case d.index != nil:
		d.index[key] = len(d.entries) - 1
	case len(d.entries) > unindexed:
		d.index = map[Value]int{}
		for i, e := range d.entries {
			if !e.removed {
				d.index[e.key] = i
			}
		}
	}
}

// All yields the entries in the order in which they were added.
func (d *Dict) All(yield func(key, value Value) bool) {
	d.read()
	for i := range d.entries {
		if e := &d.entries[i]; !e.removed && !yield(e.key, e.Value()) {
			return
		}
	}
}

// Entries yields them in the same order, for who needs strings as such.
func (d *Dict) Entries(yield func(key Value, e *Entry) bool) {
	d.read()
	for i := range d.entries {
		if e := &d.entries[i]; !e.removed && !yield(e.key, e) {
			return
		}
	}
}

func (d *Dict) remove(key Value) {
	d.read()
	i := d.place(key)
	if i < 0 {
		return
	}
	delete(d.index, key)
	d.entries[i] = Entry{removed: true}
	if d.removed++; d.removed <= len(d.entries)/2 {
		return
	}
	kept := d.entries[:0]
	for _, e := range d.entries {
		if !e.removed {
			if d.index != nil {
				d.index[e.key] = len(kept)
			}
			kept = append(kept, e)
		}
	}
	clear(d.entries[len(kept):])
	d.entries, d.removed = kept, 0
}

// TypeOf names the type of a value, as type() does.
func TypeOf(v Value) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64:
		return "int"
	case string:
		return "string"
	case *List:
		return "list"
	case Tuple:
		return "tuple"
	case *Dict:
		return "dict"
	case numbers:
		return "range"
	case host:
		return hostName
	}
	return "function"
}

// truth is bool().
func truth(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case Tuple:
		return len(v) > 0
	case *Dict:
		return v.Len() > 0
	case numbers:
		return v.len() > 0
	}
	return true
}

// key returns v if it can be one of a dictionary.
func (m *machine) key(v Value) Value {
	switch s := v.(type) {
	case string:
		m.work(len(s))
		return v
	case int64, bool:
		return v
	}
	m.fail("a key of a dictionary is a string or a number, not a %s", TypeOf(v))
	return nil
}

// equal is ==.
func (m *machine) equal(a, b Value) bool {
	m.step(1)
	switch a := a.(type) {
	case nil, bool, int64, host, numbers:
		return a == b
	case string:
		b, is := b.(string)
		m.work(min(len(a), len(b)))
		return is && a == b
	case *List:
		b, is := b.(*List)
		return is && m.equalAll(a.Items, b.Items)
	case Tuple:
		b, is := b.(Tuple)
		return is && m.equalAll(a, b)
	case *Dict:
		b, is := b.(*Dict)
		if !is || a.Len() != b.Len() {
			return false
		}
		for k, v := range a.All {
			if other, there := b.Get(m.key(k)); !there || !m.deeper(func() bool { return m.equal(v, other) }) {
				return false
			}
		}
		return true
	case *function:
		b, is := b.(*function)
		return is && a == b
	}
	return false
}

func (m *machine) equalAll(a, b []Value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !m.deeper(func() bool { return m.equal(a[i], b[i]) }) {
			return false
		}
	}
	return true
}

// deeper does something with what is in a value. A value may contain itself.
func (m *machine) deeper(f func() bool) bool {
	if m.depth++; m.depth > maxDepth {
		m.fail("values are nested too deeply")
	}
	defer func() { m.depth-- }()
	return f()
}

// compare orders two values of the same type.
func (m *machine) compare(a, b Value) int {
	m.step(1)
	switch a := a.(type) {
	case int64:
		if b, is := b.(int64); is {
			return cmp.Compare(a, b)
		}
	case string:
		if b, is := b.(string); is {
			m.work(min(len(a), len(b)))
			return strings.Compare(a, b)
		}
	case Tuple:
		if b, is := b.(Tuple); is {
			return m.compareAll(a, b)
		}
	case *List:
		if b, is := b.(*List); is {
			return m.compareAll(a.Items, b.Items)
		}
	}
	m.fail("%s and %s have no order", TypeOf(a), TypeOf(b))
	return 0
}

func (m *machine) compareAll(a, b []Value) (order int) {
	for i := range min(len(a), len(b)) {
		m.deeper(func() bool {
			if !m.equal(a[i], b[i]) {
				order = m.compare(a[i], b[i])
			}
			return true
		})
		if order != 0 {
			return order
		}
	}
	return cmp.Compare(len(a), len(b))
}

// text is str().
func (m *machine) text(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return m.grown(strconv.FormatInt(v, 10))
	}
	var b strings.Builder
	m.write(&b, v)
	return b.String()
}

// write appends repr() of a value.
func (m *machine) write(b *strings.Builder, v Value) {
	m.step(1)
	start := b.Len()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case string:
		m.grow(4 * len(v)) // at most
		b.WriteString(strconv.Quote(v))
	case *List:
		m.writeAll(b, "[", v.Items, "]")
		return
	case Tuple:
		end := ")"
		if len(v) == 1 {
			end = ",)"
		}
		m.writeAll(b, "(", v, end)
		return
	case *Dict:
		b.WriteByte('{')
		first := true
		for k, value := range v.All {
			if !first {
				b.WriteString(", ")
			}
			first = false
			m.deeper(func() bool {
				m.write(b, k)
				b.WriteString(": ")
				m.write(b, value)
				return true
			})
		}
		b.WriteByte('}')
		return
	default:
		b.WriteString("<" + TypeOf(v) + ">")
	}
	m.grow(b.Len() - start)
}

func (m *machine) writeAll(b *strings.Builder, open string, items []Value, end string) {
	b.WriteString(open)
	for i, v := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		m.deeper(func() bool { m.write(b, v); return true })
	}
	b.WriteString(end)
	m.grow(2*len(items) + 2)
}
