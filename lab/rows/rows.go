// Package rows says which answers of the store are right: it is the model of its rows for porcupine, which checks that
// histories are linearizable (Herlihy and Wing, 1990). It executes nothing.
package rows

import (
	"github.com/anishathalye/porcupine"

	"github.com/holdfast-sdn/holdfast/store"
)

// Access is what a client has done with a row.
type Access struct {
	Kind    store.Kind // Get, Put, Create, Delete, or Update with a condition
	At      string     // namespace and key
	Value   string     // that was written, in the only column
	Version uint64     // of the condition
}

// Told is what the store has answered.
type Told struct {
	Code    store.Code // NotFound, Exists, Conflict, or 0
	Value   string     // that was read
	Version uint64
}

// Answer returns what the outcome of an Access tells.
func Answer(o store.Outcome) Told {
	if o.Error != nil {
		return Told{Code: o.Error.Code}
	}
	t := Told{Version: o.Results[0].Version}
	if row := o.Results[0].Row; row != nil {
		t.Value = string(row.Columns[0].Value)
	}
	return t
}

// Op returns the operation of an access to a row of a table with one column.
func (a *Access) Op(table, key string) store.Op {
	o := store.Op{Kind: a.Kind, Table: table, Key: key}
	if a.Kind == store.Update {
		o.Condition = &store.Condition{Version: &a.Version}
	}
	if a.Kind != store.Get && a.Kind != store.Delete {
		o.Columns = store.Value([]byte(a.Value))
	}
	return o
}

// Draw returns what a client does next with a row of which it has seen a version. n returns a random number below its
// argument.
func Draw(n func(int) int, at, value string, seen uint64) Access {
	a := Access{Kind: store.Get, At: at, Value: value, Version: seen}
	switch n(8) {
	case 0:
		a.Kind = store.Put
	case 1:
		a.Kind = store.Create
	case 2:
		a.Kind = store.Delete
	case 3:
		if seen > 0 {
			a.Kind = store.Update
		}
	}
	return a
}

// register is a row. Versions grow, also when it is deleted and made again, and are otherwise whatever the store says.
type register struct {
	version uint64 // 0: it is not there
	value   string
	last    uint64 // the last version
}

// step returns whether a row answers like that, and what it is then.
func (is register) step(in Access, out Told) (register, bool) {
	there := is.version > 0
	switch out.Code {
	case store.NotFound:
		return is, !there && (in.Kind == store.Get || in.Kind == store.Delete || in.Kind == store.Update)
	case store.Exists:
		return is, there && in.Kind == store.Create
	case store.Conflict:
		return is, in.Kind == store.Update && there && in.Version != is.version
	case 0:
	default:
		return is, false
	}
	switch in.Kind {
	case store.Get:
		return is, there && out.Version == is.version && out.Value == is.value
	case store.Delete:
		return register{last: out.Version}, there && out.Version > is.last
	case store.Create:
		there = !there
	case store.Put:
		there = true
	case store.Update:
		there = there && in.Version == is.version
	}
	return register{out.Version, in.Value, out.Version}, there && out.Version > is.last
}

// Model is that of rows, each of which is checked by itself. The input of an operation is an Access, and its output is
// Told.
var Model = porcupine.Model{
	Partition: func(history []porcupine.Operation) (parts [][]porcupine.Operation) {
		at := map[string]int{}
		for _, o := range history {
			row := o.Input.(Access).At
			i, known := at[row]
			if !known {
				i = len(parts)
				at[row], parts = i, append(parts, nil)
			}
			parts[i] = append(parts[i], o)
		}
		return parts
	},
	Init: func() any { return register{} },
	Step: func(state, input, output any) (bool, any) {
		next, ok := state.(register).step(input.(Access), output.(Told))
		return ok, next
	},
}
