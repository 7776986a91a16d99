package e2e

import (
	"context"
	"errors"
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
	holders := map[string]pki.Role{"agent1": pki.Agent, "operator": pki.Operator}
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
