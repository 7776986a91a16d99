package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/controller/optimizer"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Rates turns the counts of leaders, which only grow, into what has happened since they were last asked. The zero value
// is ready to use.
type Rates struct {
	last map[uint64]groupCounts
}

// groupCounts is what the leader of a group had counted when it was asked last.
type groupCounts struct {
	term             uint64
	seconds          float64
	handled          uint64 // by all actors
	local, crossings uint64
	actors           map[string]actorCounts
}

type actorCounts struct {
	handled uint64
	peers   map[string]PeerExchange
}

// Window is what has happened, and what is needed to move an actor.
type Window struct {
	optimizer.Window
	Who             map[string]ledger.Actor // by name
	Local, Crossing float64                 // messages per second, within groups and between them
}

// Next returns what has happened since it was last called, in the home groups of which that is known: the leader is the
// same. An actor that has arrived in a group in the meantime is in the next window.
func (r *Rates) Next(now time.Duration, groups []GroupTally, stays func(*ActorTally) bool) Window {
	w := Window{Window: optimizer.Window{Now: now, Loads: map[uint64]float64{}}, Who: map[string]ledger.Actor{}}
	x := exchanges{}
	counts := map[uint64]groupCounts{}
	for i := range groups {
		g := &groups[i]
		if g.Group == 0 {
			continue
		}
		is, was := countsOf(g), r.last[g.Group]
		counts[g.Group] = is
		seconds := is.seconds - was.seconds
		if was.actors == nil || was.term != is.term || seconds <= 0 {
			continue
		}
		w.Loads[g.Group] = float64(grown(is.handled, was.handled)) / seconds
		w.Local += float64(grown(is.local, was.local)) / seconds
		w.Crossing += float64(grown(is.crossings, was.crossings)) / seconds
		for j := range g.Actors {
			a := &g.Actors[j]
			before, known := was.actors[a.Actor]
			if _, twice := w.Who[a.Actor]; !known || twice {
				continue
			}
			w.Who[a.Actor] = a.actor()
			w.Actors = append(w.Actors, optimizer.Actor{Name: a.Actor, Group: g.Group, Stays: stays(a),
				Load: float64(grown(a.Inputs, before.handled)) / seconds})
			for _, p := range a.Peers {
				x.add(a.Actor, p.Actor, float64(grown(p.Sent, before.peers[p.Actor].Sent))/seconds)
				x.add(p.Actor, a.Actor, float64(grown(p.Received, before.peers[p.Actor].Received))/seconds)
			}
		}
	}
	r.last = counts
	for pair, rate := range x {
		if back, both := x[[2]string{pair[1], pair[0]}]; !both || pair[0] < pair[1] {
			w.Exchanges = append(w.Exchanges, optimizer.Exchange{A: pair[0], B: pair[1], Rate: rate + back})
		}
	}
	return w
}

// exchanges are the messages per second from one actor to another. Both may have counted them, but each counts only its
// most active peers.
type exchanges map[[2]string]float64

func (x exchanges) add(from, to string, rate float64) {
	pair := [2]string{from, to}
	x[pair] = max(x[pair], rate)
}

// grown returns by how much a count has grown. A leader may have begun to count again.
func grown(is, was uint64) uint64 {
	if is < was {
		return is
	}
	return is - was
}

func countsOf(g *GroupTally) groupCounts {
	c := groupCounts{term: g.Term, seconds: g.Seconds, handled: g.Others.Inputs, local: g.Local,
		actors: make(map[string]actorCounts, len(g.Actors))}
	for i := range g.Actors {
		a := &g.Actors[i]
		c.handled += a.Inputs
		peers := make(map[string]PeerExchange, len(a.Peers))
		for _, p := range a.Peers {
			peers[p.Actor] = p.PeerExchange
		}
		c.actors[a.Actor] = actorCounts{a.Inputs, peers}
	}
	for _, x := range g.Crossings {
		if x.Group != g.Group && x.Message != moveName {
			c.crossings += x.Messages
		}
	}
	return c
}
