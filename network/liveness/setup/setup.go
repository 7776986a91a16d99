// Package setup has switches watch their links by BFD. It is the part of application liveness that does I/O: it takes
// the links from the tables, connects to the database of each switch at their ends, sets up BFD at both, and follows
// what becomes of it. It runs beside the control path, on the leader only.
//
// What it does is declarative: it compares what a database has with what should be there, and changes what differs. So
// a new leader changes nothing. It takes BFD away only where it knows that it is not to be: from a port that leads
// elsewhere now, or from all if the operator turns it off. A switch that is away, or a link that is down, keeps what it
// has.
//
// It does not decide whether a link is up. Switches do, by their fast-failover groups, and topology does, by its
// probes.
package setup

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/pace"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// Config says how links are monitored.
type Config struct {
	Enabled bool // else BFD of ours is removed
	// Database is where the database of a switch listens, as Open vSwitch writes it. {address} stands for the address
	// from which the switch or its agent connects, {dpid} for the datapath id, 16 hexadecimal digits.
	Database   string
	Floor      time.Duration // the least interval
	Multiplier int           // packets in a row that may be missed before a link is down
	// DialTLS connects to a database named ssl:…, and verifies its identity.
	DialTLS func(ctx context.Context, address string) (net.Conn, error)
	Logger  *slog.Logger
}

// Network is what setup needs to know about the network.
type Network interface {
	// Links returns the view of application liveness: the same pointer as before if nothing has changed.
	Links(ctx context.Context) (*liveness.View, error)
	// Addresses returns the addresses from which the connected switches, or their agents, connect.
	Addresses(ctx context.Context) (map[app.Switch]string, error)
}

const (
	lookEvery    = 250 * time.Millisecond // at the links
	addressEvery = 2 * time.Second        // at the addresses
)

// Setup keeps BFD set up while it runs.
type Setup struct {
	cfg       Config
	incidents *incident.Log

	mu        sync.Mutex // guards the fields below
	view      *liveness.View
	pace      *pace.Pace
	addresses map[app.Switch]string // of switches that are connected, or were since Run began
	databases map[string]*database  // by where they listen
}

// New returns a Setup that does not run.
func New(cfg Config) *Setup {
	return &Setup{cfg: cfg, pace: pace.New(cfg.Multiplier), incidents: incident.New(cfg.Logger)}
}

// Run keeps BFD set up until ctx ends. BFD stays configured then. Run may be called again, but not while it runs.
func (s *Setup) Run(ctx context.Context, of Network) {
	var running sync.WaitGroup
	defer running.Wait()
	s.mu.Lock()
	s.view, s.addresses, s.databases = nil, map[app.Switch]string{}, map[string]*database{}
	s.pace = pace.New(s.cfg.Multiplier)
	s.mu.Unlock()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for asked, last := (time.Time{}), time.Now(); ; {
		view, err := of.Links(ctx)
		addresses := s.addresses // nobody else writes it
		if err == nil && time.Since(asked) >= addressEvery {
			asked = time.Now()
			addresses, err = of.Addresses(ctx)
		}
		switch {
		case err == nil:
			now := time.Now()
			s.take(ctx, &running, view, addresses, s.look(now, now.Sub(last)-lookEvery))
			last = now
		case ctx.Err() == nil:
			s.incidents.Warn("look", "BFD is not followed: the links are not known", "error", err)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// look tells the pace what the databases say of the links, and logs what it changes. It reports whether it has changed
// anything.
func (s *Setup) look(now time.Time, late time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.view == nil || !s.cfg.Enabled {
		return false
	}
	all := make([]pace.Observation, 0, len(s.view.Links))
	for _, l := range s.view.Links {
		all = append(all, s.observe(l))
	}
	changes := s.pace.Look(now, late, all)
	for _, c := range changes {
		if c.Begins {
			continue
		}
		log, what := s.incidents.Info, "BFD sends more often"
		if c.Slower {
			log, what = s.incidents.Warn, "links were taken for dead that are not: BFD sends less often"
		}
		log(what, what, "link", fmt.Sprintf("%s/%d-%s/%d", c.Link.A.Switch, c.Link.A.Port, c.Link.B.Switch,
			c.Link.B.Port), "interval", c.Interval, "why", c.Why)
	}
	return len(changes) > 0
}

// observe returns what is known of both ends of a link. s.mu is held.
func (s *Setup) observe(l liveness.Link) pace.Observation {
	o := pace.Observation{Link: pace.Link{A: l.A, B: l.B}, Least: s.cfg.least(l), Up: true, Carrier: true,
		Reported: true}
	for _, at := range []app.PortOf{l.A, l.B} {
		remote, known := s.cfg.remote(at.Switch, s.addresses)
		d := s.databases[remote]
		if !known || d == nil {
			o.Reported = false
			continue
		}
		p, err := d.look(at)
		o.Reported = o.Reported && err == nil && p.ours && p.status.State != ""
		o.Found = max(o.Found, p.every)
		o.Up, o.Carrier = o.Up && p.status.State == "up", o.Carrier && p.carrier
		o.Flaps += p.status.Flaps
	}
	return o
}

// take gives the databases their desired state, if the links, their pace, or the addresses of their switches have
// changed.
func (s *Setup) take(ctx context.Context, running *sync.WaitGroup, view *liveness.View,
	addresses map[app.Switch]string, paced bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := maps.Clone(s.addresses)
	maps.Copy(known, addresses)
	if view == s.view && !paced && maps.Equal(known, s.addresses) {
		return
	}
	s.view, s.addresses = view, known
	plan := s.cfg.plan(view, known, s.pace)
	for remote, d := range s.databases {
		if _, wanted := plan[remote]; !wanted {
			d.cancel()
			delete(s.databases, remote)
		}
	}
	for remote, ends := range plan {
		d := s.databases[remote]
		if d == nil {
			d = s.open(ctx, running, remote)
			s.databases[remote] = d
		}
		d.want(ends)
	}
}

// open starts to follow a database.
func (s *Setup) open(ctx context.Context, running *sync.WaitGroup, remote string) *database {
	ctx, cancel := context.WithCancel(ctx)
	d := &database{cancel: cancel, incidents: s.incidents, multiplier: s.cfg.Multiplier, peers: s,
		news:  make(chan struct{}, 1),
		ports: map[app.PortOf]port{}}
	log := s.cfg.Logger
	if !s.cfg.Enabled { // then a switch needs no database, and one without has no BFD that has to be removed
		log = slog.New(slog.DiscardHandler)
	}
	d.client, d.err = ovsdb.New(ovsdb.Config{Remote: remote, DialTLS: s.cfg.DialTLS, Logger: log})
	if d.err == nil {
		running.Go(func() { d.run(ctx) })
	}
	return d
}

// at returns the database that contains a port.
func (s *Setup) at(port app.PortOf) (*database, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remote, known := s.cfg.remote(port.Switch, s.addresses)
	d, open := s.databases[remote]
	return d, known && open
}

func (s *Setup) readiness(port app.PortOf) readiness {
	d, ok := s.at(port)
	if !ok {
		return unknown
	}
	p, err := d.look(port)
	if err != nil {
		return unknown
	}
	return p.ready
}

func (s *Setup) wake(port app.PortOf) {
	if d, ok := s.at(port); ok {
		d.nudge()
	}
}
