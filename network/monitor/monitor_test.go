package monitor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

const second = time.Second

func inGroups(t *testing.T, run func(t *testing.T, groups uint64)) {
	for _, groups := range []uint64{1, 3} {
		t.Run(fmt.Sprintf("groups=%d", groups), func(t *testing.T) { run(t, groups) })
	}
}

// The owner of a trigger is told once when the bandwidth of an entry reaches the threshold, nothing while it stays
// between the two thresholds, and once when it is below the second one.
func TestBandwidthOfAnEntry(t *testing.T) {
	inGroups(t, func(t *testing.T, groups uint64) {
		w := newWorld(t, groups, Trigger{Name: "big", Of: Entries, Cookie: 1, Measure: Bandwidth, Above: 10_000})
		w.install(1, 1)
		w.install(2, 2)
		w.run(4*second, 1, 9_000)
		w.run(4*second, 2, 50_000) // another entry
		w.crossings()
		w.run(6*second, 1, 20_000)
		c := w.heard[0]
		w.crossings(true)
		if c.Name != "big" || c.Entry == nil || c.Entry.Cookie != 1 || c.Entry.Priority != 5 || c.Value < 10_000 ||
			c.Value > 20_500 {
			t.Errorf("%+v %+v", c, c.Entry)
		}
		w.run(6*second, 1, 9_000)
		w.crossings()
		w.run(4*second, 1, 0)
		w.crossings(false)
		w.run(4*second, 1, 20_000)
		w.crossings(true)
		if s := w.status("big"); s.Crossings != 3 || len(s.Raised) != 1 || s.Raised[0].Match != "in_port=1" {
			t.Errorf("%+v", s)
		}
		if len(w.errors) != 1 || w.errors[0] != nil {
			t.Errorf("answers to Set: %v", w.errors)
		}
	})
}

// A trigger on each port tells them apart, and both directions count.
func TestBandwidthOfPorts(t *testing.T) {
	inGroups(t, func(t *testing.T, groups uint64) {
		w := newWorld(t, groups, Trigger{Name: "busy", Of: Ports, Measure: Bandwidth, Above: 10_000})
		w.install(1, 1) // to port 3
		w.run(5*second, 1, 20_000)
		got := map[uint32]int{}
		for _, c := range w.heard {
			got[uint32(c.Port)]++
		}
		if len(w.heard) != 2 || got[1] != 1 || got[3] != 1 {
			t.Errorf("%+v", w.heard)
		}
	})
}

// One request for entries and one for ports serve all triggers of a switch, about once a second.
func TestOneRequestServesAllTriggers(t *testing.T) {
	w := newWorld(t, 1)
	for i := range 20 {
		w.put(fmt.Sprintf("e%d", i), fmt.Sprintf(`{"of":"entries","cookie":"%d","measure":"bandwidth","above":1000}`, i+1))
		w.put(fmt.Sprintf("p%d", i), `{"of":"ports","measure":"duration","above":100000000}`)
	}
	w.polls = 0
	w.run(60*second, 1, 0)
	if w.polls < 2*47 || w.polls > 2*81 { // as the pauses vary
		t.Errorf("%d requests in a minute", w.polls)
	}
	for i := range 20 {
		w.request("DELETE /{switch}/{name}", fmt.Sprintf("e%d", i), "")
		w.request("DELETE /{switch}/{name}", fmt.Sprintf("p%d", i), "")
	}
	w.run(2*second, 1, 0)
	w.polls = 0
	w.run(60*second, 1, 0)
	if w.polls > 0 {
		t.Errorf("%d requests without a trigger", w.polls)
	}
}

// Counters that begin again, because the entry was replaced or the switch was restarted, do not fire.
func TestCountersThatGoBack(t *testing.T) {
	w := newWorld(t, 1, Trigger{Name: "big", Of: Entries, Cookie: 1, Measure: Bandwidth, Above: 10_000},
		Trigger{Name: "old", Of: Entries, Cookie: 1, Measure: Duration, Above: 6_000})
	for range 5 {
		w.install(1, 1)
		w.run(3*second+700*time.Millisecond, 1, 9_000)
	}
	w.crossings()
	w.boot()
	w.install(1, 1)
	w.run(5*second, 1, 9_000)
	w.crossings()
	w.run(3*second, 1, 9_000)
	if w.heard[0].Name != "old" || w.heard[0].Value < 6_000 {
		t.Errorf("%+v", w.heard)
	}
	w.crossings(true)
	w.install(1, 1)
	w.run(2*second, 1, 9_000)
	w.crossings(false) // it is another entry
}

