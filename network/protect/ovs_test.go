package protect

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/graphs"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Open vSwitch accepts the output of Messages, and then uses the paper's paths (figures 3a and 3b) without a
// controller.
func TestOpenVSwitch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		g     *paths.Graph
		avoid paths.Disjoint
	}{{"ring", graphs.Ring(), paths.LinkDisjoint}, {"triangle", graphs.Triangle(), paths.NodeDisjoint}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tryOVS(t, c.g, c.avoid)
		})
	}
}

func tryOVS(t *testing.T, g *paths.Graph, avoid paths.Disjoint) {
	lab := netlab.ForTest(t)
	switches := map[openflow.DatapathID]*netlab.Switch{}
	for _, s := range g.Switches() {
		var err error
		if switches[s], err = lab.AddSwitch(fmt.Sprint("s", uint64(s)), uint64(s)); err != nil {
			t.Fatal(err)
		}
	}
	var links []*netlab.Link
	ports := map[openflow.DatapathID]of13.Port{}
	for port := of13.Port(1); len(links) < len(g.Links())/2; port++ { // Connect numbers ports as the samples do
		for _, l := range g.Links() {
			if l.From.Port == port && ports[l.To.Switch]+1 == l.To.Port && ports[l.From.Switch]+1 == l.From.Port {
				k, err := lab.Connect(switches[l.From.Switch], switches[l.To.Switch])
				if err != nil {
					t.Fatal(err)
				}
				links = append(links, k)
				ports[l.From.Switch]++
				ports[l.To.Switch]++
			}
		}
	}
	first, last := g.Switches()[0], g.Switches()[len(g.Switches())-1]
	var files []*os.File
	var hosts []Host
	for i, s := range []openflow.DatapathID{first, last} {
		h, err := lab.AddHost(fmt.Sprint("h", i), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lab.Connect(switches[s], h); err != nil {
			t.Fatal(err)
		}
		file, err := h.Raw()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		files = append(files, file)
		hosts = append(hosts, Host{of13.MAC(h.MAC), paths.End{Switch: s, Port: ports[s] + 1}})
	}
	routes, err := paths.Protect(g, []openflow.DatapathID{first, last}, avoid)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Compile(routes, hosts, roomy)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Switches() {
		if err := switches[s].Execute(Diff(Program{}, p.Program(s)).Messages()); err != nil {
			t.Fatal(err)
		}
	}
	for i := -1; i < len(links); i++ {
		if i >= 0 {
			if err := links[i].Cut(); err != nil {
				t.Fatal(err)
			}
		}
		arrives(t, files[0], files[1], hosts[1].MAC, fmt.Sprintf("with cable %d dead", i))
		arrives(t, files[1], files[0], hosts[0].MAC, fmt.Sprintf("back, with cable %d dead", i))
		if i >= 0 {
			if err := links[i].Restore(); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range g.Switches() {
		for p := range ports[s] {
			takeForDead(t, switches[s], p+1)
		}
	}
	arrives(t, files[0], files[1], hosts[1].MAC, "with a false alarm everywhere")
	arrives(t, files[1], files[0], hosts[0].MAC, "back, with a false alarm everywhere")
}

// takeForDead makes the groups of a switch take a port for dead, whatever its BFD says.
func takeForDead(t *testing.T, s *netlab.Switch, p of13.Port) {
	t.Helper()
	name := fmt.Sprint("p", p)
	for _, args := range [][]string{
		{"ovs-vsctl", "--db=" + s.Database(), "set", "interface", name, "bfd:enable=true"},
		{"ovs-appctl", "--target=" + s.Control(), "bfd/set-forwarding", name, "false"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// arrives sends frames until one arrives, because a switch needs a moment to notice a dead port.
func arrives(t *testing.T, from, to *os.File, mac of13.MAC, when string) {
	t.Helper()
	frame, buf := frameTo(mac), make([]byte, 2000)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err := from.Write(frame); err != nil {
			t.Fatal(err)
		}
		if err := to.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for {
			n, err := to.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(buf[:n], frame) {
				return
			}
		}
	}
	t.Fatalf("no frame arrived %s", when)
}
