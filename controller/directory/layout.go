package directory

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/placement"
)

// Layout says which home groups there are, and where. The zero Layout is that of a cluster that has not begun.
type Layout struct {
	// Adopts is set until all switches and actors that group 1 has from a cluster of one group are assigned to it; see
	// Regrouped. Until then none is assigned.
	Adopts bool
	// Actors is how many groups share the actors that belong to no switch and have not moved: groups 1 to Actors, those
	// with which the cluster began. It does not change, because then they would live elsewhere.
	Actors      uint64
	Replication uint64   // replicas of a home group; 0: one on each controller
	Controllers []uint64 // that may have replicas, by id
	Groups      []Group  // home groups 1, 2, …; none is ever removed, because switches may live there
}

// Group is where a home group is, and where it is to be. Replicas have ids as wire.ReplicaID; a controller has at most
// one in each list, and the lists are in the order of the controllers.
type Group struct {
	Home uint64 // the controller that leads it if it can
	Want []uint64
	// Have are replicas that may be members of the Raft group. If there are none, the group has not begun: then its
	// home begins it alone.
	Have []uint64
	last []uint64 // the last replica that each controller has had
}

// Settled reports whether the group has the replicas that it is to have.
func (g Group) Settled() bool { return slices.Equal(g.Want, g.Have) }

// At returns the replica of a controller; 0 if it is to have none.
func (g Group) At(controller uint64) uint64 { return at(g.Want, controller) }

// MayHave returns the replica that a controller may have, also if it is to give it up; 0: none.
func (g Group) MayHave(controller uint64) uint64 {
	return cmp.Or(at(g.Want, controller), at(g.Have, controller))
}

// Newest returns the last replica that a controller is known to have had; 0 if it is not in the cluster or had none.
func (g Group) Newest(controller uint64) uint64 { return at(g.last, controller) }

// Members returns the controllers that have a replica, or may have one, in order.
func (g Group) Members() (controllers []uint64) {
	for _, r := range merge(g.Have, g.Want) {
		controllers = append(controllers, wire.ControllerOf(r))
	}
	return controllers
}

// Settled reports whether all groups are.
func (l Layout) Settled() bool {
	return !slices.ContainsFunc(l.Groups, func(g Group) bool { return !g.Settled() })
}

// Numbers returns the numbers of all groups.
func (l Layout) Numbers() (all []uint64) {
	for i := range l.Groups {
		all = append(all, uint64(i)+1)
	}
	return all
}

// Of returns a home group.
func (l Layout) Of(number uint64) (g Group, ok bool) {
	if number == 0 || number > uint64(len(l.Groups)) {
		return Group{}, false
	}
	return l.Groups[number-1], true
}

// Place returns the layout for these controllers, which is how a cluster begins if there is none yet. The groups whose
// home has left get those with the fewest homes. A controller without a home takes a group from one with several, or
// gets a new group.
func (l Layout) Place(controllers []uint64, replication uint64) Layout {
	begins := len(l.Groups) == 0
	next := Layout{Adopts: l.Adopts, Actors: l.Actors, Replication: replication,
		Controllers: slices.Sorted(slices.Values(controllers)),
		Groups:      slices.Clone(l.Groups)}
	next.assignHomes()
	n := len(next.Controllers)
	if replication > 0 {
		n = int(min(replication, uint64(n)))
	}
	for i := range next.Groups {
		g := &next.Groups[i]
		moved := i < len(l.Groups) && l.Groups[i].Home != g.Home
		*g = g.place(placement.Replicas(uint64(i)+1, g.Home, next.Controllers, n), next.Controllers, moved)
		if begins {
			g.Have = g.Want
		}
	}
	if begins {
		next.Actors = uint64(len(next.Groups))
	}
	return next
}

// assignHomes gives each group a home among the controllers, and each controller a group.
func (l *Layout) assignHomes() {
	homes := map[uint64]int{}
	for _, g := range l.Groups {
		homes[g.Home]++
	}
	byHomes := func(a, b uint64) int { return cmp.Or(cmp.Compare(homes[a], homes[b]), cmp.Compare(a, b)) }
	give := func(g *Group, to uint64) {
		homes[g.Home]--
		homes[to]++
		g.Home = to
	}
	for i := range l.Groups {
		if g := &l.Groups[i]; !slices.Contains(l.Controllers, g.Home) {
			give(g, slices.MinFunc(l.Controllers, byHomes))
		}
	}
	for _, id := range l.Controllers {
		if homes[id] > 0 {
			continue
		}
		if rich := slices.MaxFunc(l.Controllers, byHomes); homes[rich] > 1 {
			i := len(l.Groups) - 1
			for l.Groups[i].Home != rich {
				i--
			}
			give(&l.Groups[i], id)
			continue
		}
		l.Groups = append(l.Groups, Group{Home: id})
		homes[id] = 1
	}
}

