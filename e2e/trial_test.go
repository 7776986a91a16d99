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
func TestTrial(t *testing.T) { runTrial(t, trial.Config{Kills: 3}) }

// TestTrialOVS is the same with Open vSwitch.
func TestTrialOVS(t *testing.T) {
	needOVS(t)
	runTrial(t, trial.Config{OVS: true, Kills: 3})
}

func needOVS(t *testing.T) {
	t.Helper()
	if err := netlab.Available(); err != nil {
		if os.Getenv(netlab.RequireEnv) == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// runTrial kills leaders while three switches send packets, and expects that nothing is lost or repeated.
func runTrial(t *testing.T, cfg trial.Config) {
	if testing.Short() {
		t.Skip("takes a while, and says nothing that the shorter tests do not")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cfg.Binary, cfg.Switches, cfg.Between, cfg.PingInterval = plain, 3, 500*time.Millisecond, 5*time.Millisecond
	cfg.Say = func(line string) { t.Log(line) }
	r, err := trial.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !r.Exact() || r.EventsProcessed == 0 || r.CommandsExecuted == 0 {
		t.Errorf("not exactly once: %+v", r)
	}
	if len(r.Kills) != cfg.Kills {
		t.Errorf("%d kills, not %d", len(r.Kills), cfg.Kills)
	}
	if r.PingsAnswered != r.PingsSent {
		t.Errorf("%d pings of %d were answered: nothing that is queued is to be lost", r.PingsAnswered, r.PingsSent)
	}
}
