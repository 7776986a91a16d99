package kandoo

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const ring = 4 // switches; port 1 of each leads to port 2 of the next one

// Two hosts at ports 3 and 4 of switch 1 send to one at port 3 of switch 3.
var (
	alice, bob, carol = app.MAC{2, 0, 0, 0, 0, 1}, app.MAC{2, 0, 0, 0, 0, 2}, app.MAC{2, 0, 0, 0, 0, 3}
	senders           = map[app.MAC]app.Port{alice: 3, bob: 4}
	sink              = app.PortOf{Switch: 3, Port: 3}
)

// world is a ring of switches, which execute their commands in any order, and the application beside one that forwards
// everything by switch 2.
type world struct {
	t           *testing.T
	random      *rand.Rand
	net         *apptest.Net
	app, fabric *app.App
	switches    map[app.Switch]*vswitch.Switch
	links       map[app.PortOf]app.PortOf
	waiting     map[app.Switch][]apptest.Sent
	now         time.Duration
	carried     map[app.PortOf]int
	lost        int        // so many of the next answers to barriers
	full        app.Switch // refuses the entries of paths
	refused     int        // by that one
}

func newWorld(t *testing.T, a *app.App, groups, seed uint64) *world {
	return worldOf(t, a, newFabric(perFlow), groups, seed)
}

// newStages is a world where the application passes on to one whose entries have no source.
func newStages(t *testing.T, groups, seed uint64) *world {
	a, fabric := New(), newFabric(perDestination)
	a.Before(1)
	fabric.InTable(1)
	return worldOf(t, a, fabric, groups, seed)
}

func worldOf(t *testing.T, a, fabric *app.App, groups, seed uint64) *world {
	w := &world{t: t, random: rand.New(rand.NewPCG(seed, 0)), app: a, fabric: fabric,
		switches: map[app.Switch]*vswitch.Switch{}, links: map[app.PortOf]app.PortOf{}, waiting: map[app.Switch][]apptest.Sent{},
		carried: map[app.PortOf]int{}}
	w.net = apptest.NewOf(t, groups, w.app, w.fabric)
	for i := range ring {
		id := app.Switch(i + 1)
		s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(i+1, 4)})
		s.Open(0, 1)
		w.switches[id] = s
		w.events(id)
		w.take(w.net.SwitchUp(id))
	}
	for i := range app.Switch(ring) {
		a, b := app.PortOf{Switch: i + 1, Port: 1}, app.PortOf{Switch: (i+1)%ring + 1, Port: 2}
		w.links[a], w.links[b] = b, a
		w.tell("PUT /link", topology.Link{From: a, To: b})
		w.tell("PUT /link", topology.Link{From: b, To: a})
	}
	for mac, port := range senders {
		w.tell("PUT /host", topology.Host{MAC: mac, At: app.PortOf{Switch: 1, Port: port}})
	}
	w.tell("PUT /host", topology.Host{MAC: carol, At: sink})
	for len(w.waiting) > 0 {
		w.step()
	}
	return w
}

// How the fabric matches what comes in by a port for carol.
func perFlow(in app.Port, from app.MAC) of13.Match {
	return of13.Match(nil).WithInPort(in).WithEthSrc(from).WithEthDst(carol)
}

func perDestination(app.Port, app.MAC) of13.Match { return of13.Match(nil).WithEthDst(carol) }

// newFabric tells what topology would, and forwards by switch 2.
func newFabric(match func(app.Port, app.MAC) of13.Match) *app.App {
	a := app.New("fabric")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		for mac, port := range senders {
			hop := map[app.Switch][2]app.Port{1: {port, 1}, 2: {2, 1}, 3: {2, sink.Port}}[up.Switch]
			if hop[0] > 0 {
				tx.FlowMod(up.Switch, of13.FlowMod{Priority: 1, BufferID: of13.NoBuffer,
					Match:        match(hop[0], mac),
					Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Outputs(hop[1]))})
			}
		}
		return nil
	})
	app.HandleHTTP(a, "PUT /link", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		var l topology.Link
		if err := app.ReadJSON(r, &l); err != nil {
			return app.Response{}, err
		}
		return app.Response{}, app.Emit(tx, topology.LinkUp{Link: l, Bidirectional: true})
	})
	app.HandleHTTP(a, "DELETE /link", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		var l topology.Link
		if err := app.ReadJSON(r, &l); err != nil {
			return app.Response{}, err
		}
		return app.Response{}, app.Emit(tx, topology.LinkDown{Links: []topology.Link{l}})
	})
	app.HandleHTTP(a, "DELETE /host", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		var h topology.Host
		if err := app.ReadJSON(r, &h); err != nil {
			return app.Response{}, err
		}
		return app.Response{}, app.Emit(tx, topology.HostGone{Hosts: []app.MAC{h.MAC}})
	})
	app.HandleHTTP(a, "PUT /host", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		var h topology.Host
		if err := app.ReadJSON(r, &h); err != nil {
			return app.Response{}, err
		}
		return app.Response{}, app.Emit(tx, topology.HostSeen{Host: h})
	})
	return a
}

