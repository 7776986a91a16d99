package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// With several groups, a session waits until its switch is assigned to a group. A switch that this controller's replica
// of the system group knows does not wait, even if that group has no majority. For any other, the leader of the system
// group is asked, again after assignEvery, and at once when the leader changes. After assignPatience the connection is
// closed: the switch connects again, and a session that waits is not read.
const (
	assignEvery    = 250 * time.Millisecond
	assignPatience = 3 * time.Second
)

// assignments is what this controller knows of the directory. The loop of the system group writes it.
type assignments struct {
	mu     sync.RWMutex // guards the fields below
	view   directory.View
	early  map[openflow.DatapathID]uint64 // versions of switches that group 1 is about to adopt, see Controller.adopts
	leader uint64                         // of the system group; 0: unknown
	// closed and replaced when the view or the leader has changed, or a group runs here
	news chan struct{}
}

func newAssignments() *assignments { return &assignments{news: make(chan struct{})} }

// of returns the assignment of an actor.
func (a *assignments) of(of ledger.Actor) (row ledger.Assignment, known bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	row, known = a.view.Of(of)
	if version := a.early[of.Switch]; !known && version > 0 {
		return ledger.Assignment{Group: 1, Version: version}, true
	}
	return row, known
}

// expect makes the group known that a switch gets when group 1 adopts it. Until then the version is that of the last
// claim that the switch accepted, as in the cluster with one group.
func (a *assignments) expect(id openflow.DatapathID, claimed uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.early == nil {
		a.early = map[openflow.DatapathID]uint64{}
	}
	a.early[id] = max(uint64(claimed), directory.FirstVersion)
}

// missing returns those of the actors that have no row in the directory.
func (a *assignments) missing(actors []ledger.Actor) []ledger.Actor {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return slices.DeleteFunc(actors, func(of ledger.Actor) bool { _, known := a.view.Of(of); return known })
}

// moved reports whether an actor has moved since it was first assigned.
func (a *assignments) moved(of ledger.Actor) bool {
	row, _ := a.of(of)
	return row.Version > directory.FirstVersion
}

// ofSwitch returns the assignment of a switch.
func (a *assignments) ofSwitch(id openflow.DatapathID) (ledger.Assignment, bool) {
	return a.of(theSwitch(id))
}

// shards returns the shards of an application that have a row, and all switches.
func (a *assignments) shards(app string) []ledger.Shard {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.view.Shards(app)
}

// pinned reports whether an actor is pinned to its group.
func (a *assignments) pinned(of ledger.Actor) bool {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.view.Pinned(of)
}

// layout returns where the groups are.
func (a *assignments) layout() directory.Layout {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.view.Layout()
}

// watch returns the leader to ask, and a channel that is closed when it has changed, or a row.
func (a *assignments) watch() (leader uint64, news <-chan struct{}) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.leader, a.news
}

// update takes an update of the system group that core has handled. It returns the actors whose assignments have
// changed, and whether all may have.
func (a *assignments) update(u consensus.Update, core *Core) (moved []ledger.Actor, all bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed := u.Role != nil && u.Role.Leader != a.leader
	if u.Role != nil {
		a.leader = u.Role.Leader
	}
	if u.Snapshot != nil {
		rows, err := core.ledger.Rows(directory.Name, maxDirectory)
		if err == nil {
			err = a.view.Restore(rows)
		}
		if err != nil {
			return nil, false, fmt.Errorf("directory of a snapshot: %w", err)
		}
		changed, all = true, true
	}
	for _, e := range u.Entries {
		list, laidOut, err := a.view.Commit(e.Data)
		if err != nil {
			return nil, false, fmt.Errorf("directory: entry %d: %w", e.Index, err)
		}
		moved, changed, all = append(moved, list...), changed || laidOut, all || laidOut
	}
	if changed || len(moved) > 0 {
		a.tell()
	}
	return moved, all, nil
}

// started wakes those that wait for a group to run here.
func (a *assignments) started() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tell()
}

// tell is called with mu locked.
func (a *assignments) tell() {
	close(a.news)
	a.news = make(chan struct{})
}

// maxDirectory bounds the memory of the rows of a snapshot, in bytes. It is far more than the directory takes, because
// earlier releases took longer keys, and a controller that could not restore what the log has could never start again.
const maxDirectory = 1<<31 - 1

var errUnassigned = errors.New("the system group has not assigned the switch to a group: a majority of its voters " +
	"must run and reach each other")

// askDirectory makes a request of the directory, which may be lost. It does not wait, because loops of other groups
// call it.
func (c *Controller) askDirectory(request []byte) {
	c.system().payloads.put(0, appendRequest(nil, directory.Name, request))
}

// groupOf returns this controller's part of the group of a switch, nil if it has none. known is false if the switch is
// not assigned.
func (c *Controller) groupOf(id openflow.DatapathID) (g *group, known bool) {
	if !c.several() {
		return c.system(), true
	}
	row, known := c.assigned.ofSwitch(id)
	if !known {
		return nil, false
	}
	return c.replica(row.Group), true
}

// adopts reports whether the cluster was regrouped just now and group 1, as it is here, has the switch. Then the switch
// gets no other group, so it need not wait for the directory.
func (c *Controller) adopts(id openflow.DatapathID) (has bool) {
	g := c.replica(1)
	if g == nil || !c.assigned.layout().Adopts {
		return false
	}
	err := g.inLoop(context.Background(), func() { has = g.core.ledger.Knows(id) })
	return err == nil && has
}

// assign is groupOf for a new session: it asks for a group, and waits. claimed is the version in the last claim that
// the switch accepted. After an error the switch cannot be served.
func (c *Controller) assign(id openflow.DatapathID, claimed uint16) error {
	if g, _ := c.groupOf(id); g != nil {
		return nil
	}
	end, again := time.NewTimer(assignPatience), time.NewTimer(0)
	defer end.Stop()
	defer again.Stop()
	for asked := uint64(0); ; {
		leader, news := c.assigned.watch() // before groupOf, so that nothing is missed
		if _, known := c.assigned.ofSwitch(id); !known && c.adopts(id) {
			c.assigned.expect(id, claimed)
		}
		switch g, known := c.groupOf(id); {
		case g != nil:
			return nil
		case known:
			row, _ := c.assigned.ofSwitch(id)
			if at, _ := c.assigned.layout().Of(row.Group); at.MayHave(c.cfg.Consensus.ID) == 0 {
				return c.elsewhere(id, row.Group)
			} // else its replica here is about to start
		}
		if leader != asked {
			asked = leader
			again.Reset(0)
		}
		select {
		case <-news:
		case <-again.C:
			want := directory.Assign{Actors: []ledger.Actor{theSwitch(id)}, Groups: c.homesHere(), Claimed: claimed}
			c.askDirectory(want.Append(nil))
			again.Reset(assignEvery)
		case <-end.C:
			return errUnassigned
		case <-c.system().ended:
			return errClosing
		}
	}
}
