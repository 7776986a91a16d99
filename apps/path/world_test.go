package path

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// world is switches that execute what the applications send, one command at a time and in any order between switches.
// After each command, every path is there as a whole, or not at all.
type world struct {
	t        apptest.Tester
	net      *apptest.Net
	app      *app.App
	wire     *app.App // stands for topology
	choose   func(n int) int
	switches map[app.Switch]*vswitch.Switch
	queues   map[app.Switch][]apptest.Sent
	cables   map[app.PortOf]app.PortOf // both ways
	dead     map[app.PortOf]bool       // ends of those that are cut
	lost     map[app.PortOf]bool       // and where frames are lost, as the switch knows
	watched  []watched
	refuses  func(apptest.Sent) bool // a switch refuses a command; may be nil
	commands int
}

// watched is a path that is followed after each command.
type watched struct {
	name     string
	from, to app.PortOf
	frame    []byte
}

type wired struct{ Up, Down []topology.Link }

// newWire makes an application that says what topology would.
func newWire() *app.App {
	a := app.New("wire").Whole()
	app.NewTable[uint32, uint64](a, "none")
	app.HandleHTTP(a, "PUT /links", func(app.Request) app.Cells { return app.Need() },
		func(tx *app.Tx, r app.Request) (app.Response, error) {
			var m wired
			if err := json.Unmarshal(r.Body, &m); err != nil {
				return app.Response{}, err
			}
			for _, l := range m.Up {
				if err := app.Emit(tx, topology.LinkUp{Link: l, Bidirectional: true}); err != nil {
					return app.Response{}, err
				}
			}
			if len(m.Down) == 0 {
				return app.Response{}, nil
			}
			return app.Response{}, app.Emit(tx, topology.LinkDown{Links: m.Down})
		})
	return a
}

func newWorld(t apptest.Tester, groups uint64, choose func(int) int) *world {
	w := &world{t: t, app: New(), wire: newWire(), choose: choose, switches: map[app.Switch]*vswitch.Switch{},
		queues: map[app.Switch][]apptest.Sent{}, cables: map[app.PortOf]app.PortOf{},
		dead: map[app.PortOf]bool{}, lost: map[app.PortOf]bool{}}
	w.net = apptest.NewOf(t, groups, w.wire, node.New(), w.app)
	w.net.Delay()
	return w
}

// boot connects a switch that has lost its tables.
func (w *world) boot(id app.Switch, maxFlows int) {
	s := vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(int(id), 6), MaxFlows: maxFlows})
	w.switches[id] = s
	s.Open(0, 1)
	s.Take(1)
	w.up(id)
}

func (w *world) up(id app.Switch) {
	w.take(w.net.SwitchUp(id))
}

// down breaks the connection of a switch, which goes on to forward. Commands on their way are lost, or are executed and
// not confirmed.
func (w *world) down(id app.Switch) {
	for range w.choose(len(w.queues[id]) + 1) {
		w.execute(id, false)
	}
	delete(w.queues, id)
	w.take(w.net.SwitchDown(id))
}

func (w *world) take(sent []apptest.Sent) {
	for _, c := range sent {
		w.queues[c.Switch] = append(w.queues[c.Switch], c)
	}
}

// execute has a switch execute its next command.
func (w *world) execute(id app.Switch, answer bool) {
	w.t.Helper()
	c := w.queues[id][0]
	w.queues[id] = w.queues[id][1:]
	if w.refuses != nil && w.refuses(c) {
		w.take(w.net.Message(id, &of13.Error{ErrType: of13.ErrTypeFlowModFailed, Code: of13.FlowModFailedUnknown}, c.XID))
		return
	}
	s := w.switches[id]
	s.Message(0, 1, c.Message.Append(nil, c.XID))
	w.commands++
	w.check()
	for _, msg := range s.Take(1) {
		if answer {
			w.take(w.net.Event(id, msg))
		}
	}
}

