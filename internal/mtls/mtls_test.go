package mtls_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	c1 = pki.Identity{Role: pki.Controller, Name: "c1"}
	c2 = pki.Identity{Role: pki.Controller, Name: "c2"}
	s1 = pki.Identity{Role: pki.Switch, Name: "s1"}
)

func authority(t *testing.T, holders ...pki.Identity) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	check(t, pki.Init(dir, time.Now()))
	for _, h := range holders {
		check(t, pki.Issue(dir, pki.Request{Identity: h, Days: 100}, time.Now()))
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func files(dir string, id pki.Identity) mtls.Files {
	return mtls.Files{CA: pki.CertFile(dir, pki.AuthorityName), Cert: pki.CertFile(dir, id.Name),
		Key: pki.KeyFile(dir, id.Name)}
}

func load(t *testing.T, dir string, id pki.Identity) *mtls.Credentials {
	t.Helper()
	c, err := mtls.Load(files(dir, id), mtls.Only(id), slog.New(slog.DiscardHandler))
	check(t, err)
	return c
}

// server echoes to peers that it accepts, and records the errors of others.
func server(t *testing.T, c *mtls.Credentials, p mtls.Policy) (addr string, errs chan error) {
	t.Helper()
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l := c.Listener(raw, p)
	errs = make(chan error, 100)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer conn.Close()
				_, err := io.Copy(conn, conn)
				errs <- err
			})
		}
	})
	t.Cleanup(func() { l.Close(); running.Wait() })
	return raw.Addr().String(), errs
}

// talk sends a word and waits for the echo.
func talk(conn net.Conn) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(await.Limit)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("word")); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 4))
	return err
}

func dial(t *testing.T, c *mtls.Credentials, addr string, p mtls.Policy) error {
	ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
	defer cancel()
	conn, err := c.Dial(ctx, addr, p)
	if err != nil {
		return err
	}
	return talk(conn)
}

func says(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("%s: %v, which does not say %q", what, err, p)
		}
	}
}

func TestBothSidesAreVerified(t *testing.T) {
	dir := authority(t, c1, c2, s1)
	ours, other, sw := load(t, dir, c1), load(t, dir, c2), load(t, dir, s1)
	stranger := load(t, authority(t, c2), c2)
	controllers := mtls.Role(pki.Controller)
	for _, tc := range []struct {
		name           string
		server, client *mtls.Credentials
		takes, expects mtls.Policy
		atServer       string // "" for no error
		atClient       string
	}{
		{"two controllers", ours, other, mtls.Only(c2), mtls.Only(c1), "", ""},
		{"a switch", ours, sw, mtls.Role(pki.Switch, pki.Agent), controllers, "", ""},
		{"a switch for a controller", ours, sw, controllers, controllers,
			`"CN=s1,OU=switch,O=Holdfast" is refused: it is that of switch s1, and controller is expected`,
			"its log says why"},
		{"another controller", ours, other, mtls.Only(c1), controllers,
			"it is that of controller c2, and controller c1 is expected", "its log says why"},
		{"another controller there", ours, other, controllers, mtls.Only(c2), "its log says why",
			"it is that of controller c1, and controller c2 is expected"},
		{"somebody else's authority", ours, stranger, controllers, mtls.Only(c1), "its log says why",
			"issue one by this cluster's authority"},
		{"a switch as server", sw, other, controllers, mtls.Only(s1), "its log says why",
			"not for this end of a connection"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr, errs := server(t, tc.server, tc.takes)
			err := dial(t, tc.client, addr, tc.expects)
			for side, e := range map[string]struct {
				err  error
				want string
			}{"client": {err, tc.atClient}, "server": {<-errs, tc.atServer}} {
				if e.want == "" && e.err != nil {
					t.Errorf("%s: %v", side, e.err)
				} else if e.want != "" {
					says(t, side, e.err, e.want)
				}
			}
		})
	}
}

func TestStrangerIsRefusedByServer(t *testing.T) {
	dir := authority(t, c1)
	foreign := authority(t, c2)
	// The peer trusts our authority, but we do not trust its authority.
	own := files(foreign, c2)
	bundle := filepath.Join(t.TempDir(), "both.pem")
	join(t, bundle, pki.CertFile(dir, "ca"), pki.CertFile(foreign, "ca"))
	own.CA = bundle
	c, err := mtls.Load(own, mtls.Only(c2), slog.New(slog.DiscardHandler))
	check(t, err)
	addr, errs := server(t, load(t, dir, c1), mtls.Role(pki.Controller))
	says(t, "client", dial(t, c, addr, mtls.Only(c1)), "its log says why")
	says(t, "server", <-errs, `certificate "CN=c2,OU=controller,O=Holdfast" is refused`,
		`signed by "CN=Holdfast authority `, "add that one to the file of authorities")
}

