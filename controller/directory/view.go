package directory

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// View is the directory as one replica of the system group has it. The zero View is empty.
type View struct {
	rows   map[ledger.Actor]ledger.Assignment
	pins   map[ledger.Actor]bool
	layout Layout
}

// Layout returns the layout, which later changes of the View do not modify. It has no groups if the cluster has not
// begun.
func (v *View) Layout() Layout { return v.layout }

// Of returns the assignment of an actor. Actors of applications at a switch live with the switch.
func (v *View) Of(a ledger.Actor) (row ledger.Assignment, known bool) {
	if a.Switch != 0 {
		a.App = ""
	}
	row, known = v.rows[a]
	return row, known
}

// OfSwitch returns the assignment of a switch.
func (v *View) OfSwitch(id openflow.DatapathID) (row ledger.Assignment, known bool) {
	return v.Of(ledger.Actor{Shard: ledger.AtSwitch(id)})
}

// Shards returns the shards of an application that have a row, and all switches, in any order.
func (v *View) Shards(app string) (list []ledger.Shard) {
	for a := range v.rows {
		if a.App == "" || a.App == app {
			list = append(list, a.Shard)
		}
	}
	return list
}

// Commit takes the next committed entry of the system group, and returns the actors that have another row now, or are
// pinned or released, and whether the layout has changed.
func (v *View) Commit(entry []byte) (changed []ledger.Actor, laidOut bool, err error) {
	_, err = ledger.Walk(entry, func(r *ledger.Record) error {
		if r.Op != ledger.OpPut && r.Op != ledger.OpDelete || r.Table.App != Name {
			return nil
		}
		if r.Table.Name == pinTable {
			a, err := v.putPin(r.Field, r.Op == ledger.OpPut)
			changed = append(changed, a)
			return err
		}
		if r.Table.Name == layoutTable {
			laidOut = true
			return v.layout.put(r.Cell.A, r.Bytes)
		}
		a, is := actorAt(r.Table.Name, r.Cell, r.Field)
		if !is {
			return nil
		}
		changed = append(changed, a)
		return v.put(a, r.Bytes)
	})
	return changed, laidOut, err
}

// Restore replaces everything by what a snapshot has: the rows of the application's tables, which it sorts.
func (v *View) Restore(rows []ledger.Row) error {
	*v = View{}
	slices.SortFunc(rows, ledger.Row.Compare)
	for _, r := range rows {
		if r.Table == layoutTable {
			if err := v.layout.put(r.Cell.A, r.Value); err != nil {
				return err
			}
		}
		if r.Table == pinTable {
			if _, err := v.putPin(r.Field, true); err != nil {
				return err
			}
		}
		if a, is := actorAt(r.Table, r.Cell, r.Field); is {
			if err := v.put(a, r.Value); err != nil {
				return err
			}
		}
	}
	return nil
}

// actorAt is the inverse of place.
func actorAt(table string, cell, field ledger.Key) (a ledger.Actor, is bool) {
	switch table {
	case switchTable:
		return ledger.Actor{Shard: ledger.AtSwitch(openflow.DatapathID(cell.A))}, true
	case actorTable:
		return ledger.Actor{App: cell.S, Shard: ledger.Shard{Key: field}}, true
	}
	return a, false
}

func (v *View) put(a ledger.Actor, value []byte) error {
	row, err := parseRow(value)
	if err != nil {
		return fmt.Errorf("%v: %w", a, err)
	}
	if v.rows == nil {
		v.rows = map[ledger.Actor]ledger.Assignment{}
	}
	v.rows[a] = row
	return nil
}
