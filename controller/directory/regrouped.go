package directory

import (
	"fmt"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Regrouped returns the state with which the system group begins if the only group of a cluster with these controllers
// becomes group 1 of several (consensus.Regroup). Group 1 keeps all switches and actors that it has, so it is the group
// of all actors of no switch. The other groups are new. The state is the same wherever it is made.
func Regrouped(controllers []uint64, replication uint64) ([]byte, error) {
	all := slices.Sorted(slices.Values(controllers))
	l := Layout{Adopts: true, Actors: 1}
	for i, id := range all {
		g := Group{Home: id}
		if i == 0 {
			g.Want, g.Have, g.last = all, all, all
		}
		l.Groups = append(l.Groups, g)
	}
	l = l.Place(all, replication)
	core, err := ledger.New([]ledger.Application{founder{l}}, ledger.Limits{})
	if err == nil {
		err = core.Lead(1, 0)
	}
	if err != nil {
		return nil, err
	}
	core.Request(Name, nil)
	entry, _ := core.Cut()
	if failed := core.Failures(); len(failed) > 0 {
		return nil, failed[0].Err
	}
	if err := core.Commit(entry); err != nil {
		return nil, fmt.Errorf("first state of the directory: %w", err)
	}
	return core.Snapshot()
}

// founder is an application that puts a layout.
type founder struct{ layout Layout }

// Name implements ledger.Application.
func (founder) Name() string { return Name }

// Handle implements ledger.Application.
func (f founder) Handle(tx *ledger.Tx, _ *ledger.Input) error {
	saveLayout(tx, f.layout)
	return nil
}
