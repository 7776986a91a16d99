package e2e

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
	storerpc "github.com/holdfast-sdn/holdfast/store/rpc"
)

const storeRules = `store:
  access:
    - {client: writer, namespaces: [hosts, "lab-*"], allow: [read, write]}
    - {client: "*", namespaces: [hosts], allow: [read]}
    - {client: deploy, namespaces: [hosts], allow: [upload]}
    - {client: thief, namespaces: [hosts], allow: [upload]}
`

// startStoreTLS starts a cluster with TLS and rules of access, and returns the addresses of the store.
func startStoreTLS(t *testing.T, rules string) (c *testCluster, addresses []string) {
	c = startCluster(t, cluster.Config{Apps: []string{store.Name}, TLS: true, Sections: rules})
	for _, n := range c.Controllers() {
		addresses = append(addresses, n.REST)
	}
	return c, addresses
}

// storeAs issues a certificate, and returns what makes clients with it.
func (s *testCluster) storeAs(name string, addresses []string) func(namespace string) *storeclient.Client {
	f, err := s.Issue(pki.Identity{Role: pki.Client, Name: name})
	s.check(err)
	return func(namespace string) *storeclient.Client {
		cl, err := storeclient.NewTLS(namespace, storeclient.TLS(f), addresses...)
		s.check(err)
		s.t.Cleanup(cl.Close)
		return cl
	}
}

// TestStoreAccess: with TLS a client does what the rules allow it, also after the leader was killed, and nothing else.
func TestStoreAccess(t *testing.T) {
	t.Parallel()
	c, addresses := startStoreTLS(t, storeRules)
	c.expectDeaths()
	clients := map[string]func(string) *storeclient.Client{}
	for _, name := range []string{"writer", "reader", "deploy"} {
		clients[name] = c.storeAs(name, addresses)
	}
	put := store.Op{Kind: store.Put, Table: "t", Key: "k", Columns: store.Columns{{Name: "value", Value: []byte("1")}}}
	get := store.Op{Kind: store.Get, Table: "t", Key: "k"}
	upload := store.Op{Kind: store.Upload, Component: "f", Source: "def run(args):\n    return 7\n"}
	run := store.Op{Kind: store.Run, Component: "f"}
	steps := []struct {
		client, namespace string
		op                store.Op
		allowed           bool
	}{
		{"writer", "hosts", store.Op{Kind: store.CreateTable, Table: "t",
			Definition: &store.Definition{Columns: []string{"value"}}}, true},
		{"writer", "lab-1", store.Op{Kind: store.CreateTable, Table: "t",
			Definition: &store.Definition{Columns: []string{"value"}}}, true},
		{"writer", "lab-1", put, true},
		{"writer", "lab-1/4", store.Op{Kind: store.CreateTable, Table: "t"}, true},
		{"writer", "lab-1/4", put, true},
		{"reader", "lab-1/4", get, false},
		{"writer", "hosts/4", put, false},
		{"writer", "hosts", put, true},
		{"writer", "hosts", get, true},
		{"writer", "hosts", upload, false},
		{"writer", "lab", put, false},
		{"reader", "hosts", get, true},
		{"reader", "hosts", put, false},
		{"reader", "lab-1", get, false},
		{"reader", "hosts", store.Op{Kind: store.OpenSession}, false},
		{"deploy", "hosts", upload, true},
		{"deploy", "hosts", put, false},
		{"deploy", "hosts", run, false},
		{"writer", "hosts", run, true},
		{"reader", "hosts", run, false},
		{"deploy", "hosts", store.Op{Kind: store.RemoveComponent, Component: "f"}, true},
		{"writer", "hosts", store.Op{Kind: store.Delete, Table: "t", Key: "k"}, true},
	}
	for _, step := range steps {
		_, err := clients[step.client](step.namespace).Do(c.ctx, step.op)
		refused, _ := errors.AsType[*store.Error](err)
		switch {
		case step.allowed && err != nil:
			t.Errorf("%s, %s in %s: %v", step.client, step.op.Kind, step.namespace, err)
		case !step.allowed && (refused == nil || refused.Code != store.Denied ||
			!strings.Contains(err.Error(), step.client)):
			t.Errorf("%s, %s in %s: %v, and it is to be denied", step.client, step.op.Kind, step.namespace, err)
		}
	}
	c.stealSession(addresses[0])
	for _, err := range clients["reader"]("lab-1").Watch(c.ctx, "t", "", 0) {
		if refused, is := errors.AsType[*store.Error](err); !is || refused.Code != store.Denied {
			t.Errorf("a watch ends with %v, and it is to be denied", err)
		}
		break
	}
	killed := c.leader()
	c.check(killed.Kill())
	writer := clients["writer"]("hosts")
	for i := range 3 { // whichever controller it asks
		if _, err := writer.Do(c.ctx, put); err != nil {
			t.Fatalf("write %d after the death of %s: %v", i, killed.Name, err)
		}
	}
}

