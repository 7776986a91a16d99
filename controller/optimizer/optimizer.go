// Package optimizer decides which actors should live in another group, so that fewer messages go from one group to
// another. It is the greedy heuristic of Beehive (section 3.5): messages are handled close to their source.
//
// It is pure: a Window says what the actors have exchanged lately, and Decide returns what should move, and what should
// not yet, with the reason. It measures nothing and moves nothing; package controller does. It has nothing to do with
// the replicas of groups, which package internal/placement distributes.
package optimizer

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Config says when an actor moves.
type Config struct {
	// Threshold is the least number of messages per second between groups that a move must save. A move saves a
	// Margin of what the actor exchanges, too.
	Threshold float64
	// Windows is how many windows in a row an actor must prefer the same group before it moves there; at least 1.
	Windows int
	// Cooldown is how long an actor stays after a move, whoever asked for it.
	Cooldown time.Duration
	// Load is how many messages per second the actors of a group may handle after an actor has moved there. A group
	// that is above it already gets no more actors, and keeps those that it has.
	Load float64
}

// Margin is the least share of an actor's messages that a move must save, so that it does not follow small differences.
const Margin = 0.1

// MaxMoves bounds the actors that move after one window.
const MaxMoves = 64

// Window is what has happened in a cluster in a short time. Rates are messages per second.
type Window struct {
	Now       time.Duration // since any fixed moment; it only grows
	Actors    []Actor       // each once
	Exchanges []Exchange
	Loads     map[uint64]float64 // what the actors of each group handle; an actor moves only to one of these groups
}

// Actor is one actor in a Window.
type Actor struct {
	Name  string
	Group uint64
	Load  float64 // what it handles
	Stays bool    // it must not move
}

// Exchange is what two actors send to each other. It has no effect if one of them is not among the Actors of a Window.
type Exchange struct {
	A, B string
	Rate float64
}

// Verdict says what happens to an actor that another group would suit better.
type Verdict string

// The verdicts.
const (
	Moves    Verdict = "moves"
	Waits    Verdict = "waits"     // it has not preferred that group for enough windows
	Cools    Verdict = "cools"     // its last move was a short time ago
	Overload Verdict = "overload"  // the group would have too much to do
	TooMany  Verdict = "too many"  // enough others move now
	Follows  Verdict = "no longer" // another actor moves in this window, so this one would gain too little
)

// Decision is about one actor that another group would suit better.
type Decision struct {
	Actor     string  `json:"actor"`
	From      uint64  `json:"from"`
	To        uint64  `json:"to"`
	Exchanged float64 `json:"exchanged_per_s"` // with all actors
	Saves     float64 `json:"saves_per_s"`     // of these, no longer between groups
	Windows   int     `json:"windows"`         // for which it has preferred that group
	Verdict   Verdict `json:"verdict"`
}

// Optimizer remembers what it needs of earlier windows: which group each actor preferred, and when it moved. It is not
// safe for concurrent use.
type Optimizer struct {
	cfg     Config
	prefers map[string]preference // the candidates of the last window
	seen    map[string]place      // the actors of the windows within the last Cooldown
}

type preference struct {
	group   uint64
	windows int
}

// place is where an actor was last, and since when.
type place struct {
	group       uint64
	since, seen time.Duration
	moved       bool // it was elsewhere before since
}

// New returns an Optimizer without any memory.
func New(cfg Config) *Optimizer {
	return &Optimizer{cfg: cfg, prefers: map[string]preference{}, seen: map[string]place{}}
}

