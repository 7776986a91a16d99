package router

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/network/edge"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

// far is a host of the second subnet that is behind port 4, which is no port of the router.
var far = hostAt(30, 4, 2)

// newStage is a world with an application behind the router that sends frames to far by port 4, and answers Seek when
// there is an address in found.
func newStage(t *testing.T, groups uint64, found map[netip.Addr]of13.MAC, sought *int) *world {
	next := app.New("next")
	next.InTable(1)
	app.Handle(next, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, of13.FlowMod{Priority: 9, BufferID: of13.NoBuffer, Match: of13.Match(nil).WithEthDst(far.mac),
			Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Outputs(4))})
		return nil
	})
	app.HandleEmitted(next, nil, func(tx *app.Tx, s edge.Seek) error {
		if n, ok := packet.ParseNeighbour(s.Request); !ok || n.Asks != s.Address || n.MAC != wan {
			t.Errorf("the request for %v is %x", s.Address, s.Request)
		}
		*sought++
		if mac, known := found[s.Address]; known {
			return app.Emit(tx, edge.Sought{Switch: s.Switch, Address: s.Address, MAC: mac})
		}
		return nil
	})
	a := New()
	a.Before(1)
	w := &world{t: t, app: a, net: apptest.NewOf(t, groups, a, next),
		s: vswitch.New(vswitch.Config{DatapathID: id, Ports: vswitch.Ports(1, 4)})}
	w.s.Open(0, 1)
	w.s.Take(1)
	w.do(w.net.SwitchUp(id))
	w.put(configuration)
	return w
}

// Before another application the router changes what is for it, and leaves the way to that one, in both versions of IP.
// All others it only passes on.
func TestBeforeAnother(t *testing.T) {
	for version := range 2 {
		found, sought := map[netip.Addr]of13.MAC{}, 0
		w := newStage(t, 1+2*uint64(version), found, &sought)
		w.reaches(far, w.send(1, ping(alice.mac, far.mac, alice.ip[version], far.ip[version], 9)), alice.mac, 9)
		request := ping(alice.mac, lan, alice.ip[version], far.ip[version], 9)
		if seen := w.send(1, request); len(seen) > 0 || sought != 1 {
			t.Fatalf("nobody is found: the switch sends %v, and the host was sought %d times", seen, sought)
		}
		found[far.ip[version]] = far.mac
		w.seen = nil
		w.do(w.net.Advance(2 * time.Second))
		w.reaches(far, w.seen, wan, 8) // it was held
		w.reaches(far, w.send(1, request), wan, 8)
		packets := w.packets
		if w.reaches(far, w.send(1, request), wan, 8); w.packets != packets {
			t.Error("the switch asks for a flow that it has")
		}
		own := [2]netip.Addr{netip.MustParseAddr("10.0.1.1"), netip.MustParseAddr("2001:db8:1::1")}[version]
		if seen := w.send(1, ping(alice.mac, lan, alice.ip[version], own, 9)); len(seen) != 1 || seen[0].Port != 1 {
			t.Errorf("for an echo request the switch sends %v", seen)
		}
		delete(found, far.ip[version])
		for _, d := range []time.Duration{Fresh, time.Second, time.Second, time.Second} {
			w.do(w.net.Advance(d))
		}
		if seen := w.send(1, request); len(seen) > 0 {
			t.Errorf("to a host that is gone the switch sends %v", seen)
		}
	}
}

// reaches checks that a frame is all that the switch has sent, to a host, from an address and with a TTL.
func (w *world) reaches(h host, frames []vswitch.Frame, from of13.MAC, ttl byte) {
	w.t.Helper()
	if len(frames) != 1 || frames[0].Port != h.port || !bytes.Equal(frames[0].Data[:12], append(h.mac[:], from[:]...)) {
		w.t.Fatalf("the switch sends %v", frames)
	}
	if p, ok := packet.ParseIP(frames[0].Data); !ok || p.TTL != ttl {
		w.t.Fatalf("the packet is %+v, its TTL should be %d", p, ttl)
	}
}
