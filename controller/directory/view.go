package directory

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// View is the directory as one replica of the system group has it. The zero View is empty.
type View struct {
	rows map[openflow.DatapathID]Row
}

// Of returns the row of a switch.
func (v *View) Of(id openflow.DatapathID) (row Row, known bool) {
	row, known = v.rows[id]
	return row, known
}

// Commit takes the next committed entry of the system group, and reports whether it has changed a row.
func (v *View) Commit(entry []byte) (changed bool, err error) {
	_, err = ledger.Walk(entry, func(r *ledger.Record) error {
		if r.Op != ledger.OpPut || r.Table != (ledger.TableName{App: Name, Name: switchTable}) {
			return nil
		}
		changed = true
		return v.put(r.Cell, r.Bytes)
	})
	return changed, err
}

// Restore replaces all rows by those of a snapshot: the rows of the application's tables.
func (v *View) Restore(rows []ledger.Row) error {
	v.rows = nil
	for _, r := range rows {
		if r.Table != switchTable {
			continue
		}
		if err := v.put(r.Cell, r.Value); err != nil {
			return err
		}
	}
	return nil
}

func (v *View) put(cell ledger.Key, value []byte) error {
	row, err := parseRow(value)
	if err != nil {
		return fmt.Errorf("switch %s: %w", openflow.DatapathID(cell.A), err)
	}
	if v.rows == nil {
		v.rows = map[openflow.DatapathID]Row{}
	}
	v.rows[openflow.DatapathID(cell.A)] = row
	return nil
}
