package store

import (
	"encoding/binary"
	"errors"
	"slices"
)

// A stored row is
//
//	version uvarint | for each column that it has: index in the definition, plus 1, uvarint | length uvarint, value
//
// with the columns in the order of the definition.

// stored is a decoded row: its columns by their index, nil where there is none. They alias what was decoded.
type stored struct {
	version uint64
	columns [][]byte
}

var errDamagedRow = errors.New("a stored row is damaged")

// decodeRow is the inverse of append. It sets columns, which are nil and as many as the table has.
func decodeRow(b []byte, columns [][]byte) (r stored, err error) {
	r.columns = columns
	version, n := binary.Uvarint(b)
	if n <= 0 {
		return r, errDamagedRow
	}
	r.version, b = version, b[n:]
	for last := uint64(0); len(b) > 0; {
		i, n := binary.Uvarint(b)
		if n <= 0 || i <= last || i > uint64(len(columns)) {
			return r, errDamagedRow
		}
		size, m := binary.Uvarint(b[n:])
		if m <= 0 || size > uint64(len(b)-n-m) {
			return r, errDamagedRow
		}
		b = b[n+m:]
		r.columns[i-1], b, last = b[:size:size], b[size:], i
	}
	return r, nil
}

func (r *stored) append(b []byte) []byte {
	b = binary.AppendUvarint(b, r.version)
	for i, c := range r.columns {
		if c != nil {
			b = binary.AppendUvarint(b, uint64(i)+1)
			b = append(binary.AppendUvarint(b, uint64(len(c))), c...)
		}
	}
	return b
}

// size is that of the columns, in bytes.
func (r *stored) size() (n int) {
	for _, c := range r.columns {
		n += len(c)
	}
	return n
}

// index returns where a column is in a definition.
func (d *Definition) index(column string) (int, *Error) {
	i := slices.Index(d.Columns, column)
	if i < 0 {
		return 0, Fail(NoColumn, "there is no column %q: the table has %v", column, d.Columns)
	}
	return i, nil
}

// everyColumn is 0, 1, 2, …
var everyColumn = func() (list [MaxColumns]int) {
	for i := range list {
		list[i] = i
	}
	return list
}()

// selection returns the indexes of columns, which are not to be modified; nil are all.
func (d *Definition) selection(only []string) (list []int, err *Error) {
	if only == nil {
		return everyColumn[:len(d.Columns)], nil
	}
	list = make([]int, 0, len(only))
	for _, name := range only {
		i, err := d.index(name)
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// row converts a row for a client, with the selected columns.
func (d *Definition) row(key string, r *stored, selected []int) Row {
	return Row{Key: key, Version: r.version, Columns: d.appendColumns(make(Columns, 0, len(selected)), r, selected)}
}

// appendColumns appends the selected columns of a row.
func (d *Definition) appendColumns(to Columns, r *stored, selected []int) Columns {
	for _, i := range selected {
		if c := r.columns[i]; c != nil {
			to = append(to, Column{d.Columns[i], c})
		}
	}
	return to
}

// size is that of the encoded row in a result, at most.
func (d *Definition) size(key string, r *stored, selected []int) int {
	n := rowSize + len(key)
	for _, i := range selected {
		if c := r.columns[i]; c != nil {
			n += columnSize + len(d.Columns[i]) + len(c)
		}
	}
	return n
}

// size is that of an encoded row in a result, at most.
func (r *Row) size() int {
	n := rowSize + len(r.Key)
	for _, c := range r.Columns {
		n += columnSize + len(c.Name) + len(c.Value)
	}
	return n
}

// rowSize is what an encoded row has besides its key and columns, and columnSize what a column has besides its name and
// value, in bytes, at most.
const (
	rowSize    = 32
	columnSize = 12
)

// size is that of an encoded table in a result, at most.
func (t *Table) size(name string) int {
	n := 48 + len(name) + len(t.RefersTo) + len(t.Through)
	for _, c := range t.Columns {
		n += 4 + len(c)
	}
	return n
}
