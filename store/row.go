package store

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
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

// decodeRow is the inverse of append, for a table with so many columns.
func decodeRow(b []byte, columns int) (r stored, err error) {
	r.columns = make([][]byte, columns)
	version, n := binary.Uvarint(b)
	if n <= 0 {
		return r, errDamagedRow
	}
	r.version, b = version, b[n:]
	for last := uint64(0); len(b) > 0; {
		i, n := binary.Uvarint(b)
		if n <= 0 || i <= last || i > uint64(columns) {
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
		return 0, fail(NoColumn, "there is no column %q: the table has %v", column, d.Columns)
	}
	return i, nil
}

// selection returns the indexes of columns; nil are all.
func (d *Definition) selection(only []string) (list []int, err *Error) {
	if only == nil {
		for i := range d.Columns {
			list = append(list, i)
		}
		return list, nil
	}
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
	out := Row{Key: key, Version: r.version, Columns: map[string][]byte{}}
	for _, i := range selected {
		if c := r.columns[i]; c != nil {
			out.Columns[d.Columns[i]] = c
		}
	}
	return out
}

// encodedSize is how long a row is in JSON, at most.
func (r *Row) encodedSize() int {
	n := 64 + encodedLen(r.Key)
	for name, c := range r.Columns {
		n += len(name) + base64.StdEncoding.EncodedLen(len(c)) + 6
	}
	return n
}

// encodedLen is how long a text is in JSON, at most.
func encodedLen(text string) int {
	n := len(text) + 2
	for _, c := range []byte(text) {
		if c < ' ' || c >= 0x7f || strings.IndexByte(`"\<>&`, c) >= 0 {
			n += 5 // as \u0000
		}
	}
	return n
}
