package show

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

var now = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(s app.Switch, p app.Port) app.PortOf { return app.PortOf{Switch: s, Port: p} }

// both is a cable that has been up in both directions for a minute.
func both(a, b app.PortOf) []topology.LinkView {
	l := topology.LinkView{Link: topology.Link{From: a, To: b}, Up: true, Bidirectional: true,
		Changed: now.Add(-time.Minute)}
	back := l
	back.From, back.To = b, a
	return []topology.LinkView{l, back}
}

// down takes links down for a reason, ago.
func down(reason topology.Reason, ago time.Duration, links ...*topology.LinkView) {
	for _, l := range links {
		l.Up, l.Bidirectional, l.Reason, l.Changed = false, false, reason, now.Add(-ago)
	}
}

func example() *topology.Snapshot {
	var s topology.Snapshot
	for id := range app.Switch(4) {
		s.Switches = append(s.Switches, topology.SwitchView{ID: id + 1,
			Ports: []topology.PortView{{Port: 1, Name: "eth1", Up: true}, {Port: 2, Name: "eth2"}}, More: id == 3})
	}
	s.Switches[1].Ports[0].Rejected.Forged = 7
	up, oneWay, deaf, dead := both(at(1, 1), at(2, 1)), both(at(1, 2), at(3, 1)), both(at(2, 2), at(3, 2)),
		both(at(3, 3), at(4, 3))
	up[1].Changed = now.Add(-30 * time.Second)
	down(topology.ProbesLost, 5*time.Second, &oneWay[1], &deaf[0])
	oneWay[0].Bidirectional, deaf[1].Bidirectional = false, false
	down(topology.PortDown, 2*time.Hour+3*time.Minute, &dead[0])
	down(topology.ProbesLost, 50*time.Hour, &dead[1])
	unheard := topology.LinkView{Link: topology.Link{From: at(4, 1), To: at(1, 3)}, Up: true,
		Changed: now.Add(time.Second)}
	for _, c := range [][]topology.LinkView{up[:1], oneWay[:1], up[1:], deaf[:1], oneWay[1:], deaf[1:], dead,
		{unheard}} {
		s.Links = append(s.Links, c...)
	}
	s.Hosts = []topology.HostView{
		{Host: topology.Host{MAC: app.MAC{2, 0, 0, 0, 0, 1}, At: at(1, 4),
			Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fe80::1")}}, Seen: now},
		{Host: topology.Host{MAC: app.MAC{2, 0, 0, 0, 0, 2}, At: at(4, 4)}, Seen: now.Add(-90 * time.Second)},
	}
	return &s
}

// wantLines checks that the text has these lines in this order, for any width of the columns.
func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, w := range want {
		for len(lines) > 0 && strings.Join(strings.Fields(lines[0]), " ") != w {
			lines = lines[1:]
		}
		if len(lines) == 0 {
			t.Fatalf("line %q is missing, or not in its place, in\n%s", w, text)
		}
		lines = lines[1:]
	}
}

func TestTopologyText(t *testing.T) {
	var b strings.Builder
	if err := NewTopology(example()).WriteText(&b, now); err != nil {
		t.Fatal(err)
	}
	wantLines(t, b.String(),
		"SWITCH PORTS UP LINKS HOSTS",
		"0000000000000001 2 1 1 1",
		"0000000000000003 2 1 0 0",
		"0000000000000004 2+ 1 0 1",
		"LINK STATE SINCE REASON",
		"0000000000000001:1 ─ 0000000000000002:1 up 30s -",
		"0000000000000001:2 → 0000000000000003:1 one way 5s the other way: probes lost",
		"0000000000000002:2 ← 0000000000000003:2 one way 5s the other way: probes lost",
		"0000000000000003:3 ─ 0000000000000004:3 down 2h3m port down, and back probes lost",
		"0000000000000004:1 → 0000000000000001:3 one way 0s nothing was ever heard the other way",
		"HOST AT SEEN ADDRESSES",
		"02:00:00:00:00:01 0000000000000001:4 0s 10.0.0.1 fe80::1",
		"02:00:00:00:00:02 0000000000000004:4 1m30s -",
		"LLDP frames that were not believed: 7; --json says at which ports, and why",
	)
	if n := strings.Count(b.String(), "0000000000000001:1 "); n != 1 {
		t.Errorf("a cable is there %d times in\n%s", n, b.String())
	}
}

func TestEmptyTopology(t *testing.T) {
	var b strings.Builder
	if err := NewTopology(&topology.Snapshot{}).WriteText(&b, now); err != nil ||
		strings.Contains(b.String(), "LINK\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if text, err := json.Marshal(NewTopology(&topology.Snapshot{})); err != nil ||
		strings.Contains(string(text), "null") {
		t.Errorf("%s %v", text, err)
	}
}

func TestTopologyJSON(t *testing.T) {
	text, err := json.Marshal(NewTopology(example()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"switch":"0000000000000002","ports":[{"port":1,"name":"eth1","mac":"00:00:00:00:00:00","up":true,"lldp_rejected":{"forged":7}},{"port":2,"name":"eth2","mac":"00:00:00:00:00:00","up":false}]`,
		`{"from":{"switch":"0000000000000002","port":2},"to":{"switch":"0000000000000003","port":2},"up":false,"bidirectional":false,"since":"2026-03-04T11:59:55Z","reason":"probes lost"}`,
		`{"mac":"02:00:00:00:00:01","addresses":["10.0.0.1","fe80::1"],"at":{"switch":"0000000000000001","port":4},"seen":"2026-03-04T12:00:00Z"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

func TestTopologyDOT(t *testing.T) {
	var b strings.Builder
	if err := NewTopology(example()).WriteDOT(&b); err != nil {
		t.Fatal(err)
	}
	wantLines(t, b.String(),
		"graph network {",
		`"0000000000000001";`,
		`"0000000000000001" -- "0000000000000002" [taillabel="1", headlabel="1"];`,
		`"0000000000000001" -- "0000000000000003" [taillabel="2", headlabel="1", color=orange, dir=forward];`,
		`"0000000000000002" -- "0000000000000003" [taillabel="2", headlabel="2", color=orange, dir=back];`,
		`"0000000000000003" -- "0000000000000004" [taillabel="3", headlabel="3", color=red, style=dashed, label="port down, and back probes lost"];`,
		`"02:00:00:00:00:01" [shape=ellipse, label="02:00:00:00:00:01\n10.0.0.1 fe80::1"];`,
		`"02:00:00:00:00:01" -- "0000000000000001" [headlabel="4", style=dotted];`,
		"}",
	)
}
