package outage

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestAgreed(t *testing.T) {
	n := &network{cfg: Config{Interval: 15 * ms, Multiplier: 4}}
	for _, c := range []struct {
		name string
		s    appctl.Session
		want bool
	}{
		{"fast both ways", appctl.Session{Forwarding: true, Tx: 15 * ms, Rx: 15 * ms, Detection: 60 * ms}, true},
		{"down", appctl.Session{Forwarding: false, Tx: 15 * ms, Rx: 15 * ms, Detection: 60 * ms}, false},
		{"it sends once a second", appctl.Session{Forwarding: true, Tx: time.Second, Rx: 15 * ms, Detection: 60 * ms},
			false},
		{"the peer sends once a second", appctl.Session{Forwarding: true, Tx: 15 * ms, Rx: time.Second,
			Detection: 3900 * ms}, false},
		{"it has not heard of the peer's interval for long",
			appctl.Session{Forwarding: true, Tx: 15 * ms, Rx: 15 * ms, Detection: 3900 * ms}, false},
	} {
		if got, err := n.agreed(paths.End{Switch: 1, Port: 1}, c.s); got != c.want || err != nil {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

// The ports of the lab are those of the graph.
func TestInPortOrder(t *testing.T) {
	for name, g := range map[string]*paths.Graph{"triangle": graphs.Triangle(), "ring": graphs.Ring(),
		"USNET": graphs.USNET(), "random": graphs.Random(1, 50, 120, 5)} {
		cables, err := inPortOrder(g)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		used := map[openflow.DatapathID]of13.Port{}
		for _, l := range cables {
			for _, e := range []paths.End{l.From, l.To} {
				if used[e.Switch]++; used[e.Switch] != e.Port {
					t.Fatalf("%s: %v is plugged in at port %d", name, e, used[e.Switch])
				}
			}
		}
	}
	gap := paths.Both(paths.End{Switch: 1, Port: 1}, paths.End{Switch: 2, Port: 2}, 1)
	g, err := paths.NewGraph([]openflow.DatapathID{1, 2}, gap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := inPortOrder(g); err == nil {
		t.Error("a switch without port 1 is no error")
	}
}

func TestParsePressure(t *testing.T) {
	text := "some avg10=40.33 avg60=18.01 avg300=19.76 total=17383506516\nfull avg10=0.00 avg60=0.00 avg300=0.00 " +
		"total=0\n"
	if got := parsePressure(text); got != 17383506516*time.Microsecond {
		t.Error(got)
	}
	if got := parsePressure("some"); got != 0 {
		t.Error(got)
	}
}

// In USNET the stream can use a small part of the network; in a ring, all of it.
func TestFindWays(t *testing.T) {
	for _, c := range []struct {
		name     string
		g        *paths.Graph
		from, to openflow.DatapathID
		path     int
		quick    func(links int) bool
	}{
		{"triangle", graphs.Triangle(), 1, 3, 2, func(links int) bool { return links == 3 }},
		{"ring", graphs.Ring(), 1, 5, 4, func(links int) bool { return links == 5 }},
		{"USNET", graphs.USNET(), 1, 24, 6, func(links int) bool { return links > 6 && links < 22 }},
	} {
		routes, err := paths.Protect(c.g, []openflow.DatapathID{c.from, c.to}, paths.LinkDisjoint)
		if err != nil {
			t.Fatal(err)
		}
		hosts := []protect.Host{{MAC: of13.MAC{2, 1}, At: paths.End{Switch: c.from, Port: 100}},
			{MAC: of13.MAC{2, 2}, At: paths.End{Switch: c.to, Port: 100}}}
		plan, err := protect.Compile(routes, hosts, protect.Config{MaxEntries: 1000, MaxGroups: 1000})
		if err != nil {
			t.Fatal(err)
		}
		n := &network{cfg: Config{Graph: c.g, From: c.from, To: c.to}}
		if err := n.findWays(plan, hosts); err != nil || len(n.path) != c.path || !c.quick(len(n.quick)/2) {
			t.Errorf("%s: a path of %d links, %d ends of links to watch, error %v", c.name, len(n.path), len(n.quick),
				err)
		}
	}
}
