package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Conn is one end of a TLS connection. Its errors contain the remedy.
type Conn struct {
	*tls.Conn
	raw  net.Conn
	tell func(error) // that the handshake has failed; may be nil
}

// Read implements net.Conn. Its first call, or that of Write, waits for the handshake.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		err = explain(err)
		if c.tell != nil && !c.ConnectionState().HandshakeComplete {
			c.tell(err)
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
func (c *Conn) Close() error { return c.raw.Close() }

// Peer returns the identity of the peer of a *Conn. The handshake must have finished.
func Peer(conn net.Conn) (pki.Identity, error) {
	c, ok := conn.(*Conn)
	if !ok {
		return pki.Identity{}, errors.New("the connection is not over TLS")
	}
	chain := c.ConnectionState().PeerCertificates
	if len(chain) == 0 {
		return pki.Identity{}, errors.New("the TLS handshake is not over")
	}
	return pki.Of(chain[0])
}

// Dial connects to an address, and requires that p accepts the peer.
func (c *Credentials) Dial(ctx context.Context, address string, p Policy) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	cfg := c.config(x509.ExtKeyUsageServerAuth, p)
	cfg.InsecureSkipVerify = true // by host name: names of holders stand for more, and VerifyConnection looks at them
	conn := &Conn{tls.Client(raw, cfg), raw, nil}
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("it closed the connection in the TLS handshake: does it speak TLS? Its log says more (%w)",
				err)
		}
		return nil, explain(err)
	}
	return conn, nil
}

// Listener wraps the connections of l in TLS, for peers that p accepts. The first Read or Write of a connection does
// the handshake, under its own deadline.
func (c *Credentials) Listener(l net.Listener, p Policy) net.Listener { return &listener{l, c, p, nil} }

// TellingListener is Listener for a server that does not log why a connection ends, such as that of net/http. It logs
// refusals itself, as those of what.
func (c *Credentials) TellingListener(l net.Listener, p Policy, what string) net.Listener {
	incidents := incident.New(c.log)
	return &listener{l, c, p, func(from net.Addr, err error) {
		host, _, _ := net.SplitHostPort(from.String())
		incidents.Warn(host, "connection refused", "to", what, "remote", from, "error", err)
	}}
}

type listener struct {
	net.Listener
	credentials *Credentials
	policy      Policy
	tell        func(from net.Addr, err error) // may be nil
}

func (l *listener) Accept() (net.Conn, error) {
	raw, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cfg := l.credentials.config(x509.ExtKeyUsageClientAuth, l.policy)
	cfg.ClientAuth = tls.RequireAnyClientCert // VerifyConnection looks at it
	conn := &Conn{tls.Server(raw, cfg), raw, nil}
	if l.tell != nil {
		conn.tell = func(err error) { l.tell(raw.RemoteAddr(), err) }
	}
	return conn, nil
}

// config is for one connection, with somebody whose certificate is for usage.
func (c *Credentials) config(usage x509.ExtKeyUsage, p Policy) *tls.Config {
	m := c.material()
	return &tls.Config{
		MinVersion:   tls.VersionTLS12, // not all switches have 1.3
		Certificates: []tls.Certificate{m.cert},
		VerifyConnection: func(s tls.ConnectionState) error {
			_, err := verify(s.PeerCertificates, m.roots, usage, c.now(), p)
			return err
		},
		SessionTicketsDisabled:      true, // so that every connection is verified anew
		DynamicRecordSizingDisabled: true, // batches are large, and a small record costs as much as a large one
	}
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
