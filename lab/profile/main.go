// Command profile records the profile with which `make build` compiles the holdfast binary, cmd/holdfast/cpu.pgo:
//
//	go run ./lab/profile
//
// It runs three controllers, an agent and the load of package load in this process, so that one profile has the leader,
// its followers and the agent. Run it on a machine that does nothing else. A test says when to record it again.
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
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/ledger"
)

const controllers = 3

// phase is a part of the load.
type phase struct {
	name       string
	durability config.Durability
	load       load.Config
}

// phases are weighed by the time that they last.
var phases = []phase{
	{name: "hosts that are known", load: load.Config{Switches: 16, Window: 256, MACsPerSwitch: 1000}},
	{name: "hosts that are new", load: load.Config{Switches: 16, Window: 256, MACsPerSwitch: 1_000_000}},
	{name: "one switch, on disk", durability: config.Disk, load: load.Config{Switches: 1, Window: 256,
		MACsPerSwitch: 1000}},
	{name: "one packet at a time", load: load.Config{Mode: load.Latency, Switches: 4, MACsPerSwitch: 1000}},
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
	site, err := p.cluster(dir)
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
	to, err := serve(ctx, start, site)
	if err != nil {
		return err
	}
	p.load.Duration, p.load.Drain = each, 5*time.Second
	p.load.Dial = load.TCP(to)
	r, err := load.Run(ctx, p.load)
	if err == nil && r.Total.Answered == 0 {
		err = errors.New("no packet was answered")
	}
	fmt.Printf("  %.0f answers/s\n", r.PerSecond)
	return errors.Join(err, context.Cause(ctx))
}

// cluster returns a cluster file.
func (p phase) cluster(dir string) (*config.Cluster, error) {
	addresses, err := cluster.FreeAddresses("127.0.0.1", 3*controllers)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "apps: [learning]\ndurability: %s\ndata: %s\ncontrollers:\n",
		cmp.Or(p.durability, config.Memory), dir)
	for i := range controllers {
		of := addresses[3*i:]
		fmt.Fprintf(&text, "  - {name: c%d, peer: '%s', openflow: '%s', api: '%s'}\n", i+1, of[0], of[1], of[2])
	}
	return config.Parse("cluster file", []byte(text.String()), []string{"learning"})
}

// serve starts the controllers and the agent, and returns where switches connect.
func serve(ctx context.Context, start func(func() error), site *config.Cluster) (to string, err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	var addresses []string
	for _, c := range site.Controllers {
		addresses = append(addresses, c.OpenFlow)
		if err := process.Found(site, c.Name, log); err != nil {
			return "", err
		}
		cfg := process.Config{Cluster: site, Name: c.Name, Logger: log, Applications: applications}
		start(func() error { return process.Run(ctx, cfg) })
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	own := agent.Config{Listen: l, Controllers: addresses, Logger: log}
	start(func() error { return agent.Run(ctx, own) })
	return l.Addr().String(), nil
}

func applications() ([]ledger.Application, error) { return []ledger.Application{learning.New()}, nil }
