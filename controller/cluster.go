package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// ClusterStatus is the state of the whole cluster, as the controller that was asked has learnt it from all controllers.
type ClusterStatus struct {
	By          string         `json:"by"`          // the controller that was asked
	Leader      string         `json:"leader"`      // of the first group; "" if none has answered as its leader
	Controllers []Answer       `json:"controllers"` // in the order of the cluster file of By
	Groups      []GroupView    `json:"groups"`      // by number
	Switches    []SwitchInView `json:"switches"`    // by datapath id
	// Suspended are the actors that handle nothing, because a handler did not return.
	Suspended []SuspendedStatus `json:"suspended"`
}

// Answer is what a controller says of itself, or why it says nothing.
type Answer struct {
	Name   string  `json:"name"`
	API    string  `json:"api"` // the address at which it was asked; "" if none is known
	Error  string  `json:"error,omitempty"`
	Status *Status `json:"status,omitempty"` // without Switches and Suspended
}

// GroupView is the state of a group at its leader. If no leader has answered, it is the state at another replica: at
// that of the controller that was asked, if it has one.
type GroupView struct {
	GroupStatus
	By        string   `json:"by"`                 // the controller with this replica
	Outdated  string   `json:"outdated,omitempty"` // why it is not the leader's; "" if it is
	DrainedAt []string `json:"drained_at"`         // the controllers whose replica of the group is drained
}

// SwitchInView is the state of a switch at the replica of its group that GroupView describes.
type SwitchInView struct {
	SwitchStatus
	By       string `json:"by"`                   // as in GroupView
	Master   string `json:"master"`               // "" if none is known
	Standbys int    `json:"standbys"`             // controllers that could take it over without missing an event
	Behind   int    `json:"standbys_not_in_sync"` // other controllers that are connected to it
}

// Of returns what a controller says of itself; nil if it has not answered.
func (s *ClusterStatus) Of(name string) *Status {
	for _, a := range s.Controllers {
		if a.Name == name {
			return a.Status
		}
	}
	return nil
}

// join returns the state of the cluster according to the answers of its controllers. by is the controller that asked.
func join(by string, answers []Answer) ClusterStatus {
	s := ClusterStatus{By: by, Controllers: answers, Groups: []GroupView{}, Switches: []SwitchInView{},
		Suspended: []SuspendedStatus{}}
	s.joinGroups()
	s.joinSwitches()
	s.joinSuspended()
	for i, a := range answers { // what they say of switches has been used
		if a.Status != nil {
			own := *a.Status
			own.Switches, own.Suspended = nil, nil
			s.Controllers[i].Status = &own
		}
	}
	if len(s.Groups) > 0 && s.Groups[0].Outdated == "" {
		s.Leader = s.Groups[0].By
	}
	return s
}

// joinGroups chooses for each group the replica that leads in the latest term; if none does, that of By, or another.
func (s *ClusterStatus) joinGroups() {
	groups := map[uint64]GroupView{}
	for _, a := range s.Controllers {
		if a.Status == nil {
			continue
		}
		for _, g := range a.Status.Groups {
			best, known := groups[g.Group]
			if g.Drained {
				best.DrainedAt = append(best.DrainedAt, a.Name)
			}
			if !known || g.leads() > best.leads() || a.Name == s.By && best.leads() == 0 {
				best.GroupStatus, best.By = g, a.Name
			}
			groups[g.Group] = best
		}
	}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		g := groups[n]
		if g.leads() == 0 {
			g.Outdated = s.noLeader(g.Leader)
		}
		s.Groups = append(s.Groups, g)
	}
}

// leads returns the term in which the replica leads; 0: it does not.
func (g GroupStatus) leads() uint64 {
	if g.Role != "leader" {
		return 0
	}
	return g.Term
}

// noLeader says why no controller has answered as the leader of a group, of which a replica takes leader for it.
func (s *ClusterStatus) noLeader(leader string) string {
	if leader == "" {
		return "no controller is known to lead it"
	}
	for _, a := range s.Controllers {
		switch {
		case a.Name != leader:
		case a.Error != "":
			return fmt.Sprintf("%s, which leads it, did not answer", leader)
		default:
			return fmt.Sprintf("%s no longer leads it, and no other controller does", leader)
		}
	}
	return fmt.Sprintf("%s, which leads it, was not asked", leader)
}

// joinSwitches lists the switches that each chosen replica knows.
func (s *ClusterStatus) joinSwitches() {
	ready, behind := map[string]int{}, map[string]int{}
	for _, a := range s.Controllers {
		if a.Status == nil {
			continue
		}
		for _, sw := range a.Status.Switches {
			switch {
			case sw.Role != "standby":
			case sw.InSync:
				ready[sw.Switch]++
			default:
				behind[sw.Switch]++
			}
		}
	}
	for _, g := range s.Groups {
		for _, sw := range s.Of(g.By).Switches {
			if sw.Group != g.Group {
				continue
			}
			v := SwitchInView{SwitchStatus: sw, By: g.By, Standbys: ready[sw.Switch], Behind: behind[sw.Switch]}
			if sw.Role == "master" {
				v.Master = g.By
			}
			s.Switches = append(s.Switches, v)
		}
	}
	slices.SortFunc(s.Switches, func(a, b SwitchInView) int { return strings.Compare(a.Switch, b.Switch) })
}

