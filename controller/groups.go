package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// The directory says which replicas a controller has (directory.Layout). The goroutine of Controller.run starts and
// ends those of the home groups accordingly. The system group runs as long as the controller.

// groupTable is the groups of which this controller has a replica, by number. Any goroutine may read it; one writes.
type groupTable struct {
	list atomic.Pointer[[]*group] // never changed, only replaced
}

func (t *groupTable) all() []*group {
	if list := t.list.Load(); list != nil {
		return *list
	}
	return nil
}

// add adds a group. It replaces one with the same number.
func (t *groupTable) add(g *group) {
	list := slices.DeleteFunc(slices.Clone(t.all()), func(o *group) bool { return o.number() == g.number() })
	list = append(list, g)
	slices.SortFunc(list, func(a, b *group) int { return cmp.Compare(a.number(), b.number()) })
	t.list.Store(&list)
}

func (t *groupTable) remove(g *group) {
	list := slices.DeleteFunc(slices.Clone(t.all()), func(o *group) bool { return o == g })
	t.list.Store(&list)
}

// place starts the replicas that this controller is to have and that do not run, and ends those that others have
// replaced.
func (c *Controller) place() error {
	layout := c.assigned.layout()
	for i := range layout.Groups {
		if err := c.placeGroup(uint64(i)+1, layout); err != nil {
			return err
		}
	}
	return nil
}

// placeGroup is place for one group.
func (c *Controller) placeGroup(number uint64, layout directory.Layout) error {
	row, me := layout.Groups[number-1], c.cfg.Consensus.ID
	here := func(replica uint64) bool { // Or the directory here is behind.
		return replica == row.MayHave(me) || replica > row.Newest(me)
	}
	if g := c.replica(number); g != nil {
		if here(g.cfg.Consensus.ID) {
			return nil
		}
		if err := c.retire(g); err != nil {
			return err
		}
	}
	id, logged := c.logged[number]
	delete(c.logged, number)
	switch {
	case logged && !here(id):
		if err := c.host.Forget(number); err != nil {
			return err
		}
		id = row.At(me)
	case !logged:
		id = row.At(me)
	}
	if id == 0 {
		return nil
	}
	if !logged {
		c.log.Info("replica begins", "group", number, "replica", id)
	}
	return c.startHome(number, id, row, layout.Actors)
}

// startHome starts a replica of a home group, which may have a log.
func (c *Controller) startHome(number, id uint64, row directory.Group, actors uint64) error {
	cfg := GroupConfig{Consensus: consensus.GroupConfig{Group: number}}
	if number < uint64(len(c.cfg.Groups)) {
		cfg = c.cfg.Groups[number]
	}
	if cfg.Applications == nil {
		own, err := c.cfg.Open(number, actors)
		if err != nil {
			return err
		}
		own.Consensus = cfg.Consensus
		cfg = own
	}
	first := !c.cfg.Consensus.Founded && !c.cfg.Groups[0].Consensus.Join && cfg.Consensus.Members[id] != ""
	switch {
	case first && len(row.Have) > 0: // without holdfast init; what follows has no effect if there is a log
	case len(row.Have) == 0 && row.Home == c.cfg.Consensus.ID:
		address := c.system().node.Status().Members[c.cfg.Consensus.ID]
		cfg.Consensus = consensus.GroupConfig{Group: number, New: true, Members: map[uint64]string{id: address}}
	default:
		cfg.Consensus = consensus.GroupConfig{Group: number, Join: true}
	}
	cfg.Consensus.ID = id
	if err := c.startGroup(cfg, func(consensus.Update, *Core) error { return nil }); err != nil {
		return err
	}
	c.assigned.started()
	return nil
}

// retire ends a replica that has left its group, and forgets its log. The sessions of its switches end.
func (c *Controller) retire(g *group) error {
	c.groups.remove(g)
	c.router.remove(g)
	_ = g.inLoop(context.Background(), func() { // refused if the loop has ended
		g.core.Dismiss(func(id openflow.DatapathID) error { return c.elsewhere(id, g.number()) })
	})
	g.retired = true
	close(g.stop)
	<-g.ended
	close(g.released)
	if err := g.close(); err != nil && !errors.Is(err, consensus.ErrRemoved) {
		return err
	}
	g.log.Info("replica ended: it has left the group", "replica", g.cfg.Consensus.ID)
	return c.host.Forget(g.number())
}

