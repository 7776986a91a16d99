package path

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// verify checks that a path is as its state says, and that there is nothing else.
func (w *world) verify(p watched, states ...model.State) {
	w.t.Helper()
	v := w.view(p.name)
	up, entries, groups := v.State == model.Up, 0, 0
	if up {
		entries, groups = v.holds()
	}
	known := false
	for _, s := range states {
		known = known || v.State == s
	}
	unlike := up && v.Definition.Backup != (v.Backup != nil)
	if !known || w.passes(p) != up || w.flows() != entries || w.groups() != groups || unlike {
		w.t.Errorf("want one of %v: it is %+v, frames pass: %v, and there are %d entries and %d groups", states, v,
			w.passes(p), w.flows(), w.groups())
	}
}

// cutOff reports whether a link of a route is down.
func (w *world) cutOff(route []Step) bool {
	for _, s := range route {
		id, _ := openflow.ParseDatapathID(s.Switch)
		if w.dead[app.PortOf{Switch: id, Port: s.Out}] {
			return true
		}
	}
	return false
}

// A switch without room, or that refuses an entry for another reason, keeps what it has, and nothing is left of the
// path at any other switch.
func TestPathIsRefused(t *testing.T) {
	w := newWorld(t, 3, first)
	w.line(3)
	p, d := w.watch(0, 1, 3)
	for _, id := range []app.Switch{1, 3} {
		w.down(id)
		w.settle()
		w.boot(id, 3) // flow entries
		w.settle()
	}
	d.Match.Protocol, d.Match.DestinationPorts = "udp", "1-9" // needs 4 at the first switch
	w.put(p.name, d)
	w.settle()
	if v := w.view(p.name); v.Why == "" {
		t.Errorf("it is %+v", v)
	}
	w.verify(p, model.Refused)
	d.Match.DestinationPorts = "8-9" // needs 1
	for i := range 3 {               // to fill the last one
		d := Definition{From: End{"3", 3 + app.Port(i)}, To: End{"3", 1},
			Match: packet.Class{Destination: fmt.Sprintf("192.0.2.%d", i)}}
		w.put(fmt.Sprintf("q%d", i), d)
	}
	w.settle()
	full := w.flows()
	if r := w.put(p.name, d); r.Status != 0 {
		t.Fatalf("%d %s", r.Status, r.Body)
	}
	w.settle()
	if v := w.view(p.name); v.State != model.Refused || w.passes(p) || w.flows() != full {
		t.Errorf("it is %+v, with %d entries in all, and %d before", v, w.flows(), full)
	}
	w.remove("q1")
	w.settle()
	w.put(p.name, d)
	w.settle()
	if v := w.view(p.name); v.State != model.Up || !w.passes(p) || w.flows() != full-1+3 {
		t.Errorf("it is %+v, with %d entries in all", v, w.flows())
	}
}

// If the first switch refuses to change over, frames stay on the old route.
func TestPathThatCannotChangeOver(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(4)
	p, d := w.watch(0, 1, 3)
	w.put(p.name, d)
	w.settle()
	w.refuses = func(c apptest.Sent) bool {
		m, is := c.Message.(*of13.FlowMod)
		return is && c.Switch == 1 && m.Priority == model.DefaultPriority && bytes.Contains(m.Instructions, []byte{0, 0, 0, 4})
	}
	w.cut(app.PortOf{Switch: 1, Port: 3})
	w.settle()
	if v := w.view(p.name); v.State != model.Broken || v.Route[1].Switch != "0000000000000004" || !w.passes(p) ||
		w.flows() != 3 {
		t.Errorf("it is %+v, with %d entries", v, w.flows())
	}
	w.refuses = nil
	w.cable(app.PortOf{Switch: 1, Port: 3}, app.PortOf{Switch: 4, Port: 4})
	w.settle()
	w.verify(p, model.Up)
}

// Two paths for the same frames cannot begin at one port with one priority. The switch would have one entry for both.
func TestPathsForTheSameFrames(t *testing.T) {
	w := newWorld(t, 2, first)
	w.line(2)
	p, d := w.watch(0, 1, 2)
	w.put(p.name, d)
	w.put("other", d)
	w.settle()
	if v := w.view("other"); v.State != model.Refused || w.flows() != 2 {
		t.Errorf("it is %+v, with %d entries", v, w.flows())
	}
	d.Priority = 7
	w.put("other", d)
	w.settle()
	if v := w.view("other"); v.State != model.Up || w.flows() != 4 {
		t.Errorf("it is %+v, with %d entries", v, w.flows())
	}
}

