// Package failover kills controllers under traffic, and measures the effect. It runs real controller processes, with
// agents or without, a row of switches (embedded ones, or Open vSwitch) with a pinging host at each, and a witness on
// the connections between the switches and Holdfast. It counts what was lost and repeated, and measures how long
// commands and hosts waited. The demo, the failover benchmark and end-to-end tests are such experiments.
//
// It is not a simulation (package sim is), and does not measure recovery without controllers (package outage does).
package failover

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/store"
)

// Config says what to run.
type Config struct {
	Binary        string        // the holdfast binary
	OVS           bool          // Open vSwitch in network namespaces (root), not embedded switches
	Switches      int           // in a row, each with one host; 4 if 0
	Kills         int           // of the leader, with SIGKILL; it is restarted each time
	Between       time.Duration // undisturbed traffic before each kill, and after the last
	PingInterval  time.Duration // of each host
	Durability    string        // "memory" if empty
	Election      time.Duration // the election timeout; 0 is the cluster file's default
	TLS           bool          // all connections use TLS
	PerController bool          // each controller has a group of its own
	App           string        // "hub" if empty, or "exchange"
	Rows          int           // of the store, which the controllers hold meanwhile; not with TLS
	Stock         bool          // no agents: every switch connects to every controller
	NoBundles     bool          // with Stock: the switches have no bundles
	Migrate       bool          // with PerController: actors and switches move from group to group all the time
	// kills of any controller, at random moments; how long they take is not measured
	Soak bool
	// Rest makes hosts silent while a killed controller comes back and groups go home. That takes seconds, so most
	// events, and most of the log to compare, would be of that time.
	Rest     bool
	Say      func(line string)            // called with each step, as it happens; may be nil
	Progress func(done float64, s string) // may be nil
}

func (c Config) withDefaults() Config {
	if c.App == "" {
		c.App = "hub"
	}
	if c.Switches == 0 {
		c.Switches = 4
		if c.PerController {
			c.Switches = 6
		}
	}
	if c.Say == nil {
		c.Say = func(string) {}
	}
	if c.Progress == nil {
		c.Progress = func(float64, string) {}
	}
	return c
}

// Kill is one failover.
type Kill struct {
	Controller string
	// Command is the time from SIGKILL until every switch of which the controller was the master got commands again:
	// for each, until the end of its longest silence that began before inFlight had passed.
	Command time.Duration
	Groups  int // that the controller led
	// Hosts is the longest time in that second that a host waited between two answers. It includes the interval of the
	// pings.
	Hosts time.Duration
}

// Result is what an experiment found.
type Result struct {
	oracle.Result
	Streams       oracle.Streams
	Kills         []Kill
	PingsSent     int
	PingsAnswered int
	PingsRepeated int // frames that a host received more than once
	// Evidence is the folder with the logs and audit files. It is kept when something was lost,
	// repeated or out of order, and is empty otherwise.
	Evidence string
}

// Exact reports whether everything happened once and in order, also between groups.
func (r Result) Exact() bool { return r.Result.Exact() && r.Streams.Fault == "" }

// ErrNotExact says that messages were lost, repeated or out of order.
var ErrNotExact = errors.New("not exactly once")

// Err is an ErrNotExact with the counts if something was lost, repeated or out of order, and nil otherwise.
func (r Result) Err() error {
	if r.Exact() {
		return nil
	}
	if r.Streams.Fault != "" {
		return fmt.Errorf("%w: %s; logs and audit files are in %s", ErrNotExact, r.Streams.Fault, r.Evidence)
	}
	return fmt.Errorf("%w: %d events lost, %d repeated; %d commands lost, %d repeated, %d out of order; logs and "+
		"audit files are in %s", ErrNotExact, r.EventsLost, r.EventsRepeated, r.CommandsLost, r.CommandsRepeated,
		r.CommandsReordered, r.Evidence)
}

