package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// TestOpenFlow14And15: the learning switch runs on an Open vSwitch that speaks only a later version of OpenFlow, with
// an agent and without, also when the leader dies.
func TestOpenFlow14And15(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for _, version := range []string{"1.4", "1.5"} {
		for _, mode := range []string{"agent", "stock"} {
			if everything || (version == "1.5") == (mode == "agent") {
				t.Run(version+" "+mode, func(t *testing.T) { learnsIn(t, version, mode) })
			}
		}
	}
}

func learnsIn(t *testing.T, version, mode string) {
	lab := netlab.ForTest(t)
	cfg := cluster.Config{Apps: []string{"learning"}, Listen: lab.Addr().String()}
	if mode == "agent" {
		cfg.Agents = 1
	}
	s := startCluster(t, cfg)
	sw, hosts := oneSwitch(t, lab, 3)
	s.check(sw.SetVersion("OpenFlow" + strings.ReplaceAll(version, ".", "")))
	var addresses []string
	for _, a := range s.Agents() {
		addresses = append(addresses, a.Listen)
	}
	if mode == "stock" {
		for _, c := range s.Controllers() {
			addresses = append(addresses, c.OpenFlow)
		}
	}
	s.check(sw.SetControllers(addresses...))
	s.await("all controllers to be connected to the switch", func(st cluster.Status) bool {
		return len(st.Switches) == 1 && st.Switches[0].Role == "master" && st.Switches[0].Guarantee == "exactly-once"
	})
	if up := s.spoken(); up.Version != version ||
		up.Mode != map[string]string{"agent": "agent", "stock": "bundles"}[mode] || up.Guarantee != "exactly-once" {
		t.Errorf("the switch is %+v", up)
	}
	ping := func(from, to *netlab.Host) {
		t.Helper()
		await.Until(t, "an answer from "+to.Name, func() bool {
			echoes, err := from.Ping(s.ctx, to.Addr.Addr(), 1, time.Millisecond, time.Second)
			s.check(err)
			return len(echoes) == 1 && echoes[0].Replies == 1
		})
	}
	flows := func(n int) func() bool {
		return func() bool {
			list, err := sw.OFCtl("dump-flows")
			s.check(err)
			return strings.Count(list, "dl_dst=") >= n
		}
	}
	ping(hosts[0], hosts[1])
	await.Until(t, "flows between two hosts", flows(2))
	s.inSync()
	s.check(s.leader().Kill())
	ping(hosts[0], hosts[2]) // an unknown host
	ping(hosts[2], hosts[1])
	await.Until(t, "flows to the third", flows(4))
}

// spoken is the version, mode and guarantee that the leader reports for its one switch.
func (s *testCluster) spoken() (sw struct{ Version, Mode, Guarantee string }) {
	s.t.Helper()
	var status struct {
		Switches []struct {
			Version   string `json:"version"`
			Mode      string `json:"mode"`
			Guarantee string `json:"guarantee"`
		} `json:"switches"`
	}
	s.check(cluster.Ask(s.ctx, s.leader(), api.ClusterClient.GetController, &status))
	if len(status.Switches) != 1 {
		s.t.Fatalf("%d switches", len(status.Switches))
	}
	return struct{ Version, Mode, Guarantee string }(status.Switches[0])
}
