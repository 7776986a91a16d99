package edge

import (
	"encoding/binary"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// world is a set of connected switches, hosts at their ports, and a controller with topology and this application.
// The switches send every frame to the controller.
type world struct {
	t     testing.TB
	net   *apptest.Net
	wires map[app.PortOf]app.PortOf // ports that are up
	ports map[app.PortOf]bool       // up
	hosts map[app.PortOf]app.MAC    // hosts that answer when their address is asked for

	heard   map[app.PortOf]int // frames of hosts that left by each port since clear
	crossed int                // frames of hosts that crossed a wire

	asked []apptest.Sent // requests for ports

	router *app.App
	sought []Sought // by it
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, wires: map[app.PortOf]app.PortOf{}, ports: map[app.PortOf]bool{},
		hosts: map[app.PortOf]app.MAC{}, heard: map[app.PortOf]int{}, router: app.New("router")}
	app.HandleHTTP(w.router, "PUT /{address}", nil, func(tx *app.Tx, r app.Request) (app.Response, error) {
		a := netip.MustParseAddr(r.Values["address"])
		return app.Response{}, app.Emit(tx, Seek{2, a, arp(1, mac(99), everyone, ip(mac(99)), a)})
	})
	app.HandleEmitted(w.router, nil, func(_ *app.Tx, s Sought) error {
		w.sought = append(w.sought, s)
		return nil
	})
	w.net = apptest.NewOf(t, groups, topology.New(), New(), w.router)
	return w
}

// seek makes the router ask for an address, and returns what it is told.
func (w *world) seek(a netip.Addr) []Sought {
	w.sought = nil
	w.net.Call(w.router, "PUT /{address}", app.Request{Values: map[string]string{"address": a.String()}})
	w.take(w.net.Advance(time.Millisecond))
	return w.sought
}

func at(sw app.Switch, p app.Port) app.PortOf { return app.PortOf{Switch: sw, Port: p} }

func mac(n byte) app.MAC { return app.MAC{2, 0, 0, 0, 0, n} }

func ip(m app.MAC) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, m[5]}) }

func (w *world) wire(a, b app.PortOf) { w.wires[a], w.wires[b] = b, a }

func (w *world) cut(a app.PortOf) {
	delete(w.wires, w.wires[a])
	delete(w.wires, a)
}

func (w *world) start(id app.Switch, n int) {
	var list []of13.PortDesc
	for p := range app.Port(n) {
		w.ports[at(id, p+1)] = true
		list = append(list, of13.PortDesc{Port: p + 1, HwAddr: app.MAC{2, 1, 0, 0, byte(id), byte(p + 1)}})
	}
	w.take(w.net.SwitchUp(id, list...))
}

func (w *world) stop(id app.Switch) {
	maps.DeleteFunc(w.ports, func(p app.PortOf, _ bool) bool { return p.Switch == id })
	w.take(w.net.SwitchDown(id))
}

func (w *world) setPort(p app.PortOf, up bool) {
	w.ports[p] = up
	s := of13.PortStatus{Reason: of13.PortModify, Port: of13.PortDesc{Port: p.Port}}
	if !up {
		s.Port.State = of13.PortStateLinkDown
	}
	w.take(w.net.Message(p.Switch, &s, 0))
}

func (w *world) advance(d time.Duration) {
	for range d / (50 * time.Millisecond) {
		w.take(w.net.Advance(50 * time.Millisecond))
	}
}

// send makes a host send a frame.
func (w *world) send(from app.PortOf, frame []byte) {
	if w.ports[from] {
		w.take(w.net.PacketIn(from.Switch, from.Port, of13.NoBuffer, string(frame)))
	}
}

// take executes the commands of switches until nothing is in flight.
func (w *world) take(sent []apptest.Sent) {
	w.t.Helper()
	for n := 0; len(sent) > 0; n++ {
		if n > 10_000 {
			w.t.Fatal("frames circle")
		}
		s := sent[0]
		sent = sent[1:]
		if _, asks := s.Message.(*of13.MultipartRequest); asks {
			w.asked = append(w.asked, s)
		}
		m, ok := s.Message.(*of13.PacketOut)
		if !ok {
			continue
		}
		for a := range m.Actions.All() {
			sent = append(sent, w.leave(at(s.Switch, a.Port), m.Data)...)
		}
	}
}

func (w *world) leave(by app.PortOf, frame []byte) []apptest.Sent {
	lldp := binary.BigEndian.Uint16(frame[12:]) == 0x88cc
	to, wired := w.wires[by]
	host, used := w.hosts[by]
	switch {
	case !w.ports[by]:
		return nil
	case !lldp:
		w.heard[by]++
	}
	switch {
	case wired && w.ports[to]:
		if !lldp {
			w.crossed++
		}
		return w.net.PacketIn(to.Switch, to.Port, of13.NoBuffer, string(frame))
	case used && !lldp && !wired:
		if f, _ := topology.ReadFrame(frame); f.Discovery && f.Asks == ip(host) && f.From != host {
			return w.net.PacketIn(by.Switch, by.Port, of13.NoBuffer, string(arp(2, host, f.From, ip(host), ip(f.From))))
		}
	}
	return nil
}

// wantHeard compares the ports by which frames of hosts have left since the last call. Each must have sent one.
func (w *world) wantHeard(what string, want ...app.PortOf) {
	w.t.Helper()
	for p, n := range w.heard {
		if n != 1 {
			w.t.Errorf("%s: the frame left %d times by port %v", what, n, p)
		}
	}
	got := slices.SortedFunc(maps.Keys(w.heard), app.PortOf.Compare)
	slices.SortFunc(want, app.PortOf.Compare)
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: the frame left by %v, want %v", what, got, want)
	}
	clear(w.heard)
}

// others returns the ports that are up and have no wire, except one.
func (w *world) others(but app.PortOf) (list []app.PortOf) {
	for p, up := range w.ports {
		if _, wired := w.wires[p]; up && !wired && p != but {
			list = append(list, p)
		}
	}
	return list
}

// triangle has three switches. Ports 1 and 2 connect each pair, port 3 of each has a host, and port 4 is free.
func triangle(t testing.TB) *world {
	w := newWorld(t)
	for id := range app.Switch(3) {
		w.wire(at(id+1, 2), at((id+1)%3+1, 1))
		w.hosts[at(id+1, 3)] = mac(byte(id + 1))
	}
	for id := range app.Switch(3) {
		w.start(id+1, 4)
	}
	w.advance(topology.Settle + 200*time.Millisecond)
	return w
}

// ask makes the host at a port ask for an address.
func (w *world) ask(from app.PortOf, target netip.Addr) {
	host := w.hosts[from]
	w.send(from, arp(1, host, everyone, ip(host), target))
}
