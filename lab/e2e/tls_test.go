package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/hostile"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// credentials loads a certificate and key, which the authority in a folder issues.
func credentials(t *testing.T, dir string, role pki.Role, name string) *mtls.Credentials {
	t.Helper()
	id := pki.Identity{Role: role, Name: name}
	if err := pki.Issue(dir, pki.Request{Identity: id, Days: 1}, time.Now()); err != nil {
		t.Fatal(err)
	}
	c, err := mtls.Load(mtls.Files{CA: pki.CertFile(dir, pki.AuthorityName), Cert: pki.CertFile(dir, name),
		Key: pki.KeyFile(dir, name)},
		mtls.Only(id), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newAuthority creates an authority that the cluster does not trust.
func newAuthority(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := pki.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// anybody is a policy that accepts every holder.
var anybody = mtls.Role(pki.Roles...)

// refused dials until the other side ends the connection, which it must. The server of TLS 1.3 refuses after the
// client has finished its handshake.
func refused(t *testing.T, c *mtls.Credentials, addr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := c.Dial(ctx, addr, anybody)
	if err != nil {
		return
	}
	defer conn.Close()
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); err == nil {
		t.Errorf("%s says %d byte to somebody it should refuse", addr, n)
	} else if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Errorf("%s does not refuse", addr)
	}
}

// connectTLS is connect for a cluster with TLS.
func (s *testCluster) connectTLS(c *mtls.Credentials) {
	s.t.Helper()
	for i, a := range s.Agents() {
		s.switches = append(s.switches, s.dialTLS(c, openflow.DatapathID(i+1), a.Listen))
		s.waitUp(i + 1)
	}
}

func (s *testCluster) dialTLS(c *mtls.Credentials, id openflow.DatapathID, addr string) *fakeSwitch {
	s.t.Helper()
	conn, err := c.Dial(s.ctx, addr, mtls.Role(pki.Agent))
	s.check(err)
	sw := &fakeSwitch{memory: newMemory(id), t: s.t, conn: conn, tally: s.tally, ended: make(chan struct{})}
	s.t.Cleanup(sw.close)
	hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
	sw.write(hello.Append(nil, 1))
	go sw.read() // ends with the connection
	return sw
}

// TestTLSRefuses: a peer without a certificate of the cluster, or with one for another role, is refused with one line
// in the log, and the cluster continues.
func TestTLSRefuses(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2, TLS: true})
	sw := credentials(t, s.Authority(), pki.Switch, "s1")
	s.connectTLS(sw)
	s.play(3, nil)
	leader, agent := s.leader(), s.Agents()[0]
	ports := []struct{ addr, log, line string }{
		{agent.Listen, agent.LogFile(), `msg="switch refused`},
		{leader.OpenFlow, leader.LogFile(), `msg="connection refused" controller=` + leader.Name + " remote="},
		{leader.Peer, leader.LogFile(), `msg="consensus: refused a connection"`},
		{leader.API, leader.LogFile(), `msg="connection refused" controller=` + leader.Name + ` to="the API"`},
	}

	stranger := s.believer(newAuthority(t), pki.Controller, leader.Name)
	const attempts = 5 // at most two log lines for all of them
	for range attempts {
		for _, p := range ports {
			refused(t, stranger, p.addr)
		}
	}
	for _, p := range ports {
		named := func() int {
			return s.countLines(p.log, p.line, "CN="+leader.Name+",OU=controller",
				"which is not trusted here: issue one by this cluster's authority")
		}
		await.Until(t, p.log+" to name the stranger", func() bool { return named() > 0 })
		if n := named(); n == attempts {
			t.Errorf("%s names the stranger %d times", p.log, n)
		}
		plain := dialFrom(t, "127.0.0.2", p.addr) // the peer at 127.0.0.1 has been logged already
		if _, err := plain.Write(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		await.Until(t, p.log+" to tell who does not speak TLS",
			func() bool { return s.countLines(p.log, p.line, "it does not speak TLS") > 0 })
		plain.Close()
	}

	plain, err := http.Get("http://" + leader.API + "/v1/status")
	s.check(err)
	text, err := io.ReadAll(plain.Body)
	s.check(errors.Join(err, plain.Body.Close()))
	if !strings.Contains(string(text), "this port speaks TLS") {
		t.Errorf("a client of the API that does not speak TLS gets %q", text)
	}

	refused(t, sw, leader.Peer)
	refused(t, sw, leader.API)
	refused(t, credentials(t, s.Authority(), pki.Operator, "root"), leader.OpenFlow)
	refused(t, credentials(t, s.Authority(), pki.Agent, "a9"), agent.Listen)
	await.Until(t, "a switch that wants to be a controller to be named", func() bool {
		return s.countLines(leader.LogFile(), "consensus: refused a connection",
			"it is that of switch s1, and controller is expected here") > 0
	})
	s.play(3, nil)
	s.exact()
}

