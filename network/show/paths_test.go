package show

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

func explained(t *testing.T, g *paths.Graph, from, to app.Switch, avoid paths.Disjoint) (*Paths, string) {
	t.Helper()
	p, err := explain(g, place{Switch: from}, place{Switch: to}, avoid)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	return p, b.String()
}

// Figure 3 of van Adrichem et al.: a triangle, in which B has a detour by A, and a ring, in which packets go all
// the way back.
func TestPathsText(t *testing.T) {
	_, text := explained(t, graphs.Triangle(), 1, 3, paths.LinkDisjoint)
	wantLines(t, text,
		"from switch 0000000000000001",
		"to switch 0000000000000003",
		"2 hops, link-disjoint",
		"1 → 2 → 3",
		"SWITCH PRIMARY BACKUP",
		"1 port 1 → 2 port 2 → 3",
		"2 port 2 → 3 port 1 ↩ 1",
		"DEAD PACKETS GO HOPS LATER",
		"1 ✕ 2 1 → 3 1 (-1) 1",
		"2 ✕ 3 1 → 2 ↩ 1 → 3 3 (+1) 1",
		"switch 2 1 → 3 1 (-1) 1",
		"↩ is crankback: packets go back by the link that they came by.",
	)
	_, text = explained(t, graphs.Ring(), 1, 5, paths.LinkDisjoint)
	wantLines(t, text,
		"1 → 2 → 3 → 4 → 5",
		"1 port 1 → 2 port 2 → 5",
		"3 port 2 → 4 port 1 ↩ 2",
		"4 ✕ 5 1 → 2 → 3 → 4 ↩ 3 ↩ 2 ↩ 1 → 5 7 (+3) 1",
		"switch 3 1 → 2 ↩ 1 → 5 3 (-1) 1",
	)
}

func TestPathsThatEndEarly(t *testing.T) {
	line := graphs.Triangle().Without(paths.End{Switch: 1, Port: 2})
	_, text := explained(t, line, 1, 3, paths.NodeDisjoint)
	wantLines(t, text, "2 hops, node-disjoint", "1 port 1 → 2 none", "2 ✕ 3 nowhere: cut off - -",
		"switch 2 nowhere: cut off - -")
	if strings.Contains(text, "↩") {
		t.Errorf("a legend for what is not there:\n%s", text)
	}
	_, text = explained(t, line.Without(paths.End{Switch: 1, Port: 1}), 1, 3, paths.LinkDisjoint)
	wantLines(t, text, "no way leads there by links that are up in both directions")
	_, text = explained(t, line, 2, 2, paths.LinkDisjoint)
	wantLines(t, text, "both are at one switch: no link is on the way")
	if _, err := explain(line, place{Switch: 1}, place{Switch: 9}, paths.LinkDisjoint); err == nil {
		t.Error("paths to a switch that is not there")
	}
}

// A backup for a dead link only: all packets go by switch 2, which has two links to 3.
func TestBackupForALinkOnly(t *testing.T) {
	links := slices.Concat(paths.Both(paths.End{Switch: 1, Port: 1}, paths.End{Switch: 2, Port: 1}, 1),
		paths.Both(paths.End{Switch: 1, Port: 2}, paths.End{Switch: 2, Port: 2}, 1),
		paths.Both(paths.End{Switch: 2, Port: 3}, paths.End{Switch: 3, Port: 1}, 1))
	g, err := paths.NewGraph([]app.Switch{1, 2, 3}, links)
	if err != nil {
		t.Fatal(err)
	}
	_, text := explained(t, g, 1, 3, paths.NodeDisjoint)
	wantLines(t, text, "1 port 1 → 2 port 2 → 2, for a dead link only", "1 ✕ 2 1 → 2 → 3 2 (+0) 2",
		"switch 2 nowhere: cut off - -")
}

