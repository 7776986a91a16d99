package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/tally"
)

// Tally is what actors have done in the groups that one controller leads, since it leads them.
type Tally struct {
	Name   string       `json:"name"` // of the controller
	Groups []GroupTally `json:"groups"`
}

// GroupTally is what the actors of one group have done.
type GroupTally struct {
	Group   uint64  `json:"group"`
	Term    uint64  `json:"term"`    // in which it was counted
	Seconds float64 `json:"seconds"` // since the term began
	// Messages from one actor to another within the group.
	Local uint64 `json:"local_messages"`
	// Partial: only a part of the cells was measured, because there are too many.
	Partial  bool           `json:"bytes_partial,omitempty"`
	Actors   []ActorTally   `json:"actors"`
	Others   ActorTally     `json:"others"` // the sum of all actors that are not among Actors
	Handlers []HandlerTally `json:"handlers"`
	// Messages that have come from other groups.
	Crossings []CrossingTally   `json:"crossings"`
	Suspended []SuspendedStatus `json:"suspended"`
}

// ActorTally is what one actor has done. A switch is an actor without an application: its inputs are commands, and its
// outputs are events.
type ActorTally struct {
	Actor    string       `json:"actor,omitempty"` // its name, as in Peers
	App      string       `json:"app,omitempty"`
	Switch   string       `json:"switch,omitempty"`
	Key      ledger.Key   `json:"key,omitzero"`
	Inputs   uint64       `json:"inputs"`
	Outputs  uint64       `json:"outputs"`
	Failures uint64       `json:"failures"` // inputs on which its handler failed
	Late     uint64       `json:"late"`     // messages that waited because of the limit of its application
	Dropped  uint64       `json:"dropped"`  // messages that were dropped because of it
	BusyMs   float64      `json:"busy_ms"`  // in handlers; an estimate from a sample
	Bytes    int          `json:"bytes"`    // of its cells
	Bond     *BondTally   `json:"bond,omitempty"`
	Peers    []PeerTally  `json:"peers,omitempty"`
	Rest     PeerExchange `json:"other_peers,omitzero"`
}

// BondTally says to which actor another one comes, because a handler names their cells together; see ledger.Bond. That
// may be the actor itself.
type BondTally struct {
	To      string `json:"to"`
	Handler string `json:"handler"` // with its file and line
}

// PeerTally is what an actor has exchanged with another one.
type PeerTally struct {
	Actor string `json:"actor"`
	PeerExchange
}

// PeerExchange counts messages.
type PeerExchange struct {
	Sent     uint64 `json:"sent"`
	Received uint64 `json:"received"`
}

// HandlerTally is what the actors of an application have done with a type of message.
type HandlerTally struct {
	App      string        `json:"app"`
	Message  string        `json:"message"`
	Inputs   uint64        `json:"inputs"`
	Failures uint64        `json:"failures"`
	Effects  []EffectTally `json:"causes"` // what handlers have sent because of it, the most frequent first
	// The actor that has handled them all; "" if several have.
	By string `json:"by"`
	// How many actors have sent them to By, if one has handled them all; at most tally.MaxSources are told apart.
	Sources int `json:"sources"`
}

// EffectTally counts messages of a type.
type EffectTally struct {
	Message string `json:"message"`
	Count   uint64 `json:"count"`
}

