package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/placement"
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// group is one group: its replicas, and the history of its log.
type group struct {
	number   int
	homes    int // how many home groups there are; 0 if this is the only group
	members  map[uint64]string
	replicas []*replica
	h        *history.Group
}

// addGroups makes the only group, or the system group and a home group for each controller.
func (s *simulation) addGroups() {
	homes := 0
	if s.scenario.PerController {
		homes = s.scenario.Controllers
	}
	for i := range homes + 1 {
		g := &group{number: i, homes: homes, members: map[uint64]string{}}
		g.h = s.h.Group(history.GroupConfig{Applications: s.applications(g), Identity: s.identity(g),
			Follows: s.scenario.follows() && !g.system(),
			Limits:  s.limits(), Number: uint64(i), Directory: g.lives(s.directory.view.Of)})
		s.groups = append(s.groups, g)
	}
}

// system reports whether it is the system group of several, which has no switches.
func (g *group) system() bool { return g.number == 0 && g.homes > 0 }

// names returns those of its members.
func (g *group) names() map[uint64]string {
	names := map[uint64]string{}
	for id := range g.members {
		names[id] = fmt.Sprintf("c%d", id)
	}
	return names
}

// home returns the controller that leads the group if it can. 0 is none.
func (g *group) home() uint64 { return uint64(g.number) }

// ids returns those of all controllers.
func (s Scenario) ids() (list []uint64) {
	for id := range uint64(s.Controllers) {
		list = append(list, id+1)
	}
	return list
}

// at reports whether a controller has a replica of the group.
func (g *group) at(controller uint64, sc *Scenario) bool {
	return sc.Replication == 0 || g.system() ||
		slices.Contains(placement.Replicas(uint64(g.number), g.home(), sc.ids(), sc.Replication), controller)
}

// homes returns the home groups of which a controller has a replica, its own first.
func (n *controllerNode) homes() []uint64 {
	list := []uint64{n.id}
	for _, r := range n.replicas[1:] {
		if r.g.home() != n.id {
			list = append(list, r.g.home())
		}
	}
	return list
}

// lives is the directory of actors, for one who knows these assignments of switches. It is nil if this is the only
// group.
func (g *group) lives(assigned func(ledger.Actor) (ledger.Assignment, bool)) ledger.Directory {
	if g.homes == 0 {
		return nil
	}
	return func(a ledger.Actor) (ledger.Assignment, bool) { return controller.Lives(a, g.homes, assigned) }
}

// leader is the replica that leads in the newest term, as it knows.
func (g *group) leader() (leader *replica) {
	for _, r := range g.replicas {
		if r.n.p.up && r.leading > 0 && (leader == nil || r.leading > leader.leading) {
			leader = r
		}
	}
	return leader
}

// Of the directory, as in package controller: how often a session asks for the group of its switch, how long it waits
// for one, and how many bytes of rows a snapshot may have.
const (
	assignEvery    = 250 * time.Millisecond
	assignPatience = 3 * time.Second
	maxDirectory   = 1 << 20
)

// assignments is what a controller knows of the directory, if there are several groups.
type assignments struct {
	n    *controllerNode
	view directory.View
}

// committed is what the log of the system group says of all switches.
type committed struct {
	view directory.View
	last uint64 // index of the last entry that it has
}

// learn takes an entry that is delivered to a controller.
func (c *committed) learn(e consensus.Entry) (err error) {
	if e.Index > c.last {
		c.last = e.Index
		_, _, err = c.view.Commit(e.Data)
	}
	return err
}

// of returns the replica that serves a switch; nil if it is not here, or if the group is not known.
func (a *assignments) of(id openflow.DatapathID) (r *replica, known bool) {
	if len(a.n.s.groups) == 1 {
		return a.n.replicas[0], true
	}
	row, known := a.view.OfSwitch(id)
	if !known {
		return nil, false
	}
	return a.n.replica(row.Group), true
}

// update takes an update of the system group that its replica has handled. Sessions that wait for a group look again.
func (a *assignments) update(u consensus.Update) {
	if u.Snapshot != nil {
		rows, err := a.n.replicas[0].core.Ledger().Rows(directory.Name, maxDirectory)
		a.n.check(cmp.Or(err, a.view.Restore(rows)))
	}
	var moved []ledger.Actor
	all := u.Snapshot != nil
	for _, e := range u.Entries {
		list, laidOut, err := a.view.Commit(e.Data)
		a.n.check(err)
		moved, all = append(moved, list...), all || laidOut
	}
	if len(moved) > 0 || all {
		a.n.tell(controller.RelocatedPayload(moved, all))
	}
	for _, s := range slices.Clone(a.n.sessions) {
		if s.state == attached && s.r == nil && s.assigned() {
			s.read()
		}
	}
}