// Paths that are put together are there, or refused, each by itself. If one of them is not valid, none is there.
func TestPathsTogether(t *testing.T) {
	w := newWorld(t, 2, first)
	w.line(3)
	all := map[string]Definition{}
	for i := range 3 {
		p, d := w.watch(i, 1, app.Switch(i+1)%3+1)
		all[p.name] = d
	}
	bad := all["p0"]
	bad.To.Switch = "9"
	all["nowhere"] = bad
	states := map[string]State{}
	for range 2 { // the second time it says what they are
		body, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		r := w.net.Call(w.app, "PUT /paths", app.Request{Body: body})
		if err := json.Unmarshal(r.Body, &states); err != nil {
			t.Fatalf("%d %s: %v", r.Status, r.Body, err)
		}
		w.take(w.net.Advance(0))
		w.settle()
	}
	for name, s := range states {
		up := s.State == model.Up && s.Why == ""
		if up == (name == "nowhere") || !up && !strings.Contains(s.Why, "down or") {
			t.Errorf("%s is %+v", name, s)
		}
	}
	for _, p := range w.watched {
		if !w.passes(p) {
			t.Errorf("no frame passes by %s", p.name)
		}
	}
	had := w.flows()
	bad.To.Port = 0
	all["invalid"], all["new"] = bad, Definition{From: End{"1", 5}, To: End{"2", 5}}
	body, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	r := w.net.Call(w.app, "PUT /paths", app.Request{Body: body})
	if w.settle(); r.Status != 400 || !strings.Contains(string(r.Body), "invalid") || w.flows() != had {
		t.Errorf("one is not valid: %d %s, with %d entries, and %d before", r.Status, r.Body, w.flows(), had)
	}
	for i := range model.MaxPaths {
		all[fmt.Sprint(i)] = bad
	}
	if body, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	if r := w.net.Call(w.app, "PUT /paths", app.Request{Body: body}); r.Status != 400 ||
		!strings.Contains(string(r.Body), "at most 256") {
		t.Errorf("too many: %d %s", r.Status, r.Body)
	}
}

// Tags are used again, and never by two paths on one link.
func TestPathsHaveTheirTags(t *testing.T) {
	w := newWorld(t, 1, first)
	w.line(2)
	p, d := w.watch(0, 1, 2)
	w.put(p.name, d)
	w.settle()
	tag := w.view(p.name).Route[0].Tag
	local := Definition{From: End{"1", 5}, To: End{"1", 6}}
	w.watched = nil          // which takes time
	for range maxTag/2 - 1 { // each takes two numbers, so the next route would have the tag of the first one
		w.put("local", local)
		for w.step() {
		}
		w.remove("local")
		for w.step() {
		}
	}
	q, d2 := w.watch(1, 1, 2)
	w.watched = append(w.watched, p)
	for i := range 3 {
		d2.Match.Destination = fmt.Sprintf("10.0.%d.0/24", i+1)
		w.put(fmt.Sprintf("q%d", i), d2)
		w.settle()
		if v := w.view(fmt.Sprintf("q%d", i)); v.State != model.Up || v.Route[0].Tag == tag {
			t.Errorf("tag %d is that of a path, and the next one is %+v", tag, v)
		}
	}
	w.put(q.name, d2)
	w.check()
}

// A network that changes all the time does not postpone what follows from that.
func TestPathInNetworkThatChangesAllTheTime(t *testing.T) {
	w := newWorld(t, 2, first)
	w.ring(4)
	p, d := w.watch(0, 1, 3)
	w.put(p.name, d)
	w.settle()
	for range 10 {
		w.cut(app.PortOf{Switch: 1, Port: 3})
		for w.wait(quiet / 4); w.step(); {
		}
	}
	if v := w.view(p.name); v.State != model.Up || w.cutOff(v.Route) {
		t.Errorf("it is %+v", v)
	}
}

// An entry that somebody removes while the route is installed is there again before frames enter.
func TestPathLosesAnEntryWhileItIsInstalled(t *testing.T) {
	w := newWorld(t, 1, first)
	w.line(3)
	p, d := w.watch(0, 1, 3)
	w.put(p.name, d)
	execute := func(id app.Switch) {
		for len(w.queues[id]) > 0 {
			w.execute(id, true)
		}
	}
	execute(3)
	w.wipe(3)
	w.execute(3, true) // which says so
	execute(2)
	if execute(1); len(w.queues[3]) == 0 || w.passes(p) {
		t.Errorf("switch 3 is sent %d commands, and frames enter: %v", len(w.queues[3]), w.passes(p))
	}
	w.settle()
	w.verify(p, model.Up)
}

