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

// Assign is the request to assign a switch that has no row. Home is the home group of the controller that asks. If the
// switch has a row, the request changes nothing: so it may be lost, repeated, or made by several controllers.
type Assign struct {
	Switch openflow.DatapathID
	Home   uint64
}

// Append appends the encoding of the request.
func (a Assign) Append(dst []byte) []byte {
	return binary.AppendUvarint(binary.BigEndian.AppendUint64(dst, uint64(a.Switch)), a.Home)
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
	home, n := binary.Uvarint(b[8:])
	if n != len(b)-8 {
		return Assign{}, errRequest
	}
	return Assign{Switch: openflow.DatapathID(binary.BigEndian.Uint64(b)), Home: home}, nil
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
	loads, all := make([]uint64, a.homes), uint64(0)
	for i := range loads {
		value, _ := tx.Get(groups, ledger.Key{A: uint64(i) + 1}, ledger.Key{})
		loads[i], _ = binary.Uvarint(value) // 0 without a value
		all += loads[i]
	}
	switch {
	case want.Home < 1 || want.Home > uint64(a.homes):
		return fmt.Errorf("switch %s: group %d is no home; there are %d", want.Switch, want.Home, a.homes)
	case all >= MaxSwitches:
		return fmt.Errorf("switch %s: the directory has its maximum of %d switches", want.Switch, MaxSwitches)
	}
	group := choose(want.Home, loads)
	tx.Put(rows, cell, ledger.Key{}, Row{Group: group, Version: FirstVersion}.append(nil))
	tx.Put(groups, ledger.Key{A: group}, ledger.Key{}, binary.AppendUvarint(nil, loads[group-1]+1))
	return nil
}

// choose returns the group of a new switch, where loads[g-1] is how many switches group g has. That is home, unless
// home has more than a quarter more than the group that has the fewest. Then it is that one, and of equals the first.
//
// A switch usually connects to all controllers at once, and then the fastest decides which home asks: mostly the leader
// of the system group. So the slack is what that controller may have more than others.
func choose(home uint64, loads []uint64) uint64 {
	least := 0
	for i, n := range loads {
		if n < loads[least] {
			least = i
		}
	}
	if loads[home-1] > loads[least]+loads[least]/4 {
		return uint64(least) + 1
	}
	return home
}
