package kandoo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Before an application whose entries have no source it counts flows with entries of its own, for each pair of hosts
// that there is.
func TestPairs(t *testing.T) {
	w := newStages(t, 3, 1)
	counts := func(when string, want ...int) {
		t.Helper()
		for i, n := range want {
			got := 0
			for _, f := range flows(w.switches[app.Switch(i+1)]) {
				if f.Cookie == Cookie {
					got++
				}
			}
			if got != n {
				t.Errorf("%s, switch %d counts %d pairs, want %d", when, i+1, got, n)
			}
		}
	}
	settle := func() {
		for len(w.waiting) > 0 {
			w.step()
		}
	}
	counts("at first", 4, 0, 2)
	w.tell("PUT /host", topology.Host{MAC: bob, At: app.PortOf{Switch: 2, Port: 3}})
	settle()
	counts("when bob has moved", 2, 2, 2)
	w.take(w.net.SwitchDown(3))
	w.take(w.net.SwitchUp(3))
	settle()
	counts("when switch 3 has come back", 2, 2, 2)
	w.tell("DELETE /host", topology.Host{MAC: carol})
	settle()
	counts("when carol is gone", 1, 1, 0)
}

// An elephant without a path gets one when a link comes up.
func TestLinkUp(t *testing.T) {
	w := newStages(t, 1, 1)
	both := []topology.Link{{From: app.PortOf{Switch: 3, Port: 2}, To: app.PortOf{Switch: 2, Port: 1}},
		{From: app.PortOf{Switch: 3, Port: 1}, To: app.PortOf{Switch: 4, Port: 2}}}
	for _, l := range both {
		w.tell("DELETE /link", l)
	}
	w.run(3*time.Second, alice)
	if by := w.elephants(); len(by) > 0 {
		t.Errorf("without links, elephants are on paths %v", by)
	}
	w.tell("PUT /link", both[0])
	if w.run(time.Second, alice); !w.elephants()[1] {
		t.Error("an elephant without a path gets none when a link comes up")
	}
}

// An elephant whose path is not confirmed gets one anew, and two that are confirmed keep theirs.
func TestAnswerIsLost(t *testing.T) {
	w := newWorld(t, New(), 3, 1)
	w.lost = 1
	want := func(when string, ports ...app.Port) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(w.elephants())); !slices.Equal(got, ports) {
			t.Errorf("%s, elephants leave switch 1 by ports %v, want %v", when, got, ports)
		}
	}
	w.run(5*time.Second, alice, bob)
	if by := w.elephants(); by[1] && by[2] {
		t.Fatal("an elephant is on a path that is not confirmed")
	}
	w.run(patience, alice, bob)
	want("after a while", 1, 2)
	w.lost = 1 // nothing is to be confirmed any more
	w.run(patience, alice, bob)
	want("later", 1, 2)
	if w.lost == 0 {
		t.Error("a path that was confirmed is made again")
	}
}

// Elephants that enter the network at a switch are forgotten with it.
func TestForgotten(t *testing.T) {
	w := newWorld(t, New(), 1, 1)
	w.run(5*time.Second, alice, bob)
	w.net.SwitchDown(1)
	w.net.Forget(1)
	w.net.Advance(time.Minute)
	if r := w.net.Call(w.app, "GET /elephants", app.Request{}); strings.TrimSpace(string(r.Body)) != "[]" {
		t.Errorf("elephants %s", r.Body)
	}
}

// An elephant stays where it is when a switch refuses its entry, whether that is the first one or another.
func TestFullTable(t *testing.T) {
	for _, full := range []app.Switch{1, 4} {
		for _, groups := range []uint64{1, 3} {
			w := newWorld(t, New(), groups, 1)
			w.full = full
			w.run(6*time.Second, alice, bob)
			if w.refused == 0 {
				t.Errorf("switch %s has refused nothing", full)
			}
			if by := w.elephants(); full == 1 && by[1] || by[2] {
				t.Errorf("elephants leave switch 1 by %v, and switch %s has no entry for them", by, full)
			}
		}
	}
}

// A switch of OpenFlow 1.0 can remove the entries of a path that is cut.
func TestWithdrawsFromOpenFlow10(t *testing.T) {
	w := newWorld(t, New(), 1, 1)
	w.run(5*time.Second, alice, bob)
	w.tell("DELETE /link", topology.Link{From: app.PortOf{Switch: 2, Port: 1}, To: app.PortOf{Switch: 3, Port: 2}})
	deleted := 0
	for _, c := range slices.Concat(slices.Collect(maps.Values(w.waiting))...) {
		if m, is := c.Message.(*of13.FlowMod); is && m.Command != of13.FlowAdd {
			deleted++
			if _, err := of10.FromV13(nil, m.Append(nil, 1)); err != nil {
				t.Errorf("%v: %v", m, err)
			}
		}
	}
	if deleted == 0 {
		t.Error("nothing is deleted")
	}
}

// Two elephants have the same match, from where a host was and where it is. When one ends, the other keeps its entries.
func TestHostMoves(t *testing.T) {
	w := newWorld(t, New(), 1, 1)
	for _, l := range []topology.Link{{From: app.PortOf{Switch: 1, Port: 2}, To: app.PortOf{Switch: 4, Port: 1}},
		{From: app.PortOf{Switch: 4, Port: 1}, To: app.PortOf{Switch: 1, Port: 2}}} {
		w.tell("DELETE /link", l) // so that both take the path by switch 2
	}
	m := of13.FlowMod{Priority: 1, BufferID: of13.NoBuffer, Match: perFlow(senders[bob], alice),
		Instructions: of13.Instructions(nil).Apply(of13.Actions(nil).Outputs(1))}
	w.switches[1].Message(0, 1, m.Append(nil, 1))
	for i := range 80 {
		w.run(100 * time.Millisecond)
		for range 3 {
			w.sendAt(senders[bob], alice, 60_000)
			if i < 40 {
				w.send(alice, 60_000)
			}
		}
	}
	for id := range app.Switch(3) {
		paths := slices.DeleteFunc(flows(w.switches[id+1]), func(f of13.FlowStats) bool { return f.Priority != priority })
		if len(paths) != 1 {
			t.Errorf("switch %d has %d entries of paths, want one", id+1, len(paths))
		}
	}
}

