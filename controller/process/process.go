// Package process runs a controller as a process of a cluster: it makes one from the cluster file, with its listeners,
// certificates and applications, and runs it until it is told to end. While the disk is full it waits for room.
//
// It does not know which applications there are, and reads no flags: the command line does both.
package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/admission"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/controller/optimizer"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/auditlog"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Config says which controller of which cluster to run.
type Config struct {
	Cluster *config.Cluster
	Name    string // of the controller
	// Applications makes the applications of the cluster, but for those of Ryu. It is called each
	// time the controller starts.
	Applications func() ([]ledger.Application, error)
	// Duty makes what only the leader does; nil for none. Without TLS its argument is nil.
	Duty          func(*access.Controller) *controller.Duty
	Network       *controller.Network // what the API says of the network; nil for nothing
	Store         *controller.Store   // what the API says of the store; nil for nothing
	Audit         string              // file to which every event and command is appended; "" for none
	SnapshotEvery int                 // entries, 0 for the default
	Join          bool                // with an empty folder: it waits to be added to the running cluster
	Reload        <-chan os.Signal    // asks for Controller.Reload; nil for none
	Logger        *slog.Logger
}

// Run runs the controller until ctx ends or it fails. While its disk is full it takes part in nothing, and starts again
// when there is room.
func Run(ctx context.Context, cfg Config) error {
	me, err := cfg.Cluster.Named(cfg.Name)
	if err != nil {
		return err
	}
	cfg.Logger = cfg.Logger.With("controller", cfg.Name)
	if cfg.Cluster.FirstUse {
		cfg.Applications = withAdmission(cfg.Applications)
	}
	for {
		err := run(ctx, cfg, me)
		if errors.Is(err, consensus.ErrStranger) && ctx.Err() == nil {
			return standStill(ctx, cfg, me, err)
		}
		full, ok := errors.AsType[*disk.FullError](err)
		if !ok || ctx.Err() != nil {
			return err
		}
		if err := awaitRoom(ctx, cfg, me, full); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// withAdmission adds the application that remembers who speaks for switches.
func withAdmission(others func() ([]ledger.Application, error)) func() ([]ledger.Application, error) {
	return func() ([]ledger.Application, error) {
		list, err := others()
		return append(list, new(admission.Application)), err
	}
}

// Found begins the folder of one of the first controllers of a new cluster. It does not overwrite one.
func Found(cluster *config.Cluster, name string, log *slog.Logger) error {
	me, err := cluster.Named(name)
	if err != nil {
		return err
	}
	var here []consensus.GroupConfig
	for i, g := range cluster.Groups() {
		if g.Has(name) {
			here = append(here, replicas(cluster, uint64(i), g))
		}
	}
	return consensus.Found(host(cluster, me, log), here...)
}

// Regroup makes the only group of a controller that does not run group 1 of several, which the cluster file says that
// there are now. It does so for each controller of the cluster, one after the other or at once. The error is
// consensus.ErrSeveral if that was done before.
func Regroup(cluster *config.Cluster, name string, log *slog.Logger) error {
	me, err := cluster.Named(name)
	if err != nil {
		return err
	}
	if !cluster.PerController {
		return errors.New("the cluster file has groups: 1; write groups: per-controller into it, on all machines")
	}
	system := replicas(cluster, 0, cluster.Groups()[0])
	if system.State, err = directory.Regrouped(slices.Collect(maps.Keys(system.Members)),
		uint64(cluster.Replication)); err != nil {
		return err
	}
	return consensus.Regroup(host(cluster, me, log), system)
}

// run is the controller from its start to its end.
func run(ctx context.Context, cfg Config, me config.Controller) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := openChanges(cfg.Cluster, me.Name, cfg.Logger)
	defer func() { err = errors.Join(err, changes.Close()) }() // after the controller, which asks for no more
	var tracer *trace.Tracer
	if t := cfg.Cluster.Tracing; t != nil {
		if tracer, err = trace.New(trace.Config{Endpoint: t.Endpoint, OneIn: t.OneIn, Role: "controller", Name: me.Name,
			Version: controller.Release(), Logger: cfg.Logger}); err != nil {
			return err
		}
	}
	defer tracer.Close() // after the controller
	own, err := assemble(ctx, cfg, me, changes)
	if err != nil {
		return errors.Join(err, closeUnused(own))
	}
	own.Tracer = tracer
	c, err := controller.Start(own)
	switch {
	case errors.Is(err, consensus.ErrGrouping):
		err = fmt.Errorf("%w: correct `groups` in the cluster file; holdfast regroup changes it from 1 to "+
			"per-controller", err)
	case errors.Is(err, consensus.ErrNoLog):
		err = fmt.Errorf("%w: use holdfast init if the cluster is new; else holdfast member replace, and serve --join",
			err)
	}
	if err != nil {
		return errors.Join(err, closeUnused(own))
	}
	s := cfg.Cluster
	cfg.Logger.Info("serving", "openflow", me.OpenFlow, "api", me.API, "peer", me.Peer, "apps", s.Apps, "durability",
		s.Durability, "tls", s.TLS != nil)
	warnOfNoKey(s, cfg.Logger)
	for {
		select {
		case <-cfg.Reload:
			if len(s.Ryu.Files) == 0 {
				cfg.Logger.Info("SIGHUP has no effect: the cluster file lists no ryu: files; restart to apply " +
					"changes of the cluster file")
			}
			c.Reload()
		case <-ctx.Done():
			cfg.Logger.Info("stopping")
			return c.Close()
		case <-c.Done():
			return c.Err()
		}
	}
}

// assemble makes the configuration of the controller, and opens what it listens on and writes to. It returns what it
// opened even if it fails.
func assemble(ctx context.Context, cfg Config, me config.Controller, changes *auditlog.Log) (controller.Config, error) {
	s := cfg.Cluster
	own := controller.Config{
		Name:           me.Name,
		Consensus:      host(s, me, cfg.Logger),
		Southbound:     southbound.Config{Logger: cfg.Logger, Heartbeat: s.AgentHeartbeat},
		SwitchTimeout:  s.SwitchTimeout,
		SwitchExpiry:   s.SwitchExpiry,
		HandlerTimeout: s.HandlerTimeout,
		SnapshotEvery:  cfg.SnapshotEvery,
		Logger:         cfg.Logger,
	}
	if p := s.Placement; p.Optimize {
		own.Optimizer = &controller.OptimizerConfig{Window: p.Window, Config: optimizer.Config{
			Threshold: float64(p.Threshold), Windows: int(p.Windows), Cooldown: p.Cooldown, Load: float64(p.Load)}}
	}
	own.Names, own.Consensus.Founded = own.Consensus.Names, !cfg.Join
	for _, c := range s.Controllers {
		own.Peers = append(own.Peers, controller.Peer{Name: c.Name, ID: c.ID, API: c.API, OpenFlow: c.OpenFlow})
	}
	var err error
	if own.Groups, err = groups(cfg); err != nil {
		return own, err
	}
	if len(own.Groups) > 1 {
		own.Replication = uint64(s.Replication)
	}
	own.Open = func(uint64, uint64) (c controller.GroupConfig, err error) {
		c.Applications, err = cfg.Applications()
		return c, err
	}
	if own.Consensus.Listener, err = listen("the other controllers", me.Peer); err != nil {
		return own, err
	}
	if own.OpenFlow, err = listen("switches and agents", me.OpenFlow); err != nil {
		return own, err
	}
	if own.API, err = listen("the API", me.API); err != nil {
		return own, err
	}
	if err := errors.Join(addRyu(ctx, &own, s), addREST(&own, cfg, me)); err != nil {
		return own, err
	}
	secure, err := access.OfController(ctx, s, me.Name, cfg.Logger)
	if err != nil {
		return own, err
	}
	own.Southbound.Admit = secure.AdmitSwitch
	if s.FirstUse {
		own.FirstUse = secure.Holder
	}
	own.OpenFlow, own.API = secure.Switches(own.OpenFlow), secure.API(own.API, cfg.Logger)
	if own.REST != nil {
		own.REST = secure.REST(own.REST, cfg.Logger)
	}
	own.Consensus.Listener = secure.Members(own.Consensus.Listener)
	var key *clusterkey.Key
	if secure == nil {
		if key, err = addKey(&own, s); err != nil {
			return own, err
		}
	} else {
		own.Consensus.Dial, own.Consensus.Admit = secure.DialMember, secure.Admit
		own.DialAPI = secure.DialController
	}
	if own.Guard, err = access.NewGuard(ctx, s, key, changes, cfg.Logger); err != nil {
		return own, err
	}
	if cfg.Duty != nil {
		own.Duty = cfg.Duty(secure)
	}
	own.Network, own.Store = cfg.Network, cfg.Store
	if cfg.Audit != "" {
		file, err := audit.Open(cfg.Audit)
		if err != nil {
			return own, fmt.Errorf("%w; name a file that can be written with --audit", err)
		}
		own.Audit = file
	}
	return own, nil
}

// addKey authenticates the connections to the other controllers by the key of the cluster, which was made by init. A
// cluster that is older than keys has none.
func addKey(own *controller.Config, s *config.Cluster) (*clusterkey.Key, error) {
	key, err := clusterkey.Load(s.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // see warnOfNoKey
	}
	if err != nil {
		return nil, err
	}
	own.Consensus.Listener = key.Listener(own.Consensus.Listener)
	own.Consensus.Dial = func(ctx context.Context, _ uint64, address string) (net.Conn, error) {
		return key.Dial(ctx, address)
	}
	return key, nil
}

// warnOfNoKey is called once the controller runs: before that, its folder may be missing, and init makes both.
func warnOfNoKey(s *config.Cluster, log *slog.Logger) {
	if _, err := clusterkey.Load(s.Data); s.TLS == nil && errors.Is(err, fs.ErrNotExist) {
		log.Warn("anybody who reaches the port for the other controllers can pretend to be one: there is no key of "+
			"the cluster, and no tls; make a file with 64 random hexadecimal digits, and copy it to all controllers",
			"file", filepath.Join(s.Data, clusterkey.File))
	}
}

// openChanges opens the log of who asks this controller for changes. It is beside the folder of the controller, which
// is removed when the controller begins anew.
func openChanges(s *config.Cluster, name string, log *slog.Logger) *auditlog.Log {
	_ = os.MkdirAll(s.Data, 0o755) // else opening the file tells
	return auditlog.Open(filepath.Join(s.Data, name+"-audit.log"), log)
}

// groups are those of the cluster, as this controller sees them.
func groups(cfg Config) (list []controller.GroupConfig, err error) {
	s := cfg.Cluster
	all := s.Groups()
	for i, g := range all {
		c := controller.GroupConfig{Consensus: replicas(s, uint64(i), g)}
		c.Consensus.Join = cfg.Join
		switch { // the applications are where the switches are
		case len(all) == 1:
			if c.Applications, err = cfg.Applications(); err != nil {
				return nil, err
			}
		case i == 0:
			c.Applications = []ledger.Application{new(directory.Application)}
		}
		list = append(list, c)
	}
	return list, nil
}

// closeUnused closes what a controller that did not start would have closed.
func closeUnused(cfg controller.Config) error {
	for _, l := range []net.Listener{cfg.Consensus.Listener, cfg.OpenFlow, cfg.API, cfg.REST} {
		if l != nil {
			l.Close()
		}
	}
	if cfg.Audit == nil {
		return nil
	}
	return cfg.Audit.Close()
}

// host is what a controller needs to know for the consensus, without its listener.
func host(s *config.Cluster, me config.Controller, log *slog.Logger) consensus.HostConfig {
	names := map[uint64]string{}
	for _, c := range s.Controllers {
		names[c.ID] = c.Name
	}
	return consensus.HostConfig{
		Names:     names,
		Cluster:   s.Name,
		Several:   s.PerController,
		ID:        me.ID,
		Dir:       s.DataDir(me),
		Fsync:     s.Durability == config.Disk,
		Heartbeat: s.Heartbeat,
		Election:  s.Election,
		Logger:    log,
	}
}

// replicas are those of a group, at all controllers.
func replicas(s *config.Cluster, number uint64, g config.Group) consensus.GroupConfig {
	c := consensus.GroupConfig{Group: number, Members: map[uint64]string{}}
	for _, m := range s.Controllers {
		if g.Has(m.Name) {
			c.Members[m.ID] = m.Name + "@" + m.Peer
		}
		if slices.Contains(g.Learners, m.Name) {
			c.Learners = append(c.Learners, m.ID)
		}
	}
	return c
}

// addRyu completes the configuration with what the Ryu applications of the cluster need, if it has any.
func addRyu(ctx context.Context, own *controller.Config, s *config.Cluster) error {
	if !slices.Contains(s.Apps, config.RyuApp) {
		return nil
	}
	host := hostConfig(s, own.Logger)
	identity, err := ryu.Probe(ctx, host)
	if err != nil {
		return err
	}
	alone := len(own.Groups) == 1
	if alone {
		own.Groups[0].Identity, own.Groups[0].Host = identity.String(), &host
	}
	open := own.Open
	own.Open = func(group, actors uint64) (controller.GroupConfig, error) {
		c, err := open(group, actors)
		c.Identity = identity.String()
		if alone || group == controller.HomeOf(replay.Name, int(actors)) {
			c.Host = &host
		}
		return c, err
	}
	return nil
}

// addREST opens the REST interface of applications, if the cluster file has an address for it.
func addREST(own *controller.Config, cfg Config, me config.Controller) (err error) {
	if me.REST == "" {
		return nil
	}
	if own.Served, err = cfg.Applications(); err != nil {
		return err
	}
	own.RESTPeers = map[uint64]string{}
	for _, c := range cfg.Cluster.Controllers {
		own.RESTPeers[c.ID] = c.REST
	}
	own.REST, err = listen("the REST interface of applications", me.REST)
	return err
}

func hostConfig(s *config.Cluster, log *slog.Logger) ryu.Config {
	r := s.Ryu
	return ryu.Config{Python: r.Python, User: r.User, Applications: r.Applications, Options: r.Options, Files: r.Files,
		Path: r.Path, Cluster: s.Name, LogLevel: r.LogLevel, MemoryBytes: r.MemoryBytes, Logger: log}
}

func listen(whom, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w: free the address, or give this controller another one in the "+
			"cluster file", whom, err)
	}
	return l, nil
}
