package path

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/model"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// replicated is a world whose three controllers are one group, of which the leader dies. Switches receive some commands
// again, and drop them, as their agents do.
type replicated struct {
	*world
	g      *apptest.Group
	random *rand.Rand
	ends   map[app.Switch]*end
	lives  bool // the leader
}

// end is what an agent knows of its switch.
type end struct {
	received, events uint64
	queue            []command
}

type command struct {
	seq     uint64
	message []byte
}

func newReplicated(t apptest.Tester, random *rand.Rand) *replicated {
	r := &replicated{random: random, ends: map[app.Switch]*end{}, world: &world{t: t,
		switches: map[app.Switch]*vswitch.Switch{}, cables: map[app.PortOf]app.PortOf{}, dead: map[app.PortOf]bool{}}}
	r.g = apptest.NewGroup(t, 1, func() []*app.App { return []*app.App{newWire(), node.New(), New()} }, r.receive)
	return r
}

func (r *replicated) receive(l ledger.Release) {
	e := r.ends[l.Switch]
	for seq, msg := range r.g.Commands(l) {
		if seq > e.received {
			e.received = seq
			e.queue = append(e.queue, command{seq, slices.Clone(msg)})
		}
	}
}

// input has the leader execute something. Now and then it dies of it.
func (r *replicated) input(do func(*ledger.Core) error) {
	r.t.Helper()
	if !r.lives && r.random.IntN(8) == 0 {
		r.g.Crash = []apptest.Crash{apptest.DiesExecuting, apptest.DiesReleasing}[r.random.IntN(2)]
	}
	r.g.Input(func(c *ledger.Core) {
		if err := do(c); err != nil {
			r.t.Fatalf("%v", err)
		}
	})
}

func (r *replicated) event(id app.Switch, msg []byte) {
	e := r.ends[id]
	e.events++
	seq := e.events
	r.input(func(c *ledger.Core) error { return c.Event(id, 1, seq, msg) })
}

func (r *replicated) connect(id app.Switch) {
	s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(int(id), 6)})
	s.Open(0, 1)
	s.Take(1)
	r.switches[id], r.ends[id] = s, &end{}
	r.event(id, apptest.Up(id))
}

// call sends a request, and returns the answer, if the leader does not die of it.
func (r *replicated) call(name, route string, q app.Request) (body []byte) {
	r.t.Helper()
	message := httpcall.Encode(q)
	r.input(func(c *ledger.Core) error {
		return c.Call(ledger.Call{Actor: ledger.Actor{App: name}, Name: route, Message: message})
	})
	for _, a := range r.g.Leader().Answers() {
		if answer, err := httpcall.Decode[app.Response](a.Message); err == nil && !a.Failed {
			body = answer.Body
		}
	}
	return body
}

func (r *replicated) request(method, name string, d *Definition) []byte {
	q := app.Request{Values: map[string]string{"name": name}}
	if d != nil {
		q.Body, _ = json.Marshal(d) // it can be
	}
	return r.call(Name, method+" /paths/{name}", q)
}

func (r *replicated) wired(m wired) {
	body, _ := json.Marshal(m) // it can be
	r.call("wire", "PUT /links", app.Request{Body: body})
}

func (r *replicated) join(a, b app.PortOf) {
	r.cables[a], r.cables[b] = b, a
	r.wired(wired{Up: []topology.Link{{From: a, To: b}, {From: b, To: a}}})
}

// step has some switch execute its next command.
func (r *replicated) step() bool {
	var busy []app.Switch
	for id, e := range r.ends {
		if len(e.queue) > 0 {
			busy = append(busy, id)
		}
	}
	if len(busy) == 0 {
		return false
	}
	slices.Sort(busy)
	id := busy[r.random.IntN(len(busy))]
	e, s := r.ends[id], r.switches[id]
	c := e.queue[0]
	e.queue = e.queue[1:]
	s.Message(0, 1, c.message)
	r.commands++
	r.check()
	for _, msg := range s.Take(1) {
		r.event(id, msg)
	}
	r.input(func(core *ledger.Core) error { return core.Done(id, 1, c.seq) })
	return true
}

func (r *replicated) pass(d time.Duration) {
	for end := r.g.Now + int64(d); r.g.Now < end; {
		tick := r.g.Until(end)
		r.input(func(c *ledger.Core) error { tick(c); return nil })
	}
}

// settle goes on until nothing happens any more.
func (r *replicated) settle() {
	for quietTurns := 0; quietTurns < 5; quietTurns++ {
		for r.step() {
			quietTurns = 0
		}
		r.pass(drain)
	}
}

// Leaders die at any moment while paths are installed, get other routes, and are removed. After each command of a
// switch, each path is there as a whole or not at all, and in the end it is as it was asked for.
func TestWhoeverDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		const n = 5
		r := newReplicated(t, random)
		for id := range app.Switch(n) {
			r.connect(id + 1)
		}
		for id := range app.Switch(n) {
			r.join(app.PortOf{Switch: id + 1, Port: 4}, app.PortOf{Switch: (id+1)%n + 1, Port: 3})
		}
		r.settle()
		var defs []Definition
		for i := range 4 {
			from := app.Switch(1 + random.IntN(n))
			_, d := r.watch(i, from, 1+(from+app.Switch(random.IntN(n-1)))%n)
			defs = append(defs, d)
		}
		var cut []app.PortOf
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			i := random.IntN(len(defs))
			switch rapid.SampledFrom([]string{"put", "put", "remove", "cut", "mend", "wait"}).Draw(t, "change") {
			case "put":
				r.request("PUT", r.watched[i].name, &defs[i])
			case "remove":
				r.request("DELETE", r.watched[i].name, nil)
			case "cut":
				if at := (app.PortOf{Switch: app.Switch(1 + random.IntN(n)), Port: 4}); len(cut) == 0 {
					cut = append(cut, at)
					r.wired(wired{Down: []topology.Link{{From: at, To: r.cables[at]}, {From: r.cables[at], To: at}}})
				}
			case "mend":
				for _, at := range cut {
					r.join(at, r.cables[at])
				}
				cut = nil
			case "wait":
				r.pass(drain / 2)
			}
			for range random.IntN(20) {
				r.step()
			}
		}
		r.settle()
		for i := range defs { // what was being removed could not be put
			r.request("PUT", r.watched[i].name, &defs[i])
		}
		r.settle()
		entries := 0
		r.lives = true // or it might not answer
		for i := range defs {
			var v View
			if err := json.Unmarshal(r.request("GET", r.watched[i].name, nil), &v); err != nil {
				t.Fatal(err)
			}
			if v.State != model.Up || !r.passes(r.watched[i]) {
				t.Fatalf("%+v, and frames pass: %v (%d leaders)", v, r.passes(r.watched[i]), r.g.Term)
			}
			entries += len(v.Route)
		}
		r.lives = false
		if got := r.flows(); got != entries {
			t.Fatalf("%d entries, of paths there are %d (%d leaders)", got, entries, r.g.Term)
		}
		for i := range defs {
			r.request("DELETE", r.watched[i].name, nil)
		}
		if r.settle(); r.flows() != 0 {
			t.Fatalf("%d entries are left (%d leaders)", r.flows(), r.g.Term)
		}
		r.g.Agree()
	})
}
