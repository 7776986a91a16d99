// Package directory records which group each actor lives in, the switches and what applications have elsewhere, and
// which controllers have a replica of each group. The record is replicated state of the system group, so it is one
// linearizable assignment for the whole cluster: Application is what the ledger of the system group runs, and Assign,
// Moved, Place, Reached, Adopt and Pin are its requests. View is what one controller knows: it follows the entries that
// its own replica of the system group has committed, and answers without asking anybody.
//
// It has no I/O, clock or lock. It does not know who leads: package controller sends the requests, waits for their
// effects, and brings about what the record says of replicas. It moves no actor: the group in which an actor lives does
// that (see ledger.Core.Move), and a row may be older than the truth.
package directory

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Name is the name of the application, in the log and in the API.
const Name = "directory"

// MaxSwitches and MaxActors bound the directory. What exceeds them is not assigned, and so not served: rows are never
// removed. No more than MaxPins actors are pinned.
const (
	MaxSwitches = 1 << 16
	MaxActors   = 1 << 20
	MaxPins     = 1 << 12
	// MaxActorBytes bounds the names and keys of all actors together: clients choose the keys. Those of rows that an
	// earlier release has made are not counted.
	MaxActorBytes = 96 << 20
)

// FirstVersion is the version of the first assignment of an actor. That of a switch may be higher; see Assign and
// Adopt.
const FirstVersion = 1

// The tables. The layout is Layout.append in cell 0, and Group.append in the cell of each home group. The cell of a
// switch is its datapath id. The cell of another actor is the name of its application, and the field is its key. The
// cell of a group is its number, and the value is how many switches it has. The counts are how many actors there are
// besides, and how many bytes their names and keys have. See pins.go for the table of pins.
const (
	switchTable = "switches"
	actorTable  = "actors"
	groupTable  = "groups"
	countTable  = "counts"
	layoutTable = "layout"
	pinTable    = "pins"
)

// The cells of counts.
var (
	actorsCell = ledger.Key{}
	bytesCell  = ledger.Key{A: 1}
)

// place returns where the row of an actor is.
func place(a ledger.Actor) (table string, cell, field ledger.Key) {
	if a.App == "" {
		return switchTable, ledger.Key{A: uint64(a.Switch)}, ledger.Key{}
	}
	return actorTable, ledger.Key{S: a.App}, a.Key
}

// Application is the directory as an application of the system group. The zero Application is ready to use.
type Application struct{}

// Name implements ledger.Application.
func (*Application) Name() string { return Name }

// Handle implements ledger.Application: it executes requests.
func (d *Application) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if in.Kind != ledger.Request {
		return nil
	}
	r, err := parse(in.Message)
	switch r := r.(type) {
	case Assign:
		return d.assign(tx, r)
	case Moved:
		return d.moved(tx, r)
	case Place:
		l, err := load(tx)
		if err == nil {
			saveLayout(tx, l.Place(r.Controllers, r.Replication))
		}
		return err
	case Adopt:
		return d.adopt(tx, r)
	case Pin:
		return d.pin(tx, r)
	case Reached:
		l, err := load(tx)
		if g, ok := l.Of(r.Group); ok && err == nil {
			save(tx, r.Group, g.reached(r.Replicas).append(nil))
		}
		return err
	}
	return err
}

func (d *Application) assign(tx *ledger.Tx, r Assign) error {
	l, err := load(tx)
	if err != nil || len(l.Groups) == 0 || l.Adopts {
		return err // the cluster has not begun yet: the request is repeated
	}
	for _, n := range r.Groups {
		if g, is := l.Of(n); !is || len(g.Have) == 0 {
			return fmt.Errorf("group %d is not among the home groups that have begun", n)
		}
	}
	for _, a := range r.Actors {
		table, cell, field := place(a)
		if _, known := tx.Get(tx.Table(table), cell, field); known {
			continue
		}
		if err := d.first(tx, a, r.Groups, l, uint64(r.Claimed)+1); err != nil {
			return err
		}
	}
	return nil
}

// first assigns an actor that has no row to one of the groups. version is that of a switch.
func (d *Application) first(tx *ledger.Tx, a ledger.Actor, groups []uint64, l Layout, version uint64) error {
	group, err := groups[0], error(nil)
	if a.App == "" {
		group, err = d.switchGroup(tx, a, groups, l)
	} else {
		version, err = FirstVersion, d.count(tx, a)
	}
	if err == nil {
		put(tx, a, ledger.Assignment{Group: group, Version: version})
	}
	return err
}

func (d *Application) adopt(tx *ledger.Tx, r Adopt) error {
	l, err := load(tx)
	if err != nil || !l.Adopts {
		return err
	}
	for _, a := range r.Actors {
		table, cell, field := place(a)
		if _, adopted := tx.Get(tx.Table(table), cell, field); adopted {
			continue
		}
		if err := d.first(tx, a, []uint64{1}, l, adopted(tx.Now())); err != nil {
			return err
		}
	}
	if l.Adopts = len(r.Actors) > 0; !l.Adopts {
		save(tx, 0, l.append(nil))
	}
	return nil
}

