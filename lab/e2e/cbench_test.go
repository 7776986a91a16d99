package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A switch of cbench speaks OpenFlow 1.0, has no agent, and answers little besides HELLO,
// FEATURES and ECHO. It is served by the leader, in both of cbench's modes.
func TestCbench(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Config{Binary: plain, Dir: t.TempDir(), Apps: []string{"learning"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, mode := range []load.Mode{load.Throughput, load.Latency} {
		first := openflow.DatapathID(1 + 4*i)
		// on a busy machine the leadership may change, and such a switch stays where it is
		for answered := false; !answered; {
			leader, err := c.WaitLeader(ctx)
			if err != nil {
				t.Fatal(err)
			}
			r, err := load.Run(ctx, load.Config{Mode: mode, Version: openflow.Version10, Switches: 4,
				FirstDatapathID: first,
				Duration:        time.Second, Dial: load.At(leader.OpenFlow)})
			if ctx.Err() != nil {
				t.Fatalf("mode %d: %v\n%s", mode, err, c.Logs())
			}
			answered = r.Answered > 0 && r.Total.FlowMods > 0
		}
		s, err := c.Wait(ctx, "the switches to be known", func(s cluster.Status) bool {
			n := len(s.Switches) // they come by datapath id
			return n > 0 && s.Switches[n-1].Switch >= first.String()
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, sw := range s.Switches {
			if sw.Mode != "legacy" && sw.Mode != "" {
				t.Errorf("switch %s has mode %q", sw.Switch, sw.Mode)
			}
		}
	}
}
