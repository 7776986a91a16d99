package liveness

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// world is a controller with topology and liveness, and switches that are connected. Each wire has its own delay.
type world struct {
	t      *testing.T
	net    *apptest.Net
	now    time.Duration
	wires  map[app.PortOf]wire
	flows  map[app.Switch][]of13.FlowMod
	flying []arrival
	lost   func(frame []byte) bool // frames that a wire loses; nil for none
	view   func() *View
	sent   int                 // number of frames of pairs
	down   map[app.Switch]bool // switches that are down, but forward
}

type wire struct {
	to    app.PortOf
	delay time.Duration
}

type arrival struct {
	at    time.Duration
	port  app.PortOf
	frame []byte
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, wires: map[app.PortOf]wire{}, flows: map[app.Switch][]of13.FlowMod{}, down: map[app.Switch]bool{}}
	w.net = apptest.NewOf(t, groups, topology.New(), New())
	w.view = func() *View {
		t.Helper()
		v, err := Of(slices.Values(w.net.Rows(Name)))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	return w
}

func at(id app.Switch, p app.Port) app.PortOf { return app.PortOf{Switch: id, Port: p} }

// wire connects two ports. delay is for one direction.
func (w *world) wire(a, b app.PortOf, delay time.Duration) {
	w.wires[a], w.wires[b] = wire{b, delay}, wire{a, delay}
}

func portDesc(p app.Port) of13.PortDesc {
	return of13.PortDesc{Port: p, Name: "p", HwAddr: app.MAC{2, 0, 0, 0, byte(p >> 8), byte(p)}}
}

func (w *world) start(id app.Switch, ports int) {
	var list []of13.PortDesc
	for p := range ports {
		list = append(list, portDesc(app.Port(p+1)))
	}
	w.down[id] = false
	w.execute(w.net.SwitchUp(id, list...))
}

func (w *world) stop(id app.Switch) {
	w.down[id] = true
	w.execute(w.net.SwitchDown(id))
}

// packetIn delivers a frame to the controller, if the switch is connected to one.
func (w *world) packetIn(at app.PortOf, frame []byte) {
	if !w.down[at.Switch] {
		w.execute(w.net.PacketIn(at.Switch, at.Port, of13.NoBuffer, string(frame)))
	}
}

// execute executes the commands of switches.
func (w *world) execute(sent []apptest.Sent) {
	for _, s := range sent {
		switch m := s.Message.(type) {
		case *of13.FlowMod:
			w.flows[s.Switch] = append(w.flows[s.Switch], *m)
		case *of13.PacketOut:
			if ours(m.Data) {
				w.sent++
			}
			for a := range m.Actions.All() {
				w.output(app.PortOf{Switch: s.Switch, Port: a.Port}, m.Data, of13.PortController)
			}
		}
	}
}

// output sends a frame out of a port.
func (w *world) output(from app.PortOf, frame []byte, in app.Port) {
	if from.Port == of13.PortController {
		w.flying = append(w.flying, arrival{w.now, app.PortOf{Switch: from.Switch, Port: in}, frame})
		return
	}
	if to, ok := w.wires[from]; ok && (w.lost == nil || !w.lost(frame)) {
		w.flying = append(w.flying, arrival{w.now + to.delay, to.to, frame})
	}
}

// arrive processes a frame by the flow entries of a switch.
func (w *world) arrive(a arrival) {
	if a.port.Port == of13.PortController {
		w.packetIn(a.port, a.frame)
		return
	}
	dst, typ := app.MAC(a.frame[:6]), binary.BigEndian.Uint16(a.frame[12:])
	for _, f := range w.flows[a.port.Switch] {
		wantDst, _ := f.Match.Get(of13.FieldEthDst)
		wantType, _ := f.Match.Get(of13.FieldEthType)
		if string(wantDst.Value) != string(dst[:]) ||
			string(wantType.Value) != string(binary.BigEndian.AppendUint16(nil, typ)) {
			continue
		}
		frame := slices.Clone(a.frame)
		for i := range f.Instructions.All() {
			for x := range i.Actions.All() {
				switch {
				case x.Type == of13.ActionSetField:
					copy(frame, x.OXM.Value)
				case x.Port == of13.PortInPort:
					w.output(a.port, frame, 0)
				case x.Port == of13.PortController:
					w.packetIn(a.port, frame)
				}
			}
		}
		return
	}
}

// advance advances the clock, by one millisecond at a time while frames are in flight.
func (w *world) advance(d time.Duration) {
	for end := w.now + d; w.now < end; {
		step := min(end-w.now, 10*time.Millisecond)
		if len(w.flying) > 0 {
			step = min(step, time.Millisecond)
		}
		w.now += step
		w.execute(w.net.Advance(step))
		slices.SortStableFunc(w.flying, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
		for len(w.flying) > 0 && w.flying[0].at <= w.now {
			a := w.flying[0]
			w.flying = w.flying[1:]
			w.arrive(a)
		}
	}
}

func (w *world) portStatus(reason uint8, p app.PortOf, up bool) {
	d := portDesc(p.Port)
	if !up {
		d.State = of13.PortStateLinkDown
	}
	w.execute(w.net.Message(p.Switch, &of13.PortStatus{Reason: reason, Port: d}, 0))
}

func (w *world) unplug(a app.PortOf) {
	b := w.wires[a].to
	delete(w.wires, a)
	delete(w.wires, b)
}

func ends(v *View) map[app.PortOf]app.PortOf {
	m := map[app.PortOf]app.PortOf{}
	for _, l := range v.Links {
		m[l.A] = l.B
	}
	return m
}

func (w *world) check(links map[app.PortOf]app.PortOf, former ...app.PortOf) *View {
	w.t.Helper()
	v := w.view()
	if got := ends(v); !maps.Equal(got, links) {
		w.t.Errorf("links %v, want %v", got, links)
	}
	if !slices.Equal(v.Former, former) {
		w.t.Errorf("former ends %v, want %v", v.Former, former)
	}
	return v
}

// difference compares rows in any order.
func difference(want, got []ledger.Row) string {
	for _, rows := range [][]ledger.Row{want, got} {
		slices.SortFunc(rows, ledger.Row.Compare)
	}
	return gocmp.Diff(want, got)
}
