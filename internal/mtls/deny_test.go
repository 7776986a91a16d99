package mtls_test

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

var (
	s2      = pki.Identity{Role: pki.Switch, Name: "s2"}
	anybody = mtls.Role(pki.Roles...)
)

// leaf reads the certificate of a holder.
func leaf(t *testing.T, dir string, id pki.Identity) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(pki.CertFile(dir, id.Name))
	check(t, err)
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return cert
}

// say sends a word and waits for the echo. The connection stays open.
func say(conn net.Conn) error { return talk(open{conn}) }

// told reports whether one of the errors so far has a text.
func told(errs chan error, text string) bool {
	for {
		select {
		case err := <-errs:
			if err != nil && strings.Contains(err.Error(), text) {
				return true
			}
		default:
			return false
		}
	}
}

type open struct{ net.Conn }

func (open) Close() error { return nil }

// denying loads credentials with a file of denied certificates, and watches it.
func denying(t *testing.T, dir string, id pki.Identity, file string, log *await.Log) *mtls.Credentials {
	t.Helper()
	c, err := mtls.LoadDenying(files(dir, id), file, mtls.Only(id), log.Logger())
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Watch(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c
}

// write replaces a file at once.
func write(t *testing.T, file, text string) {
	t.Helper()
	check(t, os.WriteFile(file+".new", []byte(text), 0o600))
	check(t, os.Rename(file+".new", file))
}

// TestDenied: a certificate that is denied is refused, and its live connections are closed. Others go on, and so does
// what was before if the file is damaged.
func TestDenied(t *testing.T) {
	t.Parallel()
	dir := authority(t, c1, s1, s2)
	file := filepath.Join(dir, "deny.txt")
	write(t, file, "# nobody yet\n")
	log := new(await.Log)
	addr, errs := server(t, denying(t, dir, c1, file, log), mtls.Role(pki.Switch))
	first, second := load(t, dir, s1), load(t, dir, s2)
	stay := func(c *mtls.Credentials) net.Conn {
		t.Helper()
		conn, err := c.Dial(t.Context(), addr, anybody)
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		check(t, say(conn))
		return conn
	}
	cut, lives := stay(first), stay(second)
	sum := sha256.Sum256(leaf(t, dir, s1).Raw)
	for round, line := range []string{
		fmt.Sprintf("%X   # stolen\n", leaf(t, dir, s1).SerialNumber),
		"\n" + hex.EncodeToString(sum[:]) + "\n"} {
		write(t, file, line)
		await.Until(t, "the connection to be closed", func() bool { return say(cut) != nil })
		check(t, say(lives))
		if err := dial(t, first, addr, anybody); err == nil {
			t.Error("it connects again")
		}
		await.Until(t, "the server to say why", func() bool { return told(errs, "is refused: it is denied by the file") })
		write(t, file, "damaged\n")
		await.Until(t, "the damaged file to be refused", func() bool {
			return len(log.Lines("is neither a serial number nor")) > round
		})
		if err := dial(t, first, addr, anybody); err == nil {
			t.Error("it connects because the file is damaged")
		}
		check(t, say(lives))
		write(t, file, "")
		await.Until(t, "it to be accepted again", func() bool { return dial(t, first, addr, anybody) == nil })
		cut = stay(first)
	}
}

// only is a listener to which one peer connects.
type only struct {
	net.Listener
	peer net.Conn
}

func (l only) Accept() (net.Conn, error) { return l.peer, nil }

// A certificate is denied also where this side's own one has expired, of which the log has one line.
func TestDeniedWhenExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := authority(t, s1)
		check(t, pki.Issue(dir, pki.Request{Identity: c1, Days: 1}, time.Now()))
		file := filepath.Join(dir, "deny.txt")
		write(t, file, "")
		log := new(await.Log)
		ours := denying(t, dir, c1, file, log)
		near, far := net.Pipe()
		conn, err := ours.Listener(only{peer: near}, mtls.Role(pki.Switch)).Accept()
		check(t, err)
		defer conn.Close()
		pair, err := tls.LoadX509KeyPair(pki.CertFile(dir, s1.Name), pki.KeyFile(dir, s1.Name))
		check(t, err)
		thief := tls.Client(far, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}})
		go conn.Write([]byte("x")) // after the handshake
		_, err = thief.Read(make([]byte, 1))
		check(t, err)
		time.Sleep(25 * time.Hour)
		write(t, file, mtls.Fingerprint(leaf(t, dir, s1))+"\n")
		check(t, thief.SetReadDeadline(time.Now().Add(time.Minute)))
		if _, err := thief.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the denied peer gets %v", err)
		}
		time.Sleep(time.Minute)
		if n := len(log.Lines("files are not used")); n != 1 {
			t.Errorf("the log has %d lines about the expired certificate", n)
		}
	})
}

// What a file of denied certificates may not have is named, with its line.
func TestDenyFile(t *testing.T) {
	dir := authority(t, c1)
	file := filepath.Join(dir, "deny.txt")
	serial := fmt.Sprintf("%x", leaf(t, dir, c1).SerialNumber)
	for text, want := range map[string]string{
		"12:34:AB\n" + strings.Repeat("0a", 32): "",
		"# a comment\n\n  \n":                   "",
		"12\nxyz\n":                             "deny.txt:2: \"xyz\" is neither a serial number nor a fingerprint",
		"0\n":                                   "deny.txt:1:",
		"-1\n":                                  "deny.txt:1:",
		strings.Repeat("0a", 33):                "deny.txt:1:",
		serial:                                  "it is denied",
	} {
		write(t, file, text)
		_, err := mtls.LoadDenying(files(dir, c1), file, mtls.Only(c1), slog.New(slog.DiscardHandler))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
	if _, err := mtls.LoadDenying(files(dir, c1), file+".none", mtls.Only(c1), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a missing file is taken for an empty one")
	}
}
