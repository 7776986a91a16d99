package graph

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// site is the application, and one that tells of links as topology does.
type site struct {
	t             apptest.Tester
	net           *apptest.Net
	graph, cables *app.App
	links         map[app.PortOf]app.PortOf
}

func newSite(t apptest.Tester, groups uint64) *site {
	cables := app.New("cables")
	tell := func(route string, of func([]topology.Link) any) {
		app.HandleHTTP(cables, route, nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
			var links []topology.Link
			if err := app.ReadJSON(r, &links); err != nil {
				return app.Response{}, err
			}
			if m, up := of(links).(topology.LinkUp); up {
				return app.Response{}, app.Emit(tx, m)
			}
			return app.Response{}, app.Emit(tx, topology.LinkDown{Links: links})
		})
	}
	tell("PUT /", func(links []topology.Link) any { return topology.LinkUp{Link: links[0]} })
	tell("DELETE /", func(links []topology.Link) any { return nil })
	s := &site{t: t, graph: New(), cables: cables, links: map[app.PortOf]app.PortOf{}}
	s.net = apptest.NewOf(t, groups, s.graph, cables)
	return s
}

// tell tells of links that are up, or down.
func (s *site) tell(up bool, links ...topology.Link) {
	s.t.Helper()
	method := "PUT"
	if !up {
		method = "DELETE"
	}
	body, err := json.Marshal(links)
	if err != nil {
		s.t.Fatalf("%v", err)
	}
	for _, l := range links {
		if delete(s.links, l.From); up {
			s.links[l.From] = l.To
		}
	}
	s.net.Call(s.cables, method+" /", app.Request{Method: method, Body: body})
}

// get reads an answer about vertices.
func (s *site) get(route string, from, to app.Switch, answer any) {
	s.t.Helper()
	r := s.net.Call(s.graph, route, app.Request{Method: "GET",
		Values: map[string]string{"from": from.String(), "to": to.String()}})
	if err := json.Unmarshal(r.Body, answer); err != nil {
		s.t.Fatalf("%s of %s and %s: %d %s", route, from, to, r.Status, r.Body)
	}
}

// settle lets time pass until no vertex looks for paths any more. That takes fewer rounds than a path may have hops.
func (s *site) settle() {
	s.t.Helper()
	for range MaxHops / 2 {
		if !slices.ContainsFunc(s.net.Rows(Name), func(r ledger.Row) bool { return r.Table == "waits" }) {
			return
		}
		s.net.Advance(Settle)
	}
	s.t.Fatalf("the vertices do not come to rest")
}

// hops are the shortest paths from a switch, found by breadth-first search.
func (s *site) hops(from app.Switch) map[string]int {
	next := map[app.Switch][]app.Switch{}
	for a, b := range s.links {
		next[a.Switch] = append(next[a.Switch], b.Switch)
	}
	found, queue := map[app.Switch]int{from: 0}, []app.Switch{from}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, to := range next[queue[0]] {
			if _, known := found[to]; !known {
				found[to] = found[queue[0]] + 1
				queue = append(queue, to)
			}
		}
	}
	list := map[string]int{}
	for to, n := range found {
		if to != from {
			list[to.String()] = n
		}
	}
	return list
}

// check compares what each vertex says.
func (s *site) check(vertices int) {
	s.t.Helper()
	for i := range vertices {
		from := app.Switch(i + 1)
		var got map[string]int
		s.get("GET /{from}", from, 0, &got)
		if want := s.hops(from); !maps.Equal(got, want) {
			s.t.Fatalf("hops from %s are %v, want %v", from, got, want)
		}
		for j := range vertices {
			to := app.Switch(j + 1)
			if n, there := got[to.String()]; there {
				s.follow(from, to, n)
			}
		}
	}
}

// follow checks that a path is over links, and has as many as it says.
func (s *site) follow(from, to app.Switch, n int) {
	s.t.Helper()
	var p []string
	s.get("GET /{from}/{to}", from, to, &p)
	if len(p) != n+1 || p[0] != from.String() || p[n] != to.String() {
		s.t.Fatalf("the path from %s to %s of %d hops is %v", from, to, n, p)
	}
	linked := map[string]bool{}
	for a, b := range s.links {
		linked[a.Switch.String()+b.Switch.String()] = true
	}
	for i := range n {
		if !linked[p[i]+p[i+1]] {
			s.t.Fatalf("the path from %s to %s is %v, and there is no link from %s", from, to, p, p[i])
		}
	}
}

