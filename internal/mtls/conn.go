package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Conn is one end of a TLS connection. Its errors contain the remedy. For the server of net/http it is like any other
// connection, since that does not take HTTP/2 from one that has a ConnectionState and is no *tls.Conn.
type Conn struct {
	net.Conn // the same as tls
	tls      *tls.Conn
	raw      net.Conn
	of       *Credentials
	closed   bool        // guarded by the mutex of of
	tell     func(error) // that the handshake has failed; may be nil
	answered bool        // a peer that does not speak TLS was told
}

// newConn makes one with what makes a *tls.Conn of raw and a configuration.
func (c *Credentials) newConn(raw net.Conn, cfg *tls.Config, secure func(net.Conn, *tls.Config) *tls.Conn) *Conn {
	conn := &Conn{raw: raw, of: c}
	verify := cfg.VerifyConnection
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		if err := verify(s); err != nil {
			return err
		}
		return c.enter(conn, s.PeerCertificates)
	}
	conn.tls = secure(raw, cfg)
	conn.Conn = conn.tls
	return conn
}

// NetConn returns the TCP connection.
func (c *Conn) NetConn() net.Conn { return c.raw }

// Read implements net.Conn. Its first call, or that of Write, waits for the handshake.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.answerPlain(err)
		err = explain(err)
		if c.tell != nil && !c.tls.ConnectionState().HandshakeComplete {
			c.tell(err)
		}
	}
	return n, err
}

// answerPlain tells a peer that does not speak TLS, in what it may understand, that this side does: a client of HTTP
// by an answer, all others by a TLS alert, which Plain knows.
func (c *Conn) answerPlain(err error) {
	plain, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || c.answered || plain.Conn == nil { // Conn is nil unless it was the first record
		return
	}
	c.answered = true
	answer := []byte(plainAlert)
	if first := plain.RecordHeader[0]; first >= 'A' && first <= 'Z' { // of a method
		answer = []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
			"this port speaks TLS: use a cluster file with tls\n")
	}
	_ = c.raw.SetWriteDeadline(time.Now().Add(answerTime))
	_, _ = c.raw.Write(answer) // a peer that is gone needs no answer
}

// plainAlert is a record of TLS 1.2 with the fatal alert protocol_version.
const plainAlert = "\x15\x03\x03\x00\x02\x02\x46"

const answerTime = time.Second // for a few bytes

// Plain wraps the connections of l, which does not speak TLS, and logs each peer that does, as one of what. A server
// such as that of net/http then answers in plain text, which tells the peer.
func Plain(l net.Listener, log *slog.Logger, what string) net.Listener {
	return plainListener{l, incident.New(log), what}
}

type plainListener struct {
	net.Listener
	incidents *incident.Log
	what      string
}

func (l plainListener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: raw, of: l}, nil
}

type plainConn struct {
	net.Conn
	of    plainListener
	begun bool
}

// NetConn returns the connection that c wraps.
func (c *plainConn) NetConn() net.Conn { return c.Conn }

// Unwrapped returns the connection inside one that Plain has accepted, and any other one as it is. It is for who takes
// over a connection from a server that has read of it before: what is inside can be more than a net.Conn.
func Unwrapped(conn net.Conn) net.Conn {
	if c, is := conn.(*plainConn); is {
		return c.Conn
	}
	return conn
}

func (c *plainConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && !c.begun {
		c.begun = true
		if n >= 2 && b[0] == 0x16 && b[1] == 3 { // a record of a TLS handshake
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			c.of.incidents.Warn(host, "connection refused", "to", c.of.what, "remote", c.RemoteAddr(), "error",
				"it speaks TLS, which this side does not: give both the certificates, or neither")
		}
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, explain(err)
}

// Close closes the TCP connection without TLS's close_notify. Sending that could block on a peer that does not read,
// while the caller holds a lock. It is not needed, because messages contain their lengths, so a cut is detected without
// it.
func (c *Conn) Close() error {
	c.of.leave(c)
	return c.raw.Close()
}

// Peer returns the identity of the peer of a *Conn. The handshake must have finished.
func Peer(conn net.Conn) (pki.Identity, error) {
	c, ok := conn.(*Conn)
	if !ok {
		return pki.Identity{}, errors.New("the connection is not over TLS")
	}
	cert, err := Certificate(c)
	if err != nil {
		return pki.Identity{}, err
	}
	return pki.Of(cert)
}

// Certificate returns the certificate of the peer of a *Conn. The handshake must have finished.
func Certificate(conn net.Conn) (*x509.Certificate, error) {
	c, ok := conn.(*Conn)
	if !ok {
		return nil, errors.New("the connection is not over TLS")
	}
	chain := c.tls.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return nil, errors.New("the TLS handshake is not over")
	}
	return chain[0], nil
}

type connKey struct{}

// WithConn returns a context with a connection, for the ConnContext of an HTTP server.
func WithConn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, conn)
}