func (w *world) tell(route string, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		w.t.Fatal(err)
	}
	w.net.Call(w.fabric, route, app.Request{Body: body})
	w.take(w.net.Advance(0))
}

func (w *world) take(sent []apptest.Sent) {
	for _, c := range sent {
		w.waiting[c.Switch] = append(w.waiting[c.Switch], c)
	}
}

// step has one of the switches execute its next command.
func (w *world) step() {
	busy := slices.Sorted(maps.Keys(w.waiting))
	id := busy[w.random.IntN(len(busy))]
	c := w.waiting[id][0]
	if w.waiting[id] = w.waiting[id][1:]; len(w.waiting[id]) == 0 {
		delete(w.waiting, id)
	}
	if m, is := c.Message.(*of13.FlowMod); is && id == w.full && m.Command == of13.FlowAdd && m.Priority == priority {
		w.refused++
		w.take(w.net.Message(id, &of13.Error{ErrType: of13.ErrTypeFlowModFailed, Code: of13.FlowModFailedTableFull,
			Data: m.Append(nil, c.XID)}, c.XID))
		return
	}
	w.switches[id].Message(w.now, 1, c.Message.Append(nil, c.XID))
	w.events(id)
}

// events hands what a switch has sent to the application.
func (w *world) events(id app.Switch) {
	for _, msg := range w.switches[id].Take(1) {
		switch msg[1] {
		case of13.TypeError:
			m, _ := of13.Decode(msg)
			w.t.Fatalf("switch %s refuses a command: %v", id, m)
		case of13.TypeBarrierReply, of13.TypeMultipartReply:
			if msg[1] == of13.TypeBarrierReply && w.lost > 0 {
				w.lost--
				continue
			}
			w.take(w.net.Event(id, msg))
		}
	}
}

// send sends a frame to carol, which must arrive there, once.
func (w *world) send(from app.MAC, size int) { w.sendAt(senders[from], from, size) }

// sendAt sends it by a port of switch 1.
func (w *world) sendAt(port app.Port, from app.MAC, size int) {
	frame := append(append(slices.Clone(carol[:]), from[:]...), 0x88, 0xb5)
	w.switches[1].Frame(w.now, port, append(frame, make([]byte, size-len(frame))...))
	arrived := 0
	for moved := true; moved; {
		moved = false
		for id, s := range w.switches {
			for _, f := range s.Frames() {
				out := app.PortOf{Switch: id, Port: f.Port}
				data := slices.Clone(f.Data)
				if to, link := w.links[out]; link {
					moved = true
					w.carried[out] += len(data)
					w.switches[to.Switch].Frame(w.now, to.Port, data)
				} else if out == sink {
					arrived++
				}
			}
		}
	}
	if arrived != 1 {
		w.t.Fatalf("a frame of %v arrives %d times", from, arrived)
	}
}

// run lets time pass while hosts send at 1.8 MB/s, and after each command.
func (w *world) run(d time.Duration, hosts ...app.MAC) {
	const tick = 100 * time.Millisecond
	for end := w.now + d; w.now < end; {
		w.now += tick
		w.take(w.net.Advance(tick))
		for len(w.waiting) > 0 {
			w.step()
			for _, mac := range hosts {
				w.send(mac, 60)
			}
		}
		for _, mac := range hosts {
			for range 3 {
				w.send(mac, 60_000)
			}
		}
	}
}

// flows asks a switch for its entries.
func flows(s *vswitch.Switch) (list []of13.FlowStats) {
	q := of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny, OutGroup: of13.GroupAny}
	m := of13.MultipartRequest{Part: of13.PartFlow, Body: q.AppendTo(nil)}
	s.Message(0, 1, m.Append(nil, 9))
	for _, msg := range s.Take(1) {
		if reply, err := of13.Decode(msg); err == nil {
			if r, is := reply.(*of13.MultipartReply); is {
				list = slices.AppendSeq(list, r.Flows().All())
			}
		}
	}
	return list
}

// elephants returns the ports by which they leave switch 1, and 0 if several leave it by one port.
func (w *world) elephants() map[app.Port]bool {
	r := w.net.Call(w.app, "GET /elephants", app.Request{})
	var list []Elephant
	if err := json.Unmarshal(r.Body, &list); err != nil {
		w.t.Fatalf("%s", r.Body)
	}
	by := map[app.Port]bool{}
	for _, e := range list {
		if e.From != "0000000000000001:3" && e.From != "0000000000000001:4" || e.Rate < Threshold {
			w.t.Fatalf("%+v", e)
		}
		for port, hop := range map[app.Port]string{1: "0000000000000001:1", 2: "0000000000000001:2"} {
			if len(e.Path) > 0 && e.Path[0] == hop {
				by[port] = true
			}
		}
	}
	if len(by) != len(list) && len(list) > 1 {
		by[0] = true // two on one path
	}
	return by
}
