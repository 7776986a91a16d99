package app

import (
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Group is a Raft group in which actors live, by its number. It is led by one of the controllers.
type Group uint64

// Place makes choose decide in which group a new actor lives. key is that of the actor, and K the type of the keys of
// the application's Sharded tables; of tables with Buckets it is the number of the bucket, a uint64. groups are those
// that have a leader now. The first one is where the first message for the actor is; it also takes the place of an
// answer that is not among them. Without Place every actor lives there.
//
// choose is called by any controller, in any goroutine, and several times if controllers need the actor at the same
// time; the first answer that is committed counts. It must return at once, and should depend on its arguments only. If
// it panics, the actor gets the first of the groups. It is not called for actors without a key: see holdfast move.
func Place[K Key](a *App, choose func(key K, groups []Group) Group) {
	a.place = func(key ledger.Key, groups []Group) Group { return choose(fromKey[K](key), groups) }
}

// Sticky makes the actors of the application stay where they are: the optimizer does not move them, and an operator
// may. It is for actors that are near something that the optimizer does not see. It returns the application.
func (a *App) Sticky() *App {
	a.sticky = true
	return a
}

// Stays implements ledger.Placer.
func (a *App) Stays() bool { return a.sticky }

// Place implements ledger.Placer.
func (a *App) Place(at ledger.Shard, groups []uint64) (group uint64) {
	if a.place == nil || at.Key == (ledger.Key{}) {
		return 0
	}
	defer func() {
		if recover() != nil {
			group = 0
		}
	}()
	var among []Group
	for _, g := range groups {
		among = append(among, Group(g))
	}
	if group = uint64(a.place(at.Key, among)); !slices.Contains(groups, group) {
		group = 0
	}
	return group
}
