package app

import (
	"fmt"
	"iter"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Reader takes the rows of one table; see Read.
type Reader struct {
	table string
	take  func(ledger.Row) error
}

// Each returns a Reader that calls do with each value of the table.
func (t Table[K, V]) Each(do func(K, V)) Reader {
	return Reader{t.name, func(r ledger.Row) error {
		var v V
		err := t.parse(r.Value, &v)
		if err == nil {
			do(fromKey[K](t.keyAt(r.Cell, r.Field)), v)
		}
		return err
	}}
}

// Each returns a Reader that calls do with each value of the map.
func (m Map[K, F, V]) Each(do func(K, F, V)) Reader {
	return Reader{m.name, func(r ledger.Row) error {
		var v V
		err := m.parse(r.Value, &v)
		if err == nil {
			do(fromKey[K](r.Cell), fromKey[F](r.Field), v)
		}
		return err
	}}
}

// Read hands the rows of an application's tables, in any order, to the readers of their tables. It is for those who
// look at tables from outside, without a transaction. Rows of a table that no reader takes are left out. The error
// names the table whose row is not of its type: another release of the application has written it.
func Read(rows iter.Seq[ledger.Row], readers ...Reader) error {
	take := map[string]func(ledger.Row) error{}
	for _, r := range readers {
		take[r.table] = r.take
	}
	for r := range rows {
		if f := take[r.Table]; f != nil {
			if err := f(r); err != nil {
				return fmt.Errorf("table %s: %w", r.Table, err)
			}
		}
	}
	return nil
}
