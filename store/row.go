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

// row converts a row for a client: with all columns, or only some.
func (d *Definition) row(key string, r *stored, only []string) (Row, *Error) {
	out := Row{Key: key, Version: r.version, Columns: map[string][]byte{}}
	if only == nil {
		for i, c := range r.columns {
			if c != nil {
				out.Columns[d.Columns[i]] = c
			}
		}
		return out, nil
	}
	for _, name := range only {
		i, err := d.index(name)
		if err != nil {
			return out, err
		}
		if c := r.columns[i]; c != nil {
			out.Columns[name] = c
		}
	}
	return out, nil
}
