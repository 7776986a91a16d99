package app

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"

	"github.com/holdfast-sdn/holdfast/internal/codec"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// PortOf names a port in the whole network.
type PortOf struct {
	Switch Switch
	Port   Port
}

// Compare orders ports by switch, then by number.
func (p PortOf) Compare(o PortOf) int {
	return cmp.Or(cmp.Compare(p.Switch, o.Switch), cmp.Compare(p.Port, o.Port))
}

// Key is what a table may be keyed by.
type Key interface {
	string | uint64 | uint32 | openflow.DatapathID | of13.Port | of13.MAC | PortOf
}

// Table is a dictionary of one value for each key. Each key is a cell.
type Table[K Key, V any] struct{ *dictionary[V] }

// NewTable adds a table to an application. Numbers, strings, byte slices, switches, ports and
// Ethernet addresses are stored as they are, other values as CBOR (RFC 8949).
//
// What is keyed by a switch or a port lives in the group of that switch, unless the table is Together. All other cells
// of an application live together, unless a table is Sharded or has Buckets.
func NewTable[K Key, V any](a *App, name string, options ...TableOption) Table[K, V] {
	return Table[K, V]{newDictionary[V](a, name, divide[K](a, name, options))}
}

// Cell names the cell of a key, for Need. In a table with Buckets, that is the bucket of the key.
func (t Table[K, V]) Cell(k K) Cell {
	cell, _ := t.place(toKey(k))
	return t.cell(cell)
}

// Get returns the value at k, if there is one.
func (t Table[K, V]) Get(tx *Tx, k K) (V, bool) {
	cell, field := t.place(toKey(k))
	return t.get(tx, cell, field)
}

// Put stores v at k.
func (t Table[K, V]) Put(tx *Tx, k K, v V) {
	cell, field := t.place(toKey(k))
	t.put(tx, cell, field, v)
}

// Delete removes what is at k.
func (t Table[K, V]) Delete(tx *Tx, k K) {
	cell, field := t.place(toKey(k))
	t.delete(tx, cell, field)
}

// All yields the rows of the actor, in order of their keys, or in a table with Buckets of these first. The handler
// needs Whole or Each of the table.
func (t Table[K, V]) All(tx *Tx) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		tx.useAll(t.part())
		rows := tx.ledger.Table(t.name)
		for cell := range tx.ledger.Cells(rows, t.self.owner(tx)) {
			for field, b := range tx.ledger.Fields(rows, cell) {
				if !yield(fromKey[K](t.keyAt(cell, field)), t.must(b, cell)) {
					return
				}
			}
		}
	}
}

// Map is a dictionary of dictionaries: each key is a cell, which holds a value for each
// field. Writing one field logs only that field.
type Map[K, F Key, V any] struct{ *dictionary[V] }

// NewMap adds a map to an application; see NewTable.
func NewMap[K, F Key, V any](a *App, name string, options ...TableOption) Map[K, F, V] {
	d := divide[K](a, name, options)
	if d.buckets > 0 || d.remembers > 0 {
		panic(fmt.Sprintf("application %s: map %q has Buckets or Remembers: only a Table can have them", a.name, name))
	}
	var k K
	var f F
	if _, is := any(k).(Switch); is {
		if _, is := any(f).(MAC); is {
			a.hosts = append(a.hosts, name)
		}
	}
	return Map[K, F, V]{newDictionary[V](a, name, d)}
}

// Cell names the cell of a key, for Need.
func (m Map[K, F, V]) Cell(k K) Cell { return m.cell(toKey(k)) }

// Keys yields the keys of the actor, in order. The handler needs Whole or Each of the map.
func (m Map[K, F, V]) Keys(tx *Tx) iter.Seq[K] {
	return func(yield func(K) bool) {
		tx.useAll(m.part())
		for cell := range tx.ledger.Cells(tx.ledger.Table(m.name), m.self.owner(tx)) {
			if !yield(fromKey[K](cell)) {
				return
			}
		}
	}
}

// Get returns the value of field f at k, if there is one.
func (m Map[K, F, V]) Get(tx *Tx, k K, f F) (V, bool) { return m.get(tx, toKey(k), toKey(f)) }

// Put stores v in field f at k.
func (m Map[K, F, V]) Put(tx *Tx, k K, f F, v V) { m.put(tx, toKey(k), toKey(f), v) }

// Delete removes field f at k.
func (m Map[K, F, V]) Delete(tx *Tx, k K, f F) { m.delete(tx, toKey(k), toKey(f)) }

// All yields the fields at k, in order.
func (m Map[K, F, V]) All(tx *Tx, k K) iter.Seq2[F, V] {
	return func(yield func(F, V) bool) {
		tx.use(m.Cell(k))
		for key, b := range tx.ledger.Fields(tx.ledger.Table(m.name), toKey(k)) {
			if !yield(fromKey[F](key), m.must(b, toKey(k))) {
				return
			}
		}
	}
}

// dictionary is what tables and maps share.
type dictionary[V any] struct {
	name string
	division
	stored[V]
	self   part
	memory memory[V]
	box    *V // is given to the codec, for which a value must not be on the stack
}

func newDictionary[V any](a *App, name string, d division) *dictionary[V] {
	if strings.HasPrefix(name, reserved) {
		panic(fmt.Sprintf("application %s: table %q: names that begin with %q are reserved", a.name, name, reserved))
	}
	if _, there := a.tables[name]; there {
		panic(fmt.Sprintf("application %s: table %q is there twice", a.name, name))
	}
	a.tables[name] = d.split
	return &dictionary[V]{name: name, division: d, stored: storedAs[V](), self: part{name, d.split},
		memory: memory[V]{most: d.remembers}, box: new(V)}
}

func (d *dictionary[V]) cell(key ledger.Key) Cell { return Cell{&d.self, key} }