// place returns the group with replicas on these controllers, of all that the cluster has. moved says that it has
// another home than before. Nobody knows how far a group is that has not begun, so it gets new replicas then.
func (g Group) place(on, all []uint64, moved bool) Group {
	anew := len(g.Have) == 0 && (moved || !g.same(on))
	var want []uint64
	for _, id := range on {
		r := at(g.Want, id)
		if r == 0 || anew {
			r = g.fresh(id)
		}
		want = append(want, r)
	}
	next := Group{Home: g.Home, Want: want, Have: g.Have}
	if len(g.Have) > 0 && !slices.Equal(want, g.Want) {
		next.Have = merge(g.Have, g.Want)
	}
	for _, r := range merge(g.last, want) { // an id of a controller that has left is not used again
		if slices.Contains(all, wire.ControllerOf(r)) {
			next.last = append(next.last, r)
		}
	}
	return next
}

// same reports whether the group is to be on these controllers.
func (g Group) same(on []uint64) bool {
	return slices.EqualFunc(g.Want, on, func(r, id uint64) bool { return wire.ControllerOf(r) == id })
}

// fresh returns the id of a replica that the controller has never had.
func (g Group) fresh(controller uint64) uint64 {
	last := at(g.last, controller)
	if last == 0 {
		return controller
	}
	return wire.ReplicaID(controller, wire.Number(last)+1)
}

// reached returns the group with the replicas that its leader says it has, if these are those that it is to have.
func (g Group) reached(replicas []uint64) Group {
	if slices.Equal(replicas, g.Want) {
		g.Have = g.Want
	}
	return g
}

// at returns the replica of a controller in a list; 0 if there is none.
func at(list []uint64, controller uint64) uint64 {
	for _, r := range list {
		if wire.ControllerOf(r) == controller {
			return r
		}
	}
	return 0
}

// merge returns the replicas of both lists, and the newer one of a controller with two.
func merge(a, b []uint64) (both []uint64) {
	for _, r := range slices.Concat(a, b) {
		i, found := slices.BinarySearchFunc(both, wire.ControllerOf(r), func(r, id uint64) int {
			return cmp.Compare(wire.ControllerOf(r), id)
		})
		if found {
			both[i] = max(both[i], r)
		} else {
			both = slices.Insert(both, i, r)
		}
	}
	return both
}

// The layout in tables: the group with number n is the cell n of the table of groups, and the rest is the cell 0.

var errLayout = errors.New("the layout in the directory is damaged")

func appendIDs(dst []byte, ids []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = binary.AppendUvarint(dst, id)
	}
	return dst
}

// reader decodes numbers; after the first error it returns zeros.
type reader struct {
	b   []byte
	err error
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.err = nil, errLayout
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) ids() (ids []uint64) {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.err = errLayout
		return nil
	}
	for range n {
		ids = append(ids, r.uvarint())
	}
	return ids
}

func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return errLayout
	}
	return r.err
}

// append encodes the layout without its groups.
func (l Layout) append(dst []byte) []byte {
	adopts := uint64(0)
	if l.Adopts {
		adopts = 1
	}
	dst = binary.AppendUvarint(dst, adopts)
	return appendIDs(binary.AppendUvarint(binary.AppendUvarint(dst, l.Actors), l.Replication), l.Controllers)
}

// parse replaces the layout but for its groups.
func (l *Layout) parse(b []byte) error {
	r := reader{b: b}
	adopts := r.uvarint()
	l.Adopts, l.Actors, l.Replication, l.Controllers = adopts == 1, r.uvarint(), r.uvarint(), r.ids()
	if adopts > 1 {
		return errLayout
	}
	return r.end()
}

func (g Group) append(dst []byte) []byte {
	dst = appendIDs(appendIDs(binary.AppendUvarint(dst, g.Home), g.Want), g.Have)
	return appendIDs(dst, g.last)
}

func parseGroup(b []byte) (Group, error) {
	r := reader{b: b}
	g := Group{r.uvarint(), r.ids(), r.ids(), r.ids()}
	return g, r.end()
}

// put replaces a row of the layout. Rows come in the order of their cells, or replace others.
func (l *Layout) put(cell uint64, value []byte) error {
	if cell == 0 {
		return l.parse(value)
	}
	g, err := parseGroup(value)
	switch n := uint64(len(l.Groups)); {
	case err != nil:
		return err
	case cell > n+1:
		return errLayout
	case cell == n+1:
		l.Groups = append(slices.Clone(l.Groups), g)
	default:
		l.Groups = slices.Clone(l.Groups) // others may read them
		l.Groups[cell-1] = g
	}
	return nil
}
