package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
)

// ask sends a request to the API of a controller and returns the answer.
func ask(t *testing.T, c *Controller, method, path, contentType, body string) (code int, text string) {
	t.Helper()
	mux := &routes{ServeMux: http.NewServeMux()}
	c.serveMembers(mux)
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestMembersAPI(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, st := s.leader()
	leader, follower := s.controllers[id], s.controllers[id%3+1]
	await.Until(s.t, "the follower to know who leads", func() bool {
		got, err := follower.Status(t.Context())
		return err == nil && got.Leader == st.Name
	})
	const kind = "application/json"
	for _, c := range []struct {
		name        string
		at          *Controller
		method      string
		contentType string
		body        string
		code        int
		says        string
	}{
		{"list", leader, "GET", "", "", 200, `"name":"c3","id":3`},
		{"a follower says who leads", follower, "GET", "", "", 421, `"leader":"` + st.Name + `"`},
		{"and does not change anything", follower, "POST", kind, `{"remove":9}`, 421, `"leader":"` + st.Name + `"`},
		{"what a browser sends", leader, "POST", "text/plain", `{"remove":9}`, 415, "application/json"},
		{"no JSON", leader, "POST", kind, `remove 9`, 400, "cannot be decoded"},
		{"an unknown field", leader, "POST", kind, `{"delete":9}`, 400, "unknown field"},
		{"too much", leader, "POST", kind, `{"add":{"name":"` + strings.Repeat("x", maxRequest) + `"}}`, 400,
			"too large"},
		{"nothing", leader, "POST", kind, `{}`, 409, "empty"},
		{"somebody who is not there", leader, "POST", kind, `{"remove":9}`, 200, `"done":true`},
		{"one of three", leader, "POST", kind, `{"remove":1}`, 409, "replace"},
		{"the id of another", leader, "POST", kind, `{"add":{"name":"c4","id":3,"address":"127.0.0.1:1"}}`, 409,
			"id 3 is that of controller c3"},
		{"the name of another", leader, "POST", kind, `{"add":{"name":"c3","id":4,"address":"127.0.0.1:1"}}`, 409,
			"c3 is a member already"},
		{"no id", leader, "POST", kind, `{"add":{"name":"c4","address":"127.0.0.1:1"}}`, 409, "give it its own"},
		{"the id of the one to be replaced", leader, "POST", kind,
			`{"add":{"name":"c3","id":3,"address":"127.0.0.1:1"},"remove":3}`, 409, "give it its own"},
		{"no name", leader, "POST", kind, `{"add":{"id":4,"address":"127.0.0.1:1"}}`, 409, "is not a name"},
		{"no port", leader, "POST", kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1"}}`, 409, "missing port"},
		{"a new one", leader, "POST", kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1:1"}}`, 200,
			`"name":"c4","id":4,"address":"127.0.0.1:1","votes":false`},
		{"that is not there", leader, "POST", kind, `{"add":{"name":"c4","id":4,"address":"127.0.0.1:1"}}`, 200,
			`"waiting":{"name":"c4"`},
		{"and goes", leader, "POST", kind, `{"remove":4}`, 200, `"done":false`},
		{"for good", leader, "POST", kind, `{"remove":4}`, 200, `"done":true`},
		{"its id is used up", leader, "POST", kind, `{"add":{"name":"c5","id":4,"address":"127.0.0.1:1"}}`, 409,
			"use a new id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, text := ask(t, c.at, c.method, "/v1/members", c.contentType, c.body); code != c.code ||
				!strings.Contains(text, c.says) {
				t.Errorf("%d, %s; want %d and %s", code, text, c.code, c.says)
			}
		})
	}
}

func TestDrainAPI(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	id, _ := s.leader()
	code, text := ask(t, s.controllers[id], "POST", "/v1/drain", "application/json", "{}")
	var m Members
	if err := json.Unmarshal([]byte(text), &m); err != nil || code != 200 {
		t.Fatalf("%d, %s, %v", code, text, err)
	}
	if next, st := s.leader(); next == id || m.Leader != st.Name {
		t.Errorf("%s leads, and before c%d; the answer says %q", st.Name, id, m.Leader)
	}
}
