// Package mtls is TLS with certificates on both sides, for all network connections of Holdfast. It reads certificate,
// key and authorities from files, reloads them when they change, and identifies the peer. The caller decides what a
// peer may do, by a Policy. Package pki issues certificates, and defines how they name their holders.
package mtls

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Files are what a process needs, as PEM.
type Files struct {
	CA   string // trusted authorities; several while one replaces another
	Cert string // the process's own certificate, and any between it and the authority
	Key  string // of Cert
}

// Policy checks the identity in a peer's certificate. It returns nil if the peer is accepted, else an error with the
// reason.
type Policy func(pki.Identity) error

// Identify returns who the holder of a certificate is: pki.Of, or what knows more.
type Identify func(*x509.Certificate) (pki.Identity, error)

// Role is the policy that accepts all holders with one of these roles.
func Role(roles ...pki.Role) Policy {
	return func(id pki.Identity) error {
		if slices.Contains(roles, id.Role) {
			return nil
		}
		var names []string
		for _, r := range roles {
			names = append(names, string(r))
		}
		return fmt.Errorf("it is that of %s, and %s is expected here: look at the address, or issue the right one "+
			"with `holdfast pki issue`",
			id, strings.Join(names, " or "))
	}
}

// Only is the policy that accepts one holder.
func Only(want pki.Identity) Policy {
	return func(id pki.Identity) error {
		if id == want {
			return nil
		}
		return fmt.Errorf("it is that of %s, and %s is expected here: look at the address, or issue the right one "+
			"with `holdfast pki issue`", id, want)
	}
}

const (
	lookEvery  = time.Second // at the files, at most
	watchEvery = time.Hour   // they are looked at at least so often, by Watch, if no certificate is denied
	expiring   = 30 * 24 * time.Hour
	warnEvery  = 24 * time.Hour
)

// Credentials are the certificate of this process and the authorities that it trusts, as the files contain them at each
// handshake. Safe for concurrent use.
type Credentials struct {
	files Files
	deny  string // file of certificates that are refused before they expire; "": none is
	own   Policy
	log   *slog.Logger
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	looked  time.Time
	seen    [4]stamp                      // when current was read
	live    map[*Conn][]*x509.Certificate // connections, with the certificates of their peers
	current *material
	tried   [4]stamp  // when the files were last read, or could not be used
	told    bool      // the log has that files like tried cannot be used; it has it once, not each second
	warned  time.Time // that the certificate expires soon
}

// stamp tells one state of a file from the next.
type stamp struct{ modified, size int64 }

// material is what the files held.
type material struct {
	cert   tls.Certificate // without a Leaf if this side has none
	roots  *x509.CertPool
	denied denied
}

// Load reads the files. The certificate must be signed by the authority, be valid, and pass own. This is checked again
// when the files have changed; if the check then fails, the error is logged and the previous contents stay in use.
// What is denied is used in any case.
func Load(files Files, own Policy, log *slog.Logger) (*Credentials, error) {
	return LoadDenying(files, "", own, log)
}

// LoadAuthority reads the authority only, for connections to others in which this side has no certificate.
func LoadAuthority(file string, log *slog.Logger) (*Credentials, error) {
	return Load(Files{CA: file}, nil, log)
}

// LoadDenying is Load with a file of certificates that are refused before they expire. If Watch runs, live connections
// of their holders are closed.
func LoadDenying(files Files, deny string, own Policy, log *slog.Logger) (*Credentials, error) {
	c := &Credentials{files: files, deny: deny, own: own, log: log, now: time.Now}
	if err := c.look(); err != nil {
		return nil, err
	}
	return c, nil
}

// Watch checks the files from time to time until ctx ends, so that a process with long-lived connections warns before
// its certificate expires, and closes those whose peers are denied within a second or so.
func (c *Credentials) Watch(ctx context.Context) {
	every := watchEvery
	if c.deny != "" {
		every = lookEvery
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			c.material()
		}
	}
}

// material returns what the files hold, as of a second ago at most.
func (c *Credentials) material() *material {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.look(); err != nil && !c.told {
		c.told = true
		c.log.Warn("the changed certificate files are not used, what they held before is", "error", err)
	}
	return c.current
}

