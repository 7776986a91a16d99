package path

import (
	"encoding/json"
	"math/rand/v2"
	"net/url"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

func first(int) int { return 0 }

// line joins switches 1 to n, port 4 to port 3.
func (w *world) line(n app.Switch) {
	for id := app.Switch(1); id <= n; id++ {
		w.boot(id, 0)
	}
	for id := app.Switch(1); id < n; id++ {
		w.cable(app.PortOf{Switch: id, Port: 4}, app.PortOf{Switch: id + 1, Port: 3})
	}
	w.settle()
}

func TestPathOverTwoSwitches(t *testing.T) {
	w := newWorld(t, 1, first)
	w.line(2)
	p, d := w.watch(0, 1, 2)
	if r := w.put(p.name, d); r.Status != 0 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	if v := w.view(p.name); v.State != model.Installing {
		t.Errorf("it is %+v", v)
	}
	w.settle()
	if v := w.view(p.name); v.State != model.Up || !w.passes(p) {
		t.Errorf("it is %+v", v)
	}
	w.remove(p.name)
	w.settle()
	if v := w.view(p.name); v.State != "none" || w.passes(p) || w.flows() > 0 {
		t.Errorf("it is %+v, and %d entries are left", v, w.flows())
	}
}

// ring joins switches 1 to n in a ring, with a chord between each one and the third after it.
func (w *world) ring(n app.Switch) {
	for id := app.Switch(1); id <= n; id++ {
		w.boot(id, 0)
	}
	for id := app.Switch(1); id <= n; id++ {
		w.cable(app.PortOf{Switch: id, Port: 4}, app.PortOf{Switch: id%n + 1, Port: 3})
		if n > 4 {
			w.cable(app.PortOf{Switch: id, Port: 5}, app.PortOf{Switch: (id+2)%n + 1, Port: 6})
		}
	}
	w.settle()
}

// Whatever happens to links and connections, and in whatever order switches execute what they are sent: after each
// command, each path is there as a whole or not at all. In the end, paths are as their states say, and nothing is left
// over.
func TestNeverByHalf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const n = 8
		w := newWorld(t, uint64(rapid.IntRange(1, 3).Draw(t, "groups")), random.IntN)
		w.ring(n)
		if rapid.Bool().Draw(t, "has little room") {
			id := app.Switch(1 + random.IntN(n))
			w.down(id)
			w.boot(id, 2+random.IntN(4))
		}
		var defs []Definition
		for i := range 6 {
			from := app.Switch(1 + random.IntN(n))
			_, d := w.watch(i, from, 1+(from+app.Switch(random.IntN(n)))%n)
			if random.IntN(4) == 0 {
				d.Match.Protocol, d.Match.DestinationPorts = "udp", "1-9"
			}
			d.Backup = random.IntN(2) == 0
			defs = append(defs, d)
		}
		cut, down := map[app.PortOf]bool{}, map[app.Switch]bool{}
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			id := app.Switch(1 + random.IntN(n))
			at := app.PortOf{Switch: id, Port: app.Port(4 + random.IntN(2))}
			switch i := random.IntN(len(defs)); rapid.SampledFrom([]string{"put", "put", "remove", "cut", "mend", "down",
				"up", "wait", "settle"}).Draw(t, "change") {
			case "put":
				w.put(w.watched[i].name, defs[i])
			case "remove":
				w.remove(w.watched[i].name)
			case "cut":
				if !cut[at] {
					cut[at] = true
					w.cut(at)
				}
			case "mend":
				if cut[at] {
					delete(cut, at)
					w.cable(at, w.cables[at])
				}
			case "down":
				if !down[id] {
					down[id] = true
					w.down(id)
				}
			case "up":
				if down[id] {
					delete(down, id)
					w.up(id)
				}
			case "wait":
				w.wait(drain / 2)
			case "settle":
				w.settle()
			}
			for range random.IntN(60) {
				w.step()
			}
		}
		for id := range down {
			w.up(id)
		}
		for at := range cut {
			w.cable(at, w.cables[at])
		}
		w.settle()
		w.compare()
		entries, groups := 0, 0
		for _, p := range w.watched {
			v := w.view(p.name)
			up := v.State == model.Up || v.State == model.Bare
			if up != w.passes(p) || v.State != model.Refused && v.State != "none" && !up {
				t.Fatalf("path %s: frames pass: %v, but it is %+v", p.name, w.passes(p), v)
			}
			if up {
				e, g := v.holds()
				entries, groups = entries+e, groups+g
			}
		}
		if w.flows() != entries || w.groups() != groups {
			t.Fatalf("%d entries and %d groups, of paths there are %d and %d", w.flows(), w.groups(), entries, groups)
		}
		for _, p := range w.watched {
			w.remove(p.name)
		}
		w.settle()
		rows := len(w.net.Rows(Name)) - w.kept()
		if w.flows() != 0 || w.groups() != 0 || rows != 0 {
			t.Fatalf("%d entries, %d groups and %d rows are left: %v", w.flows(), w.groups(), rows, w.net.Rows(Name))
		}
	})
}

// kept returns how many rows there are without paths: of counters, switches, and links.
func (w *world) kept() int { return 1 + len(w.switches) + len(w.cables) }

// A list of long paths is more than one answer can have. A client asks for the rest with after, and has each once.
func TestListOfLongPaths(t *testing.T) {
	w := newWorld(t, 1, first)
	w.line(24)
	const paths = 800
	for from := 0; from < paths; from += 200 {
		definitions := map[string]Definition{}
		for i := range 200 {
			p, d := w.watch(from+i, 1, 24)
			definitions[p.name] = d
		}
		w.watched = nil
		body, _ := json.Marshal(definitions)
		if r := w.net.Call(w.app, "PUT /paths", app.Request{Body: body}); r.Status != 0 {
			t.Fatalf("status %d: %.200s", r.Status, r.Body)
		}
	}
	seen, after, requests := map[string]bool{}, "", 0
	for {
		r := w.net.Call(w.app, "GET /paths", app.Request{Query: url.Values{"after": {after}}})
		var list []View
		if err := json.Unmarshal(r.Body, &list); err != nil || r.Status != 0 && r.Status != 200 {
			t.Fatalf("status %d, %v: %.200s", r.Status, err, r.Body)
		}
		requests++
		if len(list) == 0 {
			break
		}
		for _, v := range list {
			seen[v.Name] = true
			after = v.Name
		}
	}
	if len(seen) != paths || requests < 3 {
		t.Errorf("%d paths in %d answers, want %d in 2 and an empty one", len(seen), requests, paths)
	}
}
