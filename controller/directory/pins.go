package directory

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// The table of pins has the actors that are pinned. They are fields of cell 0: an actor, encoded, without a value. The
// table is apart from the rows, which change with each move, and which not every actor has.

// pinField is the field of an actor in the table of pins.
func pinField(a ledger.Actor) ledger.Key { return ledger.Key{S: string(a.Append(nil))} }

func (d *Application) pin(tx *ledger.Tx, r Pin) error {
	table, field := tx.Table(pinTable), pinField(r.Actor)
	_, pinned := tx.Get(table, ledger.Key{}, field)
	switch {
	case pinned == r.Pinned:
	case !r.Pinned:
		tx.Delete(table, ledger.Key{}, field)
	default:
		n := 0
		for range tx.Fields(table, ledger.Key{}) {
			n++
		}
		if n >= MaxPins {
			return fmt.Errorf("pin %v: the directory has its maximum of %d pinned actors", r.Actor, MaxPins)
		}
		tx.Put(table, ledger.Key{}, field, nil)
	}
	return nil
}

// Pinned reports whether an actor is pinned to the group in which it lives.
func (v *View) Pinned(a ledger.Actor) bool { return v.pins[a] }

// putPin takes a row of the table of pins.
func (v *View) putPin(field ledger.Key, pinned bool) (ledger.Actor, error) {
	a, rest, err := ledger.ParseActor([]byte(field.S))
	if err != nil || len(rest) > 0 {
		return a, errRow
	}
	if v.pins == nil {
		v.pins = map[ledger.Actor]bool{}
	}
	if v.pins[a] = true; !pinned {
		delete(v.pins, a)
	}
	return a, nil
}
