package ledger_test

import (
	"errors"
	"fmt"
	"maps"

	. "github.com/holdfast-sdn/holdfast/ledger"
)

// siteApps are the applications with actors.
var siteApps = []string{"chaos", "mayhem", "caller", "callee", "roll", "bank"}

// mover returns the actor with which one moves: the switch to which it belongs, or itself.
func mover(a Actor) Actor {
	if a.Switch != 0 {
		a.App = ""
	}
	return a
}

// siteHome returns where an actor lives if it has never moved.
func siteHome(a Actor) (Assignment, bool) {
	switch {
	case a.Switch > 3*siteGroups+siteGroups || a.Key != Key{}:
		return Assignment{}, false
	case a.Switch != 0:
		return Assignment{siteGroup(a.Switch), 1}, true
	case a.App == "chaos":
		return Assignment{1, 1}, true
	}
	return Assignment{2, 1}, true
}

// directory returns the Directory that a replica of a group has. It may be behind, also behind that of an earlier
// leader.
func (s *site) directory(group uint64, node int) Directory {
	return func(a Actor) (Assignment, bool) {
		if at, known := s.views[group-1][node][mover(a)]; known {
			return at, true
		}
		return siteHome(a)
	}
}

// direct does what the directory does, or a group that hears of it, or moves an actor.
func (s *site) direct() {
	c := s.groups[s.rng.IntN(siteGroups)]
	n := c.nodes[c.leader]
	if _, leading := n.core.Leading(); !leading {
		return
	}
	if n.core.Moving() && s.rng.IntN(30) == 0 {
		c.elect() // the next leader goes on with the move
		return
	}
	switch s.rng.IntN(7) {
	case 0, 1:
		s.publish(n.core)
	case 4:
		s.drawSuspension(c, n.core)
	case 2, 3:
		if n.behind = n.behind && s.rng.IntN(30) > 0; !n.behind {
			s.learn(n)
		}
	default:
		if n.core.Room() && s.moves && !c.quiet {
			a := Actor{App: siteApps[s.rng.IntN(len(siteApps))]}
			a.Key.A = uint64(s.rng.IntN(5))
			if s.rng.IntN(3) == 0 && len(c.switches) > 0 {
				a = mover(Actor{Shard: AtSwitch(c.switches[s.rng.IntN(len(c.switches))].id)})
			}
			switch err := n.core.Move(a, uint64(1+s.rng.IntN(siteGroups))); {
			case err == nil:
				s.Moves++
			case !errors.Is(err, ErrElsewhere) && !(a.Switch != 0 && errors.Is(err, ErrImmovable)):
				c.fatalf("%v", err)
			}
		}
	}
}

// publish assigns what a group asks for, and takes what it says of actors that have arrived there.
func (s *site) publish(core *Core) {
	for _, a := range core.Unassigned() {
		if _, known := s.rows[a]; !known {
			s.rows[a] = Assignment{uint64(1 + s.rng.IntN(siteGroups)), 1}
			s.lives[a] = s.rows[a]
		}
	}
	for _, a := range core.Unpublished() {
		if at, _ := core.Assignment(a); at.Version > s.rows[a].Version {
			s.rows[a] = at
		}
	}
}

// learn makes a replica know the directory.
func (s *site) learn(n *simNode) {
	view := s.views[n.c.group-1][n.id]
	for a, at := range s.rows {
		if view[a] != at {
			view[a] = at
			if _, leading := n.core.Leading(); leading {
				n.core.Relocated(a)
			}
		}
	}
}

// home returns the group in which an actor lives, as the logs say.
func (s *site) home(a Actor) (group uint64, known bool) {
	at, moved := s.lives[mover(a)]
	if !moved {
		at, known = siteHome(a)
		return at.Group, known
	}
	return at.Group, true
}

// copying is an actor of which pieces arrive on a stream between groups.
type copying struct {
	Actor
	Link
}

// contents is what an actor has in its cells.
type contents map[fieldName]string

type fieldName struct {
	table       TableName
	cell, field Key
}

func fieldOf(r *Record) fieldName { return fieldName{r.Table, r.Cell, r.Field} }

// arrive checks a piece of an actor that a group has received: in the end, the actor has what it had when it departed.
func (s *site) arrive(o *oracle, k Link, p Piece, item []byte) error {
	a, group := p.Actor, o.cluster.group
	copied := s.arriving[copying{a, k}]
	if p.First || copied == nil {
		copied = contents{}
		s.arriving[copying{a, k}] = copied
	}
	DecodePiece(item, func(r *Record) {
		switch r.Op {
		case OpPut:
			copied[fieldOf(r)] = string(r.Bytes)
		case OpDelete:
			delete(copied, fieldOf(r))
		case OpSetTimer:
			o.timers[timerName{r.Actor, r.Name}] = r.Time
		}
	})
	if !p.Last {
		return nil
	}
	s.Arrivals++
	if p.Next.Group != group || s.lives[a] != (Assignment{0, p.Next.Version}) {
		return fmt.Errorf("%v arrives as %v; it is at %v", a, p.Next, s.lives[a])
	}
	if !maps.Equal(copied, s.departed[a]) {
		return fmt.Errorf("%v arrives with %v, and has departed with %v", a, copied, s.departed[a])
	}
	maps.Copy(s.values[group], copied)
	s.lives[a] = p.Next
	delete(s.arriving, copying{a, k})
	if a.Switch != 0 {
		s.Switches++
		s.sw(a.Switch).rehome(o.cluster)
	}
	return nil
}

// checkOwners checks that each cell is where its actor lives, and has what the logs say.
func (s *site) checkOwners() {
	for _, c := range s.groups {
		found := contents{}
		for _, name := range siteApps {
			rows, err := c.nodes[c.leader].core.Rows(name, 1<<30)
			if err != nil {
				c.fatalf("%v", err)
			}
			for _, r := range rows {
				found[fieldName{TableName{name, r.Table}, r.Cell, r.Field}] = string(r.Value)
				a := actorOf(fieldName{TableName{name, r.Table}, r.Cell, r.Field})
				if g, known := s.home(a); !known || g != c.group {
					c.fatalf("cell %v of %v is there, whose actor lives in group %d", r.Cell, a, g)
				}
			}
		}
		want := s.values[c.group]
		maps.DeleteFunc(want, func(f fieldName, _ string) bool { return f.table.App == "counting" })
		if !maps.Equal(found, want) {
			c.fatalf("the cells have %v, and the logs say %v", found, want)
		}
	}
}
