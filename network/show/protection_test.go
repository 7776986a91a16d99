package show

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// calm is a protected triangle with a host at 3.
func calm() *recovery.View {
	v := &recovery.View{Disjoint: paths.NodeDisjoint, Graph: graphs.Triangle(),
		Hosts: []protect.Host{{MAC: app.MAC{2, 0, 0, 0, 0, 7}, At: paths.End{Switch: 3, Port: 9}}},
		Last: recovery.Change{Began: now.Add(-time.Minute), Took: 42 * time.Millisecond, Rounds: 3,
			Why: "switch 3 is new", More: 2}}
	for id := range app.Switch(3) {
		v.Switches = append(v.Switches, recovery.SwitchView{ID: id + 1, Up: true, InSync: true,
			Checked: now.Add(-5 * time.Second), PutBack: uint64(id)})
	}
	return v
}

func protection(t *testing.T, v *recovery.View) (*Protection, string) {
	t.Helper()
	p, err := NewProtection(v, now)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.WriteText(&b, now); err != nil {
		t.Fatal(err)
	}
	return p, b.String()
}

func TestProtection(t *testing.T) {
	p, text := protection(t, calm())
	wantLines(t, text,
		"node-disjoint, stable",
		"last changed 1m0s ago, in 42ms (rounds: 3): switch 3 is new, and 2 more",
		"SWITCH PLAN ENTRIES GROUPS CHECKED PUT BACK REMOVED FOREIGN",
		"0000000000000001 holds it 4 2 5s 0 0 0",
	)
	if !p.Stable || len(p.Notes) > 0 {
		t.Errorf("%+v", p)
	}

	v := calm()
	v.Changing, v.Round, v.Change = true, 2, recovery.Change{Rounds: 4, Why: "link 1:1-2:1 is lost"}
	v.Due, v.Problem = now.Add(80*time.Millisecond), "too many groups"
	v.Held = []recovery.HeldLink{{Cable: recovery.Cable{A: at(1, 1), B: at(2, 1)}, Until: now.Add(9 * time.Second)},
		{Cable: recovery.Cable{A: at(2, 2), B: at(3, 1)}, Until: now.Add(3 * time.Second)}}
	v.Dark = []recovery.Cable{{A: at(1, 1), B: at(2, 1)}}
	v.Unheard = []recovery.Cable{{A: at(1, 2), B: at(3, 2)}}
	v.Switches[0].InSync, v.Switches[0].Failed, v.Switches[0].Error, v.Switches[0].Command = false, now, "table full",
		"flow mod"
	v.Switches[1].InSync, v.Switches[1].Checked = false, time.Time{}
	v.Switches[2].InSync, v.Switches[2].Up = false, false
	v.LeftOut = []string{"a", "b", "c", "d", "e", "f", "g"}
	p, text = protection(t, v)
	wantLines(t, text,
		"node-disjoint, changing",
		"- the switches are being brought to another plan, round 2 of 4: link 1:1-2:1 is lost",
		"- something has changed that no plan has yet; the next is made in 80ms",
		"- the plan is not of all that is known: too many groups",
		"- 2 links are back, and not used until proven stable: 0000000000000002:2 ─ 0000000000000003:1 in 3s",
		"- 1 link is dead according to BFD, and used because there is no other path: 0000000000000001:1 ─ "+
			"0000000000000002:1",
		"- 1 link is taken to be there, though no switch says so now: 0000000000000001:2 ─ 0000000000000003:2",
		"- 2 of 3 switches are not known to hold what they should",
		"- 1 of 3 switches are without a controller, and taken to forward as they did",
		"- left out: e",
		"- left out: 2 more",
		"0000000000000001 failed 4 2 5s 0 0 0",
		"0000000000000002 behind 6 3 - 1 0 0",
		"0000000000000003 unheard 2 0 5s 2 0 0",
		"0000000000000001: flow mod: table full",
	)
	if p.Stable {
		t.Error("it is said to be stable")
	}
	if text, err := json.Marshal(p); err != nil ||
		!strings.Contains(string(text),
			`"held":[{"a":{"switch":"0000000000000001","port":1},"b":{"switch":"0000000000000002","port":1},"until":"2026-03-04T12:00:09Z"},`) ||
		!strings.Contains(string(text),
			`"unheard":[{"a":{"switch":"0000000000000001","port":2},"b":{"switch":"0000000000000003","port":2}}]`) ||
		p.Present == nil || p.Present.Round != 2 {
		t.Errorf("%s %v", text, err)
	}
	empty, err := paths.NewGraph(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p, _ = protection(t, &recovery.View{Graph: empty}); p.Last != nil {
		t.Errorf("a change of nothing: %+v", p.Last)
	}
	if text, err := json.Marshal(p); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%s %v", text, err)
	}
}

// A host is shown at the port of the plan, with the addresses that topology knows.
func TestAsk(t *testing.T) {
	link, node := paths.LinkDisjoint, paths.NodeDisjoint
	s := &topology.Snapshot{Hosts: []topology.HostView{{Host: topology.Host{MAC: app.MAC{2, 0, 0, 0, 0, 7},
		At: at(2, 9), Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.7")}}}}}
	for id := range app.Switch(3) {
		s.Switches = append(s.Switches, topology.SwitchView{ID: id + 1})
	}
	s.Links = append(both(at(1, 1), at(2, 1)), both(at(2, 2), at(3, 1))...)
	for _, c := range []struct {
		name      string
		view      *recovery.View
		avoid     *paths.Disjoint
		installed bool
		mode, way string
		note      string // part of the only note
	}{
		{"as it is installed", calm(), nil, true, "node-disjoint", "1 → 2 → 3", ""},
		{"as asked for, which is installed", calm(), &node, true, "node-disjoint", "1 → 2 → 3", ""},
		{"as asked for", calm(), &link, false, "link-disjoint", "1 → 2 → 3", "the switches hold a node-disjoint plan"},
		{"without a plan", nil, nil, false, "link-disjoint", "1 → 2", "recovery does not run"},
	} {
		p, err := Ask(s, c.view, Question{"1", "10.0.0.7", c.avoid}, now)
		if err != nil {
			t.Fatal(err)
		}
		if p.Installed != c.installed || p.Disjoint != c.mode || p.Primary.draw() != c.way ||
			strings.Join(p.Notes, "\n") != "" && c.note == "" ||
			!strings.Contains(strings.Join(p.Notes, "\n"), c.note) {
			t.Errorf("%s: %s %+v", c.name, p.Primary.draw(), p)
		}
	}
	s.Hosts = nil // its switch has lost its controllers
	kept := calm()
	kept.Addresses = map[app.MAC][]netip.Addr{{2, 0, 0, 0, 0, 7}: {netip.MustParseAddr("10.0.0.7")}}
	if p, err := Ask(s, kept, Question{"1", "10.0.0.7", nil}, now); err != nil || p.To.MAC != "02:00:00:00:00:07" {
		t.Errorf("a host that topology does not see is %+v, %v", p, err)
	}
	for _, q := range []Question{{"1", "9", nil}, {"9", "1", nil}} {
		if _, err := Ask(s, nil, q, now); err == nil ||
			!strings.Contains(err.Error(), "no switch 0000000000000009 is up") {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
