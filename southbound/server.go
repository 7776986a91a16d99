package southbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/heartbeat"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/internal/processors"
	"github.com/holdfast-sdn/holdfast/internal/quota"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// server owns the sessions of one listener.
type server struct {
	cfg       Config
	handler   Handler
	incidents *incident.Log
	places    *quota.Places[*conn]
	pool      pool

	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below; never held together with a session's
	all      map[*conn]struct{}
	attached map[openflow.DatapathID]*conn
	added    int // how many connections there were
}

// Serve accepts switches and agents on ln until ctx ends, and closes ln. It returns when every session is detached: nil
// after ctx has ended, else the error of the listener.
//
// A datapath id has one session at a time. If another connection has the same id, the older one is sent an echo
// request. If it does not answer within Config.ProbeTimeout, it is closed and the newer one replaces it, so an agent
// can reconnect while its former connection is half open. Otherwise the newer one is refused. An older session that is
// not being read because its handler is busy counts as alive.
func Serve(ctx context.Context, ln net.Listener, cfg Config, h Handler) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		ln.Close()
		return err
	}
	srv := &server{cfg: cfg, handler: h, incidents: incident.New(cfg.Logger),
		places: quota.New[*conn](cfg.MaxSessions), pool: pool{bound: int64(cfg.HeldBytes)},
		all: map[*conn]struct{}{}, attached: map[openflow.DatapathID]*conn{}}
	ctx, cancel := context.WithCancel(ctx)
	defer srv.running.Wait()
	defer srv.closeAll()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	srv.running.Go(func() { srv.tick(ctx) })
	return srv.accept(ctx, ln)
}

func (srv *server) accept(ctx context.Context, ln net.Listener) error {
	for {
		nc, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if nc != nil {
				nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("southbound: listener for switches: %w", err)
		case err != nil: // such as too many open files; the sessions continue
			srv.incidents.Warn("accept", "cannot accept switches; trying again", "error", err)
			_ = pause.For(ctx, 100*time.Millisecond) // the loop ends with ctx
			continue
		}
		c := srv.newConn(nc)
		if c.place = srv.place(c); c.place == nil {
			nc.Close()
			continue
		}
		c.out = ofconn.NewWriter(c.line, srv.cfg.SendQueue, srv.cfg.WriteTimeout, c.written)
		srv.add(c)
		srv.running.Go(func() {
			c.run(ctx)
			srv.remove(c)
			srv.places.Leave(c.place)
		})
	}
}

// place takes a place for a connection; nil if there is none. If all are taken, the host that has most loses one.
func (srv *server) place(c *conn) *quota.Place[*conn] {
	mine, lost := srv.places.Take(c.host(), c)
	if lost != nil {
		lost.For.Close(errShed)
	}
	if mine == nil {
		srv.incidents.Warn("sessions "+c.host(), "connection refused: too many sessions, and no host has more than "+
			"this one", "remote", c.remote, "sessions", srv.cfg.MaxSessions)
	}
	return mine
}

func (srv *server) newConn(nc net.Conn) *conn {
	peer := nc
	nc = rawconn.Of(nc)
	heard := ofconn.NewWatched(nc, srv.cfg.SilentAfter)
	c := &conn{srv: srv, net: nc, line: nc, peer: peer, remote: nc.RemoteAddr().String(), heard: heard,
		wrote: new(atomic.Uint64), in: ofconn.NewReader(heard), gone: make(chan struct{})}
	c.open()
	return c
}

func (srv *server) add(c *conn) {
	srv.pool.sessions.Add(1)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.all[c] = struct{}{}
	srv.added++
	c.turn = srv.added % echoTurns
}

func (srv *server) remove(c *conn) {
	c.session.leavePool()
	srv.pool.sessions.Add(-1)
	srv.mu.Lock()
	defer srv.mu.Unlock()
	delete(srv.all, c)
}

func (srv *server) conns() []*conn {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	list := make([]*conn, 0, len(srv.all))
	for c := range srv.all {
		list = append(list, c)
	}
	return list
}

// closeAll ends the remaining connections when the server stops.
func (srv *server) closeAll() {
	for _, c := range srv.conns() {
		c.net.Close()
	}
}

// echoTurns is the number of turns in which the echo requests of all sessions come, so that a thousand do not come at
// once.
const echoTurns = 20

// tick sends sync markers, heartbeats and echo requests.
func (srv *server) tick(ctx context.Context) {
	echo, tick := time.NewTicker(srv.cfg.EchoInterval/echoTurns), time.NewTicker(TickInterval)
	beat := time.NewTicker(srv.cfg.Heartbeat / heartbeat.Ticks)
	defer echo.Stop()
	defer tick.Stop()
	defer beat.Stop()
	var crowd processors.Lookout
	for turn := 0; ; {
		do := (*conn).tick
		select {
		case <-ctx.Done():
			return
		case <-echo.C:
			turn = (turn + 1) % echoTurns
			do = func(c *conn) {
				if c.turn == turn {
					c.ask()
				}
			}
		case <-beat.C:
			crowd.Look()
			do = func(c *conn) { c.beat(crowd.Crowd) }
		case <-tick.C:
		}
		for _, c := range srv.conns() {
			do(c)
		}
	}
}

// register gives the session its datapath id, by the rule in the comment of Serve. If it returns an error, an agent has
// been told.
func (srv *server) register(ctx context.Context, c *conn) error {
	id := c.session.Switch()
	limit := time.NewTimer(srv.cfg.HandshakeTimeout)
	defer limit.Stop()
	for {
		srv.mu.Lock()
		old := srv.attached[id]
		if old == nil {
			srv.attached[id] = c
			srv.mu.Unlock()
			return nil
		}
		srv.mu.Unlock()
		if old.alive(ctx) {
			if c.session.State().Peer == Agent {
				c.session.Refuse(experimenter.ReasonDuplicateDatapath, old.session.State().Epoch)
				c.linger(ctx)
			}
			return fmt.Errorf("its datapath id is in use by %s: give each switch its own", old.remote)
		}
		old.Close(fmt.Errorf("it did not answer when %s connected with its datapath id", c.remote))
		select {
		case <-old.gone:
		case <-limit.C:
			return fmt.Errorf("the previous connection of switch %s, from %s, does not end", id, old.remote)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (srv *server) unregister(c *conn) {
	id := c.session.Switch()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	delete(srv.attached, id)
}
