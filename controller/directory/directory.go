// Package directory records which group each switch belongs to. The record is replicated state of the system group, so
// it is one linearizable assignment for the whole cluster: Application is what the ledger of the system group runs, and
// Assign is the request for the first assignment of a switch. View is what one controller knows: it follows the entries
// that its own replica of the system group has committed, and answers without asking anybody.
//
// It has no I/O, clock or lock. It does not know which controllers have a replica of a group, nor who leads: package
// controller sends the requests, and waits for the answers.
package directory

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Name is the name of the application, in the log and in the API.
const Name = "directory"

// MaxSwitches bounds the directory. A further switch is not assigned, and so not served: rows are never removed.
const MaxSwitches = 1 << 16

// Row is the assignment of a switch.
type Row struct {
	Group   uint64
	Version uint64 // from FirstVersion on; it grows when the switch moves to another group
}

// FirstVersion is the version of the first assignment of a switch, and of all switches of a cluster with one group.
const FirstVersion = 1

// Assign is the request to assign a switch that has no row. Groups are those of which the controller that asks has a
// replica, so that it can serve the switch; the first is its home. If the switch has a row, the request changes
// nothing: so it may be lost, repeated, or made by several controllers.
type Assign struct {
	Switch openflow.DatapathID
	Groups []uint64
}

// Append appends the encoding of the request.
func (a Assign) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(a.Switch))
	for _, g := range a.Groups {
		dst = binary.AppendUvarint(dst, g)
	}
	return dst
}

var (
	errRequest = errors.New("the request to the directory is damaged")
	errRow     = errors.New("the row of the directory is damaged")
)

// ParseAssign decodes the output of Assign.Append.
func ParseAssign(b []byte) (Assign, error) {
	if len(b) < 8 {
		return Assign{}, errRequest
	}
	a := Assign{Switch: openflow.DatapathID(binary.BigEndian.Uint64(b))}
	for b = b[8:]; len(b) > 0; {
		g, n := binary.Uvarint(b)
		if n <= 0 {
			return Assign{}, errRequest
		}
		a.Groups, b = append(a.Groups, g), b[n:]
	}
	return a, nil
}

func (r Row) append(dst []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(dst, r.Group), r.Version)
}

func parseRow(b []byte) (Row, error) {
	group, n := binary.Uvarint(b)
	if n <= 0 {
		return Row{}, errRow
	}
	version, m := binary.Uvarint(b[n:])
	if m <= 0 || n+m != len(b) {
		return Row{}, errRow
	}
	return Row{group, version}, nil
}

// The tables. The cell of a switch is its datapath id. The cell of a group is its number, and the value is how many
// switches it has.
const (
	switchTable = "switches"
	groupTable  = "groups"
)

// Application is the directory as an application of the system group.
type Application struct {
	homes int
}

// NewApplication returns the application for home groups 1 to homes.
func NewApplication(homes int) *Application { return &Application{homes} }

// Name implements ledger.Application.
func (*Application) Name() string { return Name }

// Handle implements ledger.Application: it executes requests.
func (a *Application) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if in.Kind != ledger.Request {
		return nil
	}
	want, err := ParseAssign(in.Message)
	if err != nil {
		return err
	}
	rows, groups := tx.Table(switchTable), tx.Table(groupTable)
	cell := ledger.Key{A: uint64(want.Switch)}
	if _, known := tx.Get(rows, cell, ledger.Key{}); known {
		return nil
	}
	loads, all := map[uint64]uint64{}, uint64(0)
	for g := uint64(1); g <= uint64(a.homes); g++ {
		value, _ := tx.Get(groups, ledger.Key{A: g}, ledger.Key{})
		loads[g], _ = binary.Uvarint(value) // 0 without a value
		all += loads[g]
	}
	if all >= MaxSwitches {
		return fmt.Errorf("switch %s: the directory has its maximum of %d switches", want.Switch, MaxSwitches)
	}
	group, ok := choose(want.Groups, loads)
	if !ok {
		return fmt.Errorf("switch %s: groups %v are not among the %d home groups", want.Switch, want.Groups, a.homes)
	}
	tx.Put(rows, cell, ledger.Key{}, Row{Group: group, Version: FirstVersion}.append(nil))
	tx.Put(groups, ledger.Key{A: group}, ledger.Key{}, binary.AppendUvarint(nil, loads[group]+1))
	return nil
}

// choose returns one of the groups for a new switch, where loads is how many switches each home group has. That is the
// first, unless it has over a quarter more than the one of them that has the fewest. Then it is that one. It returns
// false if one of them is no home group, or if there is none.
//
// A switch usually connects to all controllers at once, and then the fastest decides which home comes first: mostly the
// leader of the system group. So the quarter is what that controller may have more than others.
func choose(groups []uint64, loads map[uint64]uint64) (group uint64, ok bool) {
	for i, g := range groups {
		n, is := loads[g]
		if !is {
			return 0, false
		}
		if i == 0 || n < loads[group] {
			group = g
		}
	}
	if len(groups) == 0 {
		return 0, false
	}
	if least := loads[group]; loads[groups[0]] <= least+least/4 {
		group = groups[0]
	}
	return group, true
}
