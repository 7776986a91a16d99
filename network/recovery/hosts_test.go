package recovery

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
)

// arpReply is a unicast ARP reply of one host to another.
func arpReply(from, to app.MAC) []byte {
	f := slices.Concat(to[:], from[:], []byte{8, 6, 0, 1, 8, 0, 6, 4, 0, 2})
	f = append(append(f, from[:]...), 10, 0, from[4], from[5])
	return append(append(f, to[:]...), 10, 0, to[4], to[5])
}

// A frame that crosses a switch which has lost its controllers, and comes out at a port of the next one, moves no host
// to that port: neither at once, nor if the next switch has been away meanwhile.
func TestFramesThatCrossASwitchThatIsNotHeard(t *testing.T) {
	for name, before := range map[string]func(*world){
		"":                     func(*world) {},
		"the next one returns": func(w *world) { w.stop(3); w.start(3, 0, false); w.advance(5 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t, 1, graphs.Ring(), defaults)
			w.advance(time.Minute)
			w.stop(2)
			w.advance(5 * time.Second)
			before(w)
			host := macAt(at(1, edgePort))
			for in, from := range w.wires {
				if in.Switch == 3 && from.Switch == 2 {
					w.packetIn(in, arpReply(host, macAt(at(3, edgePort))))
				}
			}
			w.advance(time.Second)
			all := w.truth()
			g, err := paths.NewGraph(all.switches, all.links)
			w.must(err)
			n := protect.NewNetwork(g)
			for id, s := range w.switches {
				n.Install(id, s.program())
			}
			for _, s := range []app.Switch{2, 3, 4, 5} {
				j := n.Follow(host, paths.End(at(s, edgePort)), protect.Failures{})
				if j.Fate != protect.Delivered || j.At != paths.End(at(1, edgePort)) {
					t.Errorf("from switch %d to the host at switch 1: %v at %v by %v", s, j.Fate, j.At,
						paths.Path{Links: j.Links}.Switches())
				}
			}
		})
	}
}

// Topology forgets the hosts of a switch that is down, and recovery keeps them. If the switch comes with others each
// time, they do not pile up.
func TestHostsThatAreNotHeardAreBounded(t *testing.T) {
	defer func(before int) { maxUnheard = before }(maxUnheard)
	maxUnheard = 30
	w := newWorld(t, 1, defaults)
	w.start(1, 9, true)
	w.advance(5 * time.Second)
	mac := func(round, i int) app.MAC { return app.MAC{2, 5, 0, 0, byte(round), byte(i)} }
	for round := range 4 {
		w.hosts = map[app.MAC]app.PortOf{}
		for i := range 20 {
			w.host(mac(round, i), at(1, 5))
		}
		w.advance(time.Second)
		w.stop(1)
		w.advance(time.Second)
		w.start(1, 0, false)
		w.advance(3 * time.Second)
	}
	rows, err := read(slices.Values(w.Rows(Name)))
	w.must(err)
	if len(rows.hosts) > maxUnheard+20 {
		t.Errorf("there are %d hosts", len(rows.hosts))
	}
	for i := range 20 { // those of the last round stay
		if !slices.Contains(rows.hosts, mac(3, i)) {
			t.Errorf("host %v is not there", mac(3, i))
		}
	}
}
