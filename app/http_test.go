package app

import (
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/ledger"
)

func TestRoutes(t *testing.T) {
	refused := func(pattern string) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("route %q is accepted", pattern)
			}
		}()
		a := New("a")
		HandleHTTP(a, "GET /x/{y}", nil, nil)
		HandleHTTP(a, pattern, nil, nil)
	}
	for _, pattern := range []string{"", "x", "GET x", "host/x", "GET host/x", "GET /{", "GET /x/{z}", "get /"} {
		refused(pattern)
	}
}

func TestReadJSON(t *testing.T) {
	for body, want := range map[string]bool{`{"A":1}`: true, ` {"A":1} `: true, "": false, `{"A":1}}`: false,
		`{"A":1}]`: false, `{"A":1}{}`: false, `{"B":1}`: false, `{"A":"x"}`: false} {
		var value struct{ A int }
		if err := ReadJSON(Request{Body: []byte(body)}, &value); (err == nil) != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// A request belongs to the actor that has the cells which its handler needs.
func TestCallee(t *testing.T) {
	a := New("a")
	rows := NewTable[string, string](a, "rows", Sharded)
	ports := NewTable[Switch, string](a, "ports")
	HandleHTTP(a, "GET /{key}", func(r Request) Cells { return Need(rows.Cell(r.Values["key"])) }, nil)
	HandleHTTP(a, "GET /switch/1", func(Request) Cells { return Need(ports.Cell(1)) }, nil)
	HandleHTTP(a, "GET /", nil, nil)
	message := httpcall.Encode(Request{Values: map[string]string{"key": "k"}})
	for route, want := range map[string]ledger.Shard{"GET /{key}": {Key: ledger.Key{S: "k"}},
		"GET /switch/1": ledger.AtSwitch(1), "GET /": {}} {
		if got, err := a.Callee(route, message); err != nil || got != want {
			t.Errorf("%s: %+v (%v), want %+v", route, got, err, want)
		}
	}
	if _, err := a.Callee("GET /{key}", []byte{1}); err == nil {
		t.Error("a damaged request has an actor")
	}
	if at, err := a.Whole().Callee("GET /{key}", message); err != nil || at != (ledger.Shard{}) {
		t.Errorf("of a whole application: %+v (%v)", at, err)
	}
	if len(a.Routes()) != 3 {
		t.Errorf("routes %v", a.Routes())
	}
}
