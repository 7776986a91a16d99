// Package agent is the process beside one switch, or a few, that terminates two streams there (package stream): it
// keeps every event until the controllers have logged it, and passes every command to the switch once (the switch
// runtime of Ravana, SOSR 2015, sections 3 and 6.2). Toward the switch it is an OpenFlow controller, which offers 1.3
// and 1.0, and 1.4 and 1.5 to a switch that has no 1.3. Toward each controller it is the switch, of the same version,
// which also implements openflow/experimenter. The protocol is in docs/design/control-path.md.
//
// The agent does not interpret events or commands. It keeps its state in memory only: when an agent restarts, a new
// epoch of the switch begins. It forgets a switch that has gone when the controllers have all of its events. Switches
// that must fail independently need one agent each.
//
// Core is the protocol, and Session has the rules for the connections, both without I/O. Agent, device and link do the
// I/O.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/internal/processors"
	"github.com/holdfast-sdn/holdfast/internal/quota"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Config has the addresses and the bounds of an agent. Zero fields take the defaults.
type Config struct {
	Listen      net.Listener     // for switches; Run closes it. May be nil when Serve is used
	Controllers []string         // addresses; each is dialled once
	Logger      *slog.Logger     // default: no log
	Now         func() time.Time // epochs are made from it; default time.Now
	// Dial opens a connection to a controller; its context ends after two seconds. Default: TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Admit returns an error if the peer of a connection is not to be this switch. It is called after the handshake.
	// nil: everybody may be any switch.
	Admit func(conn net.Conn, id openflow.DatapathID) error

	BufferEvents     int           // events kept for one switch; default 65,536
	BufferBytes      int           // bytes of events kept for one switch; default 32 MiB
	CommandBytes     int           // bytes of commands not yet written to one switch; default 8 MiB
	MaxSwitches      int           // that are connected, and as many that are not; default 1,024
	EchoInterval     time.Duration // between echo requests; default 1 s
	SilentAfter      time.Duration // a peer that has sent nothing for so long is dead; default 5 s
	Heartbeat        time.Duration // between heartbeats to the master; default heartbeat.DefaultInterval
	HandshakeTimeout time.Duration // of a switch; default 5 s
	WriteTimeout     time.Duration // of one write; default 10 s
	// GoneAfter is how long a switch has to be away before the agent forgets it, once the controllers have acknowledged
	// all of its events. Default 10 s.
	GoneAfter time.Duration
	Tracer    *trace.Tracer // nil: no event is followed
}

// Defaults of Config.
const (
	DefaultEchoInterval     = time.Second
	DefaultSilentAfter      = 5 * time.Second
	DefaultHandshakeTimeout = 5 * time.Second
)

func (c Config) withDefaults() Config {
	number := func(n *int, v int) {
		if *n == 0 {
			*n = v
		}
	}
	duration := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	number(&c.BufferEvents, 1<<16)
	number(&c.BufferBytes, 32<<20)
	number(&c.CommandBytes, 8<<20)
	number(&c.MaxSwitches, 1024)
	duration(&c.EchoInterval, DefaultEchoInterval)
	duration(&c.SilentAfter, DefaultSilentAfter)
	duration(&c.Heartbeat, heartbeat.DefaultInterval)
	duration(&c.HandshakeTimeout, DefaultHandshakeTimeout)
	duration(&c.WriteTimeout, 10*time.Second)
	duration(&c.GoneAfter, 10*time.Second)
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Controllers) == 0:
		return errors.New("agent: no controllers: name at least one address")
	case c.BufferBytes < 2*openflow.MaxMessageLen || c.BufferEvents < 4:
		return fmt.Errorf("agent: an event buffer of %d events and %d bytes is too small: at least 4 events and %d "+
			"bytes, two of the largest messages",
			c.BufferEvents, c.BufferBytes, 2*openflow.MaxMessageLen)
	}
	if err := ofconn.CheckEcho(c.EchoInterval, c.SilentAfter); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// Agent serves switches. Its methods are safe for concurrent use.
type Agent struct {
	cfg       Config
	log       *slog.Logger
	incidents *incident.Log
	// conns are the connections of switches, with those that are in the handshake; served are those behind it.
	conns, served *quota.Places[net.Conn]
	trunks        trunks

	mu      sync.Mutex // guards the fields below; never locked while a device's mu is held
	ctx     context.Context
	running sync.WaitGroup
	devices map[openflow.DatapathID]*device
	made    int // how many devices there were
}

// New makes an agent. It starts nothing; Run does.
func New(cfg Config) (*Agent, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a := &Agent{cfg: cfg, log: cfg.Logger, incidents: incident.New(cfg.Logger),
		conns: quota.New[net.Conn](2 * cfg.MaxSwitches), served: quota.New[net.Conn](cfg.MaxSwitches),
		devices: map[openflow.DatapathID]*device{}}
	a.trunks = trunks{a: a, of: map[string]*dialled{}}
	return a, nil
}

