package controller

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
)

// ask sends a request to the API of a controller as JSON over HTTP, and returns the answer.
func ask(t *testing.T, c *Controller, path, contentType, body string) (code int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "POST", path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	newAPI(c).routes().ServeHTTP(w, r)
	return w.Code, strings.ReplaceAll(strings.ReplaceAll(w.Body.String(), `", "`, `","`), `: `, `:`)
}

// leaderIn returns whom an error names as the leader.
func leaderIn(err error) string {
	if e, is := errors.AsType[*connect.Error](err); is && len(e.Details()) > 0 {
		if v, err := e.Details()[0].Value(); err == nil {
			return v.(*api.Problem).Leader
		}
	}
	return ""
}

func TestMembersAPI(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, st := s.leader()
	leader, follower := s.controllers[id], s.controllers[id%3+1]
	await.Until(s.t, "the follower to know who leads", func() bool {
		got, err := follower.Status(t.Context())
		return err == nil && got.Leader == st.Name
	})
	const kind, list, change = "application/json", api.ClusterListMembersProcedure, api.OperationsChangeMembersProcedure
	for _, c := range []struct {
		name        string
		at          *Controller
		path        string
		contentType string
		body        string
		code        int
		says        string
	}{
		{"list", leader, list, kind, `{}`, 200, `"name":"c3","id":"3"`},
		{"a follower says who leads", follower, list, kind, `{}`, 400, "controller " + st.Name + " leads"},
		{"and does not change anything", follower, change, kind, `{"remove":9}`, 400, "controller " + st.Name + " leads"},
		{"what a browser sends", leader, change, "text/plain", `{"remove":9}`, 415, ""},
		{"no JSON", leader, change, kind, `remove 9`, 400, "invalid_argument"},
		{"an unknown field", leader, change, kind, `{"delete":9}`, 400, "unknown field"},
		{"too much", leader, change, kind, `{"add":{"name":"` + strings.Repeat("x", api.MaxRequest) + `"}}`, 429,
			"resource_exhausted"},
		{"nothing", leader, change, kind, `{}`, 400, "empty"},
		{"somebody who is not there", leader, change, kind, `{"remove":9}`, 200, `"done":true`},
		{"one of three", leader, change, kind, `{"remove":1}`, 400, "replace"},
		{"the id of another", leader, change, kind, `{"add":{"name":"c4","id":3,"address":"127.0.0.1:1"}}`, 400,
			"id 3 is that of controller c3"},
		{"the name of another", leader, change, kind, `{"add":{"name":"c3","id":4,"address":"127.0.0.1:1"}}`, 400,
			"c3 is a member already"},
		{"no id", leader, change, kind, `{"add":{"name":"c4","address":"127.0.0.1:1"}}`, 400, "give it its own"},
		{"the id of the one to be replaced", leader, change, kind,
			`{"add":{"name":"c3","id":3,"address":"127.0.0.1:1"},"remove":3}`, 400, "give it its own"},
		{"no name", leader, change, kind, `{"add":{"id":4,"address":"127.0.0.1:1"}}`, 400, "is not a name"},
		{"no port", leader, change, kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1"}}`, 400, "missing port"},
		{"a new one", leader, change, kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1:1"}}`, 200,
			`"name":"c4","id":"4","address":"127.0.0.1:1"`},
		{"that is not there", leader, change, kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1:1"}}`, 200,
			`"waiting":{"name":"c4"`},
		{"and goes", leader, change, kind, `{"remove":4}`, 200, `"leader":`},
		{"for good", leader, change, kind, `{"remove":4}`, 200, `"done":true`},
		{"its id is used up", leader, change, kind, `{"add":{"name":"c5","id":4,"address":"127.0.0.1:1"}}`, 400,
			"use a new id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, text := ask(t, c.at, c.path, c.contentType, c.body); code != c.code ||
				!strings.Contains(text, c.says) {
				t.Errorf("%d, %s; want %d and %s", code, text, c.code, c.says)
			}
		})
	}
}

func TestDrainAPI(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	m, err := operations{s.controllers[id]}.Drain(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if next, st := s.leader(); next == id || m.Leader != st.Name {
		t.Errorf("%s leads, and before c%d; the answer says %q", st.Name, id, m.Leader)
	}
}