// stealSession asks with the sessions of other clients, which is refused.
func (s *testCluster) stealSession(address string) {
	s.t.Helper()
	files, err := s.Issue(pki.Identity{Role: pki.Client, Name: "thief"})
	s.check(err)
	thief, err := mtls.Load(files, mtls.Role(pki.Client), slog.New(slog.DiscardHandler))
	s.check(err)
	on := storerpc.NewCaller(func(ctx context.Context, address string) (net.Conn, error) {
		return thief.Dial(ctx, address, mtls.Role(pki.Controller))
	}, address)
	defer on.Close()
	for session := uint64(1); session < 10; session++ {
		for seq := uint64(1); seq < 4; seq++ {
			out, err := on.Do(s.ctx, &store.Request{Namespace: "hosts", Session: session, Seq: seq, Client: "client writer",
				Transactions: [][]store.Op{{{Kind: store.Upload, Component: "f", Source: "def run(args): return 1"}}}})
			s.check(err)
			if out.Error == nil || out.Error.Code != store.Expired {
				s.t.Fatalf("request %d of session %d of somebody else: %+v", seq, session, out)
			}
		}
	}
}

// storeByToken uses the store with tokens of each role, from the command line, in Go and in Python: operators write,
// clients do what the rules allow, and nobody who is unknown does anything.
func (s *testCluster) storeByToken(tokens map[pki.Role]string) {
	s.t.Helper()
	dir, ca := s.t.TempDir(), pki.CertFile(s.Authority(), pki.AuthorityName)
	files := map[pki.Role]string{"nobody": filepath.Join(dir, "nobody")}
	writeFile(s.t, files["nobody"], "holdfast-nobody")
	for role, secret := range tokens {
		files[role] = filepath.Join(dir, string(role))
		writeFile(s.t, files[role], secret+"\n")
	}
	var addresses []string
	for _, n := range s.Controllers() {
		addresses = append(addresses, n.REST)
	}
	s.command("store", "create-table", "hosts", "--token-file", files[pki.Operator])
	s.command("store", "put", "hosts", "h1", "7", "--token-file", files[pki.Operator])
	if out, err := s.Command(s.ctx, "store", "get", "hosts", "h1", "--token-file", files["nobody"]); err == nil ||
		!strings.Contains(err.Error(), "the token is not known") {
		s.t.Errorf("with an unknown token holdfast store prints %q: %v", out, err)
	}

	get := store.Op{Kind: store.Get, Table: "hosts", Key: "h1"}
	put := store.Op{Kind: store.Put, Table: "hosts", Key: "h1",
		Columns: store.Columns{{Name: "value", Value: []byte("8")}}}
	for role, file := range files {
		cl, err := storeclient.NewToken("default", storeclient.Token{File: file, CA: ca}, addresses...)
		s.check(err)
		for op, allowed := range map[*store.Op]bool{&get: role != "nobody",
			&put: role == pki.Operator || role == pki.Admin} {
			_, err := cl.Do(s.ctx, *op)
			refused, _ := errors.AsType[*store.Error](err)
			if allowed && err != nil || !allowed && (refused == nil || refused.Code != store.Denied) {
				s.t.Errorf("%s with the token of %s: %v", op.Kind, role, err)
			}
		}
		for _, err := range cl.Watch(s.ctx, "hosts", "") {
			if refused, _ := errors.AsType[*store.Error](err); (refused != nil) != (role == "nobody") {
				s.t.Errorf("a watch with the token of %s: %v", role, err)
			}
			break
		}
		cl.Close()
	}

	python := exec.CommandContext(s.ctx, "python3", "-c", fmt.Sprintf(`
from holdfast.store import TLS, Client, StoreError
addresses, tls = %q.split(), TLS(%q)
with Client(addresses, tls=tls, token_file=%q) as store:
    store.put("hosts", "h2", {"value": b"9"})
    print(store.get("hosts", "h2").columns["value"].decode())
    print(next(store.watch("hosts", after=1))[0] >= 1)
for file in (%q, %q):
    with Client(addresses, tls=tls, token_file=file) as store:
        for do in (lambda: store.put("hosts", "h2", {"value": b"0"}), lambda: next(store.watch("hosts"))):
            try:
                do()
                print("allowed")
            except StoreError as e:
                print(e.code)
`, strings.Join(addresses, " "), ca, files[pki.Operator], files[pki.Client], files["nobody"]))
	python.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "python"))
	python.Stderr = os.Stderr
	out, err := python.Output()
	if want := "9\nTrue\ndenied\nallowed\ndenied\ndenied\n"; err != nil || string(out) != want {
		s.t.Errorf("python: %v, %q, want %q", err, out, want)
	}
}