// look reads the files if they have changed, and again until that succeeds. The caller holds mu, or has the only
// reference.
func (c *Credentials) look() error {
	now := c.now()
	if since := now.Sub(c.looked); c.current != nil && since >= 0 && since < lookEvery {
		return nil
	}
	c.looked = now
	seen := c.files.stamps(c.deny) // before they are read: what changes meanwhile is read again
	if c.current == nil || seen != c.seen {
		if seen != c.tried {
			c.tried, c.told = seen, false
		}
		m, err := c.files.read(now, c.deny, c.own)
		if err != nil {
			c.denyOnly()
			return err
		}
		if c.current != nil {
			c.log.Info("read the certificate files again", "authorities", c.files.CA, "certificate", c.files.Cert)
		}
		c.current, c.seen, c.told, c.warned = m, seen, false, time.Time{}
		c.cutDenied()
	}
	if leaf := c.current.cert.Leaf; leaf != nil && leaf.NotAfter.Sub(now) < expiring && now.Sub(c.warned) >= warnEvery {
		c.warned = now
		c.log.Warn("the certificate expires soon, and will then be refused: renew it, by `holdfast pki renew` or "+
			"where it is from",
			"certificate", c.files.Cert, "expires", leaf.NotAfter)
	}
	return nil
}

func (f Files) stamps(deny string) (s [4]stamp) {
	for i, name := range []string{f.CA, f.Cert, f.Key, deny} {
		if info, err := os.Stat(name); err == nil { // else reading it will tell
			s[i] = stamp{info.ModTime().UnixNano(), info.Size()}
		}
	}
	return s
}

func (f Files) read(now time.Time, deny string, own Policy) (*material, error) {
	m := &material{roots: x509.NewCertPool()}
	ca, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("certificates of the authorities: %w", err)
	}
	if !m.roots.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s holds no certificate in PEM", f.CA)
	}
	if f.Cert == "" {
		return m, nil
	}
	if m.cert, err = tls.LoadX509KeyPair(f.Cert, f.Key); err != nil {
		return nil, fmt.Errorf("certificate and key: %w", err)
	}
	if m.denied, err = readDenied(deny); err != nil {
		return nil, err
	}
	chain := []*x509.Certificate{m.cert.Leaf}
	for _, der := range m.cert.Certificate[1:] {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Cert, err)
		}
		chain = append(chain, c)
	}
	if _, err := m.verify(chain, x509.ExtKeyUsageAny, now, pki.Of, own); err != nil {
		return nil, fmt.Errorf("%s: %w", f.Cert, err)
	}
	return m, nil
}

// verify returns the identity of a chain of certificates, the holder's first.
func (m *material) verify(chain []*x509.Certificate, usage x509.ExtKeyUsage, now time.Time, identify Identify,
	p Policy) (pki.Identity, error) {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	leaf := chain[0]
	_, err := leaf.Verify(x509.VerifyOptions{Roots: m.roots, Intermediates: between, CurrentTime: now,
		KeyUsages: []x509.ExtKeyUsage{usage}})
	if err != nil {
		return pki.Identity{}, refusal(leaf, remedy(err, leaf))
	}
	if err := m.denied.check(chain); err != nil {
		return pki.Identity{}, refusal(leaf, err)
	}
	id, err := identify(leaf)
	if err == nil {
		err = p(id)
	}
	if err != nil {
		return id, refusal(leaf, err)
	}
	return id, nil
}

func refusal(leaf *x509.Certificate, err error) error {
	return fmt.Errorf("certificate %q is refused: %w", leaf.Subject, err)
}

// remedy adds to an error about a certificate what to do.
func remedy(err error, leaf *x509.Certificate) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("it is signed by %q, which is not trusted here: issue one by this cluster's authority, or "+
			"add that one to the file of authorities (%w)", leaf.Issuer, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("it is valid from %s to %s: renew it, or set the clocks (%w)",
			leaf.NotBefore.Format(time.RFC3339), leaf.NotAfter.Format(time.RFC3339), err)
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return fmt.Errorf("it is not for this end of a connection: issue one for the right role (%w)", err)
	}
	return err
}
