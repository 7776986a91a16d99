package tenants

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// macs are those of machines: each tenant has the same.
var macs = []app.MAC{{2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 3}}

var tenantNames = []string{"blue", "red"}

func spots() (list []spot) {
	for id := range app.Switch(ring) {
		list = append(list, spot{port3(id + 1), 0}, spot{app.PortOf{Switch: id + 1, Port: 4}, 5},
			spot{app.PortOf{Switch: id + 1, Port: 4}, 6})
	}
	return list
}

func port3(id app.Switch) app.PortOf { return app.PortOf{Switch: id, Port: 3} }

// settle has machines begin where they are ready.
func (w *world) settle(all []machine) {
	w.t.Helper()
	for _, m := range all {
		is, known := w.placed(m)
		if !known || !is.Ready {
			continue
		}
		maps.DeleteFunc(w.sits, func(_ spot, other machine) bool { return other == m })
		w.sits[w.told(m)] = m
	}
}

// Machines of tenants with the same addresses come, go and move, cables are cut, and switches lose their controllers
// and come back. After each command that a switch executes, in any order between switches, no frame of a tenant arrives
// at a machine of the other one. At the end, machines of a tenant reach each other.
func TestApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.Uint64Range(1, 3).Draw(t, "groups"))
		var all []machine
		for _, name := range tenantNames {
			w.call("PUT", "/{tenant}", map[string]string{"tenant": name}, nil)
			for _, mac := range macs {
				all = append(all, machine{name, mac})
			}
		}
		check := func() { w.settle(all); w.apart() }
		step := func(t *rapid.T) {
			for range rapid.IntRange(1, 12).Draw(t, "steps") {
				if list := w.work(); len(list) > 0 {
					w.step(rapid.SampledFrom(list).Draw(t, "of"))
					check()
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"attach": func(t *rapid.T) {
				m, s := rapid.SampledFrom(all).Draw(t, "machine"), rapid.SampledFrom(spots()).Draw(t, "spot")
				told := func(m machine) bool { return w.told(m) == s }
				if _, there := w.sits[s]; there || slices.ContainsFunc(all, told) {
					return // a machine has to go first
				}
				was := w.told(m)
				w.attach(m, s)
				if rapid.Bool().Draw(t, "gone") || was.at.Port == 3 { // where it could relay
					maps.DeleteFunc(w.sits, func(_ spot, other machine) bool { return other == m })
				}
				check()
			},
			"detach": func(t *rapid.T) {
				m := rapid.SampledFrom(all).Draw(t, "machine")
				w.call("DELETE", "/{tenant}/hosts/{mac}", m.values(), nil)
				maps.DeleteFunc(w.sits, func(_ spot, other machine) bool { return other == m })
				check()
			},
			"cable": func(t *rapid.T) {
				i := app.Switch(rapid.IntRange(0, ring-1).Draw(t, "after"))
				a, b := app.PortOf{Switch: i + 1, Port: 1}, app.PortOf{Switch: (i+1)%ring + 1, Port: 2}
				_, up := w.links[a]
				w.cable(a, b, !up)
				check()
			},
			"relay": func(t *rapid.T) { // two machines relay probes, which looks like a cable
				w.tell(port3(1), port3(3), rapid.Bool().Draw(t, "up"))
				check()
			},
			"connection": func(t *rapid.T) {
				id := app.Switch(rapid.IntRange(1, ring).Draw(t, "of"))
				w.setDown(id, !w.down[id])
				check()
			},
			"step":  step,
			"steps": step,
		})
		for i := range app.Switch(ring) {
			if w.down[i+1] {
				w.setDown(i+1, false)
			}
			w.cable(app.PortOf{Switch: i + 1, Port: 1}, app.PortOf{Switch: (i+1)%ring + 1, Port: 2}, true)
		}
		w.tell(port3(1), port3(3), false)
		w.rest()
		w.settle(all)
		for _, m := range all {
			if is, known := w.placed(m); known && !is.Ready {
				t.Fatalf("%v is not ready: %s", m, is.Why)
			}
		}
		w.reaches()
	})
}

