package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/failover"
)

// Failover kills the leader again and again while hosts ping through packet-ins, and measures how long it takes from
// SIGKILL until all its switches receive commands again. With several groups the dead controller may have led some of
// them, and other controllers take over each of these by itself.
type Failover struct {
	Binary       string // the holdfast binary
	Kills        int
	OVS          bool   // Open vSwitch in network namespaces (root), not embedded switches
	App          string // "hub" if empty, or "exchange": one actor handles all packets
	Groups       string // "1", or "per-controller": each controller has a group of its own
	Migrate      bool   // actors and switches move from group to group all the time
	Stock        bool   // no agents: every switch connects to every controller
	Rows         int    // of the store, which the controllers hold meanwhile
	Durability   string
	Between      time.Duration // undisturbed traffic before each kill; 300 ms if 0
	PingInterval time.Duration // of each host; 5 ms if 0
}

// Validate returns a *FieldError for a value that cannot be.
func (b Failover) Validate() error {
	return cmp.Or(inRange("kills", b.Kills, 1, 10_000), inRange("rows", b.Rows, 0, 2_000_000),
		isDurability(b.Durability), isGroups(b.Groups))
}

// Run runs the benchmark. If something was lost, repeated or out of order the report is complete, and the error is
// that of failover.Result.Err.
func (b Failover) Run(ctx context.Context, progress Progress) (Report, error) {
	r, err := b.kill(ctx, progress, nil, true)
	if err != nil {
		return Report{}, err
	}
	return b.Report(r), r.Err()
}

// Kill is the experiment of the benchmark, with traffic all the time. say is told what happens, as it happens, and may
// be nil.
func (b Failover) Kill(ctx context.Context, progress Progress, say func(line string)) (failover.Result, error) {
	return b.kill(ctx, progress, say, false)
}

func (b Failover) kill(ctx context.Context, progress Progress, say func(line string), rest bool) (failover.Result,
	error) {
	b = b.withDefaults()
	return failover.Run(ctx, failover.Config{Binary: b.Binary, OVS: b.OVS, Stock: b.Stock, Kills: b.Kills,
		PerController: b.Groups == PerController, App: b.App, Migrate: b.Migrate, Between: b.Between,
		PingInterval: b.PingInterval, Rest: rest, Rows: b.Rows, Durability: b.Durability, Progress: progress, Say: say})
}

func (b Failover) withDefaults() Failover {
	b.Between = cmp.Or(b.Between, 300*time.Millisecond)
	b.PingInterval = cmp.Or(b.PingInterval, 5*time.Millisecond)
	return b
}

// Report returns the figures of what Kill found.
func (b Failover) Report(r failover.Result) Report {
	b = b.withDefaults()
	var command, hosts []float64
	for _, k := range r.Kills {
		command = append(command, k.Command.Seconds()*1e3)
		hosts = append(hosts, k.Hosts.Seconds()*1e3)
	}
	f := counts(r)
	f["failover_ms_median"], f["failover_ms_p99"], f["failover_ms_max"] = quantile(command, 0.5),
		quantile(command, 0.99), quantile(command, 1)
	f["host_silence_ms_median"], f["host_silence_ms_max"] = quantile(hosts, 0.5), quantile(hosts, 1)
	n, kind, victim := 4, "embedded switches", "the leader"
	if b.Groups == PerController {
		n, victim = 6, "one controller after the other, each of which leads a group"
		for _, k := range r.Kills {
			f["groups_taken_over"] += float64(k.Groups)
		}
	}
	if r.Streams.Sent > 0 {
		f["items_sent"], f["items_received"] = float64(r.Streams.Sent), float64(r.Streams.Received)
		f["items_lost"], f["items_repeated"] = float64(r.Streams.Lost), float64(r.Streams.Repeated)
		f["moves"] = float64(r.Streams.Moves)
	}
	if b.OVS {
		kind = "Open vSwitch bridges"
	}
	agents := fmt.Sprintf("%d processes", n)
	if b.Stock {
		agents = "none: each switch is connected to all controllers"
	}
	return Report{Bench: "failover", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback", "agents": agents, "app": cmp.Or(b.App, "hub"),
		"switches": fmt.Sprintf("%d %s in a row", n, kind),
		"load": fmt.Sprintf("%d hosts ping every %v, every packet is a packet-in at every switch; %d events in all", n,
			b.PingInterval, r.EventsSent),
		"kill": "SIGKILL of " + victim + ", restarted after 1 s", "groups": cmp.Or(b.Groups, "1"),
		"durability": b.Durability, "rows": b.Rows,
		"failover": "from SIGKILL until each switch of which the dead controller was the master got commands again: " +
			"until the end of the longest of their silences that began within 5 ms of the kill",
	}}
}

// counts are the counters that must be zero, and what they are of.
func counts(r failover.Result) map[string]float64 {
	return map[string]float64{
		"events_sent": float64(r.EventsSent), "events_processed": float64(r.EventsProcessed),
		"events_lost": float64(r.EventsLost), "events_repeated": float64(r.EventsRepeated),
		"commands_issued": float64(r.CommandsIssued), "commands_executed": float64(r.CommandsExecuted),
		"commands_lost": float64(r.CommandsLost), "commands_repeated": float64(r.CommandsRepeated),
		"commands_reordered": float64(r.CommandsReordered),
		"kills":              float64(len(r.Kills)),
	}
}
