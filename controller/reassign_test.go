package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Switches with agents move from group to group while packets are answered, and leaders stop. Nothing is lost or
// repeated, and no epoch begins.
func TestSwitchesMove(t *testing.T) {
	s := startTestCluster(&testCluster{t: t, apps: hubs, several: true, replicas: 3, every: 50,
		timeout: 3 * time.Second})
	const switches = 4
	ended := make(chan load.Result, 1)
	go func() {
		r, err := load.Run(t.Context(), load.Config{Switches: switches, Window: 1, MACsPerSwitch: 3,
			Duration: 5 * time.Second, Drain: 20 * time.Second, Dial: load.At(s.agent.String())})
		if err != nil {
			t.Error(err)
		}
		ended <- r
	}()
	s.placed(3, 1, 2, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	moves := 0
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), changeTimeout)
		id := openflow.DatapathID(1 + rng.IntN(switches))
		m := Move{Switch: id.String(), Group: 1 + rng.Uint64N(3)}
		moved, err := s.controllers[1+rng.Uint64N(3)].Move(ctx, m)
		cancel()
		switch {
		case errors.Is(err, errNoActor) || err != nil && strings.Contains(err.Error(), "has not connected yet"):
		case err != nil || moved.Group != m.Group:
			t.Fatalf("move %+v: %+v, %v", m, moved, err)
		default:
			moves++
		}
		if rng.IntN(10) == 0 {
			g := s.controllers[1+rng.Uint64N(3)].replica(1 + rng.Uint64N(3))
			_ = g.handOver(t.Context())
		}
	}
	r := await.End(t, "the load", ended)
	// Each switch also receives the table-miss entry, and the flood of its announcement.
	if r.Unanswered != 0 || r.Total.Sent == 0 || r.Total.Answered != r.Total.Sent || r.Total.Unexpected != 2*switches {
		t.Errorf("%d packet-ins, %d answered, %d not, %d messages that answer nothing, %d expected", r.Total.Sent,
			r.Total.Answered, r.Unanswered, r.Total.Unexpected, 2*switches)
	}
	t.Log(fmt.Sprint(moves, " moves, ", r.Total.Sent, " packets"))
}

// A group that has ended takes nothing: a session would wait for ever to be used.
func TestEndedGroupTakesNothing(t *testing.T) {
	g := &group{inbox: newInbox()}
	rejected := 0
	its := item{kind: events, list: []southbound.Delivery{{Done: func(err error) {
		if rejected++; !errors.Is(err, errClosing) {
			t.Error(err)
		}
	}}}}
	if g.put(its) != g || rejected > 0 {
		t.Error("a group that runs takes nothing")
	}
	g.taking = its.list // an application has ended the goroutine of the loop
	if g.rejectAll(); rejected != 2 {
		t.Error("what it did not take is not rejected")
	}
	if g.put(its) != nil || rejected != 3 {
		t.Error("a group that has ended takes a session")
	}
}

// What waits for a loop does not keep it from proposing what was executed, and from requests.
func TestTurnsOfManyItems(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	g := s.controllers[id].system()
	session, began, last := southbound.NewSession(new(deaf)), uint64(0), make(chan uint64)
	err := g.inLoop(t.Context(), func() {
		began = g.core.turns
		const n = 5 * inboxSize
		for i := range n {
			done := func(error) {
				if i == n-1 {
					last <- g.core.turns
				}
			}
			g.put(item{kind: events, list: []southbound.Delivery{{Session: session, Done: done}}})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := <-last - began; n < 4 {
		t.Errorf("%d turns", n)
	}
}

// A session that ends while its switch moves to another group does not stay in that group.
func TestSessionEndsWhileItMoves(t *testing.T) {
	one, two := &group{inbox: newInbox()}, &group{inbox: newInbox()}
	one.cfg.Consensus.Group, two.cfg.Consensus.Group = 1, 2
	c := &Controller{cfg: Config{Groups: make([]GroupConfig, 3)}}
	c.groups.add(one)
	c.groups.add(two)
	for range 20_000 {
		s := southbound.NewSession(new(deaf))
		c.seats.add(s, one)
		var both sync.WaitGroup
		both.Go(func() { c.reassignSession(reassignment{s, ledger.Assignment{Group: 2, Version: 2}}) })
		both.Go(func() { handler{c}.Detached(s, nil) })
		both.Wait()
		one.inbox.take()
		if list := two.inbox.take(); len(list) == 1 {
			t.Fatalf("the other group has item %d of it, and no other", list[0].kind)
		}
	}
}