// Run is New and Agent.Run.
func Run(ctx context.Context, cfg Config) error {
	a, err := New(cfg)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// Run serves until ctx ends, and must be called once. When ctx ends, Run closes all connections and returns nil. It
// returns an error if the listener fails.
func (a *Agent) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	a.mu.Lock()
	a.ctx = ctx
	a.mu.Unlock()
	defer a.running.Wait()
	a.running.Go(func() { a.tick(ctx) })
	defer func() {
		a.mu.Lock() // no device or connection is added from here on
		cancel()
		a.mu.Unlock()
	}()
	if a.cfg.Listen == nil {
		<-ctx.Done()
		return nil
	}
	stop := context.AfterFunc(ctx, func() { a.cfg.Listen.Close() })
	defer stop()
	defer a.cfg.Listen.Close()
	return a.accept(ctx)
}

// turns is the number of turns in which the ticks of all devices come, so that a thousand do not come at once.
const turns = 20

// tick drives the clocks of all devices. One goroutine does, since a timer for each of a thousand switches costs a
// quarter of a processor. It never waits for a connection.
func (a *Agent) tick(ctx context.Context) {
	beat, tick := time.NewTicker(a.cfg.Heartbeat/heartbeat.Ticks), time.NewTicker(a.cfg.EchoInterval/turns)
	defer beat.Stop()
	defer tick.Stop()
	var crowd processors.Lookout
	var list []*device
	for turn := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			crowd.Look()
			list = a.list(list[:0])
			for _, d := range list {
				d.beat(crowd.Crowd)
			}
		case <-tick.C:
			list = a.list(list[:0])
			for _, d := range list {
				if d.turn == turn {
					d.tick()
					a.dismiss(d)
				}
			}
			turn = (turn + 1) % turns
		}
		clear(list) // a device that has ended is let go
	}
}

// list appends all devices.
func (a *Agent) list(to []*device) []*device {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range a.devices {
		to = append(to, d)
	}
	return to
}

func (a *Agent) accept(ctx context.Context) error {
	for {
		conn, err := a.cfg.Listen.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("agent: listener for switches: %w", err)
		case err != nil: // such as too many open files: the other connections go on
			a.incidents.Warn("accept", "cannot accept switches; trying again", "error", err)
			_ = pause.For(ctx, 100*time.Millisecond) // the loop ends with ctx
			continue
		}
		place := a.place(a.conns, conn)
		if place == nil {
			conn.Close()
			continue
		}
		a.running.Go(func() {
			defer a.conns.Leave(place)
			a.serve(ctx, conn)
		})
	}
}

// place takes a place for a connection; nil if there is none. If all are taken, the host that has most loses one.
func (a *Agent) place(of *quota.Places[net.Conn], conn net.Conn) *quota.Place[net.Conn] {
	mine, lost := of.Take(host(conn), conn)
	if lost != nil {
		a.incidents.Warn("shed "+host(lost.For), "connection closed: there are too many, and this host has most",
			"remote", address.Peer(lost.For), "at most", a.cfg.MaxSwitches)
		lost.For.Close()
	}
	if mine == nil {
		a.incidents.Warn("crowd "+host(conn), "connection refused: there are too many, and no host has more than this "+
			"one: run another agent", "remote", address.Peer(conn), "at most", a.cfg.MaxSwitches)
	}
	return mine
}

// Serve serves one connection of a switch until it ends, and closes it. It must be called while Run runs.
func (a *Agent) Serve(conn net.Conn) error {
	a.mu.Lock()
	ctx := a.ctx
	if ctx == nil || ctx.Err() != nil {
		a.mu.Unlock()
		conn.Close()
		return errors.New("agent: Serve without Run")
	}
	a.running.Add(1)
	a.mu.Unlock()
	defer a.running.Done()
	a.serve(ctx, conn)
	return nil
}

func (a *Agent) serve(ctx context.Context, conn net.Conn) {
	peer := conn
	conn = rawconn.Of(conn)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	in := ofconn.NewReader(ofconn.NewWatched(conn, a.cfg.SilentAfter))
	hs, rest, err := a.handshake(conn, in)
	if err != nil {
		if ctx.Err() == nil {
			a.incidents.Warn(host(conn), "switch refused: no OpenFlow handshake", "remote", address.Peer(conn), "error",
				err)
		}
		return
	}
	place := a.place(a.served, conn)
	if place == nil {
		return
	}
	defer a.served.Leave(place)
	if a.cfg.Admit != nil {
		err = a.cfg.Admit(peer, hs.Datapath)
	}
	var d *device
	if err == nil {
		d, err = a.device(hs.Datapath)
	}
	if err == nil {
		err = d.serve(ctx, conn, in, hs, rest)
		a.left(d)
	}
	if err != nil && ctx.Err() == nil {
		a.incidents.Warn(hs.Datapath.String(), "switch refused", "switch", hs.Datapath, "remote", address.Peer(conn),
			"error", err)
	}
}

