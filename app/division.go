package app

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// TableOption changes how a table is divided among actors.
type TableOption func(*division)

// Sharded divides a table by its key: cells with equal keys, of any Sharded table of the application, belong to one
// actor, and those with different keys may live in different groups.
func Sharded(d *division) { d.split = byKey }

// Buckets divides a table into n parts by a hash of its key: the keys of one part, of all tables of the application
// with n Buckets, belong to one actor. It is for tables with more keys than there can be actors (1,048,576 in a
// cluster), and for messages that are for Each actor. n is from 1 to 65,536.
func Buckets(n int) TableOption {
	if n < 1 || n > maxBuckets {
		panic(fmt.Sprintf("%d Buckets of a table: from 1 to %d are possible", n, maxBuckets))
	}
	return func(d *division) { d.split, d.buckets = byKey, uint64(n) }
}

// maxBuckets bounds Buckets.
const maxBuckets = 1 << 16

// Together makes the cells of a table that is keyed by a switch, or a port of one, belong to the actor that has all
// cells without a switch. Then a handler may need cells of several switches, or Whole.
func Together(d *division) { d.split = together }

// Remembers keeps up to n values of a Table in memory, decoded, which is for rows that are read often between two
// changes. What a value points to is then shared by all who read it, and by who has put it: do not change it. n is at
// least 1.
func Remembers(n int) TableOption {
	return func(d *division) { d.remembers = n }
}

// division says how a table is divided, and what of it is remembered.
type division struct {
	split     split
	buckets   uint64 // 0: it has none
	remembers int
}

// divide returns how a table with keys of a type is divided.
func divide[K Key](a *App, name string, options []TableOption) (d division) {
	ofSwitches := false
	switch any(*new(K)).(type) {
	case openflow.DatapathID, PortOf:
		ofSwitches, d.split = true, bySwitch
	}
	for _, o := range options {
		o(&d)
	}
	if ofSwitches && d.split == byKey {
		panic(fmt.Sprintf("application %s: table %q is keyed by a switch, so it is divided by switches: leave out "+
			"Sharded and Buckets, or make it Together", a.name, name))
	}
	return d
}

// split says how the cells of a table are divided among actors.
type split uint8

const (
	together split = iota // all belong to one actor
	bySwitch              // the key is a switch, or a port of one
	byKey                 // the key is that of the actor
)

// shard returns the shard that has the cell of a key.
func (s split) shard(k ledger.Key) ledger.Shard {
	switch s {
	case bySwitch:
		return ledger.AtSwitch(Switch(k.A))
	case byKey:
		return ledger.Shard{Key: k}
	}
	return ledger.Shard{}
}

// by says by what the table is divided, for messages.
func (s split) by() string {
	if s == bySwitch {
		return "by switches"
	}
	return "by its keys"
}

// place returns where a row is. With buckets, the cell is the bucket, and the field the key: so a bucket is one cell,
// and B tells it from a key that is a number.
func (d *division) place(k ledger.Key) (cell, field ledger.Key) {
	if d.buckets == 0 {
		return k, ledger.Key{}
	}
	return ledger.Key{A: bucketHash(k) % d.buckets, B: d.buckets}, k
}

// keyAt is the inverse of place.
func (d *division) keyAt(cell, field ledger.Key) ledger.Key {
	if d.buckets == 0 {
		return cell
	}
	return field
}

// bucketHash is part of the format of tables: another one would look for rows where they are not.
func bucketHash(k ledger.Key) uint64 {
	if k.S != "" {
		return xxhash.Sum64String(k.S)
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], k.A) // no key that can have buckets has B
	return xxhash.Sum64(b[:])
}