// What somebody else removes at a switch is installed again.
func TestPathIsRepaired(t *testing.T) {
	w := newWorld(t, 2, first)
	w.line(3)
	p, d := w.watch(0, 1, 3)
	w.put(p.name, d)
	w.settle()
	w.watched = nil // for a moment it is there by half
	for id := range w.switches {
		w.wipe(id)
	}
	w.settle()
	w.verify(p, model.Up)
}

// A switch that restarts gets its entries again, without any other switch being told.
func TestPathOverSwitchesThatRestart(t *testing.T) {
	w := newWorld(t, 3, first)
	w.line(3)
	p, d := w.watch(0, 1, 3)
	w.put(p.name, d)
	w.settle()
	w.watched = nil
	for id := range w.switches {
		w.down(id)
		w.settle()
		w.boot(id, 0)
		w.settle()
		w.verify(p, model.Up)
	}
}

// What waits for a switch that is forgotten is given up: a path that begins there, the end of one, and entries behind
// it. If it comes back nevertheless, it has no entry of before.
func TestPathsOfForgottenSwitch(t *testing.T) {
	w := newWorld(t, 3, first)
	w.ring(4)
	begins, d := w.watch(0, 1, 2)
	w.put(begins.name, d)
	ends, d := w.watch(1, 1, 3)
	w.put(ends.name, d)
	crosses, d := w.watch(2, 2, 4)
	w.put(crosses.name, d)
	w.put("local", Definition{From: End{"1", 5}, To: End{"1", 6}})
	w.settle()
	w.watched = []watched{crosses}
	w.down(1)
	for at := range w.cables {
		if at.Switch == 1 {
			w.cut(at)
		}
	}
	w.remove(ends.name)
	w.settle()
	if v := w.view(ends.name); v.State != model.Removing {
		t.Errorf("its first switch is down, but it is %+v", v)
	}
	w.take(w.net.Forget(1))
	w.settle()
	for name, want := range map[string]model.State{ends.name: "none", begins.name: model.Refused,
		"local": model.Refused, crosses.name: model.Up} {
		if v := w.view(name); v.State != want || want == model.Refused && !strings.Contains(v.Why, "is forgotten") {
			t.Errorf("%s is %+v, want %s", name, v, want)
		}
	}
	w.up(1) // with the entries that it had
	w.settle()
	if w.flows() != len(w.view(crosses.name).Route) || !w.passes(crosses) {
		t.Errorf("there are %d entries: of %+v", w.flows(), w.view(crosses.name))
	}
	again, d := w.watch(0, 1, 2)
	for at := range w.cables {
		w.cable(at, w.cables[at])
	}
	w.put(again.name, d)
	w.settle()
	if v := w.view(again.name); v.State != model.Up || !w.passes(again) {
		t.Errorf("it is %+v", v)
	}
}

// What cannot be is refused, and says why. Nothing has changed then.
func TestPathsThatCannotBe(t *testing.T) {
	w := newWorld(t, 1, first)
	w.line(4)
	p, d := w.watch(0, 1, 4)
	good, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string { return strings.Replace(string(good), old, new, 1) }
	for _, c := range []struct {
		body   string
		status int
		want   string
	}{
		{"{", 400, "not valid"},
		{with(`"match"`, `"mach"`), 400, "unknown field"},
		{with(`"switch":"0000000000000001"`, `"switch":"x1"`), 400, "x1"},
		{with(`"port":2`, `"port":0`), 400, "port 0: use 1"},
		{with(`0000000000000004","port":2`, `0000000000000001","port":1`), 400, "use two ports"},
		{with(`"match"`, `"priority":65000,"match"`), 400, "use less than 65000"},
		{with(`"match"`, `"max_hops":65,"match"`), 400, "use 1 to 64"},
		{with(`"match"`, `"max_hops":3,"match"`), 409, "has 4 switches, and at most 3"},
		{with(`"match"`, `"avoid":["3"],"match"`), 409, "no links lead"},
		{with(`0000000000000004`, `0000000000000009`), 409, "down or unknown"},
		{with(`10.0.0.0/24"`, `10.0.0.0/24","protocol":"udp","source_ports":"1-65534","destination_ports":"1-65534"`), 400,
			"fewer ranges"},
	} {
		r := w.net.Call(w.app, "PUT /paths/{name}", app.Request{Values: map[string]string{"name": p.name},
			Body: []byte(c.body)})
		if r.Status != c.status || !strings.Contains(string(r.Body), c.want) {
			t.Errorf("%s: %d %s, want %d %q", c.body, r.Status, r.Body, c.status, c.want)
		}
	}
	w.verify(p, "none")
	w.put(p.name, d)
	if r := w.put(p.name, d); r.Status != 0 {
		t.Errorf("the same again: %d %s", r.Status, r.Body)
	}
	w.settle()
	w.verify(p, model.Up)
	d.Priority = 1
	if r := w.put(p.name, d); r.Status != 409 || !strings.Contains(string(r.Body), "another definition") {
		t.Errorf("another definition: %d %s", r.Status, r.Body)
	}
	list := w.net.Call(w.app, "GET /paths", app.Request{})
	var views []View
	if err := json.Unmarshal(list.Body, &views); err != nil || len(views) != 1 || views[0].Name != p.name {
		t.Errorf("the list is %s", list.Body)
	}
	if list := w.net.Call(w.app, "GET /paths", app.Request{Query: url.Values{"after": {p.name}}}); string(list.Body) != "[]" {
		t.Errorf("after the last one: %s", list.Body)
	}
}

