package southbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// server owns the sessions of one listener.
type server struct {
	cfg       Config
	handler   Handler
	incidents *incident.Log

	running sync.WaitGroup

	mu       sync.Mutex // guards the fields below; never held together with a session's
	all      map[*Session]struct{}
	attached map[openflow.DatapathID]*Session
}

// Serve accepts switches and agents on ln until ctx ends, and closes ln. It returns when
// every session is detached: nil after ctx has ended, else the error of the listener.
//
// A datapath id has one session at a time. When another connection names the same, the older
// is sent an echo request, and if nothing comes from it within Config.ProbeTimeout, it is
// closed and the newer takes its place: so an agent can come back while its former connection
// is half dead. Else the newer is refused. An older session that is not being read because
// its handler is busy counts as alive.
func Serve(ctx context.Context, ln net.Listener, cfg Config, h Handler) error {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		ln.Close()
		return err
	}
	srv := &server{cfg: cfg, handler: h, incidents: incident.New(cfg.Logger),
		all: map[*Session]struct{}{}, attached: map[openflow.DatapathID]*Session{}}
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
		conn, err := ln.Accept()
		switch {
		case ctx.Err() != nil:
			if conn != nil {
				conn.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("southbound: listener for switches: %w", err)
		case err != nil: // such as too many open files: the sessions go on
			srv.incidents.Warn("accept", "cannot accept switches; trying again", "error", err)
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		s := srv.newSession(conn)
		if s == nil {
			srv.incidents.Warn("sessions", "connection refused: too many sessions", "remote", conn.RemoteAddr(),
				"sessions", srv.cfg.MaxSessions)
			conn.Close()
			continue
		}
		srv.running.Go(func() {
			s.run(ctx)
			srv.mu.Lock()
			delete(srv.all, s)
			srv.mu.Unlock()
		})
	}
}

// newSession returns nil when there are too many.
func (srv *server) newSession(conn net.Conn) *Session {
	heard := ofconn.NewWatched(conn, srv.cfg.SilentAfter)
	s := &Session{srv: srv, conn: conn, heard: heard, in: ofconn.NewReader(heard), remote: conn.RemoteAddr().String(),
		taken: make(chan struct{}, 1), gone: make(chan struct{})}
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if len(srv.all) >= srv.cfg.MaxSessions {
		return nil
	}
	s.out = ofconn.NewWriter(conn, srv.cfg.SendQueue, srv.cfg.WriteTimeout, s.commandsWritten)
	srv.all[s] = struct{}{}
	return s
}

func (srv *server) sessions() []*Session {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	list := make([]*Session, 0, len(srv.all))
	for s := range srv.all {
		list = append(list, s)
	}
	return list
}

// closeAll ends what is still there when the server stops.
func (srv *server) closeAll() {
	for _, s := range srv.sessions() {
		s.conn.Close()
	}
}

// tick sends echo requests, so that a live peer has something to answer, and knows that
// this controller lives even while it does not read; and marks.
func (srv *server) tick(ctx context.Context) {
	echo, mark := time.NewTicker(srv.cfg.EchoInterval), time.NewTicker(markInterval)
	defer echo.Stop()
	defer mark.Stop()
	for {
		do := (*Session).echo
		select {
		case <-ctx.Done():
			return
		case <-echo.C:
		case <-mark.C:
			do = (*Session).mark
		}
		for _, s := range srv.sessions() {
			do(s)
		}
	}
}

// markInterval is that of Core.Tick.
const markInterval = 100 * time.Millisecond

func (s *Session) mark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.core.Tick(s.now()); err != nil {
		s.fail(err)
		return
	}
	s.flush()
}

func (s *Session) echo() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.core.Echo()
	s.flush()
}

// register gives the session its datapath id, by the rule that Serve tells. When it returns
// an error the peer was told, if it is an agent.
func (srv *server) register(ctx context.Context, s *Session) error {
	limit := time.NewTimer(srv.cfg.HandshakeTimeout)
	defer limit.Stop()
	for {
		srv.mu.Lock()
		old := srv.attached[s.core.Switch()]
		if old == nil {
			srv.attached[s.core.Switch()] = s
			srv.mu.Unlock()
			return nil
		}
		srv.mu.Unlock()
		if old.alive(ctx) {
			s.refuseAndWait(ctx, experimenter.Refuse{Reason: experimenter.ReasonDuplicateDatapath, Epoch: old.Epoch()})
			return fmt.Errorf("its datapath id is in use by %s: give each switch its own", old.remote)
		}
		old.Close(fmt.Errorf("it did not answer while %s came with its datapath id", s.remote))
		select {
		case <-old.gone:
		case <-limit.C:
			return fmt.Errorf("the former connection of switch %s, from %s, does not end", s.core.Switch(), old.remote)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (srv *server) unregister(s *Session) {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	delete(srv.attached, s.core.Switch())
}

// alive asks the peer for a sign of life.
func (s *Session) alive(ctx context.Context) bool {
	before := s.heard.Heard()
	s.echo()
	limit := time.NewTimer(s.srv.cfg.ProbeTimeout)
	defer limit.Stop()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for p := (Probe{}); ; {
		p.Heard, p.Busy = s.heard.Heard() != before, s.busy.Load()
		if alive, known := p.Alive(); known {
			return alive
		}
		select {
		case <-s.gone:
			p.Gone = true
		case <-limit.C:
			p.Late = true
		case <-look.C:
		case <-ctx.Done():
			return true
		}
	}
}

// refuseAndWait refuses a session that was not attached.
func (s *Session) refuseAndWait(ctx context.Context, r experimenter.Refuse) {
	if s.core.Mode() != Agent {
		return
	}
	s.mu.Lock()
	s.core.Refuse(r, 0)
	s.flush()
	s.mu.Unlock()
	s.linger(ctx)
}

// linger lets an agent that was refused before it was attached read why.
func (s *Session) linger(ctx context.Context) {
	end := time.AfterFunc(lingerAfterRefuse, func() { s.conn.Close() })
	defer end.Stop()
	for ctx.Err() == nil {
		if _, err := s.in.Next(); err != nil {
			return
		}
	}
}
