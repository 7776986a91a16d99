package store

import (
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/store/component"
)

// scratch is memory that the transactions of an Application use one after the other, because what they need for their
// components would otherwise be half of the garbage. What is taken from it is valid until the next transaction.
type scratch struct {
	text    []byte
	columns Columns
	rows    []Columns // parts of columns that are dictionaries
	only    []string
	op      Op     // of the present call of a component
	result  Result // likewise
	// names are names of columns as values of components. Each has one place, which the next one with that place takes.
	names [64]component.Value
	runs  component.Memory // of the present run
}

// maxScratch bounds the bytes, maxScratchColumns the columns, and maxScratchRows the rows, that are kept for the next
// transaction.
const (
	maxScratch        = 64 << 10
	maxScratchColumns = 1024
	maxScratchRows    = 256
)

// reset is called before a transaction.
func (s *scratch) reset() {
	clear(s.columns)
	clear(s.rows)
	s.text, s.columns, s.rows = s.text[:0], s.columns[:0], s.rows[:0]
	if cap(s.text) > maxScratch {
		s.text = nil
	}
	if cap(s.columns) > maxScratchColumns {
		s.columns = nil
	}
	if cap(s.rows) > maxScratchRows {
		s.rows = nil
	}
}

// name returns the name of a column as a value.
func (s *scratch) name(of string) component.Value {
	if of == "" {
		return of
	}
	at := &s.names[(len(of)+int(of[0])+5*int(of[len(of)-1]))%len(s.names)]
	if known, is := (*at).(string); !is || known != of {
		*at = strings.Clone(of) // without the request that it is a part of
	}
	return *at
}

// dict returns columns as a dictionary. All values are parts of one string, which costs less than many short ones.
func (s *scratch) dict(columns Columns) *component.Dict {
	size := 0
	for _, c := range columns {
		size += len(c.Value)
	}
	var all strings.Builder
	all.Grow(size)
	d := s.runs.Dict(len(columns))
	for _, c := range columns {
		from := all.Len()
		all.Write(c.Value)
		s.runs.SetText(d, s.name(c.Name), all.String()[from:])
	}
	return d
}

// row returns a row that was found as a dictionary. Its columns are copied only if the component reads them.
func (s *scratch) row(r *found) *component.Dict {
	from := len(s.columns)
	s.columns = r.table.appendColumns(s.columns, &r.stored, r.selected)
	own := s.columns[from:len(s.columns):len(s.columns)]
	if severalTimes(r.selected) {
		d := s.dict(own)
		s.columns = s.columns[:from]
		return d
	}
	s.rows = append(s.rows, own)
	return s.runs.Of(&s.rows[len(s.rows)-1])
}

// severalTimes reports whether columns are selected more than once.
func severalTimes(selected []int) bool {
	var seen uint64 // of MaxColumns
	for _, i := range selected {
		if seen&(1<<i) != 0 {
			return true
		}
		seen |= 1 << i
	}
	return false
}

// Len implements component.Fields.
func (c *Columns) Len() int { return len(*c) }

// At implements component.Fields.
func (c *Columns) At(i int) (name string, text []byte) {
	of := &(*c)[i]
	return of.Name, of.Value
}

// columnsOf converts a dictionary of columns, which is not larger than a row.
func (s *scratch) columnsOf(d *component.Dict) (list Columns, err error) {
	if row, is := d.Unread().(*Columns); is {
		return *row, nil
	}
	size, from := 0, len(s.columns)
	for k, e := range d.Entries {
		text, isText := e.Text()
		size += len(text)
		if len(s.columns)-from == MaxColumns || size > MaxRow {
			return nil, Fail(ComponentFailed, "a row has at most %d columns and %d bytes", MaxColumns, MaxRow)
		}
		name, is := k.(string)
		if !is || !isName(name) {
			return nil, Fail(ComponentFailed, "%v is not the name of a column: %s", k, nameRule)
		}
		var b []byte
		if isText {
			b = s.bytesOfText(text)
		} else if b, err = s.bytesOf(e.Value()); err != nil {
			return nil, err
		}
		s.columns = append(s.columns, Column{name, b})
	}
	return s.columns[from:len(s.columns):len(s.columns)], nil
}

// bytesOf converts the value of a column: a string, or a number in decimal.
func (s *scratch) bytesOf(v component.Value) ([]byte, error) {
	from := len(s.text)
	switch v := v.(type) {
	case string:
		return s.bytesOfText(v), nil
	case int64:
		s.text = strconv.AppendInt(s.text, v, 10)
	default:
		return nil, Fail(ComponentFailed, "the value of a column is a string or a number, not a %s",
			component.TypeOf(v))
	}
	return s.text[from:len(s.text):len(s.text)], nil
}

func (s *scratch) bytesOfText(v string) []byte {
	from := len(s.text)
	s.text = append(s.text, v...)
	return s.text[from:len(s.text):len(s.text)]
}