// A path is installed, changes over to another route, or is removed. At each step of that, a switch loses its
// connection, with or without having executed what it was sent, or another link goes down.
func TestPathWhateverHappensAtEachStep(t *testing.T) {
	t.Run("without a backup", func(t *testing.T) { atEachStep(t, false) })
	t.Run("with a backup", func(t *testing.T) { atEachStep(t, true) })
}

func atEachStep(t *testing.T, backup bool) {
	begins := map[string]func(w *world, p watched, d Definition) []model.State{
		"put": func(w *world, p watched, d Definition) []model.State {
			w.put(p.name, d)
			return []model.State{model.Up, model.Refused}
		},
		"reroute": func(w *world, p watched, d Definition) []model.State {
			w.put(p.name, d)
			w.settle()
			w.cut(app.PortOf{Switch: 1, Port: 3})
			w.wait(quiet)
			return []model.State{model.Up}
		},
		"remove": func(w *world, p watched, d Definition) []model.State {
			w.put(p.name, d)
			w.settle()
			w.remove(p.name)
			return []model.State{"none"}
		},
	}
	happens := map[string]func(w *world){
		"cut":  func(w *world) { w.cut(app.PortOf{Switch: 2, Port: 4}) },
		"way":  func(w *world) { w.cut(app.PortOf{Switch: 4, Port: 3}) },
		"both": func(w *world) { w.cut(app.PortOf{Switch: 2, Port: 4}); w.cut(app.PortOf{Switch: 1, Port: 3}) },
	}
	for id := app.Switch(1); id <= 4; id++ {
		happens[fmt.Sprintf("down %d", id)] = func(w *world) {
			w.choose = func(int) int { return 0 }
			w.down(id)
			w.choose = first
		}
		happens[fmt.Sprintf("executed and down %d", id)] = func(w *world) {
			w.choose = func(n int) int { return n - 1 }
			w.down(id)
			w.choose = first
		}
		happens[fmt.Sprintf("wiped %d", id)] = func(w *world) {
			w.watched = nil // for a moment it is there by half
			w.wipe(id)
		}
	}
	for start, begin := range begins {
		for what, happen := range happens {
			for steps, more := 0, true; more; steps++ {
				if steps > 100 {
					t.Fatalf("%s, %s: the applications go on to send", start, what)
				}
				passed := t.Run(fmt.Sprintf("%s, %s after %d steps", start, what, steps), func(t *testing.T) {
					w := newWorld(t, 2, first)
					w.ring(4)
					p, d := w.watch(0, 1, 3)
					d.Backup = backup
					states := begin(w, p, d)
					for range steps {
						more = w.step() && more
					}
					happen(w)
					w.wait(quiet)
					for range 3 {
						w.step()
					}
					w.settle()
					for id := range w.switches {
						if strings.HasSuffix(what, fmt.Sprintf("down %d", id)) {
							w.up(id)
						}
					}
					w.settle()
					if v := w.view(p.name); v.State == model.Up && w.cutOff(v.Route) {
						t.Errorf("a link of it is down, but it is %+v", v)
					}
					for at := range w.cables {
						w.cable(at, w.cables[at])
					}
					w.settle()
					w.compare()
					w.verify(p, states...)
				})
				more = more && passed
			}
		}
	}
}