// Dismiss ends all sessions here, because the switches are served elsewhere.
func (c *Core) Dismiss(why func(openflow.DatapathID) error) {
	for _, id := range sorted(c.local, func(*attached) bool { return true }) {
		s := c.local[id]
		if st := s.State(); st.Peer == southbound.Agent {
			s.Refuse(experimenter.ReasonElsewhere, st.Epoch)
		} else {
			s.Close(why(id))
		}
	}
}

// adopt assigns the switches and other actors of group 1, which was the only group and which this controller leads, to
// that group.
func (c *Controller) adopt(ctx context.Context, g *group) error {
	var actors []ledger.Actor
	leads := false
	err := g.inLoop(ctx, func() {
		if leads = g.core.role.Leading; leads { // a leader has everything that is committed
			actors = g.core.ledger.Assignable()
		}
	})
	if err != nil || !leads {
		return err
	}
	missing := c.assigned.missing(actors)
	for part := range inParts(missing, directory.MaxAdopted) {
		c.askDirectory(directory.Adopt{Actors: part}.Append(nil))
	}
	if len(missing) == 0 {
		c.askDirectory(directory.Adopt{}.Append(nil))
	}
	return nil
}

// balance brings a home group that this controller leads nearer to the replicas that it is to have, one at a time. It
// is called again and again.
func (c *Controller) balance(ctx context.Context, g *group) error {
	layout := c.assigned.layout()
	row, ok := layout.Of(g.number())
	if !ok {
		return nil
	}
	if layout.Adopts {
		if g.number() != 1 {
			return nil
		}
		return c.adopt(ctx, g)
	}
	for range row.Want { // what can be done at once
		s := g.node.Status()
		if !s.Leading {
			return nil
		}
		goal, missing := c.goal(s, row)
		if missing && goal.Address == "" {
			return nil // the system group here does not know the new controller yet
		}
		step, err := consensus.Plan(s, goal)
		switch {
		case err != nil:
			return fmt.Errorf("change the replicas of group %d: %w", g.number(), err)
		case step.Transfer:
			return g.handOver(ctx)
		case step.Done && goal == (consensus.Goal{}):
			if !row.Settled() {
				is := directory.Reached{Group: g.number(), Replicas: row.Want}
				c.askDirectory(is.Append(nil))
			}
			return nil
		case step.Done || step.Busy || step.Wait != nil:
			return nil
		}
		if err := g.change(ctx, step.Change); err != nil {
			return err
		}
	}
	return nil
}

// goal returns the next change of a group that is to have the replicas of row: none if it has them. missing: a replica
// is to be added.
func (c *Controller) goal(s consensus.Status, row directory.Group) (goal consensus.Goal, missing bool) {
	for _, r := range row.Want {
		i := slices.IndexFunc(s.Peers, func(p consensus.Peer) bool { return p.ID == r })
		if _, member := s.Members[r]; !member {
			goal.Add, missing = r, true
			goal.Address = c.system().node.Status().Members[wire.ControllerOf(r)]
			break
		}
		if goal.Add == 0 && i >= 0 && !s.Peers[i].Votes && !s.Peers[i].Ready(s.Last) {
			goal.Add = r // it does not have the log yet
		}
	}
	for r := range s.Members { // the leader last
		if !slices.Contains(row.Want, r) && (goal.Remove == 0 || goal.Remove == s.ID || r < goal.Remove && r != s.ID) {
			goal.Remove = r
		}
	}
	return goal, missing
}

// change changes the members of the group.
func (g *group) change(ctx context.Context, change consensus.MemberChange) error {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	switch err := g.node.ChangeMembers(ctx, change); {
	case errors.Is(err, consensus.ErrChanging): // an earlier change goes on; then this one is tried again
		return nil
	case err != nil:
		return err
	}
	g.log.Info("members changed", "change", change)
	return nil
}
