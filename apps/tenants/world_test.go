package tenants

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// spot is where a machine can be: a port of a switch, and the VLAN of its frames.
type spot struct {
	at   app.PortOf
	vlan uint16
}

// machine is a host of a tenant.
type machine struct {
	tenant string
	mac    app.MAC
}

// wire is the part of topology: it tells of links.
type wire struct {
	Up   bool
	Link topology.Link
}

// world is switches in a ring, whose commands wait until they are executed one by one, and machines at their ports.
// Ports 1 and 2 are those between switches.
type world struct {
	t        apptest.Tester
	net      *apptest.Net
	app      *app.App
	cables   *app.App
	switches map[app.Switch]*vswitch.Switch
	links    map[app.PortOf]app.PortOf // that carry frames
	waiting  map[app.Switch][]apptest.Sent
	down     map[app.Switch]bool // for the controllers; it forwards
	sits     map[spot]machine
}

// newCables tells of links, as topology does.
func newCables() *app.App {
	cables := app.New("cables")
	app.HandleHTTP(cables, "PUT /", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		var m wire
		if err := app.ReadJSON(r, &m); err != nil {
			return app.Response{}, err
		}
		if m.Up {
			return app.Response{}, app.Emit(tx, topology.LinkUp{Link: m.Link, Bidirectional: true})
		}
		return app.Response{}, app.Emit(tx, topology.LinkDown{Links: []topology.Link{m.Link}})
	})
	return cables
}

const (
	ring = 4 // switches
	tags = 2 // that tenants have
)

func newWorld(t apptest.Tester, groups uint64) *world {
	cables := newCables()
	w := &world{t: t, app: New(), cables: cables, switches: map[app.Switch]*vswitch.Switch{},
		links: map[app.PortOf]app.PortOf{}, waiting: map[app.Switch][]apptest.Sent{}, down: map[app.Switch]bool{},
		sits: map[spot]machine{}}
	w.net = apptest.NewOf(t, groups, w.app, cables)
	for i := range ring {
		id := app.Switch(i + 1)
		s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(i+1, 4)})
		s.Open(0, 1)
		w.switches[id] = s
		w.events(id)
		w.take(w.net.SwitchUp(id))
	}
	for i := range app.Switch(ring) {
		w.cable(app.PortOf{Switch: i + 1, Port: 1}, app.PortOf{Switch: (i+1)%ring + 1, Port: 2}, true)
	}
	w.rest()
	return w
}

// cable plugs or cuts a cable.
func (w *world) cable(a, b app.PortOf, up bool) {
	w.t.Helper()
	delete(w.links, a)
	delete(w.links, b)
	if up {
		w.links[a], w.links[b] = b, a
	}
	w.tell(a, b, up)
}

// wires are the bodies of requests about both directions of a link.
func wires(a, b app.PortOf, up bool) (list [][]byte) {
	for _, l := range []topology.Link{{From: a, To: b}, {From: b, To: a}} {
		body, err := json.Marshal(wire{up, l})
		if err != nil {
			panic(err) // it has only numbers
		}
		list = append(list, body)
	}
	return list
}

// tell tells of a link, as topology does.
func (w *world) tell(a, b app.PortOf, up bool) {
	w.t.Helper()
	for _, body := range wires(a, b, up) {
		w.net.Call(w.cables, "PUT /", app.Request{Method: "PUT", Body: body})
		w.take(w.net.Advance(0))
	}
}

func (w *world) take(sent []apptest.Sent) {
	for _, c := range sent {
		w.waiting[c.Switch] = append(w.waiting[c.Switch], c)
	}
}

// step has a switch execute its next command.
func (w *world) step(id app.Switch) {
	w.t.Helper()
	c := w.waiting[id][0]
	w.waiting[id] = w.waiting[id][1:]
	w.switches[id].Message(0, 1, c.Message.Append(nil, c.XID))
	w.events(id)
}

// events hands what a switch has sent to the application.
func (w *world) events(id app.Switch) {
	w.t.Helper()
	for _, msg := range w.switches[id].Take(1) {
		switch msg[1] {
		case of13.TypeError:
			m, _ := of13.Decode(msg)
			w.t.Fatalf("switch %s refuses a command: %v", id, m)
		case of13.TypeBarrierReply:
			w.take(w.net.Event(id, msg))
		}
	}
}

