// Command profile records the profile with which `make build` compiles the holdfast binary, cmd/holdfast/cpu.pgo:
//
//	go run ./lab/profile
//
// It runs three controllers, an agent and their load in this process, so that one profile has the leader, its followers
// and the agent, and clients of the store. Run it on a machine that does nothing else. A test says when to record it
// again.
//
// To see where the time of one kind of load goes, record that phase alone. Each controller, and the agent, has a label:
//
//	go run ./lab/profile -phase paths -o paths.prof
//	go tool pprof -tagfocus process=c1 -top -cum paths.prof
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

const controllers = 3

// phase is a part of the load.
type phase struct {
	name       string
	apps       string // learning and store, by default
	durability config.Durability
	load       interface {
		// run puts the load on a cluster for so long, and returns how much that was in a second.
		run(ctx context.Context, on *site, each time.Duration) (float64, error)
	}
}

// site is a cluster that runs.
type site struct {
	agent string // where switches connect
	rest  []string
}

// phases are weighed by the time that they last.
var phases = []phase{
	{name: "hosts that are known", load: switches{Switches: 16, Window: 256, MACsPerSwitch: 1000}},
	{name: "hosts that are new", load: switches{Switches: 16, Window: 256, MACsPerSwitch: 1_000_000}},
	{name: "one switch, on disk", durability: config.Disk, load: switches{Switches: 1, Window: 256,
		MACsPerSwitch: 1000}},
	{name: "one packet at a time", load: switches{Mode: load.Latency, Switches: 4, MACsPerSwitch: 1000}},
	{name: "updates of the store, in batches, on disk", durability: config.Disk, load: updates{callers: 8, batch: 512}},
	{name: "updates of the store, one at a time", load: updates{callers: 200}},
	{name: "applications on the store, with components", load: packets{atATime: 64}},
	{name: "paths", apps: "topology, node, path", load: installs{paths: 16_000}},
}

func main() {
	file := flag.String("o", filepath.FromSlash("cmd/holdfast/cpu.pgo"), "the file to write")
	seconds := flag.Int("seconds", 10, "how long each phase lasts")
	only := flag.String("phase", "", "the only phase to record, for example paths; all by default")
	flag.Parse()
	if err := record(*file, *only, time.Duration(*seconds)*time.Second); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

// record writes the profile of all phases, or of the only one.
func record(file, only string, each time.Duration) error {
	chosen := slices.DeleteFunc(slices.Clone(phases), func(p phase) bool { return only != "" && p.name != only })
	if len(chosen) == 0 {
		return fmt.Errorf("there is no phase %q: use a name that a run of all phases prints", only)
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	for _, p := range chosen {
		fmt.Println(p.name)
		if err := p.run(each); err != nil {
			pprof.StopCPUProfile()
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	pprof.StopCPUProfile()
	return os.WriteFile(file, profile.Bytes(), 0o644)
}

// run puts the load of a phase on a cluster of its own.
func (p phase) run(each time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "holdfast-profile-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, err := p.cluster(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	start := func(process string, run func(context.Context) error) {
		running.Go(func() {
			pprof.Do(ctx, pprof.Labels("process", process), func(ctx context.Context) {
				if err := run(ctx); err != nil {
					cancel(err)
				}
			})
		})
	}
	defer func() { cancel(nil); running.Wait() }()
	on, err := serve(start, file)
	if err != nil {
		return err
	}
	perSecond, err := p.load.run(ctx, on, each)
	fmt.Printf("  %.0f/s\n", perSecond)
	return errors.Join(err, context.Cause(ctx))
}

// cluster returns a cluster file.
func (p phase) cluster(dir string) (*config.Cluster, error) {
	addresses, err := cluster.FreeAddresses("127.0.0.1", 4*controllers)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apps: [%s]\ndurability: %s\ndata: %s\ncontrollers:\n",
		cmp.Or(p.apps, "learning, store"), cmp.Or(p.durability, config.Memory), dir)
	for i := range controllers {
		of := addresses[4*i:]
		fmt.Fprintf(&text, "  - {name: c%d, peer: '%s', openflow: '%s', api: '%s', rest: '%s'}\n", i+1, of[0], of[1],
			of[2], of[3])
	}
	return config.Parse("cluster file", []byte(text.String()), slices.Collect(maps.Keys(applications)))
}

// serve starts the controllers and the agent.
func serve(start func(string, func(context.Context) error), file *config.Cluster) (*site, error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var on site
	var addresses []string
	if _, _, err := clusterkey.Make(file.Data); err != nil {
		return nil, err
	}
	for _, c := range file.Controllers {
		addresses, on.rest = append(addresses, c.OpenFlow), append(on.rest, c.REST)
		if err := process.Found(file, c.Name, log); err != nil {
			return nil, err
		}
		cfg := process.Config{Cluster: file, Name: c.Name, Logger: log,
			Applications: func() ([]ledger.Application, error) { return made(file.Apps), nil }}
		start(c.Name, func(ctx context.Context) error { return process.Run(ctx, cfg) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	on.agent = l.Addr().String()
	own := agent.Config{Listen: l, Controllers: addresses, Logger: log}
	start("agent", func(ctx context.Context) error { return agent.Run(ctx, own) })
	return &on, nil
}

// applications are those of the phases.
var applications = map[string]func() ledger.Application{
	"learning":    func() ledger.Application { return learning.New() },
	store.Name:    func() ledger.Application { return rpc.New() },
	topology.Name: func() ledger.Application { return topology.New() },
	node.Name:     func() ledger.Application { return node.New() },
	path.Name:     func() ledger.Application { return path.New() },
}

func made(names []string) (list []ledger.Application) {
	for _, name := range names {
		list = append(list, applications[name]())
	}
	return list
}