// believer returns a certificate of another authority, whose holder also trusts the authority of the cluster.
func (s *testCluster) believer(dir string, role pki.Role, name string) *mtls.Credentials {
	s.t.Helper()
	theirs, err := os.ReadFile(pki.CertFile(dir, pki.AuthorityName))
	s.check(err)
	ours, err := os.ReadFile(pki.CertFile(s.Authority(), pki.AuthorityName))
	s.check(err)
	writeFile(s.t, pki.CertFile(dir, "both"), string(ours)+string(theirs))
	id := pki.Identity{Role: role, Name: name}
	s.check(pki.Issue(dir, pki.Request{Identity: id, Days: 1}, time.Now()))
	c, err := mtls.Load(mtls.Files{CA: pki.CertFile(dir, "both"), Cert: pki.CertFile(dir, name),
		Key: pki.KeyFile(dir, name)}, anybody, slog.New(slog.DiscardHandler))
	s.check(err)
	return c
}

// TestTLSMixed: a process whose cluster file has no TLS gets an error that says so, and does not disturb the others.
func TestTLSMixed(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1})
	leader := s.leader()
	dir := newAuthority(t)
	refused(t, credentials(t, dir, pki.Agent, "a1"), leader.OpenFlow)
	refused(t, credentials(t, dir, pki.Controller, "c9"), leader.Peer)
	refused(t, credentials(t, dir, pki.Switch, "s1"), s.Agents()[0].Listen)
	refused(t, credentials(t, dir, pki.Operator, "o1"), leader.API)
	await.Until(t, "the API to tell TLS from HTTP", func() bool {
		return s.countLines(leader.LogFile(), `to="the API"`, "it speaks TLS, which this side does not") > 0
	})
	for file, line := range map[string]string{leader.LogFile(): "connection refused",
		s.Agents()[0].LogFile(): "switch refused"} {
		await.Until(t, file+" to tell TLS from OpenFlow",
			func() bool { return s.countLines(file, line, "it speaks TLS, which this side does not") > 0 })
	}
	await.Until(t, "the peers to be told", func() bool {
		return s.countLines(leader.LogFile(), "consensus: refused a connection", "it speaks TLS") > 0
	})
	s.connect()
	s.play(3, nil)
	s.exact()
}

// TestTLSNewAuthority: a running cluster moves to another authority. No process is restarted for that. One is
// killed, so that all have to reconnect.
func TestTLSNewAuthority(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, TLS: true})
	old := credentials(t, s.Authority(), pki.Switch, "old")
	s.connectTLS(old)
	s.play(3, nil)

	next := newAuthority(t)
	holders := map[string]pki.Role{"agent1": pki.Agent, "operator": pki.Operator, "admin": pki.Admin}
	for _, c := range s.Controllers() {
		holders[c.Name] = pki.Controller
	}
	for name, role := range holders {
		s.check(pki.Issue(next, pki.Request{Identity: pki.Identity{Role: role, Name: name}, Days: 90}, time.Now()))
	}
	files, err := filepath.Glob(filepath.Join(next, "*.pem"))
	s.check(err)
	for _, f := range files {
		s.check(os.Rename(f, filepath.Join(s.Authority(), filepath.Base(f))))
	}
	s.play(3, nil) // existing connections stay

	killed := s.leader()
	s.check(killed.Kill())
	s.leader()
	s.check(killed.Restart())
	s.inSync()
	s.play(3, nil)
	fresh := credentials(t, s.Authority(), pki.Switch, "fresh")
	// The agent checks its files once a second.
	await.Until(t, "a switch of the new authority to be taken", func() bool {
		conn, err := fresh.Dial(s.ctx, s.Agents()[0].Listen, mtls.Role(pki.Agent))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	refused(t, old, s.Agents()[0].Listen)
	s.exact()
}

// TestTLSHangingLeader: connections to a controller that hangs time out, and all are set up again when it
// continues.
func TestTLSHangingLeader(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 2, TLS: true})
	s.connectTLS(credentials(t, s.Authority(), pki.Switch, "s1"))
	s.play(4, nil)
	old := s.leader()
	s.check(old.Signal(syscall.SIGSTOP))
	await.Until(t, "another leader", func() bool { return s.leader() != old })
	s.play(4, nil)
	time.Sleep(silence + 2*time.Second) // until the others have closed its connections, and cannot dial it
	s.play(4, nil)
	s.check(old.Signal(syscall.SIGCONT))
	s.inSync()
	s.play(4, nil)
	s.exact()
}

