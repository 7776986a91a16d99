package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/failover"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// TestTrial is a small version of the demo: hosts ping through packet-ins while leaders die, with and without
// agents, with embedded switches and Open vSwitches, with and without TLS. The gate runs four of these eight, with
// all combinations of each two of the three choices.
func TestTrial(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while, and says nothing that the shorter tests do not")
	}
	t.Parallel()
	for i := range 8 {
		stock, ovs, tls := i&1 > 0, i&2 > 0, i&4 > 0
		if !everything && (stock != ovs) != tls {
			continue
		}
		cfg := failover.Config{Stock: stock, OVS: ovs, TLS: tls, Kills: 3}
		if tls {
			cfg.Kills = 1
		}
		t.Run(fmt.Sprintf("stock=%v,ovs=%v,tls=%v", stock, ovs, tls), func(t *testing.T) {
			if ovs {
				needOVS(t)
			}
			t.Parallel()
			runTrial(t, cfg)
		})
	}
}

// TestTrialOfGroups is the same with a group for each controller, and an application of which one actor handles all
// packets, so that they pass several groups. One controller after the other dies, each of which leads a group, and gets
// it back. The actor moves from group to group all the time.
func TestTrialOfGroups(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for _, stock := range []bool{false, true} {
		if stock && !everything {
			continue
		}
		t.Run(fmt.Sprintf("stock=%v", stock), func(t *testing.T) {
			t.Parallel()
			runTrial(t, failover.Config{Stock: stock, PerController: true, App: exchange.Name, Migrate: true, Kills: 2})
		})
	}
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

// TestTrialLegacy: switches without agents and bundles may lose what is in flight when a leader dies. Nothing is
// repeated, and they continue with the next leader.
func TestTrialLegacy(t *testing.T) {
	inModes(t, []mode{stock, stockOVS}, func(t *testing.T, m mode) {
		ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
		defer cancel()
		const kills, switches = 3, 3
		r, err := failover.Run(ctx, failover.Config{Binary: plain, Stock: true, OVS: m.ovs, NoBundles: true,
			Switches: switches, Kills: kills, Election: election,
			Between: 300 * time.Millisecond, PingInterval: 10 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", r)
		if r.Evidence != "" {
			t.Cleanup(func() { os.RemoveAll(r.Evidence) })
		}
		if r.EventsProcessed == 0 || r.EventsRepeated+r.CommandsRepeated > 0 {
			t.Errorf("events or commands are repeated: %+v", r)
		}
	})
}

// TestThousandKills kills controllers of networks of Open vSwitch, with agents and without, as often as HOLDFAST_KILLS
// says: 5 times if that is empty. Each comes as soon as the one before is back. If it says more, also with a group for
// each controller.
func TestThousandKills(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	const few = 5
	kills, names := int(setting(t, "HOLDFAST_KILLS", few)), []string{"agents", "stock"}
	if kills > few {
		names = append(names, "groups", "groups stock")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 4*patience+time.Duration(kills)*5*time.Second)
			defer cancel()
			cfg := failover.Config{Binary: plain, OVS: true, Stock: strings.HasSuffix(name, "stock"), Switches: 2,
				Soak: true, Kills: kills, Election: election, Between: 300 * time.Millisecond,
				PingInterval: 20 * time.Millisecond}
			if strings.HasPrefix(name, "groups") { // a switch in each, and one actor for all packets
				cfg.PerController, cfg.App, cfg.Switches = true, exchange.Name, 3
			}
			r, err := failover.Run(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("kills=%d events=%d commands=%d lost=%d repeated=%d", len(r.Kills), r.EventsProcessed,
				r.CommandsExecuted,
				r.EventsLost+r.CommandsLost, r.EventsRepeated+r.CommandsRepeated)
			if cfg.PerController {
				t.Logf("between groups: %+v", r.Streams)
			}
			if !r.Exact() || len(r.Kills) != kills || r.EventsProcessed == 0 {
				t.Errorf("%+v", r)
			}
			if r.PingsAnswered != r.PingsSent || r.PingsRepeated > 0 {
				t.Errorf("%d pings of %d were answered, %d came again", r.PingsAnswered, r.PingsSent, r.PingsRepeated)
			}
			if r.Epochs != cfg.Switches {
				t.Errorf("%d epochs: a switch lost its connection", r.Epochs)
			}
		})
	}
}

// runTrial kills leaders while three switches send packets, and expects that nothing is lost or repeated.
func runTrial(t *testing.T, cfg failover.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	cfg.Election = election
	cfg.Binary, cfg.Switches, cfg.Between, cfg.PingInterval = plain, 3, 500*time.Millisecond, 5*time.Millisecond
	if cfg.PerController {
		cfg.PingInterval = 20 * time.Millisecond // groups take seconds to go home, and the others run tests
	}
	cfg.Say = func(line string) { t.Log(line) }
	r, err := failover.Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	if !r.Exact() || r.EventsProcessed == 0 || r.CommandsExecuted == 0 {
		t.Errorf("not exactly once: %+v", r)
	}
	if cfg.PerController && r.Streams.Received == 0 {
		t.Error("nothing passed between groups")
	}
	if cfg.Migrate && r.Streams.Moves == 0 {
		t.Error("the actor has not moved")
	}
	if len(r.Kills) != cfg.Kills {
		t.Errorf("%d kills, not %d", len(r.Kills), cfg.Kills)
	}
	if r.PingsAnswered != r.PingsSent || r.PingsRepeated > 0 {
		t.Errorf("%d pings of %d were answered, %d came again: nothing that is queued is to be lost", r.PingsAnswered,
			r.PingsSent, r.PingsRepeated)
	}
}