// busy returns the switches that have something to do.
func (w *world) busy() (list []app.Switch) {
	for id, c := range w.waiting {
		if len(c) > 0 && !w.down[id] {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// work lets timers be due, and returns the switches that have something to do.
func (w *world) work() []app.Switch {
	w.t.Helper()
	w.take(w.net.Advance(1))
	return w.busy()
}

// rest executes all that there is to do, and checks the network after each command.
func (w *world) rest() {
	w.t.Helper()
	for list := w.work(); len(list) > 0; list = w.work() {
		w.step(list[0])
		w.apart()
	}
}

// setDown breaks or restores the connection of a switch, which goes on to forward.
func (w *world) setDown(id app.Switch, down bool) {
	w.t.Helper()
	w.waiting[id], w.down[id] = nil, down
	if down {
		w.take(w.net.SwitchDown(id))
		return
	}
	w.take(w.net.SwitchUp(id))
}

func (w *world) call(method, route string, values map[string]string, body any) (int, string) {
	w.t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	r := w.net.Call(w.app, method+" "+route, app.Request{Method: method, Values: values, Body: b})
	w.take(w.net.Advance(0))
	return r.Status, string(r.Body)
}

func (m machine) values() map[string]string {
	return map[string]string{"tenant": m.tenant, "mac": m.mac.String()}
}

// attach tells that a machine is at a spot.
func (w *world) attach(m machine, s spot) (int, string) {
	w.t.Helper()
	return w.call("PUT", "/{tenant}/hosts/{mac}", m.values(), Place{s.at.Switch.String(), s.at.Port, s.vlan})
}

// placed returns what the network knows of a machine.
func (w *world) placed(m machine) (s Status, known bool) {
	w.t.Helper()
	status, text := w.call("GET", "/{tenant}/hosts/{mac}", m.values(), nil)
	if status == http.StatusNotFound {
		return s, false
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		w.t.Fatalf("%d %s", status, text)
	}
	return s, true
}

// told returns where the network was told that a machine is.
func (w *world) told(m machine) spot {
	w.t.Helper()
	is, _ := w.placed(m)
	id, _ := openflow.ParseDatapathID(is.Switch) // 0: nowhere
	return spot{app.PortOf{Switch: id, Port: is.Port}, is.VLAN}
}

// send sends a frame from a spot, and returns the spots where it leaves the network, each as often as it does so.
func (w *world) send(from spot, src, dst app.MAC) (list []spot) {
	w.t.Helper()
	frame := append(slices.Clone(dst[:]), src[:]...)
	if from.vlan > 0 {
		frame = binary.BigEndian.AppendUint16(append(frame, 0x81, 0), from.vlan)
	}
	frame = append(frame, 0x88, 0xb5)
	frame = append(frame, make([]byte, 46)...)
	w.switches[from.at.Switch].Frame(0, from.at.Port, frame)
	for hops := 0; ; {
		moved := false
		for _, id := range slices.Sorted(maps.Keys(w.switches)) {
			for _, f := range w.switches[id].Frames() {
				out := app.PortOf{Switch: id, Port: f.Port}
				data := slices.Clone(f.Data)
				if to, link := w.links[out]; link {
					if hops++; hops > 8*ring {
						w.t.Fatalf("a frame from %v to %v goes round in circles", from, dst)
					}
					moved = true
					w.switches[to.Switch].Frame(0, to.Port, data)
					continue
				}
				end := spot{at: out}
				if binary.BigEndian.Uint16(data[12:]) == 0x8100 {
					end.vlan = binary.BigEndian.Uint16(data[14:]) & 0xfff
				}
				list = append(list, end)
			}
		}
		if !moved {
			return list
		}
	}
}

var everyone = app.MAC{255, 255, 255, 255, 255, 255}

// apart checks that nothing that a machine sends arrives at one of another tenant, or twice, also if it pretends to be
// another machine, or a switch that sends on what belongs to a tenant.
func (w *world) apart() {
	w.t.Helper()
	w.each(func(from spot, m machine, to app.MAC, ends []spot) {
		for _, end := range ends {
			for s, other := range w.sits {
				heard := s.vlan == end.vlan || end.vlan <= tags // spots with VLANs have others
				if s.at == end.at && other.tenant != m.tenant && heard && s.at != from.at {
					w.t.Fatalf("what %v sends from %v to %v arrives at %v, where %v is", m, from, to, end, other)
				}
			}
		}
		if to != everyone && len(ends) > 1 {
			w.t.Fatalf("what %v sends from %v to %v arrives at %v", m, from, to, ends)
		}
		if to == everyone {
			return
		}
		if ends := w.send(from, to, everyone); len(ends) > 0 {
			w.t.Fatalf("what %v sends from %v as %v arrives at %v", m, from, to, ends)
		}
	})
	for from := range w.sits {
		for tag := range uint16(tags) {
			if ends := w.send(spot{from.at, tag + 1}, macs[0], everyone); len(ends) > 0 {
				w.t.Fatalf("what is sent from %v with tag %d arrives at %v", from, tag+1, ends)
			}
		}
	}
}

// each sends from each machine to each address and to all.
func (w *world) each(do func(from spot, m machine, to app.MAC, ends []spot)) {
	w.t.Helper()
	for from, m := range w.sits {
		for _, to := range append(slices.Clone(macs), everyone) {
			if to != m.mac {
				do(from, m, to, w.send(from, m.mac, to))
			}
		}
	}
}

// reaches checks that machines of a tenant reach each other and nobody else.
func (w *world) reaches() {
	w.t.Helper()
	w.each(func(from spot, m machine, to app.MAC, ends []spot) {
		var want []spot
		for s, other := range w.sits {
			if other.tenant == m.tenant && s.at != from.at && (to == everyone || other.mac == to) {
				want = append(want, s)
			}
		}
		if order(ends) != order(want) {
			w.t.Fatalf("what %v sends from %v to %v arrives at %v, want %v", m, from, to, order(ends), order(want))
		}
	})
}

func order(list []spot) string {
	text := []string{}
	for _, s := range list {
		text = append(text, fmt.Sprint(s))
	}
	slices.Sort(text)
	return fmt.Sprint(text)
}