// TestStoreTLSClients: all clients speak TLS with a certificate. Without one, and without TLS, they are refused.
func TestStoreTLSClients(t *testing.T) {
	t.Parallel()
	c, addresses := startStoreTLS(t, "")
	f, err := c.Issue(pki.Identity{Role: pki.Client, Name: "billing"})
	c.check(err)
	if _, err := c.Issue(pki.Identity{Role: pki.Switch, Name: "s1"}); err != nil {
		t.Fatal(err)
	}
	c.command("store", "create-table", "hosts")
	c.command("store", "put", "hosts", "h1", "7", "--as", "billing")

	python := exec.CommandContext(c.ctx, "python3", "-c", fmt.Sprintf(`
from holdfast.store import TLS, Client, StoreError
with Client(%q.split(), tls=TLS(%q, %q, %q)) as store:
    print(store.get("hosts", "h1").columns["value"].decode(), store.put("hosts", "h2", {"value": b"8"}))
    print(next(store.watch("hosts", after=1))[0] >= 1)
`, strings.Join(addresses, " "), f.CA, f.Cert, f.Key))
	python.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "python"))
	python.Stderr = os.Stderr
	out, err := python.Output()
	if err != nil || !strings.HasPrefix(string(out), "7 ") || !strings.HasSuffix(string(out), "True\n") {
		t.Errorf("python: %v, %q", err, out)
	}

	const get = `{"namespace":"default","transactions":[{"ops":[{"op":"get","table":"hosts","key":"h1"}]}]}`
	curl := func(scheme string, with ...string) string {
		args := slices.Concat([]string{"-sk", "-m", "10", "-H", "Content-Type: application/json", "-d", get}, with,
			[]string{scheme + "://" + addresses[0] + "/holdfast.store.v1.Store/Do"})
		out, _ := exec.CommandContext(c.ctx, "curl", args...).Output() // what it prints is checked
		return string(out)
	}
	if out := curl("https", "--cert", f.Cert, "--key", f.Key); !strings.Contains(out, `"key":"h1"`) {
		t.Errorf("curl with a certificate prints %q", out)
	}
	if out := curl("https", "--http1.1", "--cert", f.Cert, "--key", f.Key); !strings.Contains(out, `"key":"h1"`) {
		t.Errorf("curl with a certificate and HTTP/1.1 prints %q", out)
	}
	if out := curl("https"); out != "" {
		t.Errorf("curl without a certificate prints %q", out)
	}
	if out := curl("http"); strings.Contains(out, "h1") || !strings.Contains(out, "speaks TLS") {
		t.Errorf("curl without TLS prints %q", out)
	}
	dir := c.Authority()
	if out := curl("https", "--cert", pki.CertFile(dir, "s1"), "--key", pki.KeyFile(dir, "s1")); out != "" {
		t.Errorf("curl with the certificate of a switch prints %q", out)
	}

	plain, err := storeclient.New("default", addresses...)
	c.check(err)
	defer plain.Close()
	ctx, cancel := context.WithTimeout(c.ctx, time.Second)
	defer cancel()
	if _, err := plain.Do(ctx, store.Op{Kind: store.Get, Table: "hosts", Key: "h1"}); err == nil {
		t.Error("a client without TLS is served")
	}
}
