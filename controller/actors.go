package controller

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Actors is what the actors of the whole cluster have done, as the controller that was asked has learnt it from the
// leaders of all groups. Each group is counted since its leader leads it.
type Actors struct {
	By          string         `json:"by"`                   // the controller that was asked
	Controllers []Asked        `json:"controllers"`          // that it asked
	Groups      []CountedGroup `json:"groups"`               // those whose leader has answered
	Leaderless  []uint64       `json:"leaderless,omitempty"` // groups of which By has a replica that knows no leader
	Actors      []ActorView    `json:"actors"`               // the busiest first
	// Others has for each group the sum of the actors that are not among Actors.
	Others   []ActorView   `json:"others"`
	Handlers []HandlerView `json:"handlers"` // by application and message
	// Suspended are the actors that handle nothing, because a handler did not return.
	Suspended []SuspendedStatus `json:"suspended"`
	Bonds     []BondView        `json:"bonds"` // of actors whose cells are named together, the largest first
}

// CountedGroup is a group of which something was counted.
type CountedGroup struct {
	Group   uint64  `json:"group"`
	Leader  string  `json:"leader"`
	Seconds float64 `json:"seconds"` // since it leads the group
	Partial bool    `json:"bytes_partial,omitempty"`
}

// ActorView is what an actor has done, and where it lives.
type ActorView struct {
	ActorTally
	Group  uint64 `json:"group"`
	Leader string `json:"leader"` // of the group
	// Stays is why the optimizer does not move it: "pinned" by an operator, "sticky" by its application, with its
	// "switch", "hosted", for applications of Ryu, or "bonded", because its cells are named with those of others. ""
	// if it may.
	Stays string `json:"stays,omitzero"`
	// Limit is how many messages a second it handles at most; 0 is no bound. See app.App.RateLimit.
	Limit int `json:"limit,omitzero"`
}

// BondView is the actors that come to one of them, because a handler names their cells together. They live in one
// group.
type BondView struct {
	App string `json:"app"`
	BondTally
	Actors int `json:"actors"` // that are bonded
	Of     int `json:"of"`     // actors of the application that belong to no switch, among those that were counted
}

// joinBonds returns the bonds of actors, and which handlers have caused them.
func joinBonds(actors []ActorView) []BondView {
	bonds, of := map[BondView]int{}, map[string]int{}
	for i := range actors {
		switch a := &actors[i]; {
		case a.App == "" || a.Switch != "":
			continue
		case a.Bond != nil:
			bonds[BondView{App: a.App, BondTally: *a.Bond}]++
			fallthrough
		default:
			of[a.App]++
		}
	}
	list := []BondView{}
	for b, n := range bonds {
		b.Actors, b.Of = n, of[b.App]
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b BondView) int {
		return cmp.Or(cmp.Compare(b.Actors, a.Actors), strings.Compare(a.App, b.App), strings.Compare(a.To, b.To),
			strings.Compare(a.Handler, b.Handler))
	})
	return list
}

// HandlerView is what an application has done with a type of message, in all groups.
type HandlerView struct {
	HandlerTally
	// Centralised: one actor has handled all messages, and several actors have sent them. It limits how far the
	// application scales: see holdfast actors in docs/operating/groups.md.
	Centralised bool `json:"centralised"`
}

// counted is a group with its leader.
type counted struct {
	GroupTally
	leader string
}

// countedGroups returns the groups of all answers, by number; of two controllers that say that they lead one, the
// leader of the later term.
func countedGroups(list []answered[Tally]) []counted {
	groups := map[uint64]counted{}
	for _, a := range list {
		if a.value == nil {
			continue
		}
		for _, g := range a.value.Groups {
			if other, known := groups[g.Group]; !known || other.Term < g.Term {
				groups[g.Group] = counted{g, a.Name}
			}
		}
	}
	var all []counted
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, groups[n])
	}
	return all
}

func asked(list []answered[Tally]) (all []Asked) {
	for _, a := range list {
		all = append(all, a.Asked)
	}
	return all
}

// joinActors returns what the actors of the cluster have done according to the answers of its controllers.
func joinActors(by string, list []answered[Tally]) Actors {
	s := Actors{By: by, Controllers: asked(list), Groups: []CountedGroup{}, Actors: []ActorView{},
		Others: []ActorView{}, Handlers: []HandlerView{}, Suspended: []SuspendedStatus{}}
	handlers := map[[2]string]*HandlerView{}
	for _, g := range countedGroups(list) {
		s.Groups = append(s.Groups, CountedGroup{g.Group, g.leader, g.Seconds, g.Partial})
		for _, a := range g.Actors {
			s.Actors = append(s.Actors, ActorView{ActorTally: a, Group: g.Group, Leader: g.leader})
		}
		s.Suspended = append(s.Suspended, g.Suspended...)
		s.Others = append(s.Others, ActorView{ActorTally: g.Others, Group: g.Group, Leader: g.leader})
		for _, h := range g.Handlers {
			key := [2]string{h.App, h.Message}
			if handlers[key] == nil {
				handlers[key] = &HandlerView{HandlerTally: h}
			} else {
				handlers[key].add(h)
			}
		}
	}
	slices.SortFunc(s.Actors, func(a, b ActorView) int {
		return cmp.Or(cmp.Compare(b.BusyMs, a.BusyMs), cmp.Compare(b.Inputs+b.Outputs, a.Inputs+a.Outputs),
			strings.Compare(a.Actor, b.Actor))
	})
	for _, h := range handlers {
		h.Centralised = h.By != "" && h.Sources > 1
		s.Handlers = append(s.Handlers, *h)
	}
	slices.SortFunc(s.Handlers, func(a, b HandlerView) int {
		return cmp.Or(strings.Compare(a.App, b.App), strings.Compare(a.Message, b.Message))
	})
	s.Bonds = joinBonds(s.Actors)
	return s
}

