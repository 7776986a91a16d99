package mtls

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"
)

// Bounds of the file of denied certificates. One that exceeds them is not used.
const (
	maxDenyFile  = 8 << 20
	maxDenyLines = 1 << 16
)

// fingerprintLen is that of a SHA-256 in hexadecimal digits. Serial numbers are shorter (RFC 5280, section 4.1.2.2).
const fingerprintLen = 2 * sha256.Size

// denied are certificates that are refused although they have not expired: by serial number or by fingerprint, in
// hexadecimal digits.
type denied map[string]bool

// readDenied reads a file with one certificate in a line: its serial number or its SHA-256 fingerprint, as openssl
// prints them. What follows # is a comment. Without a file nothing is denied.
func readDenied(file string) (denied, error) {
	if file == "" {
		return nil, nil
	}
	info, err := os.Stat(file)
	if err == nil && info.Size() > maxDenyFile {
		err = fmt.Errorf("%s has %d bytes, at most %d are read", file, info.Size(), maxDenyFile)
	}
	if err != nil {
		return nil, fmt.Errorf("certificates that are denied: %w", err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificates that are denied: %w", err)
	}
	list, number := denied{}, 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		number++
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line = strings.ToLower(strings.ReplaceAll(line, ":", ""))
		n, is := new(big.Int).SetString(line, 16)
		if !is || n.Sign() <= 0 || len(line) > fingerprintLen {
			return nil, fmt.Errorf("%s:%d: %q is neither a serial number nor a fingerprint: write what `openssl x509 "+
				"-noout -serial -fingerprint -sha256 -in FILE` prints behind =", file, number, line)
		}
		if len(line) < fingerprintLen {
			line = n.Text(16) // without leading zeros
		}
		if list[line] = true; len(list) > maxDenyLines {
			return nil, fmt.Errorf("%s has more than %d certificates: replace the authority", file, maxDenyLines)
		}
	}
	return list, nil
}

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal digits.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

var errDenied = errors.New("it is denied by the file tls: deny of the cluster file")

// check returns an error if a certificate is denied, of its holder or of an authority below those that are trusted.
func (d denied) check(chain []*x509.Certificate) error {
	if len(d) == 0 {
		return nil
	}
	for _, c := range chain {
		if d[c.SerialNumber.Text(16)] || d[Fingerprint(c)] {
			return errDenied
		}
	}
	return nil
}

// enter adds a connection whose peer is verified. It returns an error if the peer has been denied since the connection
// began.
func (c *Credentials) enter(conn *Conn, chain []*x509.Certificate) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.closed {
		return nil
	}
	if err := c.current.denied.check(chain); err != nil {
		return refusal(chain[0], err)
	}
	if c.live == nil {
		c.live = map[*Conn][]*x509.Certificate{}
	}
	c.live[conn] = chain
	return nil
}

// leave removes a connection that is closed.
func (c *Credentials) leave(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	conn.closed = true
	delete(c.live, conn)
}

// denyOnly uses the file of denied certificates alone: a certificate that was stolen must be refused also where this
// side's own one has expired. The caller holds mu, or has the only reference.
func (c *Credentials) denyOnly() {
	list, err := readDenied(c.deny)
	if err != nil || c.current == nil {
		return // the error of all files says so
	}
	with := *c.current // handshakes still read the one before
	with.denied = list
	c.current = &with
	c.cutDenied()
}

// cutDenied closes the connections whose peers are denied now. The caller holds mu.
func (c *Credentials) cutDenied() {
	for conn, chain := range c.live {
		if err := c.current.denied.check(chain); err != nil {
			c.log.Warn("connection closed", "remote", conn.raw.RemoteAddr(), "error", refusal(chain[0], err))
			conn.raw.Close()
			delete(c.live, conn)
		}
	}
}