// More flows grow at once than a transaction can emit messages.
func TestManyGrow(t *testing.T) {
	n := apptest.New(t, New())
	n.SwitchUp(1)
	const parts, each = 4, 300
	for bytes := uint64(0); bytes < 5*4*Threshold; bytes += 4 * Threshold {
		poll := n.Advance(Interval)[0]
		for part := range parts {
			reply := of13.MultipartReply{Part: of13.PartFlow}
			if part < parts-1 {
				reply.Flags = of13.FlagMore
			}
			var list of13.List[of13.FlowStats]
			for i := range each {
				host := app.MAC{2, 0, 0, byte(part), byte(i >> 8), byte(i)}
				list = list.With(of13.FlowStats{ByteCount: bytes, Match: perFlow(3, host)})
			}
			reply.Body = list
			n.Message(1, &reply, poll.XID)
		}
	}
	rows := map[string]int{}
	for _, r := range n.Rows(Name) {
		rows[r.Table]++
	}
	if rows["raised"] != parts*each || rows["elephants"] != MaxElephants {
		t.Errorf("rows %v, want %d raised and %d elephants", rows, parts*each, MaxElephants)
	}
}

// Two elephants get a path each. When a link is cut, both are on the other path. When they are small again, their
// entries go. Every frame arrives once, in whatever order the switches execute their commands.
func TestElephants(t *testing.T) {
	for seed := range uint64(21) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { reroute(newWorld(t, New(), 1+seed%3, seed)) })
	}
}

func reroute(w *world) {
	w.t.Helper()
	want := func(when string, ports ...app.Port) {
		w.t.Helper()
		if got := slices.Sorted(maps.Keys(w.elephants())); !slices.Equal(got, ports) {
			w.t.Fatalf("%s, elephants leave switch 1 by ports %v, want %v", when, got, ports)
		}
	}
	want("at first")
	w.run(5*time.Second, alice, bob)
	want("with two", 1, 2)
	clear(w.carried)
	w.run(time.Second, alice, bob)
	first, second := w.carried[app.PortOf{Switch: 1, Port: 1}], w.carried[app.PortOf{Switch: 1, Port: 2}]
	if first < Threshold || second < Threshold {
		w.t.Fatalf("the links carry %d and %d bytes", first, second)
	}
	cut := topology.Link{From: app.PortOf{Switch: 2, Port: 1}, To: app.PortOf{Switch: 3, Port: 2}}
	w.tell("DELETE /link", cut)
	w.run(2*time.Second, alice, bob)
	want("when a link is cut", 0, 2)
	w.tell("PUT /link", cut)
	w.run(4 * time.Second)
	want("when nobody sends")
	for id, s := range w.switches {
		for _, f := range flows(s) {
			if f.Cookie&^0xffffffff == Cookie && f.Cookie != Cookie {
				w.t.Fatalf("switch %s has an entry for %v", id, f.Match)
			}
		}
	}
}

// The same, before an application whose entries have no source.
func TestBeforeAnother(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { reroute(newStages(t, 1+seed%3, seed)) })
	}
}

// The central one decides the same, and counters go from group to group. Otherwise only elephants do.
func TestCentral(t *testing.T) {
	reroute(newWorld(t, NewCentral(), 3, 1))
	passed := func(a *app.App) int {
		w := newWorld(t, a, 3, 1)
		before := w.net.Passed
		w.run(20 * time.Second)
		return w.net.Passed - before
	}
	if n := passed(New()); n > 0 {
		t.Errorf("%d frames have passed between groups, with nothing to tell", n)
	}
	n := passed(NewCentral())
	if n < 20*ring/2 {
		t.Errorf("%d frames have passed between groups, with all counters in one", n)
	}
	t.Logf("%d frames have passed between groups in 20 s, with all counters in one", n)
}

// A flow is from one source to one destination, as it comes in by one port.
func TestFlow(t *testing.T) {
	full := of13.Match(nil).WithInPort(3).WithEthSrc(alice).WithEthDst(carol)
	if g, ok := flow(1, full); !ok || g.At != (app.PortOf{Switch: 1, Port: 3}) || g.Dst != carol {
		t.Errorf("%+v", g)
	}
	g, _ := flow(1, full.WithEthType(0x800))
	if got := g.at(9); !slices.Equal(got, of13.Match(nil).WithInPort(9).WithEthSrc(alice).WithEthDst(carol).
		WithEthType(0x800)) {
		t.Errorf("at port 9 it is %v", got)
	}
	for _, m := range []of13.Match{nil, of13.Match(nil).WithInPort(3).WithEthDst(carol),
		of13.Match(nil).WithEthSrc(alice).WithEthDst(carol),
		of13.Match(nil).WithInPort(3).WithEthSrc(alice).WithEthDstMasked(carol, app.MAC{255})} {
		if g, ok := flow(1, m); ok {
			t.Errorf("%v is the flow %+v", m, g)
		}
	}
}