// adopted returns the version of a switch that a cluster of one group brings along: the day, counted from 2020. The
// switch has accepted a lower one, or the same few, as long as it moves less than once a day on average over all
// clusters in which it has been.
func adopted(now time.Time) uint64 {
	return max(FirstVersion, uint64(max(0, now.Sub(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))/(24*time.Hour))))
}

// switchGroup returns the group of a new switch, which it counts.
func (d *Application) switchGroup(tx *ledger.Tx, a ledger.Actor, groups []uint64, l Layout) (uint64, error) {
	table := tx.Table(groupTable)
	loads, all := map[uint64]uint64{}, uint64(0)
	for _, g := range l.Numbers() {
		loads[g] = number(tx, table, ledger.Key{A: g})
		all += loads[g]
	}
	if all >= MaxSwitches {
		return 0, fmt.Errorf("%v: the directory has its maximum of %d switches", a, MaxSwitches)
	}
	group := choose(groups, loads)
	tx.Put(table, ledger.Key{A: group}, ledger.Key{}, binary.AppendUvarint(nil, loads[group]+1))
	return group, nil
}

func (d *Application) count(tx *ledger.Tx, a ledger.Actor) error {
	table := tx.Table(countTable)
	actors, bytes := number(tx, table, actorsCell)+1, number(tx, table, bytesCell)+uint64(len(a.App)+len(a.Key.S))
	if actors > MaxActors {
		return fmt.Errorf("%v: the directory has its maximum of %d actors", a, MaxActors)
	}
	if bytes > MaxActorBytes {
		return fmt.Errorf("%v: the directory has its maximum of %d bytes of names and keys of actors: use shorter keys",
			a, MaxActorBytes)
	}
	tx.Put(table, actorsCell, ledger.Key{}, binary.AppendUvarint(nil, actors))
	tx.Put(table, bytesCell, ledger.Key{}, binary.AppendUvarint(nil, bytes))
	return nil
}

func (d *Application) moved(tx *ledger.Tx, r Moved) error {
	if l, err := load(tx); err != nil || r.Group < 1 || r.Group > uint64(len(l.Groups)) {
		return cmp.Or(err, fmt.Errorf("%v has moved to group %d, and there is none", r.Actor, r.Group))
	}
	table, cell, field := place(r.Actor)
	value, known := tx.Get(tx.Table(table), cell, field)
	old := ledger.Assignment{}
	if known {
		var err error
		if old, err = parseRow(value); err != nil || old.Version >= r.Version {
			return err
		}
	}
	switch {
	case r.Actor.App == "":
		d.countSwitch(tx, old.Group, r.Group)
	case !known:
		if err := d.count(tx, r.Actor); err != nil {
			return err
		}
	}
	put(tx, r.Actor, r.Assignment)
	return nil
}

// countSwitch notes that a switch has moved from a group, which is 0 if it had none, to another.
func (d *Application) countSwitch(tx *ledger.Tx, from, to uint64) {
	table := tx.Table(groupTable)
	change := func(group, by uint64) {
		n := number(tx, table, ledger.Key{A: group}) + by
		tx.Put(table, ledger.Key{A: group}, ledger.Key{}, binary.AppendUvarint(nil, n))
	}
	if change(to, 1); from != 0 {
		change(from, ^uint64(0))
	}
}

func put(tx *ledger.Tx, a ledger.Actor, row ledger.Assignment) {
	table, cell, field := place(a)
	tx.Put(tx.Table(table), cell, field, appendRow(nil, row))
}

func number(tx *ledger.Tx, t *ledger.Table, cell ledger.Key) uint64 {
	value, _ := tx.Get(t, cell, ledger.Key{})
	n, _ := binary.Uvarint(value) // 0 without a value
	return n
}

func saveLayout(tx *ledger.Tx, l Layout) {
	save(tx, 0, l.append(nil))
	for i, g := range l.Groups {
		save(tx, uint64(i)+1, g.append(nil))
	}
}

// load returns the layout.
func load(tx *ledger.Tx) (l Layout, err error) {
	t := tx.Table(layoutTable)
	for cell := uint64(0); err == nil; cell++ {
		value, ok := tx.Get(t, ledger.Key{A: cell}, ledger.Key{})
		if !ok {
			break
		}
		err = l.put(cell, value)
	}
	return l, err
}

// save puts a row of the layout if it has changed.
func save(tx *ledger.Tx, cell uint64, value []byte) {
	t, key := tx.Table(layoutTable), ledger.Key{A: cell}
	if old, ok := tx.Get(t, key, ledger.Key{}); !ok || !bytes.Equal(old, value) {
		tx.Put(t, key, ledger.Key{}, value)
	}
}

// choose returns one of the groups for a new switch, where loads is how many switches each home group has. That is the
// first, unless it has over a quarter more than the one of them that has the fewest. Then it is that one.
//
// A switch usually connects to all controllers at once, and then the fastest decides which home comes first: mostly the
// leader of the system group. So the quarter is what that controller may have more than others.
func choose(groups []uint64, loads map[uint64]uint64) (group uint64) {
	group = groups[0]
	for _, g := range groups {
		if loads[g] < loads[group] {
			group = g
		}
	}
	if least := loads[group]; loads[groups[0]] <= least+least/4 {
		group = groups[0]
	}
	return group
}
