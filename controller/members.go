package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/placement"
)

// Members is the group, as a controller knows it.
type Members struct {
	Leader  string   `json:"leader"`            // its name, "" if unknown
	Last    uint64   `json:"last_index"`        // of the log of the controller that answers
	Members []Member `json:"members"`           // by id
	Former  []uint64 `json:"former,omitempty"`  // ids of members that were removed
	Done    bool     `json:"done"`              // the requested change is in effect
	Waiting *Member  `json:"waiting,omitempty"` // the new member, while it does not have the log yet
	// Moving are the home groups that do not have the replicas yet that the change gives them.
	Moving []uint64 `json:"moving,omitempty"`
	// Stale: the controller that answers knows no leader; nil: it is the leader.
	Stale *Stale `json:"stale,omitempty"`
}

// Member is a controller, as the log names it. Only the leader knows what it has stored, and whether it is reachable.
type Member struct {
	Name      string `json:"name"`
	ID        uint64 `json:"id"`
	Address   string `json:"address"` // where the other members connect
	Votes     bool   `json:"votes"`   // false for a learner, which receives the log and has no vote
	Leads     bool   `json:"leads"`
	Connected bool   `json:"connected"`
	Match     uint64 `json:"match_index"` // the last index that it is known to have stored
}

// MemberChange is a request to add a member, to remove one, or to replace one by another; or, alone, to change the
// number of replicas of the home groups.
type MemberChange struct {
	Add         *NewMember `json:"add,omitempty"`
	Remove      uint64     `json:"remove,omitempty"` // id
	Replication uint64     `json:"replication,omitempty"`
}

// NewMember is a controller that is to become a member.
type NewMember struct {
	Name    string `json:"name"`
	ID      uint64 `json:"id"`
	Address string `json:"address"`
}

// memberName returns the name of a member: from the log, or else from this controller's cluster file.
func (g *group) memberName(s consensus.Status, id uint64) string {
	if name, _ := consensus.SplitAddress(s.Members[id]); name != "" {
		return name
	}
	return g.names[id]
}

