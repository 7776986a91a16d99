package ovsdb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	dialTimeout = 5 * time.Second
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 5 * time.Second
)

// Config is the configuration of a client.
type Config struct {
	// Remote is where the database server listens, as Open vSwitch writes it: tcp:HOST:PORT, ssl:HOST:PORT or
	// unix:PATH.
	Remote string
	// DialTLS connects for ssl, and verifies the identity of the server.
	DialTLS func(ctx context.Context, address string) (net.Conn, error)
	Logger  *slog.Logger
}

// Client is a connection to the database of one Open vSwitch, which reconnects when it breaks. Its methods are safe for
// concurrent use.
type Client struct {
	cfg     Config
	network string
	address string
	changed chan struct{}
	silence time.Duration // see maxSilence

	mu      sync.Mutex // guards the fields below
	session *session   // nil while there is none, or none that has sent the tables
	view    View
	err     error // why there is no session
}

// New returns a client. It does nothing before Run.
func New(cfg Config) (*Client, error) {
	c := &Client{cfg: cfg, changed: make(chan struct{}, 1), silence: maxSilence, err: errors.New("not connected yet")}
	kind, address, _ := strings.Cut(cfg.Remote, ":")
	c.network, c.address = "tcp", address
	if kind != "ssl" {
		c.cfg.DialTLS = nil
	}
	switch {
	case kind == "unix" && address != "":
		c.network = "unix"
		return c, nil
	case kind == "ssl" && cfg.DialTLS == nil:
		return nil, fmt.Errorf("database %s: no certificates for TLS", cfg.Remote)
	case kind != "tcp" && kind != "ssl":
		return nil, fmt.Errorf("database %q: use tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH", cfg.Remote)
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, fmt.Errorf("database %q: use tcp:HOST:PORT, ssl:HOST:PORT or unix:PATH: %w", cfg.Remote, err)
	}
	return c, nil
}

// Run keeps the connection up until ctx ends.
func (c *Client) Run(ctx context.Context) {
	backoff := minBackoff
	for ctx.Err() == nil {
		told, err := c.once(ctx)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		c.lost(err, told)
		if told {
			backoff = minBackoff
		}
		// jitter, so that controllers do not reconnect at the same time
		pause := time.NewTimer(time.Duration((0.5 + rand.Float64()/2) * float64(backoff)))
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// once connects, and stays connected as long as it can. It reports whether the server has sent the tables.
func (c *Client) once(ctx context.Context) (told bool, err error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return false, err
	}
	s := newSession(conn, c.silence)
	defer s.close()
	defer context.AfterFunc(ctx, s.close)()
	err = s.run(func(t *tables) {
		if !told {
			told = true
			c.cfg.Logger.Info("watching the database of a switch", "remote", c.cfg.Remote, "bridges", len(t.bridges))
		}
		c.publish(s, t.view())
	})
	return told, err
}

func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if c.cfg.DialTLS != nil {
		return c.cfg.DialTLS(ctx, c.address)
	}
	return new(net.Dialer).DialContext(ctx, c.network, c.address)
}

func (c *Client) publish(s *session, v View) {
	c.mu.Lock()
	c.session, c.view, c.err = s, v, nil
	c.mu.Unlock()
	c.signal()
}

// lost records why there is no connection. Of several equal failures in a row only the first is logged.
func (c *Client) lost(err error, told bool) {
	c.mu.Lock()
	again := !told && c.err != nil && c.err.Error() == err.Error()
	c.session, c.view, c.err = nil, nil, err
	c.mu.Unlock()
	if again {
		return
	}
	if !errors.Is(err, context.Canceled) {
		c.cfg.Logger.Warn("no connection to the database of a switch: trying again", "remote", c.cfg.Remote, "error",
			err)
	}
	c.signal()
}

func (c *Client) signal() {
	select {
	case c.changed <- struct{}{}:
	default: // it has been signalled already
	}
}

// Changed signals that View has changed, once for all changes since it was last read. It is for one reader.
func (c *Client) Changed() <-chan struct{} { return c.changed }

// View returns the last known state, or an error while there is no connection, because the state may be outdated.
func (c *Client) View() (View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.view, c.explain()
}

// explain is called with mu held.
func (c *Client) explain() error {
	if c.err == nil {
		return nil
	}
	return fmt.Errorf("no connection to database %s: %w", c.cfg.Remote, c.err)
}

// call sends a request and waits for its result.
func (c *Client) call(ctx context.Context, method string, params []any) (json.RawMessage, error) {
	c.mu.Lock()
	s, err := c.session, c.explain()
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.call(ctx, method, params)
}
