package oracle

import (
	"cmp"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/controller/audit"
)

// residences say where actors have lived, and as what: their arrivals in each group, in the order of its log.
type residences map[residence][]arrival

type residence struct {
	actor string
	group uint64
}

type arrival struct {
	index   uint64
	version uint64
}

// firstVersion is that of an actor which has not moved.
const firstVersion = 1

func residencesOf(records []audit.Record) residences {
	all := residences{}
	for _, r := range records {
		if r.Kind == audit.Arrived {
			k := residence{r.Actor, r.Group}
			all[k] = append(all[k], arrival{r.Index, r.Seq})
		}
	}
	return all
}

// mover returns the name of the actor with which an actor moves: its switch, or itself. See ledger.Actor.String.
func mover(actor string) string {
	if i := strings.LastIndex(actor, " at switch "); i >= 0 {
		return actor[i+len(" at "):]
	}
	return actor
}

// version returns the version that an actor has in a group at an entry of its log.
func (all residences) version(actor string, r audit.Record) uint64 {
	version := uint64(firstVersion)
	for _, a := range all[residence{mover(actor), r.Group}] {
		if a.index <= r.Index {
			version = a.version
		}
	}
	return version
}

// order sorts records of one stream as they followed each other: the end that they are of, which is the sender if from
// is true, has moved from group to group.
func (all residences) order(list []audit.Record, from bool) {
	slices.SortStableFunc(list, func(a, b audit.Record) int {
		sender, receiver, _ := strings.Cut(a.Stream, " to ")
		actor := receiver
		if from {
			actor = sender
		}
		return cmp.Compare(all.version(actor, a), all.version(actor, b))
	})
}

// ofSwitch is version for the switch that a record is of.
func (all residences) ofSwitch(r audit.Record) uint64 {
	return all.version("switch "+r.Switch.String(), r)
}

// orderSwitches sorts the events and commands of each switch as they followed each other: the switch has moved from
// group to group.
func orderSwitches(records []audit.Record) {
	all := residencesOf(records)
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(records, func(a, b audit.Record) int {
		return cmp.Or(cmp.Compare(a.Switch, b.Switch), cmp.Compare(all.ofSwitch(a), all.ofSwitch(b)))
	})
}