// A switch that leaves before it has removed what it is not to have forwards by the network before: the others do not
// install what leads frames through it, and have the rest of it.
func TestLeavesWhileRemoving(t *testing.T) {
	w := newWorld(t, 1)
	all := []machine{{"blue", macs[0]}, {"blue", macs[1]}}
	w.call("PUT", "/{tenant}", map[string]string{"tenant": "blue"}, nil)
	for i, m := range all {
		w.attach(m, spot{at: port3(app.Switch(i + 1))})
	}
	last, first := app.PortOf{Switch: ring, Port: 1}, app.PortOf{Switch: 1, Port: 2}
	w.cable(last, first, false) // frames to all cross the other cables of the ring
	w.rest()
	w.settle(all)
	w.reaches()
	w.cable(last, first, true) // and now this one instead of that between 3 and 4
	w.setDown(3, true)
	w.rest()
	w.reaches()
	w.setDown(3, false)
	w.rest()
	w.reaches()
}

// A machine reaches nobody as another one, with a tag, or when it relays probes so that its port looks like one between
// switches.
func TestForged(t *testing.T) {
	w := newWorld(t, 1)
	all := []machine{{"blue", macs[0]}, {"red", macs[0]}, {"red", macs[1]}}
	for i, m := range all {
		w.call("PUT", "/{tenant}", map[string]string{"tenant": m.tenant}, nil)
		w.attach(m, spot{at: port3(app.Switch(i + 1))})
	}
	w.rest()
	w.settle(all)
	w.reaches()
	w.tell(port3(1), port3(2), true)
	w.rest()
	w.apart()
	w.reaches()
}

// Requests that are not possible are refused and change nothing.
func TestRequests(t *testing.T) {
	w := newWorld(t, 3)
	tenant := func(name string) map[string]string { return map[string]string{"tenant": name} }
	at := func(name, mac string) map[string]string { return map[string]string{"tenant": name, "mac": mac} }
	host := "/{tenant}/hosts/{mac}"
	for _, step := range []struct {
		method, route string
		values        map[string]string
		body          any
		status        int
		text          string
	}{
		{"PUT", "/{tenant}", tenant("a b"), nil, 400, `tenant "a b": use 1 to 64 letters`},
		{"GET", "/{tenant}", tenant("red"), nil, 404, `there is no tenant "red": create it with PUT`},
		{"PUT", "/{tenant}", tenant("red"), nil, 204, ""},
		{"PUT", "/{tenant}", tenant("red"), nil, 204, ""},
		{"PUT", "/{tenant}", tenant("blue"), nil, 204, ""},
		{"PUT", host, at("red", "x"), nil, 400, `mac "x": use the address of one host`},
		{"PUT", host, at("red", "02:00:00:00:00:01"), 7, 400, "the body is not valid"},
		{"PUT", host, at("red", "02:00:00:00:00:01"), Place{"g", 3, 0}, 400, `switch "g": use the datapath id`},
		{"PUT", host, at("red", "02:00:00:00:00:01"), Place{"1", 0, 0}, 400, "port 0: use the number of a port"},
		{"PUT", host, at("red", "02:00:00:00:00:01"), Place{"1", 3, 4095}, 400, "vlan 4095: use 1 to 4094"},
		{"PUT", host, at("red", "02:00:00:00:00:01"), Place{"1", 1, 0}, 409,
			"port 1 of switch 0000000000000001 leads to port 2 of switch 0000000000000002"},
		{"PUT", host, at("red", "02:00:00:00:00:01"), Place{"1", 3, 0}, 204, ""},
		{"PUT", host, at("blue", "02:00:00:00:00:01"), Place{"1", 3, 0}, 409, "has hosts of tenant red, with VLAN 0"},
		{"PUT", host, at("blue", "02:00:00:00:00:01"), Place{"9", 3, 0}, 204, ""},
		{"GET", host, at("blue", "02:00:00:00:00:01"), nil, 0, `"ready":false,"why":"the switch is unknown`},
		{"GET", host, at("blue", "02:00:00:00:00:02"), nil, 404, "tenant blue has no host 02:00:00:00:00:02"},
		{"DELETE", "/{tenant}", tenant("red"), nil, 409, "tenant red has 1 hosts: remove them first"},
		{"DELETE", host, at("red", "02:00:00:00:00:01"), nil, 204, ""},
		{"DELETE", host, at("red", "02:00:00:00:00:01"), nil, 204, ""},
		{"DELETE", "/{tenant}", tenant("red"), nil, 204, ""},
		{"DELETE", "/switches/{switch}", map[string]string{"switch": "1"}, nil, 409, "is up"},
		{"GET", "/{tenant}", tenant("blue"), nil, 0, `{"02:00:00:00:00:01":{"switch":"0000000000000009","port":3,`},
	} {
		status, text := w.call(step.method, step.route, step.values, step.body)
		if status != step.status || !strings.Contains(text, step.text) {
			t.Fatalf("%s %s %v: %d %q, want %d %q", step.method, step.route, step.values, status, text, step.status,
				step.text)
		}
	}
}