func join(t *testing.T, to string, from ...string) {
	t.Helper()
	var all []byte
	for _, f := range from {
		text, err := os.ReadFile(f)
		check(t, err)
		all = append(all, text...)
	}
	replace(t, to, all)
}

// replace overwrites a file, and makes sure that its modification time changes.
func replace(t *testing.T, file string, text []byte) {
	t.Helper()
	info, statErr := os.Stat(file)
	check(t, os.WriteFile(file+".new", text, 0o600))
	if statErr == nil {
		later := info.ModTime().Add(time.Millisecond)
		check(t, os.Chtimes(file+".new", later, later))
	}
	check(t, os.Rename(file+".new", file))
}

func TestPlainPeers(t *testing.T) {
	dir := authority(t, c1)
	ours := load(t, dir, c1)
	addr, errs := server(t, ours, mtls.Role(pki.Controller))
	conn, err := net.Dial("tcp", addr)
	check(t, err)
	defer conn.Close()
	_, err = conn.Write([]byte{4, 0, 0, 8, 0, 0, 0, 1}) // HELLO
	check(t, err)
	says(t, "server", <-errs, "it does not speak TLS", "set-ssl")
	check(t, conn.SetDeadline(time.Now().Add(await.Limit)))
	if _, err := ofconn.NewReader(conn).Next(); !errors.Is(err, ofconn.ErrTLS) {
		t.Errorf("a switch without TLS gets %v", err)
	}
	if resp, err := http.Get("http://" + addr); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a client of HTTP gets %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}

	for name, greeting := range map[string]string{"it does not speak TLS": "\x04\x00\x00\x08\x00\x00\x00\x01",
		"it closed the connection in the TLS handshake": ""} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		check(t, err)
		var plain sync.WaitGroup
		plain.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			io.ReadFull(conn, make([]byte, 100)) // what it sends does not matter
			io.WriteString(conn, greeting)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, conn)
			conn.Close()
		})
		says(t, "client", dial(t, ours, l.Addr().String(), mtls.Only(c1)), name)
		l.Close()
		plain.Wait()
	}
}

func TestPeer(t *testing.T) {
	dir := authority(t, c1, c2)
	addr, _ := server(t, load(t, dir, c1), mtls.Role(pki.Controller))
	conn, err := load(t, dir, c2).Dial(t.Context(), addr, mtls.Role(pki.Controller))
	check(t, err)
	defer conn.Close()
	if id, err := mtls.Peer(conn); err != nil || id != c1 {
		t.Errorf("the peer is %v, %v", id, err)
	}
	if _, err := mtls.Peer(conn.(*mtls.Conn).NetConn()); err == nil {
		t.Error("the peer of a plain connection is known")
	}
}

func TestNoCertificate(t *testing.T) {
	addr, errs := server(t, load(t, authority(t, c1), c1), mtls.Role(pki.Controller))
	conn := bare(t, addr)
	defer conn.Close()
	conn.Read(make([]byte, 1)) // the refusal
	says(t, "server", <-errs, "didn't provide a certificate")
}

// Close does not wait for a peer that does not read.
func TestCloseDoesNotWait(t *testing.T) {
	dir := authority(t, c1, c2)
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l := load(t, dir, c1).Listener(raw, mtls.Role(pki.Controller))
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			conn.Read(make([]byte, 1)) // the handshake, and nothing more
		}
		accepted <- conn
	}()
	conn, err := load(t, dir, c2).Dial(t.Context(), raw.Addr().String(), mtls.Only(c1))
	check(t, err)
	_, err = conn.Write([]byte("x"))
	check(t, err)
	defer (<-accepted).Close()
	var writer sync.WaitGroup
	writer.Go(func() {
		for b := make([]byte, 1<<20); err == nil; {
			_, err = conn.Write(b)
		}
	})
	time.Sleep(50 * time.Millisecond) // the buffers of the kernel are most likely full
	check(t, conn.Close())
	writer.Wait()
}