// handshake returns the completed handshake, and the bytes that the switch has sent behind it.
func (a *Agent) handshake(conn net.Conn, in *ofconn.Reader) (*handshake.Handshake, []byte, error) {
	late := time.AfterFunc(a.cfg.HandshakeTimeout, func() { conn.Close() })
	fail := func(err error) (*handshake.Handshake, []byte, error) {
		if !late.Stop() || errors.Is(err, ofconn.ErrSilent) {
			err = fmt.Errorf("it did not complete the handshake in %v: is it an OpenFlow switch?",
				a.cfg.HandshakeTimeout)
		}
		return nil, nil, err
	}
	hs := &handshake.Handshake{}
	var mu sync.Mutex // guards hs
	ticks, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ticks)
		a.tickHandshake(conn, hs, &mu, stop)
	}()
	defer func() { close(stop); <-ticks }()
	var out []byte
	for {
		batch, err := in.Next()
		if err != nil {
			return fail(err)
		}
		out = out[:0]
		for len(batch) > 0 && !hs.Done {
			var msg []byte
			if msg, batch, err = openflow.Next(batch); err == nil {
				mu.Lock()
				out, err = hs.Input(out, msg)
				mu.Unlock()
			}
			if err != nil {
				conn.Write(out) // tells the switch why; its error does not matter beside err
				return fail(err)
			}
		}
		if _, err := conn.Write(out); err != nil {
			return fail(err)
		}
		if hs.Done {
			if !late.Stop() {
				return fail(nil)
			}
			return hs, append(hs.Early, batch...), nil
		}
	}
}

// tickHandshake sends HELLO to a switch that waits for it.
func (a *Agent) tickHandshake(conn net.Conn, hs *handshake.Handshake, mu *sync.Mutex, stop <-chan struct{}) {
	t := time.NewTicker(a.cfg.EchoInterval)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		mu.Lock()
		conn.Write(hs.Tick(nil)) // comes before any answer; the reader sees the same error
		mu.Unlock()
	}
}

// device returns the state of a switch for a connection of it: that of its earlier connections, or a new one. After
// that connection left is called.
func (a *Agent) device(id openflow.DatapathID) (*device, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil {
		return nil, a.ctx.Err()
	}
	d := a.devices[id]
	if d == nil {
		if len(a.devices) >= 2*a.cfg.MaxSwitches {
			a.forget()
		}
		d = newDevice(a, id)
		ctx, cancel := context.WithCancel(a.ctx)
		d.cancel = cancel
		a.devices[id] = d
		a.made++
		d.turn = a.made % turns
		for _, l := range d.links {
			a.running.Go(func() { l.keepConnected(ctx) })
		}
	}
	d.conns++
	return d, nil
}

// left ends the use of a device by a connection.
func (a *Agent) left(d *device) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d.conns--
	d.since = time.Now()
}

// forget ends the device of a switch that is not connected: of those that hold least, the one that has been away for
// longest. There is one, because fewer are connected than there are devices. Whoever claims many datapath ids so loses
// what it has claimed before. It is called with mu locked.
func (a *Agent) forget() {
	var out *device
	var least int
	for _, d := range a.devices {
		if d.conns > 0 {
			continue
		}
		if held := d.status().Held; out == nil || held < least || held == least && d.since.Before(out.since) {
			out, least = d, held
		}
	}
	if out == nil {
		return
	}
	a.incidents.Warn("forgotten", "a switch that is not connected is forgotten, because there are too many", "switch",
		out.id, "events", least, "at most", 2*a.cfg.MaxSwitches)
	a.end(out)
}

// dismiss ends the device of a switch that is gone, and of which the agent has nothing left to tell. Until then its
// connections to the controllers and their heartbeats cost as much as those of a switch that is there.
func (a *Agent) dismiss(d *device) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.devices[d.id] != d || d.conns > 0 || time.Since(d.since) < a.cfg.GoneAfter || d.status().Held > 0 {
		return
	}
	a.incidents.Info("gone", "a switch that has gone is forgotten: the controllers have all of its events", "switch",
		d.id)
	a.end(d)
}

// end ends a device. It is called with mu locked.
func (a *Agent) end(d *device) {
	d.cancel()
	delete(a.devices, d.id)
}

// Status returns a snapshot of every switch, by datapath id.
func (a *Agent) Status() []Status {
	a.mu.Lock()
	devices := slices.Collect(maps.Values(a.devices))
	a.mu.Unlock()
	all := make([]Status, len(devices))
	for i, d := range devices {
		all[i] = d.status()
	}
	slices.SortFunc(all, func(x, y Status) int { return cmp.Compare(x.Switch, y.Switch) })
	return all
}

func host(conn net.Conn) string {
	h, _, err := net.SplitHostPort(address.Peer(conn).String())
	if err != nil {
		return address.Peer(conn).String()
	}
	return h
}