func link(from, to app.Switch, n app.Port) topology.Link {
	return topology.Link{From: app.PortOf{Switch: from, Port: app.Port(to)*10 + n},
		To: app.PortOf{Switch: to, Port: app.Port(from)*10 + n}}
}

// Links come and go one by one, and switches with all of theirs, also before the vertices have found all paths. When
// they come to rest, each has the shortest paths.
func TestShortest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const vertices = 6
		s := newSite(t, rapid.Uint64Range(1, 3).Draw(t, "groups"))
		id := rapid.Custom(func(t *rapid.T) app.Switch { return app.Switch(rapid.IntRange(1, vertices).Draw(t, "id")) })
		t.Repeat(map[string]func(*rapid.T){
			"link": func(t *rapid.T) {
				from, to := id.Draw(t, "from"), id.Draw(t, "to")
				l := link(from, to, app.Port(rapid.IntRange(0, 1).Draw(t, "of two")))
				if from != to {
					_, up := s.links[l.From]
					s.tell(!up, l)
				}
			},
			"switch": func(t *rapid.T) {
				gone := id.Draw(t, "down")
				var links []topology.Link
				for from, to := range s.links {
					if from.Switch == gone || to.Switch == gone {
						links = append(links, topology.Link{From: from, To: to})
					}
				}
				slices.SortFunc(links, func(a, b topology.Link) int { return a.From.Compare(b.From) })
				s.tell(false, links...)
			},
			"time": func(t *rapid.T) { s.net.Advance(time.Duration(rapid.IntRange(1, 30).Draw(t, "ms")) * time.Millisecond) },
			"rest": func(t *rapid.T) {
				s.settle()
				s.check(vertices)
			},
		})
		s.settle()
		s.check(vertices)
	})
}

// A change at one end of a long line of switches makes the vertices at the other end look for one path, not for all.
func TestIncremental(t *testing.T) {
	const line = 30
	s := newSite(t, 1)
	for i := range app.Switch(line - 1) {
		s.tell(true, link(i+1, i+2, 0))
		s.tell(true, link(i+2, i+1, 0))
	}
	s.settle()
	s.check(line)
	before := map[string]string{}
	for _, r := range s.net.Rows(Name) {
		before[fmt.Sprint(r.Table, r.Cell, r.Field)] = string(r.Value)
	}
	s.tell(true, link(1, line+1, 0))
	s.tell(true, link(line+1, 1, 0))
	s.settle()
	s.check(line + 1)
	changed := 0
	for _, r := range s.net.Rows(Name) {
		if r.Table == "best" && r.Cell.A <= line && before[fmt.Sprint(r.Table, r.Cell, r.Field)] != string(r.Value) {
			changed++
		}
	}
	if changed != line {
		t.Errorf("%d paths of %d vertices have changed, because of one vertex more", changed, line)
	}
}

// Switches and links for which a vertex has no room are left out.
func TestBounds(t *testing.T) {
	s := newSite(t, 1)
	many, long := map[app.Switch]path{}, path{2}
	for i := range app.Switch(MaxVertices + 5) {
		many[i+10] = path{2, i + 10}
	}
	for i := range app.Switch(MaxHops) {
		long = append(long, i+10_000)
	}
	many[long[MaxHops]] = long
	teller := app.New("teller")
	app.HandleHTTP(teller, "PUT /", nil, func(tx *app.Tx, _ app.Request) (app.Response, error) {
		return app.Response{}, app.Emit(tx, told{2, 1, false, many})
	})
	s.net = apptest.NewOf(t, 1, s.graph, s.cables, teller)
	s.tell(true, link(1, 2, 0))
	s.net.Call(teller, "PUT /", app.Request{Method: "PUT"})
	s.settle()
	var got map[string]int
	s.get("GET /{from}", 1, 0, &got)
	if _, there := got[long[MaxHops].String()]; len(got) != MaxVertices || there {
		t.Errorf("%d switches, want %d", len(got), MaxVertices)
	}
	for i := range app.Switch(MaxLinks) {
		s.tell(true, link(i+10, 1, 1))
	}
	s.settle()
	var list []ledger.Row
	for _, r := range s.net.Rows(Name) {
		if r.Table == "in" && r.Cell.A == 1 {
			list = append(list, r)
		}
	}
	if len(list) != MaxLinks-1 {
		t.Errorf("%d links to a vertex, want %d and one from it", len(list), MaxLinks-1)
	}
}
