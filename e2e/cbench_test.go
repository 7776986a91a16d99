package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/cluster"
	"github.com/holdfast-sdn/holdfast/internal/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A switch of cbench speaks OpenFlow 1.0, has no agent, and answers little besides HELLO,
// FEATURES and ECHO. It is served by the leader, in both of cbench's modes.
func TestCbench(t *testing.T) {
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Config{Binary: plain, Dir: t.TempDir(), Apps: []string{"learning"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, mode := range []load.Mode{load.Throughput, load.Latency} {
		leader, err := c.WaitLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r, err := load.Run(t.Context(), load.Config{Mode: mode, Version: openflow.Version10, Switches: 4, FirstDatapathID: openflow.DatapathID(1 + 4*i),
			Duration: time.Second, Dial: load.TCP(leader.OpenFlow)})
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Logs())
		}
		if r.Answered == 0 || r.Total.FlowMods == 0 {
			t.Errorf("mode %d: %+v", mode, r.Total)
		}
	}
	s, err := c.Wait(t.Context(), "the switches to be known", func(s cluster.Status) bool { return len(s.Switches) == 8 })
	if err != nil {
		t.Fatal(err)
	}
	for _, sw := range s.Switches {
		if sw.Mode != "direct" && sw.Mode != "" {
			t.Errorf("switch %s has mode %q", sw.Switch, sw.Mode)
		}
	}
}