func TestPathsJSON(t *testing.T) {
	host := topology.Host{MAC: app.MAC{2, 0, 0, 0, 0, 7}, At: at(3, 9)}
	p, err := explain(graphs.Triangle(), place{Switch: 1}, place{3, &host}, paths.LinkDisjoint)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"to":{"switch":"0000000000000003","mac":"02:00:00:00:00:07"},"disjoint":"link-disjoint","primary":{"hops":2,"links":[{"from":{"switch":"0000000000000001","port":1},`,
		`{"switch":"0000000000000002","primary":{"port":2,"switch":"0000000000000003"},"backup":{"port":1,"switch":"0000000000000001"},"back":true,"once":false}`,
		`"outcome":"delivered","way":{"hops":3,`, `"extra":1,"later":1}`,
		`{"switch":"0000000000000002","outcome":"delivered",`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
}

// The description of a failure is true: packets arrive, over live links, unless no path exists.
func TestFailures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "switches")
		g := graphs.Random(rapid.Uint64().Draw(t, "seed"), n, rapid.IntRange(n-1, 3*n).Draw(t, "links"), 3)
		avoid := rapid.SampledFrom([]paths.Disjoint{paths.LinkDisjoint, paths.NodeDisjoint}).Draw(t, "disjoint")
		from, to := app.Switch(1), app.Switch(n)
		p, err := explain(g, place{Switch: from}, place{Switch: to}, avoid)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Backups) != p.Primary.Hops || len(p.Failures) != 2*p.Primary.Hops-1 {
			t.Fatalf("%d hops, %d backups, %d failures", p.Primary.Hops, len(p.Backups), len(p.Failures))
		}
		for _, f := range p.Failures {
			switch {
			case (f.Later > 0) == (f.Outcome == CutOff) && f.Outcome != Looping:
				t.Fatalf("%s, and later %d hops: %+v", f.Outcome, f.Later, f)
			case f.Outcome != Delivered && f.Outcome != CutOff && (f.Link != nil || avoid == paths.NodeDisjoint):
				t.Fatalf("%s in spite of the backups: %+v", f.Outcome, f)
			case f.Way != nil && f.Way.Hops != p.Primary.Hops+f.Extra:
				t.Fatalf("%d hops are said to be %d more than %d", f.Way.Hops, f.Extra, p.Primary.Hops)
			}
			if f.Way != nil {
				if err := sound(f, from, to); err != nil {
					t.Fatalf("%v: %+v by %+v", err, f, f.Way)
				}
			}
		}
	})
}

// sound checks that a path leads from one switch to another, and avoids what is dead.
func sound(f Failure, from, to app.Switch) error {
	last := from.String()
	for i, s := range f.Way.Links {
		switch {
		case s.From.Switch != last:
			return fmt.Errorf("it jumps from %s to %s", last, s.From.Switch)
		case f.Link != nil && (s.From == f.Link.From || s.To == f.Link.From), s.To.Switch == f.Switch:
			return fmt.Errorf("step %d is dead", i)
		}
		last = s.To.Switch
	}
	if last != to.String() {
		return fmt.Errorf("it ends at %s", last)
	}
	return nil
}

func TestFind(t *testing.T) {
	addr := netip.MustParseAddr
	hosts := []topology.Host{
		{MAC: app.MAC{2, 0, 0, 0, 0, 1}, At: at(1, 4), Addresses: []netip.Addr{addr("10.0.0.1"), addr("fe80::1")}},
		{MAC: app.MAC{2, 0, 0, 0, 0, 2}, At: at(0x2a, 4), Addresses: []netip.Addr{addr("10.0.0.9")}},
		{MAC: app.MAC{2, 0, 0, 0, 0, 3}, At: at(0x2a, 5), Addresses: []netip.Addr{addr("10.0.0.9")}},
	}
	for name, want := range map[string]string{
		"1": "switch 0000000000000001", "2a": "switch 000000000000002a", "0x2A": "switch 000000000000002a",
		"000000000000002a":        "switch 000000000000002a",
		"00:00:00:00:00:00:00:2a": "switch 000000000000002a",
		"10.0.0.1":                "host 02:00:00:00:00:01 (10.0.0.1 fe80::1) at switch 0000000000000001",
		"FE80::1":                 "host 02:00:00:00:00:01 (10.0.0.1 fe80::1) at switch 0000000000000001",
		"02-00-00-00-00-03":       "host 02:00:00:00:00:03 (10.0.0.9) at switch 000000000000002a",
		"7":                       "!no switch 0000000000000007 is up",
		"10.0.0.2":                "!no host 10.0.0.2 is known",
		"02:00:00:00:00:09":       "!no host 02:00:00:00:00:09 is known",
		"10.0.0.9":                "!hosts 02:00:00:00:00:02 and 02:00:00:00:00:03 both have 10.0.0.9",
		"alice":                   "!names no place",
		"":                        "!names no place",
		"00000000000000001":       "switch 0000000000000001",
		"1ffffffffffffffff":       "!names no place",
	} {
		p, err := find(name, []app.Switch{1, 0x2a}, hosts)
		got := p.String()
		if err != nil {
			got = "!" + err.Error()
		}
		if got != want && (want[0] != '!' || !strings.Contains(got, want[1:])) {
			t.Errorf("%q is %s, want %s", name, got, want)
		}
	}
}