// TestTLSBindsSwitches: the certificate of a switch is not taken from an agent, and one for a datapath id not for
// another. The switch itself is served.
func TestTLSBindsSwitches(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, TLS: true, Apps: []string{"hub"}})
	leader := s.leader()
	sw, agent := s.bound(pki.Switch, "s9", 9), s.bound(pki.Agent, "a9", 9)
	dial := func(c *mtls.Credentials) func(context.Context, string) (net.Conn, error) {
		return func(ctx context.Context, address string) (net.Conn, error) { return c.Dial(ctx, address, anybody) }
	}
	attack := func(c *mtls.Credentials, id uint64) error {
		_, err := hostile.Agent{Datapath: id, Epoch: 7, Dial: dial(c)}.Attack(s.ctx, leader.OpenFlow)
		return err
	}
	if err := attack(sw, 9); err == nil {
		t.Error("a switch speaks as an agent")
	}
	if err := attack(agent, 8); err == nil {
		t.Error("an agent speaks for a switch that is not in its certificate")
	}
	for _, to := range []string{leader.OpenFlow, s.Agents()[0].Listen} {
		if err := (hostile.Switch{Datapath: 8, Dial: dial(sw)}).Attack(s.ctx, to); err == nil {
			t.Error("a switch speaks for another one")
		}
	}
	const first = "it is that of switch s9, which speaks as agent" // of several from one host, not all are logged
	if n := s.countLines(leader.LogFile(), `msg="connection refused"`, first); n == 0 {
		t.Errorf("the log of the leader does not say %q", first)
	}
	if n := s.countLines(s.Agents()[0].LogFile(), `msg="switch refused"`, "is not for switch"); n == 0 {
		t.Error("the log of the agent does not say why it refuses a switch")
	}
	if err := attack(agent, 9); err != nil {
		t.Errorf("the agent of a switch is refused: %v", err)
	}
}

// bound loads a certificate for one switch.
func (s *testCluster) bound(role pki.Role, name string, id openflow.DatapathID) *mtls.Credentials {
	s.t.Helper()
	dir, holder := s.Authority(), pki.Identity{Role: role, Name: name}
	s.check(pki.Issue(dir, pki.Request{Identity: holder, Days: 1, Switches: []openflow.DatapathID{id}}, time.Now()))
	c, err := mtls.Load(mtls.Files{CA: pki.CertFile(dir, pki.AuthorityName), Cert: pki.CertFile(dir, name),
		Key: pki.KeyFile(dir, name)}, mtls.Only(holder), slog.New(slog.DiscardHandler))
	s.check(err)
	return c
}

// TestTLSRevokes: a certificate that is denied is refused, and a switch that is connected with it is cut off. The other
// switch is served as before, and the denied one is served again with another certificate.
func TestTLSRevokes(t *testing.T) {
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1, TLS: true})
	leader := s.leader()
	s.connectTLS(credentials(t, s.Authority(), pki.Switch, "s1"))
	attack := func(c *mtls.Credentials, up func()) error {
		return hostile.Switch{Datapath: 9, Up: up, Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return c.Dial(ctx, address, anybody)
		}}.Attack(s.ctx, leader.OpenFlow)
	}
	stolen := s.bound(pki.Switch, "s9", 9)
	connected, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- attack(stolen, func() { close(connected) }) }() // ends when it is denied, or with the cluster
	select {
	case <-connected:
	case err := <-ended:
		t.Fatalf("it is not served before: %v", err)
	}
	cert, err := tls.LoadX509KeyPair(pki.CertFile(s.Authority(), "s9"), pki.KeyFile(s.Authority(), "s9"))
	s.check(err)
	s.check(s.Deny(fmt.Sprintf("%x", cert.Leaf.SerialNumber)))
	if err := <-ended; err == nil {
		t.Error("it is not cut off")
	}
	for _, line := range []string{`msg="connection closed"`, `msg="switch detached"`} {
		await.Until(t, "the leader to say "+line, func() bool { return s.countLines(leader.LogFile(), line) > 0 })
	}
	refused(t, stolen, leader.OpenFlow)
	again := make(chan struct{})
	go func() { ended <- attack(s.bound(pki.Switch, "s9b", 9), func() { close(again) }) }() // ends with the cluster
	select {
	case <-again:
	case err := <-ended:
		t.Errorf("it is refused with another certificate: %v", err)
	}
	s.play(3, nil)
}