func (g *group) members(s consensus.Status) Members {
	out := Members{Leader: g.memberName(s, s.Leader), Last: s.Last, Members: []Member{}, Former: s.Former}
	for id, m := range s.Members {
		_, addr := consensus.SplitAddress(m)
		member := Member{Name: g.memberName(s, id), ID: id, Address: addr, Votes: slices.Contains(s.Voters, id),
			Leads: id == s.Leader}
		if id == s.ID {
			member.Connected, member.Match = true, s.Last
		}
		for _, p := range s.Peers {
			if p.ID == id {
				member.Connected, member.Match = p.Connected, p.Match
			}
		}
		out.Members = append(out.Members, member)
	}
	slices.SortFunc(out.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// changeMembers does the next step of a change; see consensus.Plan. The caller repeats it until the answer is Done.
func (c *Controller) changeMembers(ctx context.Context, change MemberChange) (Members, error) {
	g := c.system()
	s := g.node.Status()
	if !s.Leading {
		return Members{}, &notLeading{g.memberName(s, s.Leader)}
	}
	if err := cmp.Or(g.checkChange(s, change), c.checkReplicas(change)); err != nil {
		return Members{}, err
	}
	goal := consensus.Goal{Remove: change.Remove}
	if n := change.Add; n != nil {
		goal.Add, goal.Address = n.ID, n.Name+"@"+n.Address
	}
	if c.several() {
		goal.Most = placement.MaxSystemVoters
	}
	step, err := consensus.Plan(s, goal)
	if err != nil {
		return Members{}, err
	}
	if c.several() {
		// A new controller first gets the log of the system group, and one that leaves keeps it until the last.
		joins := goal
		joins.Remove = 0
		if first, err := consensus.Plan(s, joins); err != nil {
			return Members{}, err
		} else if goal.Add != 0 && !first.Done {
			step = first
		} else if moving, err := c.moveReplicas(ctx, s, change); err != nil || len(moving) > 0 {
			out := g.members(s)
			out.Moving = moving
			return out, err
		}
	}
	switch {
	case step.Transfer:
		if err := g.handOver(ctx); err != nil {
			return Members{}, err
		}
		s = g.node.Status()
		return Members{}, &notLeading{g.memberName(s, s.Leader)}
	case !step.Done && !step.Busy && step.Wait == nil:
		if err := g.change(ctx, step.Change); err != nil {
			return Members{}, err
		}
	}
	out := g.members(g.node.Status())
	out.Done = step.Done
	if step.Wait != nil {
		for i, m := range out.Members {
			if m.ID == step.Wait.ID {
				out.Waiting = &out.Members[i]
			}
		}
	}
	return out, nil
}

// moveReplicas asks for the layout of the groups after a change, and returns the groups that do not have it yet.
func (c *Controller) moveReplicas(ctx context.Context, s consensus.Status, change MemberChange) ([]uint64, error) {
	layout := c.assigned.layout()
	if len(layout.Groups) == 0 || layout.Adopts {
		return nil, errBeginning
	}
	want := directory.Place{Replication: cmp.Or(change.Replication, layout.Replication)}
	for id := range s.Members {
		if id != change.Remove {
			want.Controllers = append(want.Controllers, id)
		}
	}
	slices.Sort(want.Controllers)
	if want.Replication != layout.Replication || !slices.Equal(want.Controllers, layout.Controllers) {
		err := c.system().inLoop(ctx, func() { c.system().core.Ask(directory.Name, want.Append(nil)) })
		return layout.Numbers(), err // at most: it is not known here yet
	}
	var moving []uint64
	for i, g := range layout.Groups {
		if !g.Settled() {
			moving = append(moving, uint64(i)+1)
		}
	}
	return moving, nil
}

var errBeginning = fmt.Errorf("the groups of the cluster do not know their replicas yet: try again: %w",
	consensus.ErrNotLeader)

// checkReplicas refuses what the home groups cannot do.
func (c *Controller) checkReplicas(change MemberChange) error {
	switch n := change.Replication; {
	case n > 0 && !c.several():
		return errors.New("a cluster with one group has a replica of it on each controller: add or remove controllers")
	case n > 0 && (change.Add != nil || change.Remove != 0):
		return errors.New("the number of replicas and the controllers are two changes: make one after the other")
	case n > 0 && (n < 3 || n%2 == 0):
		return fmt.Errorf("%d replicas survive no more failures than %d: use 3, 5 or another odd number", n,
			max(1, n-1))
	case change.Remove != 0 && c.several() && c.assigned.layout().Replication == 1:
		return errors.New("each group has one replica, which cannot move: run holdfast member replication 3 first")
	}
	return nil
}

func (g *group) checkChange(s consensus.Status, change MemberChange) error {
	n := change.Add
	if n == nil {
		if change.Remove == 0 && change.Replication == 0 {
			return errors.New("the change is empty")
		}
		return nil
	}
	if n.ID == 0 || n.ID == change.Remove {
		return fmt.Errorf("id %d cannot be that of the new controller: give it its own", n.ID)
	}
	if n.Name == "" || strings.Contains(n.Name, "@") {
		return fmt.Errorf("%q is not a name for a controller: it must not be empty or contain @", n.Name)
	}
	if _, _, err := net.SplitHostPort(n.Address); err != nil {
		return fmt.Errorf("address %q of the new controller: %w", n.Address, err)
	}
	for id := range s.Members {
		switch name := g.memberName(s, id); {
		case id == n.ID && name != n.Name:
			return fmt.Errorf("id %d is that of controller %s: give the new one its own", id, name)
		case id != n.ID && id != change.Remove && name == n.Name:
			return fmt.Errorf("controller %s is a member already, with id %d: replace it, or give the new one "+
				"another name", name, id)
		}
	}
	return nil
}

// drain drains the replicas of all groups.
func (c *Controller) drain(ctx context.Context) (err error) {
	groups := c.groups.all()
	results := make(chan error, len(groups))
	for _, g := range groups {
		go func() { // ends with ctx
			err := g.node.Drain(ctx)
			if err != nil && c.several() {
				err = fmt.Errorf("group %d is not drained, the others are unless they are named too: %w",
					g.cfg.Consensus.Group, err)
			}
			results <- err
		}()
	}
	for range groups {
		err = errors.Join(err, <-results)
	}
	return err
}
