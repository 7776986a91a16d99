package liveness

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

type links = map[app.PortOf]app.PortOf

// Two links of very different length are measured at the intended rate.
func TestMeasure(t *testing.T) {
	w := newWorld(t)
	w.start(1, 2)
	w.start(2, 2)
	w.wire(at(1, 1), at(2, 1), 0)
	w.wire(at(2, 2), at(1, 2), 20*time.Millisecond)
	w.advance(20 * time.Second)
	v := w.check(links{at(1, 1): at(2, 1), at(1, 2): at(2, 2)})
	if t.Failed() {
		return
	}
	for i, want := range []time.Duration{0, 40 * time.Millisecond} {
		l := v.Links[i]
		if !l.Up || l.Measured.IsZero() || l.RTT < want || l.RTT > want+Resolution {
			t.Errorf("link %d: %+v, want a round trip of %v", i, l, want)
		}
	}
	if want := 2 * 2 * pairs; w.sent != want {
		t.Errorf("%d frames of pairs were sent, want %d", w.sent, want)
	}
	w.wire(at(1, 2), at(2, 2), 50*time.Millisecond)
	w.advance(Every + 20*time.Second)
	if l := w.view().Links[1]; l.RTT < 100*time.Millisecond || l.RTT > 101*time.Millisecond {
		t.Errorf("the longer link, after it has become longer still: %+v", l)
	}
	if want := 2 * 2 * 2 * pairs; w.sent != want {
		t.Errorf("%d frames of pairs were sent in all, want %d", w.sent, want)
	}
}

// However many links there are, the number of pairs per second is bounded.
func TestWorkIsBounded(t *testing.T) {
	w := newWorld(t)
	const n = 200
	w.start(1, n)
	w.start(2, n)
	for p := range app.Port(n) {
		w.wire(at(1, p+1), at(2, p+1), 0)
	}
	for second := range 30 {
		before := w.sent
		w.advance(time.Second)
		if sent := w.sent - before; sent > 2*perTick*11 {
			t.Fatalf("%d frames of pairs in second %d", sent, second)
		}
	}
	for _, l := range w.view().Links {
		if l.Measured.IsZero() {
			t.Fatalf("link %v is not measured yet", l)
		}
	}
}

// Links that lose the frames, or whose far end does not return them, are not measured. Nothing else happens.
func TestLostFrames(t *testing.T) {
	w := newWorld(t)
	w.lost = ours
	w.start(1, 1)
	w.start(2, 1)
	w.wire(at(1, 1), at(2, 1), 0)
	w.advance(20 * time.Second)
	if l := w.check(links{at(1, 1): at(2, 1)}).Links[0]; !l.Up || !l.Measured.IsZero() {
		t.Errorf("%+v", l)
	}
}

// A link that is down stays known until one of its ports leads elsewhere or is removed.
func TestLinksThatGo(t *testing.T) {
	w := newWorld(t)
	for id := range app.Switch(3) {
		w.start(id+1, 2)
	}
	w.wire(at(1, 1), at(2, 1), 0)
	w.advance(time.Second)
	w.check(links{at(1, 1): at(2, 1)})

	w.unplug(at(1, 1))
	w.advance(30 * time.Second)
	if l := w.check(links{at(1, 1): at(2, 1)}).Links[0]; l.Up || l.Reason != topology.ProbesLost {
		t.Errorf("after it was unplugged: %+v", l)
	}
	w.wire(at(1, 1), at(2, 1), 0)
	w.advance(10 * time.Second)
	if l := w.check(links{at(1, 1): at(2, 1)}).Links[0]; !l.Up {
		t.Errorf("after it was plugged in again: %+v", l)
	}
	w.execute(w.net.SwitchDown(2))
	if l := w.check(links{at(1, 1): at(2, 1)}).Links[0]; l.Up || l.Reason != topology.SwitchIsDown {
		t.Errorf("after a switch was down: %+v", l)
	}
	w.start(2, 2)
	w.unplug(at(1, 1))
	w.wire(at(1, 1), at(3, 1), 0)
	w.advance(10 * time.Second)
	w.check(links{at(1, 1): at(3, 1)}, at(2, 1))

	w.wire(at(2, 1), at(3, 2), 0)
	w.advance(10 * time.Second)
	w.check(links{at(1, 1): at(3, 1), at(2, 1): at(3, 2)})

	w.portStatus(of13.PortDelete, at(3, 1), true)
	w.check(links{at(2, 1): at(3, 2)}, at(1, 1))
}