// The tag of a tenant that is gone is not used again while a switch may have entries with it.
func TestTags(t *testing.T) {
	w := newWorld(t, 1)
	create := func(i int) int {
		status, _ := w.call("PUT", "/{tenant}", map[string]string{"tenant": fmt.Sprint(i)}, nil)
		return status
	}
	for i := range MaxTenants {
		if status := create(i); status != http.StatusNoContent {
			t.Fatalf("tenant %d: %d", i, status)
		}
	}
	refused := func() {
		t.Helper()
		if status := create(MaxTenants); status != http.StatusInsufficientStorage {
			t.Fatalf("one tenant more: %d", status)
		}
	}
	refused()
	w.setDown(2, true)
	w.rest()
	w.call("DELETE", "/{tenant}", map[string]string{"tenant": "7"}, nil)
	w.rest()
	refused()
	w.setDown(2, false)
	refused()
	w.rest()
	if status := create(MaxTenants); status != http.StatusNoContent {
		t.Fatalf("the switch is back: %d", status)
	}
	w.setDown(3, true)
	w.call("DELETE", "/{tenant}", map[string]string{"tenant": "8"}, nil)
	w.rest()
	w.call("DELETE", "/switches/{switch}", map[string]string{"switch": "3"}, nil)
	w.rest()
	if status := create(MaxTenants + 1); status != http.StatusNoContent {
		t.Fatalf("the switch is forgotten: %d", status)
	}
}

// restRefusing is rest, but a switch refuses some changes of entries.
func (w *world) restRefusing(id app.Switch, refuses func(*of13.FlowMod) bool) {
	w.t.Helper()
	steps := 0
	for list := w.work(); len(list) > 0; list = w.work() {
		if steps++; steps > 1000 {
			w.t.Fatalf("switch %s is sent changes without end", id)
		}
		next := w.waiting[list[0]][0]
		if f, is := next.Message.(*of13.FlowMod); next.Switch != id || !is || !refuses(f) {
			w.step(list[0])
			continue
		}
		w.waiting[id] = w.waiting[id][1:]
		no := &of13.Error{ErrType: of13.ErrTypeFlowModFailed, Code: of13.FlowModFailedTableFull}
		w.take(w.net.Message(id, no, next.XID))
	}
}

// A switch that refuses an entry has none, says why, and tries again with the next change.
func TestRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.call("PUT", "/{tenant}", map[string]string{"tenant": "red"}, nil)
	m := machine{"red", macs[0]}
	w.attach(m, spots()[0])
	w.restRefusing(1, func(f *of13.FlowMod) bool { return f.Command == of13.FlowAdd })
	if is, _ := w.placed(m); is.Ready || !strings.Contains(is.Why, "refuses") {
		t.Errorf("%+v", is)
	}
	w.attach(machine{"red", macs[1]}, spots()[1])
	w.rest()
	w.settle([]machine{m, {"red", macs[1]}})
	if len(w.sits) != 2 {
		t.Errorf("ready are %v", w.sits)
	}
	w.reaches()
}

// A switch of OpenFlow 1.0 refuses the entries, and then their deletion. The others are programmed.
func TestDeletionRefused(t *testing.T) {
	w := newWorld(t, 1)
	w.call("PUT", "/{tenant}", map[string]string{"tenant": "red"}, nil)
	m := machine{"red", macs[0]}
	w.attach(m, spot{at: port3(1)})
	w.restRefusing(2, func(*of13.FlowMod) bool { return true })
	if is, _ := w.placed(m); !is.Ready {
		t.Errorf("%+v", is)
	}
}