// part implements Dictionary.
func (d *dictionary[V]) part() *part { return &d.self }

func (d *dictionary[V]) get(tx *Tx, cell, field ledger.Key) (v V, ok bool) {
	tx.use(d.cell(cell))
	b, ok := tx.ledger.Get(tx.ledger.Table(d.name), cell, field)
	if !ok {
		return v, false
	}
	if known := d.memory.recall(d.keyAt(cell, field), b); known != nil {
		return *known, true
	}
	v = d.must(b, cell)
	d.memory.keep(d.keyAt(cell, field), b, v)
	return v, true
}

func (d *dictionary[V]) put(tx *Tx, cell, field ledger.Key, v V) {
	tx.use(d.cell(cell))
	*d.box = v
	tx.scratch = d.append(tx.scratch[:0], d.box)
	var none V
	*d.box = none
	table := tx.ledger.Table(d.name)
	if tx.ledger.Put(table, cell, field, tx.scratch); d.remembers > 0 {
		b, _ := tx.ledger.Get(table, cell, field)
		d.memory.keep(d.keyAt(cell, field), b, v)
	}
}

func (d *dictionary[V]) delete(tx *Tx, cell, field ledger.Key) {
	tx.use(d.cell(cell))
	tx.ledger.Delete(tx.ledger.Table(d.name), cell, field)
}

// must decodes a stored value. It panics, which fails the handler, if another release of the application has stored a
// value of another type.
func (d *dictionary[V]) must(b []byte, cell ledger.Key) V {
	var none V
	*d.box = none // an encoder that has panicked left its value
	err := d.parse(b, d.box)
	v := *d.box
	if *d.box = none; err != nil {
		panic(fmt.Sprintf("value of cell %s is not a %T: %v: give the new type a new table", d.cell(cell), v,
			err))
	}
	return v
}

func toKey[K Key](k K) ledger.Key {
	switch k := any(k).(type) {
	case string:
		return ledger.Key{S: k}
	case uint64:
		return ledger.Key{A: k}
	case uint32:
		return ledger.Key{A: uint64(k)}
	case openflow.DatapathID:
		return ledger.Key{A: uint64(k)}
	case of13.Port:
		return ledger.Key{A: uint64(k)}
	case of13.MAC:
		return ledger.Key{A: uint64(binary.BigEndian.Uint32(k[:4]))<<16 | uint64(binary.BigEndian.Uint16(k[4:]))}
	case PortOf:
		return ledger.Key{A: uint64(k.Switch), B: uint64(k.Port)}
	}
	panic("unreachable: not a Key")
}

// fromKey is the inverse of toKey. K has to be the table's type: nothing in the key tells.
func fromKey[K Key](key ledger.Key) (k K) {
	switch p := any(&k).(type) {
	case *string:
		*p = key.S
	case *uint64:
		*p = key.A
	case *uint32:
		*p = uint32(key.A)
	case *openflow.DatapathID:
		*p = openflow.DatapathID(key.A)
	case *of13.Port:
		*p = of13.Port(key.A)
	case *of13.MAC:
		binary.BigEndian.PutUint32(p[:4], uint32(key.A>>16))
		binary.BigEndian.PutUint16(p[4:], uint16(key.A))
	case *PortOf:
		*p = PortOf{Switch(key.A), Port(key.B)}
	}
	return k
}

// stored is how a V is stored as bytes.
type stored[V any] struct {
	append func(dst []byte, v *V) []byte
	parse  func(b []byte, v *V) error // v is zero
}

// storedAs picks that when the table is made, so that no reflection is needed for
// plain values later.
func storedAs[V any]() stored[V] {
	var v V
	var plain any
	switch any(v).(type) {
	case uint64:
		plain = number[uint64]()
	case uint32:
		plain = number[uint32]()
	case uint16:
		plain = number[uint16]()
	case int64:
		plain = number[int64]()
	case int:
		plain = number[int]()
	case of13.Port:
		plain = number[of13.Port]()
	case openflow.DatapathID:
		plain = number[openflow.DatapathID]()
	case string:
		plain = stored[string]{
			func(dst []byte, v *string) []byte { return append(dst, *v...) },
			func(b []byte, v *string) error { *v = string(b); return nil },
		}
	case []byte:
		plain = stored[[]byte]{
			func(dst []byte, v *[]byte) []byte { return append(dst, *v...) },
			func(b []byte, v *[]byte) error { *v = bytes.Clone(b); return nil }, // the stored one must not change
		}
	case of13.MAC:
		plain = stored[of13.MAC]{
			func(dst []byte, v *of13.MAC) []byte { return append(dst, v[:]...) },
			func(b []byte, v *of13.MAC) error {
				if copy(v[:], b) != len(b) || len(b) != len(v) {
					return fmt.Errorf("%d bytes are not an Ethernet address", len(b))
				}
				return nil
			},
		}
	default:
		c := codec.Of[V]()
		return stored[V]{
			func(dst []byte, v *V) []byte {
				dst, err := c.Append(dst, v)
				if err != nil {
					panic(fmt.Sprintf("value of type %T cannot be stored: %v", *v, err))
				}
				return dst
			},
			c.Parse,
		}
	}
	return plain.(stored[V])
}

func number[N ~uint16 | ~uint32 | ~uint64 | ~int | ~int64]() stored[N] {
	return stored[N]{
		func(dst []byte, v *N) []byte { return binary.AppendUvarint(dst, uint64(*v)) },
		func(b []byte, v *N) error {
			u, n := binary.Uvarint(b)
			if n != len(b) || n <= 0 || uint64(N(u)) != u {
				return fmt.Errorf("%d bytes are not such a number", len(b))
			}
			*v = N(u)
			return nil
		},
	}
}