// joinSuspended lists the suspended actors that each chosen replica knows.
func (s *ClusterStatus) joinSuspended() {
	for _, g := range s.Groups {
		for _, a := range s.Of(g.By).Suspended {
			if a.Group == g.Group {
				s.Suspended = append(s.Suspended, a)
			}
		}
	}
}

// Bounds of what a controller asks the others.
const (
	askTimeout = 1500 * time.Millisecond // for the answer of another controller
	maxAnswer  = 64 << 20                // bytes of it
)

// Peer is a controller of the cluster file.
type Peer struct {
	Name string
	ID   uint64
	API  string // address; "" if it is not known
	// OpenFlow is the address for switches, "" if it is not known.
	OpenFlow string
}

// inquiry asks all controllers, for requests about the cluster.
type inquiry struct {
	c      *Controller
	http   *http.Client
	counts counts
}

func newInquiry(c *Controller) *inquiry {
	transport := &http.Transport{IdleConnTimeout: time.Minute} // no Proxy: those of the environment are not used
	if dial := c.cfg.DialAPI; dial != nil {
		transport.DialContext = func(ctx context.Context, _, address string) (net.Conn, error) {
			return dial(ctx, address)
		}
	}
	return &inquiry{c: c, http: &http.Client{Transport: transport},
		counts: counts{turn: make(chan struct{}, 1)}}
}

// client returns a client of another controller.
func (q *inquiry) client(p Peer) api.ClusterClient {
	return api.NewClusterClient(asking{q}, "http://"+p.API, connect.WithReadMaxBytes(maxAnswer),
		connect.WithAcceptCompression("gzip", nil, nil))
}

// asking proves with each request that a controller makes it.
type asking struct{ *inquiry }

// Do implements connect.HTTPClient.
func (a asking) Do(r *http.Request) (*http.Response, error) {
	a.c.cfg.Guard.Ask(r)
	return a.http.Do(r)
}

// cluster is the state of the cluster. It fails only if this controller is stopping, or ctx ends.
func (q *inquiry) cluster(ctx context.Context) (ClusterStatus, error) {
	own, err := q.c.Status(ctx)
	if err != nil {
		return ClusterStatus{}, err
	}
	var list []Answer
	for _, a := range askAll(ctx, q, &own, func(ctx context.Context, p api.ClusterClient) (proto.Message, error) {
		return p.GetController(ctx, &emptypb.Empty{})
	}) {
		list = append(list, Answer{a.Name, a.API, a.Error, a.value})
	}
	return join(own.Name, list), nil
}

// Asked is a controller that was asked, and why it did not answer.
type Asked struct {
	Name  string `json:"name"`
	API   string `json:"api"` // the address at which it was asked; "" if none is known
	Error string `json:"error,omitempty"`
}

type answered[T any] struct {
	Asked
	value *T // nil if there is an Error
}

// askAll asks all other controllers side by side, and adds what this one says.
func askAll[T any](ctx context.Context, q *inquiry, own *T,
	call func(context.Context, api.ClusterClient) (proto.Message, error)) []answered[T] {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	peers := q.c.peers()
	list := make([]answered[T], len(peers))
	var asked sync.WaitGroup
	for i, p := range peers {
		a := &list[i]
		if a.Name, a.API = p.Name, p.API; p.Name == q.c.cfg.Name {
			a.value = own
			continue
		}
		asked.Go(func() {
			said, err := q.ask(ctx, p, call)
			if err != nil {
				a.Error = err.Error()
				return
			}
			a.value = new(T)
			mirror.Copy(a.value, said)
		})
	}
	asked.Wait()
	return list
}

// ask asks one controller.
func (q *inquiry) ask(ctx context.Context, p Peer,
	call func(context.Context, api.ClusterClient) (proto.Message, error)) (proto.Message, error) {
	if p.API == "" {
		return nil, fmt.Errorf("%s was started with a cluster file that does not have %s", q.c.cfg.Name, p.Name)
	}
	said, err := call(ctx, q.client(p))
	in, is := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer from %s within %v", p.API, askTimeout)
	case is:
		return nil, in // it names the address
	case err != nil:
		return nil, fmt.Errorf("%s: %w", p.API, err)
	}
	return said, nil
}

// peers returns this controller, those of its cluster file that were not removed from the cluster, and the members that
// the file does not have.
func (c *Controller) peers() []Peer {
	s := c.system().node.Status()
	members := map[string]uint64{c.cfg.Name: c.cfg.Consensus.ID}
	for id := range s.Members {
		members[c.system().memberName(s, id)] = id
	}
	var list []Peer
	for _, p := range c.cfg.Peers {
		if _, is := members[p.Name]; is || !slices.Contains(s.Former, p.ID) {
			list = append(list, p)
		}
		delete(members, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		list = append(list, Peer{Name: name, ID: members[name]})
	}
	return list
}
