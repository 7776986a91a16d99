package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/advice"
	"github.com/holdfast-sdn/holdfast/controller/top"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
)

// TestMatrix: packets go from a switch to an actor at another controller, and from there to a switch at a third one.
// Every controller gives the same matrix, with exactly these messages, and says that the application is centralised.
func TestMatrix(t *testing.T) {
	t.Parallel()
	const packets = 100
	s := withAgents.startStreams(t, cluster.Config{})
	actor := controller.HomeOf(exchange.Name, len(s.Controllers()))
	from, to := s.elsewhere(actor)
	for n := range packets {
		s.packet(from, to, fmt.Sprintf("packet %d", n))
	}
	s.arrive(to)
	name := func(group uint64) string { return s.Controllers()[s.leaderOf(group)].Name }
	sender, center, receiver := name(s.groups[from]), name(actor), name(s.groups[to])

	var m controller.Matrix
	for _, n := range s.Controllers() {
		await.Until(t, "the matrix of "+n.Name, func() bool {
			get(s.testCluster, n, api.ClusterClient.GetMatrix, &m)
			return messages(m, sender, center) > packets && messages(m, center, receiver) >= packets
		})
	}
	// Besides the packets, the switches are up, and each has sent one to itself, which makes its host known.
	want := map[[2]string]uint64{{sender, center}: packets + 2, {center, sender}: 2, {receiver, center}: 2,
		{center, receiver}: packets + 2}
	for pair, n := range want {
		if got := messages(m, pair[0], pair[1]); got != n {
			t.Errorf("%d messages from %s to %s, want %d", got, pair[0], pair[1], n)
		}
	}
	if n := messages(m, sender, receiver) + messages(m, receiver, sender); n != 0 {
		t.Errorf("%d messages between controllers that exchange none: %+v", n, m.Cells)
	}
	x := m.Crossings[0]
	if (x.Message != "PACKET_IN" || x.From != "" || x.To != exchange.Name) &&
		(x.Message != "PACKET_OUT" || x.From != exchange.Name || x.To != "") || x.Messages != packets+2 {
		t.Errorf("the most frequent message between groups is %+v", x)
	}
	s.centralised(packets + len(s.switches))

	var printed controller.Matrix
	text, err := s.Command(s.ctx, "matrix", "--json")
	s.check(err)
	s.check(json.Unmarshal([]byte(text), &printed))
	if fmt.Sprint(printed.Cells) != fmt.Sprint(m.Cells) {
		t.Errorf("holdfast matrix says %+v, and the API %+v", printed.Cells, m.Cells)
	}
	var f top.Frame
	text, err = s.Command(s.ctx, "top", "--json", "--count", "1")
	s.check(err)
	s.check(json.Unmarshal([]byte(text), &f))
	if len(f.Switches) != len(s.switches) || f.Groups != 4 || len(f.Controllers) != 3 || f.Controllers[0].State != "up" {
		t.Errorf("holdfast top says %+v", f)
	}
	s.advised()
	for _, command := range [][]string{{"matrix"}, {"actors"}, {"actors", "--advice"}} {
		text, err := s.Command(s.ctx, command...)
		s.check(err)
		t.Logf("holdfast %s\n%s", command, text)
	}
}

// centralised checks what the actor of the application has done, according to a controller that may not lead it.
func (s *streamCluster) centralised(packets int) {
	s.t.Helper()
	var a controller.Actors
	get(s.testCluster, s.Controllers()[0], api.ClusterClient.ListActors, &a)
	i := slices.IndexFunc(a.Handlers, func(h controller.HandlerView) bool {
		return h.App == exchange.Name && h.Message == "PACKET_IN"
	})
	if i < 0 || !a.Handlers[i].Centralised || a.Handlers[i].Sources != len(s.switches) ||
		a.Handlers[i].Inputs != uint64(packets) ||
		!slices.Contains(a.Handlers[i].Effects, controller.EffectTally{Message: "PACKET_OUT", Count: uint64(packets)}) {
		s.t.Errorf("handlers %+v", a.Handlers)
	}
	i = slices.IndexFunc(a.Actors, func(v controller.ActorView) bool { return v.App == exchange.Name })
	if i < 0 || a.Actors[i].Inputs != uint64(packets+len(s.switches)) || len(a.Actors[i].Peers) != len(s.switches) ||
		a.Actors[i].BusyMs == 0 || a.Actors[i].Bytes == 0 {
		s.t.Errorf("actors %+v", a.Actors)
	}
}

// advised checks that the handler of the application is the first thing that is worth a change, and the reason.
func (s *streamCluster) advised() {
	s.t.Helper()
	var a controller.Advice
	get(s.testCluster, s.Controllers()[0], api.ClusterClient.GetAdvice, &a)
	if len(a.Items) == 0 || a.Items[0].Kind != advice.Centralised || a.Items[0].App != exchange.Name ||
		a.Items[0].Message != "PACKET_IN" || !strings.Contains(a.Items[0].Why, "exchange.go") {
		s.t.Errorf("advice %+v", a)
	}
	if !slices.ContainsFunc(a.Items, func(i advice.Item) bool { return i.Kind == advice.Crosses }) {
		s.t.Errorf("no advice on what crosses groups: %+v", a)
	}
}

// messages returns how many messages went from one controller to another.
func messages(m controller.Matrix, from, to string) uint64 {
	for _, c := range m.Cells {
		if c.From == from && c.To == to {
			return c.Messages
		}
	}
	return 0
}

// get asks a controller over its API, and copies the answer to a structure.
func get[M proto.Message](s *testCluster, c *cluster.Controller,
	method func(api.ClusterClient, context.Context, *emptypb.Empty) (M, error), to any) {
	s.t.Helper()
	s.check(cluster.Ask(s.ctx, c, method, to))
}
