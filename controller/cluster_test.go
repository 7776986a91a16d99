package controller

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
)

// Each group and its switches are shown as the leader knows them, or else as the replica of the controller that was
// asked does.
func TestJoin(t *testing.T) {
	const leads, follows = "leader", "follower"
	replica := func(group uint64, role string, term uint64, leader string) GroupStatus {
		return GroupStatus{Group: group, Role: role, Term: term, Leader: leader}
	}
	drained := replica(1, follows, 2, "c2")
	drained.Drained = true
	answer := func(name string, groups ...GroupStatus) Answer {
		s := &Status{Name: name, Groups: groups}
		for _, g := range groups { // one switch of each group
			role := "standby"
			if g.Role == leads {
				role = "master"
			}
			s.Switches = append(s.Switches, SwitchStatus{Switch: fmt.Sprint("s", g.Group), Group: g.Group, Role: role,
				InSync: name != "c3", TotalEvents: g.Term})
		}
		return Answer{Name: name, Status: s}
	}
	silent := Answer{Name: "c2", Error: "timeout"}
	for _, c := range []struct {
		what   string
		all    []Answer
		leader string
		want   []string // of each group: By, Outdated and DrainedAt; of its switch: Master, Standbys, Behind
	}{
		{"every leader answers", []Answer{answer("c1", replica(0, leads, 4, "c1"), drained),
			answer("c2", replica(0, follows, 4, "c1"), replica(1, leads, 2, "c2")),
			answer("c3", replica(0, follows, 4, "c1"), replica(1, follows, 2, "c2"))}, "c1",
			[]string{"c1  [] c1 1 1", "c2  [c1] c2 1 1"}},
		{"two say that they lead: the later term counts", []Answer{answer("c3", replica(0, leads, 4, "c3")),
			answer("c1", replica(0, follows, 5, "c2")), answer("c2", replica(0, leads, 5, "c2"))}, "c2",
			[]string{"c2  [] c2 1 0"}},
		{"a leader does not answer", []Answer{answer("c3", replica(0, leads, 4, "c3"), replica(1, follows, 2, "c2")),
			silent, answer("c1", replica(0, follows, 4, "c3"), replica(1, follows, 2, "c2"))}, "c3",
			[]string{"c3  [] c3 1 0", "c1 c2, which leads it, did not answer []  1 1"}},
		{"nobody leads", []Answer{answer("c1", replica(0, "no leader", 4, ""))}, "",
			[]string{"c1 no controller is known to lead it []  1 0"}},
		{"a leader has just been deposed", []Answer{answer("c1", replica(0, follows, 4, "c2")),
			answer("c2", replica(0, follows, 4, "c3"))}, "",
			[]string{"c1 c2 no longer leads it, and no other controller does []  2 0"}},
		{"a leader that nobody could ask", []Answer{answer("c1", replica(0, follows, 4, "c9"))}, "",
			[]string{"c1 c9, which leads it, was not asked []  1 0"}},
		{"the controller that was asked has no replica", []Answer{answer("c1"),
			answer("c3", replica(0, follows, 4, "c2")), silent}, "",
			[]string{"c3 c2, which leads it, did not answer []  0 1"}},
		{"none answers", []Answer{silent}, "", nil},
	} {
		s := join("c1", c.all)
		var got []string
		for i, g := range s.Groups {
			sw := s.Switches[i]
			got = append(got, fmt.Sprint(g.By, " ", g.Outdated, " ", g.DrainedAt, " ", sw.Master, " ", sw.Standbys, " ",
				sw.Behind))
			if sw.By != g.By || sw.TotalEvents != g.Term || sw.Group != g.Group {
				t.Errorf("%s: group %+v has switch %+v", c.what, g, sw)
			}
		}
		if !slices.Equal(got, c.want) || s.Leader != c.leader || s.By != "c1" {
			t.Errorf("%s: got %q, leader %q", c.what, got, s.Leader)
		}
		for _, a := range s.Controllers {
			if a.Status != nil && a.Status.Switches != nil {
				t.Errorf("%s: the switches are there twice", c.what)
			}
		}
	}
}

// A controller that is asked answers for all. It names those that do not answer, those that it cannot ask, and why; it
// leaves out those that were removed.
func TestInquiry(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, st := s.leader()
	asked, leader := s.controllers[id%3+1], s.controllers[id]
	await.Until(t, "the follower to know who leads", func() bool {
		got, err := asked.Status(t.Context())
		return err == nil && got.Leader == st.Name
	})
	serve := func(h http.Handler) string {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		return strings.TrimPrefix(server.URL, "http://")
	}
	asked.cfg.Peers = []Peer{{Name: "c8", ID: 8, API: serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.Refuse(w, r, connect.CodeUnavailable, errors.New("the disk is full"))
	}))}, {Name: asked.cfg.Name, ID: asked.cfg.Consensus.ID, API: "127.0.0.1:1"},
		{Name: "c9", ID: 9, API: "127.0.0.1:1"}, {Name: st.Name, ID: id,
			API: serve(newAPI(leader).routes())}}
	q := newInquiry(asked)
	defer q.http.CloseIdleConnections()
	got, err := q.cluster(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other := fmt.Sprint("c", (id+1)%3+1)
	var names []string
	for _, a := range got.Controllers {
		names = append(names, a.Name)
		why := map[string]string{"c8": "unavailable: the disk is full", "c9": "connection refused",
			other: asked.cfg.Name + " was started with a cluster file that does not have " + other}[a.Name]
		if !strings.Contains(a.Error, why) || (a.Error == "") != (why == "") || (a.Status == nil) != (why != "") {
			t.Errorf("%s: error %q, status %v", a.Name, a.Error, a.Status)
		}
	}
	if want := []string{"c8", asked.cfg.Name, "c9", st.Name, other}; !slices.Equal(names, want) {
		t.Errorf("controllers %v, want %v", names, want)
	}
	if got.By != asked.cfg.Name || got.Leader != st.Name || len(got.Groups) != 1 || got.Of(st.Name).Term < st.Term {
		t.Errorf("got %+v", got)
	}
}