// wipe deletes all entries of a switch, as an operator can.
func (w *world) wipe(id app.Switch) {
	w.queues[id] = append(w.queues[id], apptest.Sent{Switch: id, Message: &of13.FlowMod{Command: of13.FlowDelete,
		TableID: of13.TableAll, BufferID: of13.NoBuffer, OutPort: of13.PortAny, OutGroup: of13.GroupAny}})
}

// step does one thing that can happen next, and reports whether there was one.
func (w *world) step() bool {
	w.t.Helper()
	var busy []app.Switch
	for id, q := range w.queues {
		if len(q) > 0 {
			busy = append(busy, id)
		}
	}
	slices.Sort(busy)
	n := len(busy)
	if w.net.Waiting() > 0 {
		n++
	}
	if n == 0 {
		return false
	}
	if i := w.choose(n); i < len(busy) {
		w.execute(busy[i], true)
	} else {
		w.take(w.net.Deliver(0))
	}
	return true
}

// settle goes on until nothing happens any more.
func (w *world) settle() {
	w.t.Helper()
	for quietTurns, turns := 0, 0; quietTurns < 5; quietTurns, turns = quietTurns+1, turns+1 {
		for steps := 0; w.step(); steps++ {
			quietTurns = 0
			if steps > 20_000 || turns > 300 {
				w.t.Fatalf("the applications go on to send")
			}
		}
		w.take(w.net.Advance(drain))
	}
}

// cable joins two ports, and says so.
func (w *world) cable(a, b app.PortOf) {
	w.cables[a], w.cables[b] = b, a
	w.dead[a], w.dead[b] = false, false
	w.unplug(a, false)
	w.links(wired{Up: []topology.Link{{From: a, To: b}, {From: b, To: a}}})
}

// cut says that a cable is broken. Frames still pass, to be followed.
func (w *world) cut(a app.PortOf) {
	b := w.cables[a]
	w.dead[a], w.dead[b] = true, true
	w.links(wired{Down: []topology.Link{{From: a, To: b}, {From: b, To: a}}})
}

// unplug breaks a cable, or mends it. Both switches notice, and no application is told.
func (w *world) unplug(a app.PortOf, broken bool) {
	for _, at := range []app.PortOf{a, w.cables[a]} {
		w.lost[at] = broken
		w.switches[at.Switch].SetPortLive(0, at.Port, !broken)
		w.switches[at.Switch].Take(1) // which says so
	}
}

func (w *world) links(m wired) {
	w.t.Helper()
	body, err := json.Marshal(m)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.net.Call(w.wire, "PUT /links", app.Request{Body: body})
	w.take(w.net.Advance(0))
}

// check follows a frame of each watched path.
func (w *world) check() {
	w.t.Helper()
	for _, p := range w.watched {
		if fate := w.follow(p); fate != "" {
			w.t.Fatalf("path %s is there by half after %d commands: %s", p.name, w.commands, fate)
		}
	}
}

// follow returns "" if a frame arrives, or does not enter.
func (w *world) follow(p watched) string {
	at, frame := p.from, p.frame
	for hops := 0; ; hops++ {
		s := w.switches[at.Switch]
		s.Frame(0, at.Port, frame)
		out := s.Frames()
		if len(out) == 0 && hops == 0 {
			return "" // no entry
		}
		if len(out) != 1 || hops > 2*MaxHops {
			return fmt.Sprintf("%d frames leave switch %v, after %d hops", len(out), at.Switch, hops)
		}
		leaves := app.PortOf{Switch: at.Switch, Port: out[0].Port}
		if leaves == p.to {
			if !bytes.Equal(out[0].Data, p.frame) {
				return fmt.Sprintf("% x leaves, which entered as % x", out[0].Data, p.frame)
			}
			return ""
		}
		next, wired := w.cables[leaves]
		if !wired {
			return fmt.Sprintf("a frame leaves by %v", leaves)
		}
		if w.lost[leaves] {
			return fmt.Sprintf("a frame is lost on the cable at %v", leaves)
		}
		at, frame = next, bytes.Clone(out[0].Data)
	}
}