func TestLoadMistakes(t *testing.T) {
	dir := authority(t, c1, c2, s1)
	good := files(dir, c1)
	garbage := filepath.Join(t.TempDir(), "garbage")
	replace(t, garbage, []byte("garbage"))
	foreign := authority(t, c1)
	check(t, pki.Issue(dir, pki.Request{Identity: pki.Identity{Role: pki.Controller, Name: "old"}, Days: 1},
		time.Now().AddDate(0, 0, -3)))
	for want, f := range map[string]mtls.Files{
		"certificates of the authorities: open": {CA: garbage + "x", Cert: good.Cert, Key: good.Key},
		"holds no certificate in PEM":           {CA: garbage, Cert: good.Cert, Key: good.Key},
		"certificate and key: ":                 {CA: good.CA, Cert: good.Cert, Key: files(dir, c2).Key},
		"which is not trusted here": {CA: pki.CertFile(foreign, "ca"), Cert: good.Cert,
			Key: good.Key},
		"renew it, or set the clocks":                   files(dir, pki.Identity{Name: "old"}),
		"it is that of switch s1, and controller c1 is": files(dir, s1),
	} {
		_, err := mtls.Load(f, mtls.Only(c1), slog.New(slog.DiscardHandler))
		says(t, "load", err, want)
	}
}

// dialUntil dials until it succeeds, because files are checked once a second.
func dialUntil(t *testing.T, what string, c *mtls.Credentials, addr string, p mtls.Policy) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(await.Limit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if err = dial(t, c, addr, p); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// A cluster moves to another authority while its processes run.
func TestReload(t *testing.T) {
	dir, next := authority(t, c1), authority(t, c1, c2)
	var lines await.Log
	ours, err := mtls.Load(files(dir, c1), mtls.Only(c1), lines.Logger())
	check(t, err)
	both := files(next, c2)
	both.CA = filepath.Join(t.TempDir(), "both.pem")
	join(t, both.CA, pki.CertFile(dir, "ca"), pki.CertFile(next, "ca"))
	theirs, err := mtls.Load(both, mtls.Only(c2), slog.New(slog.DiscardHandler))
	check(t, err)
	addr, _ := server(t, ours, mtls.Role(pki.Controller))
	if dial(t, theirs, addr, mtls.Only(c1)) == nil {
		t.Fatal("the next authority is believed before anybody said so")
	}

	join(t, pki.CertFile(dir, "ca"), both.CA)
	dialUntil(t, "the next authority is believed", theirs, addr, mtls.Only(c1))

	replace(t, pki.CertFile(dir, "c1"), []byte("half a fi"))
	for range 30 { // for more than a second, so that the files are checked more than once
		check(t, dial(t, theirs, addr, mtls.Only(c1)))
		time.Sleep(50 * time.Millisecond)
	}
	if n := len(lines.Lines("the changed certificate files are not used")); n != 1 {
		t.Errorf("a broken file has %d lines in the log, not one", n)
	}

	join(t, pki.KeyFile(dir, "c1"), pki.KeyFile(next, "c1"))
	join(t, pki.CertFile(dir, "c1"), pki.CertFile(next, "c1"))
	dialUntil(t, "the certificate of the next authority is used", load(t, next, c2), addr, mtls.Only(c1))
	if n := len(lines.Lines("read the certificate files again")); n < 2 {
		t.Errorf("%d lines about files that were read again", n)
	}
}

func TestExpiresSoon(t *testing.T) {
	dir := authority(t)
	check(t, pki.Issue(dir, pki.Request{Identity: c1, Days: 29}, time.Now()))
	var lines await.Log
	ours, err := mtls.Load(files(dir, c1), mtls.Only(c1), lines.Logger())
	check(t, err)
	addr, _ := server(t, ours, mtls.Only(c1))
	check(t, dial(t, ours, addr, mtls.Only(c1)))
	if n := len(lines.Lines("expires soon")); n != 1 {
		t.Errorf("%d lines about a certificate that expires in 29 days", n)
	}
}

// bare is a client without a certificate.
func bare(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true})
	check(t, err)
	return conn
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // from 1 January 2000
		dir := authority(t, c1)
		var lines await.Log
		ours, err := mtls.Load(files(dir, c1), mtls.Only(c1), lines.Logger())
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go ours.Watch(ctx)
		for _, at := range []struct{ days, lines int }{{69, 0}, {71, 1}, {75, 5}} { // of 100
			time.Sleep(time.Until(time.Date(2000, 1, 1+at.days, 0, 30, 0, 0, time.UTC)))
			synctest.Wait()
			if n := len(lines.Lines("expires soon")); n != at.lines {
				t.Errorf("%d lines after %d days, not %d", n, at.days, at.lines)
			}
		}
	})
}