// CrossingTally counts messages of a type that have come from actors of an application in another group to those of an
// application in this one. Switches have no application.
type CrossingTally struct {
	Group    uint64 `json:"group"` // from which they came
	From     string `json:"from"`  // application; "" for switches
	To       string `json:"to"`    // likewise
	Message  string `json:"message"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// measureRest is how long the measurement of tables rests after every few thousand values. An idle processor looks at
// the network, which Go's scheduler does not do while goroutines are ready.
const measureRest = time.Millisecond

// Tally returns what actors have done in the groups that this controller leads. Nothing of it is replicated: when a
// group has a new leader, its counts begin at zero. Safe for concurrent use.
func (c *Controller) Tally(ctx context.Context) (Tally, error) {
	t := Tally{Name: c.cfg.Name, Groups: []GroupTally{}}
	for i, g := range c.groups.all() {
		var r ledger.Report
		var counted bool
		var term uint64
		var suspended []ledger.Suspended
		err := g.inLoop(ctx, func() {
			r, counted = g.core.ledger.Report()
			term = g.core.role.Term
			suspended = g.core.ledger.Suspended()
		})
		if i > 0 && errors.Is(err, errClosing) {
			continue // it has just left the group, or begins anew
		}
		if err != nil {
			return t, fmt.Errorf("actors of controller %s: %w", c.cfg.Name, err)
		}
		if counted {
			r.Measure(func() { time.Sleep(measureRest) })
			of := DescribeReport(g.number(), term, &r)
			of.Suspended = describeSuspended(g.number(), suspended)
			t.Groups = append(t.Groups, of)
		}
	}
	return t, nil
}

// Counting says whether a controller counts what actors do.
type Counting struct {
	On bool `json:"on"`
}

// count makes the controller stop counting what actors do, or go on, until it ends.
func (c *Controller) count(ctx context.Context, q Counting) error {
	for i, g := range c.groups.all() {
		err := g.inLoop(ctx, func() { g.core.ledger.Count(q.On) })
		if i > 0 && errors.Is(err, errClosing) {
			continue // as in Tally
		}
		if err != nil {
			return fmt.Errorf("counts of controller %s: %w", c.cfg.Name, err)
		}
	}
	return nil
}

// DescribeReport describes a report, outside of the loop: that may take a while.
func DescribeReport(group, term uint64, r *ledger.Report) GroupTally {
	g := GroupTally{Group: group, Term: term, Seconds: r.For.Seconds(), Local: r.Local, Partial: r.Partial,
		Actors: []ActorTally{}, Handlers: []HandlerTally{}, Crossings: []CrossingTally{}}
	for i := range r.Actors {
		a := &r.Actors[i]
		out := actorTally(a, r.Bytes[a.ID])
		out.Actor, out.App, out.Key = a.ID.String(), a.ID.App, a.ID.Key
		if a.ID.Switch != 0 {
			out.Switch = a.ID.Switch.String()
		}
		if b, bonded := r.Bonds[a.ID]; bonded {
			out.Bond = &BondTally{ledger.Actor{App: a.ID.App, Shard: b.To}.String(), b.By}
		}
		g.Actors = append(g.Actors, out)
	}
	g.Others = actorTally(&r.Others, r.OtherBytes)
	for i := range r.Handlers {
		h := &r.Handlers[i]
		out := HandlerTally{App: h.App, Message: messageName(r, h.Type), Inputs: h.Inputs, Failures: h.Failures,
			Sources: h.Sources, Effects: []EffectTally{}}
		if !h.Several && h.Inputs > 0 {
			out.By = h.By.String()
		}
		for _, e := range h.Effects {
			out.Effects = append(out.Effects, EffectTally{messageName(r, e.Type), e.Count})
		}
		g.Handlers = append(g.Handlers, out)
	}
	for _, x := range r.Crossings {
		g.Crossings = append(g.Crossings, CrossingTally{x.Group, x.From, x.To, messageName(r, x.Type), x.Messages,
			x.Bytes})
	}
	return g
}

func actorTally(a *tally.ActorReport[ledger.Actor], bytes int) ActorTally {
	t := ActorTally{Inputs: a.Inputs, Outputs: a.Outputs, Failures: a.Failures,
		Late: a.Late, Dropped: a.Dropped,
		BusyMs: inMs(a.Busy), Bytes: bytes, Rest: PeerExchange(a.Rest)}
	for _, p := range a.Peers {
		t.Peers = append(t.Peers, PeerTally{p.ID.String(), PeerExchange(p.Exchanged)})
	}
	return t
}

// moveName is the name of the type of messages that bring an actor to another group.
const moveName = "actor that moves"

var kindNames = map[ledger.InputKind]string{ledger.SwitchUp: "SWITCH_UP", ledger.SwitchDown: "SWITCH_DOWN",
	ledger.Timer: "timer", ledger.ReplayedInput: "any", ledger.Request: "request", ledger.Discarded: "void command",
	ledger.Called: "call", ledger.Forgotten: "forgetting"}

// messageName returns the name of a type of message: that of OpenFlow, that of the Go type of an emitted message, or
// what the ledger calls the input.
func messageName(r *ledger.Report, t tally.Type) string {
	name, kind := r.Name(t), kindNames[ledger.KindOfType(t)]
	switch {
	case name != "":
		return name
	case kind != "":
		return kind
	case t == ledger.TypeOfMove:
		return moveName
	case t == tally.Unnamed:
		return "other"
	}
	return of13.TypeName(uint8(t))
}

// actors is what the actors of the cluster have done.
func (q *inquiry) actors(ctx context.Context) (Actors, error) {
	list, _, err := q.counted(ctx)
	all := joinActors(q.c.cfg.Name, list)
	all.Leaderless = q.c.leaderless()
	for i := range all.Actors {
		a := &all.Actors[i]
		a.Stays, a.Limit = q.c.stays(&a.ActorTally), q.c.limit(a.App)
	}
	return all, err
}

func (q *inquiry) matrix(ctx context.Context) (Matrix, error) {
	list, _, err := q.counted(ctx)
	m := joinMatrix(q.c.cfg.Name, list)
	m.Leaderless = q.c.leaderless()
	return m, err
}

func (q *inquiry) advice(ctx context.Context) (Advice, error) {
	list, _, err := q.counted(ctx)
	a := joinAdvice(q.c.cfg.Name, list, q.c.reasons())
	a.Leaderless = q.c.leaderless()
	return a, err
}

// leaderless returns the groups with a replica here that knows no leader.
func (c *Controller) leaderless() (list []uint64) {
	for _, g := range c.groups.all() {
		if g.node.Status().Leader == 0 {
			list = append(list, g.number())
		}
	}
	return list
}

// tallies asks all controllers what they have counted.
func (q *inquiry) tallies(ctx context.Context) ([]answered[Tally], error) {
	own, err := q.c.Tally(ctx)
	if err != nil {
		return nil, err
	}
	return askAll(ctx, q, &own, func(ctx context.Context, p api.ClusterClient) (proto.Message, error) {
		return p.GetTally(ctx, &emptypb.Empty{})
	}), nil
}

// countsAge is how long the counts that have come are used for answers. Watches tell counters every two.
const countsAge = time.Second

// counts are what tallies has returned, for requests that come more often. To count costs each controller a millisecond
// or more, and all of them at once, so that a hundred dashboards would delay the loops of their groups.
type counts struct {
	turn chan struct{} // capacity 1: taken to use the fields below
	at   time.Time     // the answers of the controllers were there
	list []answered[Tally]
}

// counted returns what tallies has returned within countsAge, and when. It must not be modified. Those who wait while
// the controllers are asked get the same list, also if one of them hangs until it is given up.
func (q *inquiry) counted(ctx context.Context) (list []answered[Tally], at time.Time, err error) {
	k := &q.counts
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return nil, time.Time{}, ctx.Err()
	}
	if time.Since(k.at) < countsAge {
		return k.list, k.at, nil
	}
	// with little time left of this request, controllers that work would not answer in it, and others be told so
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), computeTimeout)
	defer cancel()
	list, err = q.tallies(asking)
	if err == nil {
		k.at, k.list = time.Now(), list
	}
	return list, k.at, err
}
