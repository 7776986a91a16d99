package e2e

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/netlab"
	"github.com/holdfast-sdn/holdfast/trial"
)

// TestTrial is the demo in small: hosts ping through packet-ins, and three leaders die.
func TestTrial(t *testing.T) { runTrial(t, false) }

// TestTrialOVS is the same with Open vSwitch.
func TestTrialOVS(t *testing.T) {
	if err := netlab.Available(); err != nil {
		if os.Getenv(netlab.RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	runTrial(t, true)
}

func runTrial(t *testing.T, ovs bool) {
	if testing.Short() {
		t.Skip("takes a while, and says nothing that the shorter tests do not")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	const kills = 3
	r, err := trial.Run(ctx, trial.Config{Binary: plain, OVS: ovs, Switches: 3, Kills: kills, Between: 500 * time.Millisecond,
		PingInterval: 5 * time.Millisecond, Say: func(line string) { t.Log(line) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !r.Exact() || r.EventsProcessed == 0 || r.CommandsExecuted == 0 {
		t.Errorf("not exactly once: %+v", r)
	}
	if len(r.Kills) != kills {
		t.Errorf("%d kills, not %d", len(r.Kills), kills)
	}
	if r.PingsAnswered != r.PingsSent {
		t.Errorf("%d pings of %d were answered: nothing that is queued is to be lost", r.PingsAnswered, r.PingsSent)
	}
}
