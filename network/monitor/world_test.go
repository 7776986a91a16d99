package monitor

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const id app.Switch = 7

// owned is an application that sets triggers, and hears of them.
func owned(triggers []Trigger, hear func(Crossed), answer func(error)) *app.App {
	a := app.New("te")
	heard := app.NewTable[app.Switch, int](a, "heard")
	app.Handle(a, func(u app.SwitchUp) app.Cells { return app.Need(heard.Cell(u.Switch)) },
		func(tx *app.Tx, u app.SwitchUp) error {
			for _, t := range triggers {
				t.Switch, t.Owner = u.Switch, "te"
				if err := app.Call(tx, Set{t}, time.Second); err != nil {
					return err
				}
			}
			return nil
		})
	app.HandleAnswer(a, func(s Set) app.Cells { return app.Need(heard.Cell(s.Switch)) },
		func(_ *app.Tx, r app.Answer[Set, Done]) error { answer(r.Err); return nil })
	app.HandleEmitted(a, func(c Crossed) app.Cells {
		if c.Owner != "te" {
			return app.Drop()
		}
		return app.Need(heard.Cell(c.Switch))
	}, func(tx *app.Tx, c Crossed) error {
		n, _ := heard.Get(tx, c.Switch)
		heard.Put(tx, c.Switch, n+1)
		hear(c)
		return nil
	})
	return a
}

// world is a switch that is monitored.
type world struct {
	t       *testing.T
	net     *apptest.Net
	app     *app.App
	s       *vswitch.Switch
	now     time.Duration
	heard   []Crossed
	errors  []error
	polls   int
	replies int // parts
}

func newWorld(t *testing.T, groups uint64, triggers ...Trigger) *world {
	w := &world{t: t, app: New()}
	te := owned(triggers, func(c Crossed) { w.heard = append(w.heard, c) },
		func(err error) { w.errors = append(w.errors, err) })
	w.net = apptest.NewOf(t, groups, w.app, te)
	w.boot()
	return w
}

// boot starts the switch anew.
func (w *world) boot() {
	w.s = vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 3)})
	w.s.Open(w.now, 1)
	w.s.Take(1)
	w.do(w.net.SwitchUp(id))
}

// install adds a flow entry that sends what comes in by a port to port 3, or replaces it.
func (w *world) install(in app.Port, cookie uint64) {
	m := of13.FlowMod{Cookie: cookie, BufferID: of13.NoBuffer, Priority: 5, Match: of13.Match(nil).WithInPort(in),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Output(3, 0))}
	w.s.Message(w.now, 1, m.Append(nil, 9))
}

func (w *world) remove(cookie uint64) {
	m := of13.FlowMod{Command: of13.FlowDelete, Cookie: cookie, CookieMask: ^uint64(0), BufferID: of13.NoBuffer,
		OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	w.s.Message(w.now, 1, m.Append(nil, 9))
}

// run lets time pass, while frames come in by a port at a rate in bytes/s.
func (w *world) run(d time.Duration, in app.Port, rate int) {
	w.t.Helper()
	const tick = 20 * time.Millisecond
	for end := w.now + d; w.now < end; {
		w.now += tick
		if n := rate / 50; n > 0 {
			w.s.Frame(w.now, in, make([]byte, n))
			w.s.Frames()
		}
		w.do(w.net.Advance(tick))
	}
}

func (w *world) do(sent []apptest.Sent) {
	w.t.Helper()
	for len(sent) > 0 {
		for _, c := range sent {
			w.polls++
			w.s.Message(w.now, 1, c.Message.Append(nil, c.XID))
		}
		sent = nil
		for _, msg := range w.s.Take(1) {
			w.replies++
			sent = append(sent, w.net.Event(id, msg)...)
		}
	}
}

func (w *world) request(route, name, body string) app.Response {
	w.t.Helper()
	return w.net.Call(w.app, route, app.Request{Values: map[string]string{"switch": id.String(), "name": name},
		Body: []byte(body)})
}

func (w *world) put(name, body string) {
	w.t.Helper()
	if r := w.request("PUT /{switch}/{name}", name, body); r.Status != 204 {
		w.t.Fatalf("%s: %d %s", body, r.Status, r.Body)
	}
}

// status returns what is listed of a trigger.
func (w *world) status(name string) Status {
	w.t.Helper()
	var list []Status
	if err := json.Unmarshal(w.request("GET /{switch}", "", "").Body, &list); err != nil {
		w.t.Fatal(err)
	}
	for _, s := range list {
		if s.Name == name {
			return s
		}
	}
	w.t.Fatalf("%+v has no trigger %s", list, name)
	return Status{}
}

// crossings checks what was heard since the last call: true for each rise, false for each fall.
func (w *world) crossings(want ...bool) {
	w.t.Helper()
	ok := len(w.heard) == len(want)
	for i := range want {
		ok = ok && w.heard[i].Raised == want[i]
	}
	if !ok {
		w.t.Fatalf("heard %+v, want %v", w.heard, want)
	}
	w.heard = nil
}
