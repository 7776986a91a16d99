package client

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// answering answers with a status.
type answering struct {
	api.UnimplementedClusterHandler
	m *api.ClusterStatus
}

func (a answering) GetStatus(context.Context, *emptypb.Empty) (*api.ClusterStatus, error) {
	return a.m, nil
}

// The client takes the first answer of a controller that has heard the leader and knows all controllers of the cluster
// file, or else the one that says most.
func TestStatus(t *testing.T) {
	says := func(by, leader string, known ...string) *controller.ClusterStatus {
		s := &controller.ClusterStatus{By: by, Leader: leader}
		for _, name := range known {
			s.Controllers = append(s.Controllers, controller.Answer{Name: name, API: "somewhere"})
		}
		s.Controllers = append(s.Controllers, controller.Answer{Name: "c3", Error: "no address"})
		return s
	}
	for _, c := range []struct {
		what    string
		answers []*controller.ClusterStatus // nil: 503
		by      string
		asked   int
	}{
		{"the first says all", []*controller.ClusterStatus{says("c1", "c2", "c1", "c2", "c3"), nil, nil}, "c1", 1},
		{"the first does not answer", []*controller.ClusterStatus{nil, says("c2", "c2", "c1", "c2", "c3"), nil}, "c2", 2},
		{"the first has not heard the leader", []*controller.ClusterStatus{says("c1", "", "c1", "c2", "c3"), nil,
			says("c3", "c3", "c1", "c2", "c3")}, "c3", 3},
		{"the first was started with an older file", []*controller.ClusterStatus{says("c1", "c1", "c1", "c2"), nil,
			says("c3", "c1", "c1", "c2", "c3")}, "c3", 3},
		{"only the leader's name is known", []*controller.ClusterStatus{says("c1", "", "c1", "c2", "c3"),
			says("c2", "c2", "c1"), says("c3", "c2", "c1", "c2")}, "c3", 3},
		{"nobody leads", []*controller.ClusterStatus{nil, says("c2", "", "c1", "c2"), says("c3", "", "c1")}, "c2", 3},
		{"nobody answers", []*controller.ClusterStatus{nil, nil, nil}, "", 3},
	} {
		cluster, asked := &config.Cluster{}, 0
		for i, answer := range c.answers {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if asked++; answer == nil || r.URL.Path != api.ClusterGetStatusProcedure {
					api.Refuse(w, r, connect.CodeUnavailable, errors.New("the disk is full"))
					return
				}
				m := &api.ClusterStatus{}
				mirror.Copy(m, answer)
				_, h := api.NewClusterHandler(answering{m: m})
				h.ServeHTTP(w, r)
			}))
			defer server.Close()
			cluster.Controllers = append(cluster.Controllers, config.Controller{Name: []string{"c1", "c2", "c3"}[i],
				API: strings.TrimPrefix(server.URL, "http://")})
		}
		o, err := New(cluster, slog.New(slog.DiscardHandler), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		got := o.Status(t.Context())
		if got.By != c.by || asked != c.asked || len(got.Controllers) == 0 {
			t.Errorf("%s: %s answers, %d were asked: %+v", c.what, got.By, asked, got)
		}
		if c.by == "" && !strings.Contains(got.Controllers[2].Error, "the disk is full") {
			t.Errorf("%s: got %+v", c.what, got)
		}
	}
}