// What is above a threshold and is removed is told as gone, also if the reply of the switch has several parts.
func TestGone(t *testing.T) {
	for _, others := range []int{0, 1500} {
		w := newWorld(t, 1, Trigger{Name: "old", Of: Entries, Cookie: 1, Mask: 1, Measure: Duration, Above: 3_000},
			Trigger{Name: "all", Of: Entries, Measure: Bandwidth, Above: 1 << 40})
		w.install(1, 1)
		w.install(2, 3)
		w.run(5*second, 1, 0)
		w.crossings(true, true)
		for i := range others {
			m := of13.FlowMod{Cookie: 4, BufferID: of13.NoBuffer, Priority: uint16(100 + i%2*50),
				Match: of13.Match(nil).WithEthType(0x800).WithIPProto(6).WithUint(of13.FieldTCPDst, uint64(i/2+1))}
			w.s.Message(w.now, 1, m.Append(nil, 9))
		}
		w.replies, w.polls = 0, 0
		w.run(2*second, 1, 0)
		w.crossings()
		if several := w.replies > w.polls; several != (others > 0) {
			t.Fatalf("%d parts for %d requests", w.replies, w.polls)
		}
		w.remove(3)
		w.run(2*second-500*time.Millisecond, 1, 0)
		if c := w.heard; len(c) != 1 || c[0].Raised || c[0].Value != 0 || c[0].Entry.Cookie != 3 {
			t.Fatalf("%+v", c)
		}
		if s := w.status("old"); len(s.Raised) != 1 || s.Crossings != 3 {
			t.Errorf("%+v", s)
		}
	}
}

// No more things are above a threshold than there is room for; the others follow when there is.
func TestRoom(t *testing.T) {
	w := newWorld(t, 1, Trigger{Name: "old", Of: Entries, Cookie: 5, Measure: Duration, Above: 1_000})
	for i := range MaxRaised + 10 {
		m := of13.FlowMod{Cookie: 5, BufferID: of13.NoBuffer, Priority: 5,
			Match: of13.Match(nil).WithEthType(0x800).WithIPProto(6).WithUint(of13.FieldTCPDst, uint64(i+1))}
		w.s.Message(w.now, 1, m.Append(nil, 9))
	}
	w.run(5*second, 1, 0)
	if n := len(w.heard); n != MaxRaised {
		t.Fatalf("%d things have risen", n)
	}
	w.heard = nil
	w.remove(5)
	w.install(1, 5)
	for range 40 {
		heard, replies := len(w.heard), w.replies
		w.run(second/10, 1, 0)
		if n, parts := len(w.heard)-heard, w.replies-replies; n > parts*maxCrossings {
			t.Errorf("%d crossings of %d parts of replies", n, parts)
		}
	}
	rose := 0
	for _, c := range w.heard {
		if c.Raised {
			rose++
		}
	}
	if len(w.heard) != MaxRaised+1 || rose != 1 {
		t.Errorf("%d more crossings, of which %d have risen", len(w.heard), rose)
	}
}

// A switch that is down is not polled, and its triggers are there when it is back.
func TestDown(t *testing.T) {
	w := newWorld(t, 1)
	w.put("old", `{"of":"ports","port":1,"measure":"duration","above":2000}`)
	w.run(second, 1, 0)
	w.net.SwitchDown(id)
	w.polls = 0
	w.run(5*second, 1, 0)
	if w.polls != 0 {
		t.Errorf("%d requests to a switch that is down", w.polls)
	}
	w.boot()
	w.run(5*second, 1, 0)
	if s := w.status("old"); len(s.Raised) != 1 || s.Raised[0].Port != 1 {
		t.Errorf("%+v", s)
	}
}

func TestRefusedTriggers(t *testing.T) {
	w := newWorld(t, 1)
	for body, want := range map[string]string{
		`{"of":"flows","measure":"duration","above":1}`:                 `of is "flows": use ports or entries`,
		`{"of":"ports","measure":"rate","above":1}`:                     `measure is "rate": use bandwidth or duration`,
		`{"of":"ports","measure":"bandwidth"}`:                          "above is 0",
		`{"of":"ports","measure":"bandwidth","above":1,"below":2}`:      "below is 2, which is more than above, 1",
		`{"of":"ports","cookie":"1","measure":"bandwidth","above":1}`:   "selects entries",
		`{"of":"entries","port":1,"measure":"bandwidth","above":1}`:     "a port selects no entries",
		`{"of":"entries","cookie":"x","measure":"bandwidth","above":1}`: `"x" is not a number`,
		`{"of":"entries","measure":"duration","above":3,"below":2}`:     "leave out below",
		`{"of":"ports","measure":"bandwidth","above":1,"threshold":2}`:  `unknown field "threshold"`,
	} {
		if r := w.request("PUT /{switch}/{name}", "n", body); r.Status != 400 || !strings.Contains(string(r.Body), want) {
			t.Errorf("%s: %d %s, want %s", body, r.Status, r.Body, want)
		}
	}
	for i := range MaxTriggers {
		w.put(fmt.Sprint(i), `{"of":"ports","measure":"bandwidth","above":1}`)
	}
	const more = `{"of":"ports","measure":"bandwidth","above":2}`
	if r := w.request("PUT /{switch}/{name}", "n", more); r.Status != 400 ||
		!strings.Contains(string(r.Body), "has 64 triggers") {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	w.put("0", more) // replaces one
	if s := w.status("0"); s.Above != 2 || s.Owner != "http" {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]int{"0": 204, "n": 404} {
		if r := w.request("DELETE /{switch}/{name}", name, ""); r.Status != want {
			t.Errorf("delete %s: %d", name, r.Status)
		}
	}
}
