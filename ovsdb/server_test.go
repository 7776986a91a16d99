package ovsdb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a real ovsdb-server with a database that describes one bridge, and no switch.
type server struct {
	dir            string
	unix, tcp, ssl string
	tls            *tls.Config // for ssl
	cmd            *exec.Cmd
}

const schema = "/usr/share/openvswitch/vswitch.ovsschema"

func newServer(t *testing.T) *server {
	t.Helper()
	if _, err := exec.LookPath("ovsdb-server"); err != nil {
		if os.Getenv(netlab.RequireEnv) == "1" {
			t.Fatalf("%v (%s=1)", err, netlab.RequireEnv)
		}
		t.Skip("ovsdb-server is not installed: apt-get install openvswitch-switch")
	}
	dir, err := os.MkdirTemp("", "ovsdb-") // short: the path of a socket has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := &server{dir: dir, unix: "unix:" + filepath.Join(dir, "db.sock")}
	s.certify(t)
	s.command(t, "ovsdb-tool", "create", s.path("conf.db"), schema)
	s.start(t)
	s.vsctl(t, "--no-wait", "init", "--", "add-br", "br0", "--", "add-port", "br0", "p1", "--", "add-port", "br0", "p2")
	s.vsctl(t, "set", "bridge", "br0", `datapath_id="0000000000000011"`, "--", "set", "interface", "p1", "ofport=1",
		"--", "set", "interface", "p2", "ofport=2")
	return s
}

func (s *server) path(file string) string { return filepath.Join(s.dir, file) }

func (s *server) certify(t *testing.T) {
	t.Helper()
	now := time.Now()
	for _, err := range []error{
		pki.Init(s.dir, now),
		pki.Issue(s.dir, pki.Request{Identity: pki.Identity{Role: pki.Agent, Name: "server"},
			Addresses: []string{"127.0.0.1"}, Days: 1}, now),
		pki.Issue(s.dir, pki.Request{Identity: pki.Identity{Role: pki.Controller, Name: "client"}, Days: 1}, now),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := tls.LoadX509KeyPair(pki.CertFile(s.dir, "client"), pki.KeyFile(s.dir, "client"))
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(pki.CertFile(s.dir, pki.AuthorityName))
	if err != nil {
		t.Fatal(err)
	}
	s.tls = &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: x509.NewCertPool()}
	s.tls.RootCAs.AppendCertsFromPEM(ca)
}

func dialTLS(cfg *tls.Config) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
	}
}

var listening = regexp.MustCompile(`listening on port (\d+)`)

// start starts the server. At the end of the test it is stopped.
func (s *server) start(t *testing.T) {
	t.Helper()
	os.Remove(s.path("log"))
	os.Remove(s.path("ctl"))
	s.cmd = exec.Command("ovsdb-server", "--remote=p"+s.unix,
		"--private-key="+pki.KeyFile(s.dir, "server"), "--certificate="+pki.CertFile(s.dir, "server"),
		"--ca-cert="+pki.CertFile(s.dir, pki.AuthorityName),
		"--unixctl="+s.path("ctl"), "--log-file="+s.path("log"), "-vconsole:off", "-vsyslog:off", s.path("conf.db"))
	s.cmd.Env = append(os.Environ(), "OVS_RUNDIR="+s.dir, "OVS_DBDIR="+s.dir, "OVS_LOGDIR="+s.dir)
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd := s.cmd
	t.Cleanup(func() { stop(cmd) })
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if exec.Command("ovs-appctl", "-t", s.path("ctl"), "version").Run() == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("ovsdb-server does not come up")
		}
	}
	s.tcp = "tcp:127.0.0.1:" + s.listen(t, "ptcp", 1)
	s.ssl = "ssl:127.0.0.1:" + s.listen(t, "pssl", 2)
}

// listen makes the server listen on a port that it chooses, and returns that: the n-th that its log tells.
func (s *server) listen(t *testing.T, kind string, n int) string {
	t.Helper()
	s.command(t, "ovs-appctl", "-t", s.path("ctl"), "ovsdb-server/add-remote", kind+":0:127.0.0.1")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := os.ReadFile(s.path("log"))
		if m := listening.FindAllSubmatch(text, -1); len(m) >= n {
			return string(m[n-1][1])
		}
		if time.Now().After(deadline) {
			t.Fatalf("ovsdb-server does not listen: error %v\n%s", err, text)
		}
	}
}

func stop(cmd *exec.Cmd) {
	if cmd.ProcessState == nil {
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func (s *server) command(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *server) vsctl(t *testing.T, args ...string) string {
	t.Helper()
	return s.command(t, "ovs-vsctl", append([]string{"--db=" + s.unix, "--no-wait", "--timeout=10"}, args...)...)
}

// run makes a client and runs it until the end of the test.
func run(t *testing.T, cfg Config) *Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	start(t, c)
	return c
}

func start(t *testing.T, c *Client) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { c.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
}

// await waits until what the client says of the database is as it should be.
func await(t *testing.T, c *Client, what string, good func(View, error) bool) View {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		v, err := c.View()
		if good(v, err) {
			return v
		}
		select {
		case <-c.Changed():
		case <-deadline:
			t.Fatalf("no view in which %s; the last: %+v, error %v", what, v, err)
		}
	}
}

func connected(v View, err error) bool { return err == nil }
