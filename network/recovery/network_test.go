package recovery

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

const portsOfEach = 4

// drawWorld connects some switches at random. Free ports are for hosts.
func drawWorld(t *rapid.T) (w *world, cables [][2]app.PortOf, free []app.PortOf) {
	c := defaults
	c.Disjoint = paths.Disjoint(rapid.IntRange(0, 1).Draw(t, "disjoint"))
	c.RemoveForeign = rapid.Bool().Draw(t, "remove foreign")
	c.Table = rapid.SampledFrom([]uint8{0, 5}).Draw(t, "table")
	w = newWorld(t, rapid.Uint64().Draw(t, "seed"), c)
	n := rapid.IntRange(1, 5).Draw(t, "switches")
	for id := range n {
		for p := range portsOfEach {
			free = append(free, at(app.Switch(id+1), app.Port(p+1)))
		}
	}
	free = rapid.Permutation(free).Draw(t, "ports")
	for range rapid.IntRange(0, len(free)/2-1).Draw(t, "cables") {
		a, b := free[0], free[1]
		free = free[2:]
		if a.Switch != b.Switch {
			cables = append(cables, [2]app.PortOf{a, b})
			w.wire(a, b)
		}
	}
	for id := range n {
		w.start(app.Switch(id+1), portsOfEach, true)
	}
	if rapid.Bool().Draw(t, "grown") {
		w.advance(2 * topology.Interval)
		for i := range min(4, len(free)) {
			w.host(app.MAC{2, 0, 0, 0, 0, byte(i + 1)}, free[i])
		}
		w.advance(time.Second)
	}
	return w, cables, free
}

// Whatever happens to a network and its controllers, in the end each switch contains what the plan of the network
// requires and nothing else of ours, and all controllers have the same state.
func TestSwitchesHoldThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, cables, free := drawWorld(t)
		var did []string
		defer func() {
			if t.Failed() {
				t.Logf("cables %v, hosts' ports %v; %v", cables, free, did)
			}
		}()
		for range rapid.IntRange(0, 25).Draw(t, "steps") {
			what := rapid.SampledFrom([]string{"cut", "cut silently", "mend", "mend", "host", "host", "port", "stop",
				"start", "power", "die", "restart", "unreachable", "refuse", "mute",
				"failover", "crash", "crash", "fever", "time", "time", "settle", "some", "some", "some"}).Draw(t,
				"what")
			did = append(did, what)
			w.happen(t, what, cables, free)
		}
		w.comeToRest()
		w.check()
	})
}

func (w *world) happen(t *rapid.T, what string, cables [][2]app.PortOf, free []app.PortOf) {
	s := w.switches[app.Switch(rapid.IntRange(1, len(w.switches)).Draw(t, "switch"))]
	var cable *[2]app.PortOf
	if len(cables) > 0 {
		cable = &cables[rapid.IntRange(0, len(cables)-1).Draw(t, "cable")]
	}
	port := free[rapid.IntRange(0, len(free)-1).Draw(t, "port")]
	switch what {
	case "cut", "mend":
		if cable != nil {
			w.wire(cable[0], cable[1])
			w.setCable(cable[0], what == "mend")
		}
	case "cut silently":
		if cable != nil {
			delete(w.wires, cable[0])
			delete(w.wires, cable[1])
		}
	case "host":
		w.host(app.MAC{2, 0, 0, 0, 0, byte(rapid.IntRange(1, 4).Draw(t, "host"))}, port)
	case "port":
		w.setPort(port, rapid.Bool().Draw(t, "up"))
	case "stop":
		w.stop(s.id)
	case "power": // switched off
		for p := range app.Port(portsOfEach) {
			if to, wired := w.wires[at(s.id, p+1)]; wired {
				w.setPort(to, false)
			}
		}
		w.stop(s.id)
		clear(s.flows)
		clear(s.groups)
	case "die":
		w.die(s.id)
	case "unreachable": // until it sends something
		w.input(func(c *ledger.Core) { c.Unreachable(s.id) })
	case "start", "restart":
		if what == "restart" {
			w.stop(s.id)
		}
		w.powerOn(s, what == "restart" && rapid.Bool().Draw(t, "wiped"))
	case "refuse":
		s.refuses = rapid.IntRange(1, 3).Draw(t, "refusals")
	case "mute":
		s.mute = !s.mute
	case "failover":
		w.Failover()
	case "crash":
		w.Crash = apptest.Crash(rapid.IntRange(1, 2).Draw(t, "crash"))
	case "fever":
		w.fever = rapid.SampledFrom([]int{0, 3, 30}).Draw(t, "of 100")
	case "time":
		w.advance(time.Duration(rapid.IntRange(1, 12_000).Draw(t, "ms")) * time.Millisecond)
	case "settle":
		w.settle()
	case "some":
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			if !w.step() {
				w.tick()
			}
		}
	}
}

// powerOn starts a switch that is down.
func (w *world) powerOn(s *fakeSwitch, wiped bool) {
	if s.up {
		return
	}
	for p := range app.Port(portsOfEach) {
		if to, wired := w.wires[at(s.id, p+1)]; wired && s.ports[p+1] {
			w.setPort(to, true)
		}
	}
	w.start(s.id, 0, wiped)
}

// comeToRest repairs the switches, and waits until nothing is held back any more.
func (w *world) comeToRest() {
	w.fever = 0
	for _, id := range slices.Sorted(maps.Keys(w.switches)) {
		s := w.switches[id]
		w.powerOn(s, false)
		w.input(func(c *ledger.Core) { c.Reachable(s.id, s.epoch) })
		s.refuses, s.mute = 0, false
	}
	w.advance(6 * topology.Interval)
	for _, p := range sortedHosts(w.hosts) { // one that moved to a port that is down is not known there
		w.setPort(p, true)
	}
	w.advance(2 * topology.Settle)
	for range 2 {
		for mac, p := range sortedHosts(w.hosts) {
			w.host(mac, p)
		}
		w.advance(2 * topology.Settle)
	}
	for range 6 {
		if w.view().Stable() {
			break
		}
		w.advance(maxHold)
	}
}

func sortedHosts(hosts map[app.MAC]app.PortOf) iter.Seq2[app.MAC, app.PortOf] {
	return func(yield func(app.MAC, app.PortOf) bool) {
		for _, mac := range slices.SortedFunc(maps.Keys(hosts),
			func(a, b app.MAC) int { return slices.Compare(a[:], b[:]) }) {
			if !yield(mac, hosts[mac]) {
				return
			}
		}
	}
}

// Without a fault, no switch refuses anything.
func TestNothingIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, cables, free := drawWorld(t)
		var did []string
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			what := rapid.SampledFrom([]string{"cut", "mend", "host", "host", "port", "stop", "start", "restart",
				"failover", "crash", "time", "some", "some", "some"}).Draw(t, "what")
			did = append(did, what)
			w.happen(t, what, cables, free)
		}
		w.comeToRest()
		for id, s := range w.switches {
			if len(s.errors) > 0 {
				t.Fatalf("switch %v refused %v; %v", id, s.errors, fmt.Sprint(did))
			}
		}
	})
}
