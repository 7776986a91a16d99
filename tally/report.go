package tally

import (
	"cmp"
	"slices"
	"strings"
)

// Report is what a Tally has counted.
type Report[ID comparable] struct {
	Actors    []ActorReport[ID]   // in any order
	Others    ActorReport[ID]     // the sum of all that are not among Actors, without an ID
	Handlers  []HandlerReport[ID] // by application and type
	Local     uint64              // messages from one actor to another within the group
	Crossings []Crossing          // from other groups, in any order
	names     []string            // from FirstName on
}

// Name is the inverse of Tally.Named; "" if the type has no name.
func (r *Report[ID]) Name(typ Type) string {
	if i := int(typ) - int(FirstName); i >= 0 && i < len(r.names) {
		return r.names[i]
	}
	return ""
}

// ActorReport is what was counted of an actor.
type ActorReport[ID comparable] struct {
	ID ID
	Counts
	Peers []PeerReport[ID] // the most active ones, at most MaxPeers, most messages first
	Rest  Exchanged        // with all others
}

// PeerReport is what was counted of an actor and another one.
type PeerReport[ID comparable] struct {
	ID ID
	Exchanged
}

// HandlerReport is what was counted of what the actors of an application do with a type of message.
type HandlerReport[ID comparable] struct {
	App              string
	Type             Type
	Inputs, Failures uint64
	Effects          []Effect // the most frequent first
	By               ID       // the actor that has handled them all, unless Several have
	Several          bool
	// Sources is how many actors have sent them to By, at most MaxSources; 0 if Several have handled them.
	Sources int
}

// Report returns what was counted. lives tells which actors live in the group: only these are in it.
func (t *Tally[ID]) Report(lives func(ID) bool) Report[ID] {
	r := Report[ID]{Local: t.local, Others: t.others.report(), names: slices.Clone(t.names)}
	for id, a := range t.actors {
		if a.used() && lives(id) {
			r.Actors = append(r.Actors, a.report())
		}
	}
	for _, a := range t.apps {
		for _, c := range a.causes {
			h := HandlerReport[ID]{App: a.name, Type: c.in, Inputs: c.inputs, Failures: c.failures, By: c.by,
				Several: c.several, Sources: len(c.sources), Effects: slices.Clone(c.effects)}
			slices.SortFunc(h.Effects, func(a, b Effect) int {
				return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Type, b.Type))
			})
			r.Handlers = append(r.Handlers, h)
		}
	}
	slices.SortFunc(r.Handlers, func(a, b HandlerReport[ID]) int {
		return cmp.Or(strings.Compare(a.App, b.App), cmp.Compare(a.Type, b.Type))
	})
	for _, c := range t.crossings {
		r.Crossings = append(r.Crossings, *c)
	}
	return r
}

// used reports whether anything was counted.
func (a *Actor[ID]) used() bool {
	return a.counts != (Counts{}) || len(a.peers.who) > 0 || a.peers.rest != (Exchanged{})
}

func (a *Actor[ID]) report() ActorReport[ID] {
	r := ActorReport[ID]{ID: a.id, Counts: a.counts, Rest: a.peers.rest}
	for i, who := range a.peers.who {
		if who.gone {
			r.Rest.add(a.peers.counts[i].Exchanged)
			continue
		}
		r.Peers = append(r.Peers, PeerReport[ID]{who.id, a.peers.counts[i].Exchanged})
	}
	slices.SortStableFunc(r.Peers, func(a, b PeerReport[ID]) int {
		return cmp.Compare(b.Sent+b.Received, a.Sent+a.Received)
	})
	return r
}