// network is the part of an experiment that depends on the kind of switches.
type network interface {
	hosts() []*Host
	// connect makes switch i dial its agent, or its controllers.
	connect(i int, addresses ...string) error
	// secure makes all switches connect over TLS from now on.
	secure(mtls.Files) error
	// listenAddress is where the switches can reach listeners of this process.
	listenAddress() string
	Close() error
}

// experiment is one run.
type experiment struct {
	Config
	blind   bool // nothing is witnessed
	net     network
	cluster *cluster.Cluster
	tally   tally         // agents or stock
	agents  *oracle.Tally // nil with Stock
	stock   *oracle.Stock // nil without
	killed  int           // by victim
	clock   commandClock
	taps    []*tap.Tap
	resting atomic.Bool // hosts do not ping
}

// Run runs an experiment. The error is about the experiment itself; what was lost is in the Result.
func Run(ctx context.Context, cfg Config) (r Result, err error) {
	cfg = cfg.withDefaults()
	dir, err := os.MkdirTemp("", "holdfast-failover-")
	if err != nil {
		return r, fmt.Errorf("folder for the experiment: %w", err)
	}
	defer func() {
		if r.Exact() {
			err = errors.Join(err, os.RemoveAll(dir))
		} else {
			r.Evidence = dir
		}
	}()
	t := &experiment{Config: cfg}
	defer func() { err = errors.Join(err, t.close()) }()
	if err := t.start(ctx, dir); err != nil {
		return r, err
	}
	return t.run(ctx)
}

func (t *experiment) start(ctx context.Context, dir string) (err error) {
	agents := t.Switches
	var observe func(openflow.DatapathID, []byte)
	if t.Stock {
		agents = 0
		t.Say(fmt.Sprintf("starting 3 controllers and %d switches, each connected to all three", t.Switches))
		t.stock = oracle.NewStock(!t.OVS)
		t.tally, observe = t.stock, t.stock.Executes
	} else {
		t.Say(fmt.Sprintf("starting 3 controllers, %d agents and %d switches", agents, t.Switches))
		t.agents = oracle.NewTally()
		t.tally = t.agents
	}
	if t.OVS {
		t.net, err = newOVSNetwork(dir, t.Switches)
	} else {
		t.net = newEmbeddedNetwork(t.Switches, observe)
	}
	if err != nil {
		return err
	}
	apps := []string{t.App}
	if t.Rows > 0 {
		apps = append(apps, store.Name)
	}
	snapshots := 0
	if t.Soak {
		snapshots = soakSnapshots
	}
	t.cluster, err = cluster.Start(ctx, cluster.Config{Binary: t.Binary, Dir: dir, Controllers: 3, Agents: agents,
		SnapshotEvery: snapshots, Election: t.Election, Sections: t.sections(),
		Apps: apps, Durability: t.Durability, Audit: !t.blind, TLS: t.TLS})
	if err != nil {
		return err
	}
	if err := t.connect(ctx); err != nil {
		return err
	}
	_, err = t.cluster.Wait(ctx, "all switches to be up", func(s cluster.Status) bool {
		up := 0
		for _, sw := range s.Switches {
			if sw.State == "up" && sw.Role == "master" && sw.CommandsSent > 0 && sw.CommandsDone == sw.CommandsSent {
				up++
			}
		}
		return up == t.Switches
	})
	if err != nil {
		return err
	}
	if err := t.cluster.WaitReady(ctx, t.Switches); err != nil {
		return err
	}
	return t.fill(ctx)
}

func (t *experiment) close() error {
	var errs []error
	if t.net != nil {
		errs = append(errs, t.net.Close())
	}
	for _, tp := range t.taps {
		errs = append(errs, tp.Close())
	}
	if t.cluster != nil {
		errs = append(errs, t.cluster.Close())
	}
	return errors.Join(errs...)
}

