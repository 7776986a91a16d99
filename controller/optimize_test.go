package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller/optimizer"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// meters are two applications that flood packets, and count those of each switch in an actor that may live anywhere,
// and that begins in group 1. One is sticky, and answers nothing.
func meters() []ledger.Application {
	flood := of13.Actions(nil).Output(of13.PortFlood, 0)
	meter := func(name string, answers bool) *app.App {
		a := app.New(name)
		counts := app.NewTable[uint64, uint64](a, "counts", app.Sharded)
		app.Place(a, func(_ uint64, groups []app.Group) app.Group { return slices.Min(groups) })
		app.Handle(a, func(in app.PacketIn) app.Cells { return app.Need(counts.Cell(uint64(in.Switch))) },
			func(tx *app.Tx, in app.PacketIn) error {
				n, _ := counts.Get(tx, uint64(in.Switch))
				counts.Put(tx, uint64(in.Switch), n+1)
				if answers {
					out := of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort, Actions: flood}
					if in.BufferID == of13.NoBuffer {
						out.Data = in.Data
					}
					tx.PacketOut(in.Switch, out)
				}
				return nil
			})
		return a
	}
	return []ledger.Application{meter("meter", true), meter("sticky", false).Sticky()}
}

// TestOptimizer: while packets are answered, the optimizer brings the actors of an application to the switches whose
// packets they handle, but for one that is pinned and for those of a sticky application. Beehive, section 3.5.
func TestOptimizer(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: meters, several: true, timeout: 10 * time.Second,
		optimizer: &OptimizerConfig{Window: 250 * time.Millisecond, Config: optimizer.Config{Threshold: 5, Windows: 2,
			Cooldown: 5 * time.Second, Load: 1e6}}})
	const switches = 6
	s.waitGroups()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan load.Result, 1)
	go func() {
		r, err := load.Run(ctx, load.Config{Switches: switches, Window: 1, Duration: 12 * time.Second,
			Drain: 20 * time.Second, Dial: load.At(s.agent.String())})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		ended <- r
	}()
	c := s.controllers[1]
	meter := func(app string, sw openflow.DatapathID) ledger.Actor {
		return ledger.Actor{App: app, Shard: ledger.Shard{Key: ledger.Key{A: uint64(sw)}}}
	}
	pinned := openflow.DatapathID(0) // the first of them that does not belong to group 1
	apart := 0                       // actors elsewhere than their switches, but for that one
	for id := openflow.DatapathID(1); id <= switches; id++ {
		await.Until(t, "the actors to be assigned", func() bool {
			_, switched := c.assigned.ofSwitch(id)
			_, known := c.lives(meter("meter", id))
			return known && switched
		})
		at, _ := c.assigned.ofSwitch(id)
		if lives, _ := c.lives(meter("meter", id)); at.Group != 1 && pinned == 0 {
			pinned = id
			if _, err := c.pin(t.Context(), Pin{App: "meter", Key: ledger.Key{A: uint64(id)}, Pinned: true}); err != nil {
				t.Fatal(err)
			}
		} else if lives.Group != at.Group {
			apart++
		}
	}
	if pinned == 0 {
		t.Fatal("all switches belong to group 1")
	}
	first, _ := c.lives(meter("meter", pinned)) // it may have moved before it was pinned
	for id := openflow.DatapathID(1); id <= switches; id++ {
		await.Until(t, fmt.Sprint("the actor of switch ", id), func() bool {
			at, _ := c.assigned.ofSwitch(id)
			lives, _ := c.lives(meter("meter", id))
			return id == pinned || lives.Group == at.Group
		})
		if at, _ := c.lives(meter("sticky", id)); at.Version != 1 {
			t.Errorf("the sticky actor of switch %d has moved: it has %+v", id, at)
		}
	}
	if at, _ := c.lives(meter("meter", pinned)); at != first {
		t.Errorf("the pinned actor had %+v, and has %+v", first, at)
	}
	var moves []PlacementMove
	await.Until(t, "the moves to be recorded", func() bool { // after all that were decided at once have ended
		moves = nil
		for _, c := range s.controllers {
			moves = append(moves, c.optimizing.get().Moved...)
		}
		return len(moves) > 0 || apart == 0
	})
	for _, m := range moves {
		if !strings.HasPrefix(m.Actor, "application meter at ") || m.Saves < 5 || m.Error != "" {
			t.Errorf("move %+v", m)
		}
	}
	if apart == 0 { // on a busy machine group 1 may have no leader when they begin
		t.Log("all actors began at their switches: this run shows nothing of moves")
	}
	if r := await.End(t, "the load", ended); r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent {
		t.Errorf("%d moves; %d packet-ins, %d answered, %d not", len(moves), r.Total.Sent, r.Total.Answered, r.Unanswered)
	}
}

// TestRates: what has happened between two looks, in groups whose leader has not changed.
func TestRates(t *testing.T) {
	group := func(n, term uint64, seconds float64, actors ...ActorTally) GroupTally {
		return GroupTally{Group: n, Term: term, Seconds: seconds, Actors: actors, Local: uint64(seconds) * 10,
			Crossings: []CrossingTally{{Group: 9, Messages: uint64(seconds)}, {Group: 9, Message: moveName, Messages: 50},
				{Group: n, Messages: 70}}}
	}
	actor := func(name string, inputs uint64, peers ...PeerTally) ActorTally {
		return ActorTally{Actor: name, App: "app", Inputs: inputs, Peers: peers}
	}
	peer := func(name string, sent, received uint64) PeerTally {
		return PeerTally{name, PeerExchange{sent, received}}
	}
	var r Rates
	stays := func(a *ActorTally) bool { return a.Actor != "a" }
	look := func(groups ...GroupTally) string {
		w := r.Next(0, groups, stays)
		slices.SortFunc(w.Exchanges, func(a, b optimizer.Exchange) int { return strings.Compare(a.A+a.B, b.A+b.B) })
		return fmt.Sprint(w.Actors, w.Exchanges, w.Loads, w.Local, w.Crossing)
	}
	for i, step := range []struct {
		groups []GroupTally
		want   string
	}{
		{[]GroupTally{group(0, 1, 5, actor("x", 9)), group(1, 1, 10, actor("a", 100)), group(2, 7, 10, actor("b", 10))},
			"[] [] map[] 0 0"},
		{[]GroupTally{group(1, 1, 12, actor("a", 140, peer("b", 20, 40), peer("a2", 2, 0))),
			group(2, 7, 14, actor("b", 18, peer("a", 80, 8)))},
			"[{a 1 20 false} {b 2 2 true}] [{a a2 1} {a b 30}] map[1:20 2:2] 20 2"},
		// a has moved to group 2, where it is counted from the next look on; group 1 has another leader
		{[]GroupTally{group(1, 2, 1, actor("c", 5)), group(2, 7, 16, actor("b", 22), actor("a", 500))},
			"[{b 2 2 true}] [] map[2:252] 10 1"},
		{[]GroupTally{group(1, 2, 2, actor("c", 8)), group(2, 7, 18, actor("b", 22), actor("a", 510, peer("b", 6, 6)))},
			"[{c 1 3 true} {b 2 0 true} {a 2 5 false}] [{a b 6}] map[1:3 2:5] 20 2"},
	} {
		if got := look(step.groups...); got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}
