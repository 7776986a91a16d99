package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

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

// Refusal is the body of an answer that refuses a request.
type Refusal struct {
	Error  string `json:"error"`
	Leader string `json:"leader,omitempty"` // send the request to this controller instead
}

// notLeading is the error of a controller that does not lead. It names the leader.
type notLeading struct{ leader string }

func (e *notLeading) Error() string {
	if e.leader == "" {
		return "no controller leads"
	}
	return fmt.Sprintf("controller %s leads", e.leader)
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

// changeTimeout bounds one step of a change. It is shorter than the write timeout of the API.
const changeTimeout = 5 * time.Second

func (c *Controller) serveMembers(mux *routes) {
	mux.HandleFunc("GET /v1/members", func(w http.ResponseWriter, r *http.Request) {
		g := c.system()
		s := g.node.Status()
		if !s.Leading && s.Leader != 0 {
			c.answer(w, r, nil, &notLeading{g.memberName(s, s.Leader)})
			return
		}
		m := g.members(s)
		err := g.inLoop(r.Context(), func() { m.Stale = g.core.stale() })
		c.answer(w, r, m, err)
	})
	serveChange(c, mux, "/v1/members", c.changeMembers)
	serveChange(c, mux, "/v1/drain", func(ctx context.Context, _ struct{}) (Members, error) {
		err := c.drain(ctx)
		if err == nil {
			c.log.Info("drained: it leads again only if no other controller does")
		}
		g := c.system()
		return g.members(g.node.Status()), err
	})
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

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 4 << 10

// serveChange serves requests that change something at once: change gets what is asked for, and returns the answer. Its
// context ends after changeTimeout.
func serveChange[Q, A any](c *Controller, mux *routes, path string,
	change func(context.Context, Q) (A, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var q Q
		if !c.asked(w, r, &q) {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
		defer cancel()
		a, err := change(ctx, q)
		c.answer(w, r, a, err)
	})
}

// asked reads the body of a request that changes something. Its content type must be JSON, which protects against
// cross-site requests: a web page in a browser cannot set that type without permission.
func (c *Controller) asked(w http.ResponseWriter, r *http.Request, to any) bool {
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		c.write(w, r, http.StatusUnsupportedMediaType,
			Refusal{Error: fmt.Sprintf("content type %q: send application/json", kind)})
		return false
	}
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		c.write(w, r, http.StatusBadRequest, Refusal{Error: fmt.Sprintf("the request cannot be decoded: %v", err)})
		return false
	}
	return true
}

func (c *Controller) answer(w http.ResponseWriter, r *http.Request, body any, err error) {
	var elsewhere *notLeading
	var absent *noApplication
	switch {
	case err == nil:
		c.write(w, r, http.StatusOK, body)
	case errors.As(err, &absent):
		c.write(w, r, http.StatusNotFound, Refusal{Error: err.Error()})
	case errors.As(err, &elsewhere) && elsewhere.leader != "":
		c.write(w, r, http.StatusMisdirectedRequest, Refusal{err.Error(), elsewhere.leader})
	case elsewhere != nil, errors.Is(err, consensus.ErrNotLeader), errors.Is(err, context.DeadlineExceeded):
		c.write(w, r, http.StatusServiceUnavailable, Refusal{Error: err.Error()})
	default:
		c.write(w, r, http.StatusConflict, Refusal{Error: err.Error()})
	}
}

func (c *Controller) write(w http.ResponseWriter, r *http.Request, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		c.log.Debug("answer not written", "to", r.RemoteAddr, "err", err)
	}
}