// ConnOf returns the connection of a request, which WithConn has put into its context; nil if there is none.
func ConnOf(ctx context.Context) net.Conn {
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	return conn
}

// PeerOf returns the identity of the peer whose request has this context; zero and false if it is not over TLS, or has
// no certificate.
func PeerOf(ctx context.Context) (pki.Identity, bool) {
	conn, is := ctx.Value(connKey{}).(*Conn)
	if !is {
		return pki.Identity{}, false
	}
	id, err := Peer(conn)
	if err != nil {
		return pki.Identity{}, false
	}
	return id, true
}

// Dial connects to an address, and requires that p accepts the peer.
func (c *Credentials) Dial(ctx context.Context, address string, p Policy) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	cfg := c.config(x509.ExtKeyUsageServerAuth, pki.Of, p)
	cfg.InsecureSkipVerify = true // by host name: names of holders stand for more, and VerifyConnection looks at them
	conn := c.newConn(raw, cfg, tls.Client)
	if err := conn.tls.HandshakeContext(ctx); err != nil {
		conn.Close()
		if errors.Is(err, io.EOF) {
			err = errors.New("it closed the connection in the TLS handshake: either it does not speak TLS, which " +
				"this side does, or it refuses this side's certificate; its log says which") // which is not just an EOF
		}
		return nil, explain(err)
	}
	return conn, nil
}

// Listener wraps the connections of l in TLS, for peers that p accepts. The first Read or Write of a connection does
// the handshake, under the deadline that is set for it.
func (c *Credentials) Listener(l net.Listener, p Policy) net.Listener {
	return &listener{Listener: l, credentials: c, identify: pki.Of, policy: p}
}

// ListenerOf is Listener for peers that identify knows.
func (c *Credentials) ListenerOf(l net.Listener, identify Identify, p Policy) net.Listener {
	return &listener{Listener: l, credentials: c, identify: identify, policy: p}
}

// Web says whom a server of HTTP accepts.
type Web struct {
	Policy    Policy
	Anonymous bool     // also those without a certificate, who have to say in each request who they are
	What      string   // it is, for the log
	Protocols []string // above TLS that it offers (ALPN, RFC 7301)
}

// WebListener is Listener for a server that does not log why a connection ends, such as that of net/http. It logs
// refusals itself.
func (c *Credentials) WebListener(l net.Listener, w Web) net.Listener {
	incidents := incident.New(c.log)
	tell := func(from net.Addr, err error) {
		host, _, _ := net.SplitHostPort(from.String())
		incidents.Warn(host, "connection refused", "to", w.What, "remote", from, "error", err)
	}
	return &listener{Listener: l, credentials: c, identify: pki.Of, policy: w.Policy, tell: tell,
		protocols: w.Protocols, anonymous: w.Anonymous}
}

type listener struct {
	net.Listener
	credentials *Credentials
	identify    Identify
	policy      Policy
	tell        func(from net.Addr, err error) // may be nil
	protocols   []string
	anonymous   bool // peers without a certificate are accepted
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cfg := l.credentials.config(x509.ExtKeyUsageClientAuth, l.identify, l.policy)
	cfg.ClientAuth = tls.RequireAnyClientCert // VerifyConnection looks at it
	if l.anonymous {
		cfg.ClientAuth = tls.RequestClientCert
		known := cfg.VerifyConnection
		cfg.VerifyConnection = func(s tls.ConnectionState) error {
			if len(s.PeerCertificates) == 0 {
				return nil
			}
			return known(s)
		}
	}
	cfg.NextProtos = l.protocols
	conn := l.credentials.newConn(raw, cfg, tls.Server)
	if l.tell != nil {
		conn.tell = func(err error) { l.tell(raw.RemoteAddr(), err) }
	}
	return conn, nil
}

// config is for one connection, with somebody whose certificate is for usage.
func (c *Credentials) config(usage x509.ExtKeyUsage, identify Identify, p Policy) *tls.Config {
	m := c.material()
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, // not all switches have 1.3
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := m.verify(s.PeerCertificates, usage, c.now(), identify, p)
			return err
		},
		SessionTicketsDisabled:      true, // so that every connection is verified anew
		DynamicRecordSizingDisabled: true, // batches are large, and a small record costs as much as a large one
	}
	if m.cert.Leaf != nil {
		cfg.Certificates = []tls.Certificate{m.cert}
	}
	return cfg
}

// explain adds to an error of TLS what it means and what to do.
func explain(err error) error {
	var plain tls.RecordHeaderError
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &plain):
		return fmt.Errorf("it does not speak TLS, which this side does: give both the certificates (of Open "+
			"vSwitch: set-ssl, and ssl: for tcp:), or neither (%w)", err)
	case errors.As(err, &op) && op.Op == "remote error":
		return fmt.Errorf("it ended the connection because of TLS, most likely of this side's certificate; its log "+
			"says why (%w)", op.Err)
	}
	return err
}