// Decide returns the actors that another group would suit better, those that save the most first. If the same window
// comes again and again, each placement is better than all before it, so moves end.
func (o *Optimizer) Decide(w Window) []Decision {
	o.look(w)
	g := newGraph(w)
	var list []candidate
	prefers := map[string]preference{}
	for i, a := range w.Actors {
		to, saves, exchanged := g.best(i)
		if !o.worth(saves, exchanged) {
			continue
		}
		p := preference{to, 1}
		if last := o.prefers[a.Name]; last.group == to {
			p.windows = last.windows + 1
		}
		prefers[a.Name] = p
		list = append(list, candidate{i, Decision{Actor: a.Name, From: a.Group, To: to, Exchanged: exchanged,
			Saves: saves, Windows: p.windows}})
	}
	o.prefers = prefers
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.Saves, a.Saves), cmp.Compare(a.Actor, b.Actor))
	})
	moves := 0
	var decisions []Decision
	for _, c := range list {
		if c.Verdict = o.verdict(w, g, c, moves); c.Verdict == Moves {
			g.move(c.index, c.To, w.Actors[c.index].Load)
			moves++
		}
		decisions = append(decisions, c.Decision)
	}
	return decisions
}

type candidate struct {
	index int // of the actor
	Decision
}

func (o *Optimizer) worth(saves, exchanged float64) bool {
	return saves > 0 && saves >= o.cfg.Threshold && saves >= Margin*exchanged
}

// verdict decides about one actor, given what was decided about those before it.
func (o *Optimizer) verdict(w Window, g *graph, c candidate, moves int) Verdict {
	at := o.seen[c.Actor]
	to, saves, exchanged := g.best(c.index)
	switch {
	case c.Windows < o.cfg.Windows:
		return Waits
	case at.moved && w.Now-at.since < o.cfg.Cooldown:
		return Cools
	case to != c.To || !o.worth(saves, exchanged):
		return Follows
	case g.loads[to]+w.Actors[c.index].Load > o.cfg.Load:
		return Overload
	case moves >= MaxMoves:
		return TooMany
	}
	return Moves
}

// look notes where the actors are. An actor that nothing was heard of for Cooldown is forgotten.
func (o *Optimizer) look(w Window) {
	for _, a := range w.Actors {
		at, known := o.seen[a.Name]
		if at.group != a.Group {
			at = place{group: a.Group, since: w.Now, moved: known}
		}
		at.seen = w.Now
		o.seen[a.Name] = at
	}
	maps.DeleteFunc(o.seen, func(_ string, at place) bool { return w.Now-at.seen > o.cfg.Cooldown })
}

// graph is a Window as the decisions about it change it.
type graph struct {
	at    []uint64 // the group of each actor
	stays []bool
	edges [][]edge
	loads map[uint64]float64
	near  map[uint64]float64 // scratch
}

type edge struct {
	to   int
	rate float64
}

func newGraph(w Window) *graph {
	g := &graph{edges: make([][]edge, len(w.Actors)), loads: maps.Clone(w.Loads), near: map[uint64]float64{}}
	index := make(map[string]int, len(w.Actors))
	for i, a := range w.Actors {
		index[a.Name] = i
		g.at, g.stays = append(g.at, a.Group), append(g.stays, a.Stays)
	}
	for _, e := range w.Exchanges {
		a, isA := index[e.A]
		b, isB := index[e.B]
		if isA && isB && a != b {
			g.edges[a] = append(g.edges[a], edge{b, e.Rate})
			g.edges[b] = append(g.edges[b], edge{a, e.Rate})
		}
	}
	return g
}

// best returns the group in which an actor would exchange the most messages with others of that group, how many more
// these are than where it is, and how many it exchanges in all. saves is 0 if it is well where it is, or stays.
func (g *graph) best(i int) (to uint64, saves, exchanged float64) {
	if g.stays[i] {
		return g.at[i], 0, 0
	}
	clear(g.near)
	for _, e := range g.edges[i] {
		g.near[g.at[e.to]] += e.rate
		exchanged += e.rate
	}
	to = g.at[i]
	for group, rate := range g.near {
		if _, live := g.loads[group]; live && (rate > g.near[to] || rate == g.near[to] && to != g.at[i] && group < to) {
			to = group
		}
	}
	return to, g.near[to] - g.near[g.at[i]], exchanged
}

func (g *graph) move(i int, to uint64, load float64) {
	g.loads[g.at[i]] -= load
	g.loads[to] += load
	g.at[i] = to
}
