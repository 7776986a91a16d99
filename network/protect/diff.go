package protect

import (
	"cmp"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Change is what turns one program into another, applied in the order of its fields, and of each. Nothing refers to a
// group that does not exist, and a packet matches either the old entry or the new one.
type Change struct {
	AddGroups    []GroupID
	Add          []Entry
	Set          []Entry // existing ones that get another action
	Delete       []Entry
	DeleteGroups []GroupID // Live last, because others watch it
}

// Empty reports whether there is nothing to do.
func (c Change) Empty() bool {
	return len(c.AddGroups)+len(c.Add)+len(c.Set)+len(c.Delete)+len(c.DeleteGroups) == 0
}

// Diff returns what turns old into new.
func Diff(old, new Program) Change {
	var c Change
	c.entries(old.Entries, new.Entries)
	merge(old.Groups, new.Groups, cmp.Compare, func(was, is *GroupID) {
		switch {
		case was == nil:
			c.AddGroups = append(c.AddGroups, *is)
		case is == nil:
			c.DeleteGroups = append(c.DeleteGroups, *was)
		}
	})
	slices.Reverse(c.DeleteGroups)
	return c
}

// entries adds the differences of two lists. Deletions are in ascending priority: a tagged packet that comes back by
// the primary needs the entry for such packets as long as there is one for tagged packets.
func (c *Change) entries(old, new []Entry) {
	first := len(c.Delete)
	merge(old, new, compareEntries, func(was, is *Entry) {
		switch {
		case was == nil:
			c.Add = append(c.Add, *is)
		case is == nil:
			c.Delete = slices.Insert(c.Delete, first, *was)
		case *was != *is:
			c.Set = append(c.Set, *is)
		}
	})
}

// merge calls found for each element of two sorted slices, with nil where there is none.
func merge[T any](old, new []T, compare func(a, b T) int, found func(was, is *T)) {
	for i, j := 0, 0; i < len(old) || j < len(new); {
		side := 0
		switch {
		case i == len(old):
			side = 1
		case j == len(new):
			side = -1
		default:
			side = compare(old[i], new[j])
		}
		var was, is *T
		if side <= 0 {
			was, i = &old[i], i+1
		}
		if side >= 0 {
			is, j = &new[j], j+1
		}
		found(was, is)
	}
}

// SwitchChange is what changes at a switch.
type SwitchChange struct {
	Switch openflow.DatapathID
	Change
}

// Round is a set of changes that may be sent to all its switches at once, ordered by switch. All switches must have
// executed it before the next round is sent.
type Round []SwitchChange

// Rounds returns the rounds that lead from one plan to the next without packet loss or loops, in whatever order the
// switches of a round execute it. First come groups, and routes to destinations that are not in use yet; then the new
// routes, where a switch changes only after those that its packets will pass; then new and moved hosts, in the same
// way; and last the removal of what is no longer used. Meanwhile a switch may hold both its old and its new entries.
//
// Switches that p does not have get nothing. Both plans have the same Config. If they avoid different failures
// (Disjoint), packets are lost only if something fails meanwhile.
func (p *Plan) Rounds(old *Plan) []Round {
	d := difference{old: old, new: p, rounds: []map[openflow.DatapathID]*Change{{}}}
	steps := p.routes.Steps(old.routes)
	last := 0
	for _, s := range steps {
		last = max(last, s.Round)
	}
	useHosts := last + 1
	cleanUp := useHosts + len(p.routes.Graph().Switches()) // no path is longer
	for _, s := range steps {
		round := s.Round
		if p.routes.Hops(s.Dest) == nil {
			round = cleanUp
		}
		d.hop(s, round)
	}
	d.groups(steps, cleanUp)
	d.hosts(useHosts)
	return d.sorted()
}

// difference collects what changes, by round and switch.
type difference struct {
	old, new *Plan
	rounds   []map[openflow.DatapathID]*Change
}

func (d *difference) at(round int, s openflow.DatapathID) *Change {
	for len(d.rounds) <= round {
		d.rounds = append(d.rounds, map[openflow.DatapathID]*Change{})
	}
	c := d.rounds[round][s]
	if c == nil {
		c = &Change{}
		d.rounds[round][s] = c
	}
	return c
}

// has reports whether the new plan has the switch.
func (d *difference) has(s openflow.DatapathID) bool {
	_, ok := slices.BinarySearch(d.new.routes.Graph().Switches(), s)
	return ok
}

func (d *difference) hop(s paths.Step, round int) {
	if !d.has(s.Switch) {
		return
	}
	var a, b [4]Entry
	before := appendHop(a[:0], d.old.config.Table+1, s.Dest, s.Old)
	after := appendHop(b[:0], d.new.config.Table+1, s.Dest, s.New)
	d.at(round, s.Switch).entries(before, after)
}

// groups adds the groups that are new at switches with steps, and deletes those that are gone.
func (d *difference) groups(steps []paths.Step, cleanUp int) {
	type seen struct {
		at openflow.DatapathID
		id GroupID
	}
	done := map[seen]bool{}
	look := func(s openflow.DatapathID, h paths.Hop) {
		groupsOf(h, func(id GroupID) {
			if done[seen{s, id}] {
				return
			}
			done[seen{s, id}] = true
			switch was, is := d.old.holds(s, id), d.new.holds(s, id); {
			case is && !was:
				c := d.at(0, s)
				c.AddGroups = append(c.AddGroups, id)
			case was && !is:
				c := d.at(cleanUp, s)
				c.DeleteGroups = append(c.DeleteGroups, id)
			}
		})
	}
	for _, s := range steps {
		if d.has(s.Switch) {
			look(s.Switch, s.Old)
			look(s.Switch, s.New)
		}
	}
}

func (p *Plan) holds(s openflow.DatapathID, id GroupID) bool {
	v, ok := slices.BinarySearch(p.routes.Graph().Switches(), s)
	return ok && p.groups[v][id] > 0
}

// hosts gives new switches all hosts, and the others those that have changed.
func (d *difference) hosts(useHosts int) {
	type pair struct{ was, is *Host }
	var all, changed []pair
	merge(d.old.hosts, d.new.hosts, func(a, b Host) int { return slices.Compare(a.MAC[:], b.MAC[:]) },
		func(was, is *Host) {
			if is != nil {
				all = append(all, pair{nil, is})
			}
			if was == nil || is == nil || *was != *is {
				changed = append(changed, pair{was, is})
			}
		})
	before := d.old.routes.Graph().Switches()
	for _, s := range d.new.routes.Graph().Switches() {
		pairs := changed
		if _, known := slices.BinarySearch(before, s); !known {
			pairs = all
		}
		for _, h := range pairs {
			round := useHosts
			switch {
			case h.is == nil:
				round = 0
			case h.was != nil: // as with steps: later than the switches on the way
				round += d.new.routes.Length(h.is.At.Switch, s)
			}
			var entries [2][]Entry
			if h.was != nil {
				entries[0] = d.old.appendHost(nil, s, *h.was)
			}
			if h.is != nil {
				entries[1] = d.new.appendHost(nil, s, *h.is)
			}
			d.at(round, s).entries(entries[0], entries[1])
		}
	}
}

// sorted returns the rounds that have something to do.
func (d *difference) sorted() []Round {
	var rounds []Round
	for _, m := range d.rounds {
		var r Round
		for _, s := range slices.Sorted(maps.Keys(m)) {
			if c := m[s]; !c.Empty() {
				slices.Sort(c.AddGroups)
				slices.SortFunc(c.DeleteGroups, func(a, b GroupID) int { return cmp.Compare(b, a) })
				r = append(r, SwitchChange{s, *c})
			}
		}
		if len(r) > 0 {
			rounds = append(rounds, r)
		}
	}
	return rounds
}