// add adds what the application has done in another group. Where it has only sent something, no actor has handled it.
func (h *HandlerView) add(o HandlerTally) {
	switch {
	case o.Inputs == 0:
	case h.Inputs == 0:
		h.By, h.Sources = o.By, o.Sources
	case h.By != o.By || o.By == "":
		h.By, h.Sources = "", 0
	default: // it has moved
		h.Sources = max(h.Sources, o.Sources)
	}
	h.Inputs += o.Inputs
	h.Failures += o.Failures
	h.Effects = slices.Clone(h.Effects)
	for _, e := range o.Effects {
		if i := slices.IndexFunc(h.Effects, func(k EffectTally) bool { return k.Message == e.Message }); i >= 0 {
			h.Effects[i].Count += e.Count
		} else {
			h.Effects = append(h.Effects, e)
		}
	}
	slices.SortStableFunc(h.Effects, func(a, b EffectTally) int { return cmp.Compare(b.Count, a.Count) })
}

// Matrix is how many messages of actors the controllers have exchanged: the leader of the group of the sender, and that
// of the group of the receiver. What the replicas of a group send to each other is not in it.
type Matrix struct {
	By          string         `json:"by"`                   // the controller that was asked
	Controllers []Asked        `json:"controllers"`          // that it asked
	Groups      []CountedGroup `json:"groups"`               // those whose leader has answered
	Leaderless  []uint64       `json:"leaderless,omitempty"` // as in Actors
	Cells       []MatrixCell   `json:"cells"`                // by From and To; those without a message are left out
	Crossings   []CrossingView `json:"crossings"`            // the most messages first
}

// MatrixCell counts the messages from one controller to another. Of those within a group the bytes are not known.
type MatrixCell struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// CrossingView counts the messages of a type between two applications that have crossed the boundary of a group.
type CrossingView struct {
	From     string `json:"from"` // application; "" for switches
	To       string `json:"to"`   // likewise
	Message  string `json:"message"`
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
}

// joinMatrix returns the matrix according to the answers of the controllers. A group that is not led by any of them, or
// not any more, has its messages with a controller "".
func joinMatrix(by string, list []answered[Tally]) Matrix {
	groups := countedGroups(list)
	m := Matrix{By: by, Controllers: asked(list), Groups: []CountedGroup{}, Cells: []MatrixCell{},
		Crossings: []CrossingView{}}
	leader := map[uint64]string{}
	for _, g := range groups {
		leader[g.Group] = g.leader
		m.Groups = append(m.Groups, CountedGroup{g.Group, g.leader, g.Seconds, g.Partial})
	}
	cells, crossings := map[[2]string]*MatrixCell{}, map[CrossingView]*CrossingView{}
	cell := func(from, to string) *MatrixCell {
		key := [2]string{from, to}
		if cells[key] == nil {
			cells[key] = &MatrixCell{From: from, To: to}
		}
		return cells[key]
	}
	for _, g := range groups {
		if g.Local > 0 {
			cell(g.leader, g.leader).Messages += g.Local
		}
		for _, x := range g.Crossings {
			c := cell(leader[x.Group], g.leader)
			c.Messages += x.Messages
			c.Bytes += x.Bytes
			if x.Group == g.Group {
				continue // on a stream within the group
			}
			key := CrossingView{From: x.From, To: x.To, Message: x.Message}
			if crossings[key] == nil {
				sum := key
				crossings[key] = &sum
			}
			crossings[key].Messages += x.Messages
			crossings[key].Bytes += x.Bytes
		}
	}
	for _, c := range cells {
		m.Cells = append(m.Cells, *c)
	}
	slices.SortFunc(m.Cells, func(a, b MatrixCell) int {
		return cmp.Or(strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	for _, x := range crossings {
		m.Crossings = append(m.Crossings, *x)
	}
	slices.SortFunc(m.Crossings, func(a, b CrossingView) int {
		return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.Message, b.Message),
			strings.Compare(a.From, b.From), strings.Compare(a.To, b.To))
	})
	return m
}