// A link that carries packets in one direction only is not monitored.
func TestOneWay(t *testing.T) {
	w := newWorld(t)
	w.start(1, 1)
	w.start(2, 1)
	w.wires[at(1, 1)] = wire{at(2, 1), 0}
	w.advance(10 * time.Second)
	w.check(links{})
}

// Frames that are forged, repeated or injected elsewhere have no effect. A frame that a host sends outward returns
// to it once.
func TestForgedFrames(t *testing.T) {
	w := newWorld(t)
	w.start(1, 2)
	w.start(2, 2)
	w.wire(at(1, 1), at(2, 1), 0)
	var seen [][]byte
	w.lost = func(frame []byte) bool {
		if ours(frame) {
			seen = append(seen, frame)
		}
		return ours(frame)
	}
	w.advance(3 * time.Second)
	if len(seen) == 0 {
		t.Fatal("no frame was sent")
	}
	before := w.net.Rows(Name)
	host := at(1, 2)
	homewards := func(frame []byte) []byte { return append(homeward[:], frame[6:]...) }
	for _, f := range seen {
		w.arrive(arrival{port: host, frame: homewards(f)})
	}
	forged := appendFrame(nil, []byte("a guess"), frame{at(1, 1), uint64(time.Hour), true})
	w.arrive(arrival{port: at(1, 1), frame: homewards(forged)})
	w.arrive(arrival{port: at(1, 1), frame: homewards(forged[:20])})
	w.arrive(arrival{port: at(1, 1), frame: homewards(seen[0])}) // of an earlier pair
	if diff := difference(before, w.net.Rows(Name)); diff != "" {
		t.Errorf("tables are others (-before +after):\n%s", diff)
	}

	w.lost = nil
	echo := at(9, 9)
	w.wire(host, echo, 0)
	w.arrive(arrival{port: host, frame: seen[0]})
	var back int
	for _, a := range w.flying {
		if a.port == echo && app.MAC(a.frame) == homeward {
			back++
		}
	}
	if back != 1 || len(w.flying) != 1 {
		t.Errorf("of one frame of a host came %d back, and %d frames are on their way", back, len(w.flying))
	}
}

func FuzzParseFrame(f *testing.F) {
	key := []byte("a key")
	f.Add(appendFrame(nil, key, frame{at(1, 2), 3, true}))
	f.Add(appendFrame(nil, key, frame{at(1, 2), 3, false}))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, ok := parseFrame(data, key)
		if !ok {
			return
		}
		if again, ok := parseFrame(appendFrame(nil, key, got), key); !ok || again != got {
			t.Errorf("%+v, and again %+v", got, again)
		}
	})
}

// groups is how many groups the switches are in.
var groups uint64 = 1

// The same happens if the switches, and what the applications have, are in three groups.
func TestSeveralGroups(t *testing.T) {
	groups = 3
	defer func() { groups = 1 }()
	for name, test := range map[string]func(*testing.T){
		"Measure":                     TestMeasure,
		"LinksThatGo":                 TestLinksThatGo,
		"SwitchesThatAreDownAreAsked": TestSwitchesThatAreDownAreAsked,
	} {
		t.Run(name, test)
	}
}

// A link to a switch that is forgotten is not monitored any more.
func TestForgottenSwitch(t *testing.T) {
	w := newWorld(t)
	w.wire(at(1, 1), at(2, 1), 0)
	w.start(1, 2)
	w.start(2, 2)
	w.advance(10 * time.Second)
	w.stop(2)
	w.advance(time.Second)
	w.unplug(at(1, 1))
	w.execute(w.net.Forget(2))
	w.advance(time.Second)
	sent := w.sent
	w.advance(time.Minute)
	if links := w.view().Links; len(links) > 0 || w.sent > sent {
		t.Errorf("links %+v, and %d frames", links, w.sent-sent)
	}
}
