package controller

import (
	"context"
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// said is the answer of a controller that leads some groups.
func said(name string, groups ...GroupTally) answered[Tally] {
	return answered[Tally]{Asked{Name: name}, &Tally{name, groups}}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func threeGroups() []answered[Tally] {
	const packets, outs = "PACKET_IN", "PACKET_OUT"
	crossing := func(group uint64, from, to, message string, n uint64) CrossingTally {
		return CrossingTally{group, from, to, message, n, 100 * n}
	}
	handler := func(app, by string, inputs uint64, sources int, effects ...EffectTally) HandlerTally {
		return HandlerTally{App: app, Message: packets, Inputs: inputs, By: by, Sources: sources, Effects: effects}
	}
	return []answered[Tally]{
		said("c1", GroupTally{Group: 1, Term: 5, Local: 7, Actors: []ActorTally{{Actor: "one", Inputs: 3, BusyMs: 1},
			{Actor: "two", Inputs: 9}}, Handlers: []HandlerTally{
			handler("center", "application center", 50, 3, EffectTally{outs, 40}),
			handler("spread", "application spread at switch 1", 10, 1)},
			Crossings: []CrossingTally{crossing(2, "", "center", packets, 20), crossing(3, "", "center", packets, 10),
				crossing(1, "center", "", outs, 1)}}),
		said("c2", GroupTally{Group: 1, Term: 4, Local: 1000}, // it does not know that it is deposed
			GroupTally{Group: 2, Term: 2, Crossings: []CrossingTally{crossing(1, "center", "", outs, 40),
				crossing(9, "a", "b", "x.M", 5)},
				Handlers: []HandlerTally{handler("spread", "application spread at switch 2", 10, 1,
					EffectTally{"FLOW_MOD", 1}), handler("center", "", 0, 0, EffectTally{"FLOW_MOD", 2})}}),
		{Asked{Name: "c3", Error: "no answer"}, nil},
	}
}

// TestJoinActors: handlers are joined over the groups, and one is centralised if a single actor of the cluster handles
// the messages of several. Of two controllers that report a group, the leader of the later term counts.
func TestJoinActors(t *testing.T) {
	s := joinActors("c1", threeGroups())
	if len(s.Actors) != 2 || s.Actors[0].Actor != "one" || s.Actors[0].Leader != "c1" || len(s.Others) != 2 ||
		len(s.Groups) != 2 || s.Groups[1].Leader != "c2" || s.Controllers[2].Error != "no answer" {
		t.Errorf("%+v", s)
	}
	const want = `[{"app":"center","message":"PACKET_IN","inputs":50,"failures":0,"causes":[{"message":"PACKET_OUT",` +
		`"count":40},{"message":"FLOW_MOD","count":2}],"by":"application center","sources":3,"centralised":true},` +
		`{"app":"spread","message":"PACKET_IN","inputs":20,"failures":0,"causes":[{"message":"FLOW_MOD","count":1}],` +
		`"by":"","sources":0,"centralised":false}]`
	if got := asJSON(t, s.Handlers); got != want {
		t.Errorf("%s", got)
	}
}

func TestJoinMatrix(t *testing.T) {
	m := joinMatrix("c1", threeGroups())
	const cells = `[{"from":"","to":"c1","messages":10,"bytes":1000},{"from":"","to":"c2","messages":5,"bytes":500},` +
		`{"from":"c1","to":"c1","messages":8,"bytes":100},{"from":"c1","to":"c2","messages":40,"bytes":4000},` +
		`{"from":"c2","to":"c1","messages":20,"bytes":2000}]`
	if got := asJSON(t, m.Cells); got != cells {
		t.Errorf("%s", got)
	}
	const crossings = `[{"from":"center","to":"","message":"PACKET_OUT","messages":40,"bytes":4000},` +
		`{"from":"","to":"center","message":"PACKET_IN","messages":30,"bytes":3000},` +
		`{"from":"a","to":"b","message":"x.M","messages":5,"bytes":500}]`
	if got := asJSON(t, m.Crossings); got != crossings {
		t.Errorf("%s", got)
	}
}

// Requests that wait while a controller hangs all get what the others said, and it is not asked again for each of them.
func TestCountsBesideHungController(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	of := s.controllers[id]
	var asked atomic.Int64
	c := &Controller{cfg: of.cfg, log: of.log, assigned: of.assigned}
	c.groups.add(of.system())
	c.cfg.Peers = []Peer{{Name: c.cfg.Name, ID: id}, {Name: "hung", ID: 99, API: "192.0.2.1:1"}}
	c.cfg.DialAPI = func(ctx context.Context, _ string) (net.Conn, error) {
		asked.Add(1)
		select { // it goes on after the request, in case that another one has use for the connection
		case <-ctx.Done():
		case <-t.Context().Done():
		}
		return nil, net.ErrClosed
	}
	q := newInquiry(c)
	const requests = 4
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			list, _, err := q.counted(t.Context())
			if err != nil || len(list) < 2 || list[0].value == nil || list[1].Error == "" {
				t.Errorf("counted: %d answers, %v", len(list), err)
			}
		})
	}
	all.Wait()
	if n := asked.Load(); n == 0 || n >= requests {
		t.Errorf("the controller that hangs was asked %d times for %d requests", n, requests)
	}
}