func (t *experiment) run(ctx context.Context) (Result, error) {
	var r Result
	if t.App == exchange.Name {
		if err := t.introduce(ctx); err != nil {
			return r, err
		}
	}
	stopPings, stopMoves := t.startPings(ctx), t.startMoves(ctx)
	stop := func() { stopMoves(); stopPings() }
	defer stop()
	kill := t.kill
	if t.Soak {
		kill = t.killAny
	}
	for n := range t.Kills {
		if err := t.home(ctx); err != nil {
			return r, err
		}
		if err := t.traffic(ctx, n); err != nil {
			return r, err
		}
		k, err := kill(ctx)
		if err != nil {
			return r, fmt.Errorf("kill %d of %d: %w", n+1, t.Kills, err)
		}
		r.Kills = append(r.Kills, k)
	}
	if err := t.traffic(ctx, t.Kills); err != nil {
		return r, err
	}
	stop()
	t.Progress(1, "waiting for the last answers")
	var err error
	if err = t.compare(ctx, &r); err != nil {
		return r, err
	}
	for _, h := range t.net.hosts() {
		sent, answered, repeated, err := h.counts()
		if err != nil {
			return r, err
		}
		r.PingsSent += sent
		r.PingsAnswered += answered
		r.PingsRepeated += repeated
	}
	if n := r.Epochs - t.Switches; n > 0 {
		t.Say(fmt.Sprintf("switches lost their connection %d times: their %d open commands are void", n,
			r.CommandsVoid))
	}
	return r, nil
}

// introduce makes every host send a packet to itself, and waits until all came back: then the application exchange
// knows where each is.
func (t *experiment) introduce(ctx context.Context) error {
	for _, h := range t.net.hosts() {
		h.probe(0)
	}
	const poll = 10 * time.Millisecond
	for end := time.Now().Add(patience); ; time.Sleep(poll) {
		unknown := 0
		for _, h := range t.net.hosts() {
			sent, answered, _, err := h.counts()
			if err != nil {
				return err
			}
			unknown += sent - answered
		}
		switch {
		case unknown == 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(end):
			return fmt.Errorf("of the packets that hosts send to themselves, %d did not come back in %v\n%s", unknown,
				patience, t.cluster.Logs())
		}
	}
}

// startPings makes every host ping the next one. The hosts take turns within the interval, so that no switch is silent
// for as long as the interval without a failover. The function it returns ends that.
func (t *experiment) startPings(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	hosts := t.net.hosts()
	for i, h := range hosts {
		turn := t.PingInterval * time.Duration(i) / time.Duration(len(hosts))
		wg.Go(func() { h.pingUntil(ctx, hosts[(i+1)%len(hosts)], turn, t.PingInterval, &t.resting) })
	}
	return func() { cancel(); wg.Wait() }
}

// moveEvery is how long passes between two moves.
const moveEvery = 50 * time.Millisecond

// startMoves moves the actor of the application and the switches from group to group, in turn. The function that it
// returns ends that.
func (t *experiment) startMoves(ctx context.Context) (stop func()) {
	if !t.Migrate {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			args := []string{"move", strconv.Itoa(rand.N(len(t.cluster.Controllers())) + 1)}
			if n%2 == 0 {
				args = slices.Insert(args, 1, t.App)
			} else {
				args = append(args, "--switch", openflow.DatapathID(rand.N(t.Switches)+1).String())
			}
			// one that fails because a controller died is one move less; the oracle counts those that were made
			_, _ = t.cluster.Command(ctx, args...)
			select {
			case <-ctx.Done():
			case <-time.After(moveEvery):
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// traffic lets the hosts ping for a while.
func (t *experiment) traffic(ctx context.Context, kills int) error {
	const step = 100 * time.Millisecond
	between := t.Between
	if t.Soak {
		between = rand.N(between)
	}
	for passed := time.Duration(0); passed < between; passed += step {
		sent, _ := t.tally.Counts()
		share := (float64(kills) + float64(passed)/float64(between)) / float64(t.Kills+1)
		t.Progress(share, fmt.Sprintf("%d events, %d kills", sent, kills))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(step, between-passed)):
		}
	}
	return nil
}

// sections is more of the cluster file.
func (t *experiment) sections() string {
	if t.PerController {
		return "groups: per-controller\n"
	}
	return ""
}
