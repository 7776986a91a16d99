// Command profile records the profile with which `make build` compiles the holdfast binary, cmd/holdfast/cpu.pgo:
//
//	go run ./lab/profile
//
// It runs three controllers, an agent and their load in this process, so that one profile has the leader, its followers
// and the agent, and clients of the store. Run it on a machine that does nothing else. A test says when to record it
// again.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/controller/process"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

const controllers = 3

// phase is a part of the load.
type phase struct {
	name       string
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
}

func main() {
	file := flag.String("o", filepath.FromSlash("cmd/holdfast/cpu.pgo"), "the file to write")
	seconds := flag.Int("seconds", 10, "how long each phase lasts")
	flag.Parse()
	if err := record(*file, time.Duration(*seconds)*time.Second); err != nil {
		fmt.Fprintln(os.Stderr, "profile:", err)
		os.Exit(1)
	}
}

// record writes the profile of all phases.
func record(file string, each time.Duration) error {
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	for _, p := range phases {
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
	start := func(run func() error) {
		running.Go(func() {
			if err := run(); err != nil {
				cancel(err)
			}
		})
	}
	defer func() { cancel(nil); running.Wait() }()
	on, err := serve(ctx, start, file)
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
	fmt.Fprintf(&text, "apps: [learning, store]\ndurability: %s\ndata: %s\ncontrollers:\n",
		cmp.Or(p.durability, config.Memory), dir)
	for i := range controllers {
		of := addresses[4*i:]
		fmt.Fprintf(&text, "  - {name: c%d, peer: '%s', openflow: '%s', api: '%s', rest: '%s'}\n", i+1, of[0], of[1],
			of[2], of[3])
	}
	return config.Parse("cluster file", []byte(text.String()), []string{"learning", store.Name})
}

// serve starts the controllers and the agent.
func serve(ctx context.Context, start func(func() error), file *config.Cluster) (*site, error) {
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
		cfg := process.Config{Cluster: file, Name: c.Name, Logger: log, Applications: applications}
		start(func() error { return process.Run(ctx, cfg) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	on.agent = l.Addr().String()
	own := agent.Config{Listen: l, Controllers: addresses, Logger: log}
	start(func() error { return agent.Run(ctx, own) })
	return &on, nil
}

func applications() ([]ledger.Application, error) {
	return []ledger.Application{learning.New(), rpc.New()}, nil
}