// passes reports whether frames of a path arrive.
func (w *world) passes(p watched) bool {
	w.t.Helper()
	s := w.switches[p.from.Switch]
	s.Frame(0, p.from.Port, p.frame)
	return len(s.Frames()) > 0 && w.follow(p) == ""
}

// flows returns how many entries all switches have.
func (w *world) flows() (n int) {
	w.t.Helper()
	for m := range w.answers(of13.PartTable) {
		for table := range m.Tables().All() {
			n += int(table.ActiveCount)
		}
	}
	return n
}

// groups returns how many groups all switches have.
func (w *world) groups() (n int) {
	w.t.Helper()
	for m := range w.answers(of13.PartGroupDesc) {
		for range m.GroupDescs().All() {
			n++
		}
	}
	return n
}

// answers yields what the switches answer to a request, whose answers are one message each.
func (w *world) answers(part of13.Part) iter.Seq[*of13.MultipartReply] {
	return func(yield func(*of13.MultipartReply) bool) {
		w.t.Helper()
		for _, s := range w.switches {
			s.Message(0, 1, (&of13.MultipartRequest{Part: part}).Append(nil, 0))
			out, _ := s.Pending(1)
			var m of13.MultipartReply
			if err := m.Decode(out); err != nil {
				w.t.Fatalf("%v", err)
			}
			more := yield(&m)
			s.Sent(1, len(out))
			if !more {
				return
			}
		}
	}
}

// holds returns how many flow entries and groups the switches need for a path that is up.
func (v *View) holds() (entries, groups int) {
	matches, _ := v.Match.Matches(nil)
	if v.Backup != nil {
		groups = len(v.Route) - 2 + len(matches)
	}
	return len(v.Route) - 1 + len(matches) + len(v.Backup), groups
}

// compare has all switches be compared with what they should have.
func (w *world) compare() {
	w.t.Helper()
	w.wait(2 * time.Minute)
	w.settle()
}

// watch makes a path, number i, from the first port of one switch to the second one of another.
func (w *world) watch(i int, from, to app.Switch) (watched, Definition) {
	dst := fmt.Sprintf("10.%d.%d.0", i/256, i%256)
	frame := make([]byte, 64)
	copy(frame, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17, 0, 0,
		192, 0, 2, 1, 10, byte(i / 256), byte(i), 7, 0, 9, 0, 8, 0, 30, 0, 0})
	p := watched{fmt.Sprintf("p%d", i), app.PortOf{Switch: from, Port: 1}, app.PortOf{Switch: to, Port: 2}, frame}
	w.watched = append(w.watched, p)
	return p, Definition{From: End{from.String(), 1}, To: End{to.String(), 2},
		Match: packet.Class{Destination: dst + "/24"}}
}

func (w *world) put(name string, d Definition) app.Response {
	w.t.Helper()
	body, err := json.Marshal(d)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	r := w.net.Call(w.app, "PUT /paths/{name}", app.Request{Values: map[string]string{"name": name}, Body: body})
	w.take(w.net.Advance(0))
	return r
}

func (w *world) remove(name string) {
	w.t.Helper()
	w.net.Call(w.app, "DELETE /paths/{name}", app.Request{Values: map[string]string{"name": name}})
	w.take(w.net.Advance(0))
}

func (w *world) view(name string) (v View) {
	w.t.Helper()
	r := w.net.Call(w.app, "GET /paths/{name}", app.Request{Values: map[string]string{"name": name}})
	if r.Status == 404 {
		return View{State: "none"}
	}
	if err := json.Unmarshal(r.Body, &v); err != nil {
		w.t.Fatalf("%s: %v", r.Body, err)
	}
	return v
}

func (w *world) wait(d time.Duration) { w.take(w.net.Advance(d)) }
