package access

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/auditlog"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/clusterkey"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
)

var quiet = slog.New(slog.DiscardHandler)

// guarded is a guard with a token for each role, by role, and with an audit log.
type guarded struct {
	*Guard
	file, audit string
	tokens      map[pki.Role]string
	key         *clusterkey.Key
	close       func() error // the audit log
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	dir := t.TempDir()
	g := &guarded{file: filepath.Join(dir, "tokens"), audit: filepath.Join(dir, "audit.log"),
		tokens: map[pki.Role]string{}}
	var err error
	for _, role := range token.Roles {
		if g.tokens[role], err = token.Add(g.file, pki.Identity{Role: role, Name: "the-" + string(role)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := clusterkey.Make(dir); err != nil {
		t.Fatal(err)
	}
	if g.key, err = clusterkey.Load(dir); err != nil {
		t.Fatal(err)
	}
	log := auditlog.Open(g.audit, quiet)
	g.close = sync.OnceValue(log.Close)
	t.Cleanup(func() { _ = g.close() })
	if g.Guard, err = NewGuard(t.Context(), &config.Cluster{Tokens: g.file}, g.key, log, quiet); err != nil {
		t.Fatal(err)
	}
	return g
}

// ask makes a request, and returns the status and who has made it for the application; "" if it was not asked.
func (g *guarded) ask(method, pattern, token string) (code int, who string, text string) {
	r := httptest.NewRequest(method, "/path", strings.NewReader(`{"id":7}`))
	if token != "" {
		r.Header.Set("Authorization", bearer+token)
	}
	w := httptest.NewRecorder()
	g.Serve(w, r, pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if needs[pattern].record == inside {
			end, err := g.Record(r.Context(), r.RemoteAddr, "POST /path", `{"id":7}`)
			if err != nil {
				http.Error(w, err.Error(), http.StatusServiceUnavailable)
				return
			}
			defer end(http.StatusOK, "")
		}
		id, _ := IdentityOf(r.Context())
		who = id.String()
		if r.Header.Get("Authorization") != "" {
			who = "the application knows the token"
		}
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != `{"id":7}` {
			http.Error(w, "the body is cut", http.StatusConflict)
		}
	}))
	return w.Code, who, w.Body.String()
}

// Each role may use each path as the table says, and nothing else; the expectation is written down once more here.
func TestRoles(t *testing.T) {
	g := newGuarded(t)
	const v, o, a, c = pki.Viewer, pki.Operator, pki.Admin, pki.Client
	for _, x := range []struct {
		method, pattern string
		may             []pki.Role
	}{
		{"GET", "/holdfast.v1.Cluster/GetController", []pki.Role{v, o, a}},
		{"POST", "/holdfast.v1.Cluster/ListMembers", []pki.Role{v, o, a}},
		{"POST", "/holdfast.v1.Operations/ChangeMembers", []pki.Role{a}},
		{"POST", "/holdfast.v1.Operations/Drain", []pki.Role{o, a}},
		{"POST", "/holdfast.v1.Operations/Forget", []pki.Role{o, a}},
		{"GET", Applications, []pki.Role{v, o, a, c}},
		{"POST", Applications, []pki.Role{o, a, c}},
		{"DELETE", Applications, []pki.Role{o, a, c}},
		{"POST", "/holdfast.store.v1.Store/Do", []pki.Role{v, o, a, c}},
		{"POST", "/holdfast.v1.Operations/Unknown", nil},
	} {
		for role, secret := range g.tokens {
			want, name := http.StatusForbidden, ""
			for _, may := range x.may {
				if may == role {
					want, name = http.StatusOK, string(role)+" the-"+string(role)
				}
			}
			if code, who, text := g.ask(x.method, x.pattern, secret); code != want || who != name {
				t.Errorf("%s of %s: %s gets %d as %q, not %d: %s", x.method, x.pattern, role, code, who, want, text)
			}
		}
		for _, secret := range []string{"", "holdfast-x", g.tokens[a] + "x", "x"} {
			if code, who, _ := g.ask(x.method, x.pattern, secret); code != http.StatusUnauthorized || who != "" {
				t.Errorf("%s of %s: the token %q gets %d as %q", x.method, x.pattern, secret, code, who)
			}
		}
	}
	if code, _, _ := g.ask("GET", "GET /dashboard/", ""); code != http.StatusOK {
		t.Errorf("the dashboard's files get %d without a token", code)
	}
	if code, _, _ := g.ask("POST", "GET /dashboard/", ""); code != http.StatusUnauthorized {
		t.Errorf("a change below the dashboard gets %d without a token", code)
	}
	r := httptest.NewRequest("GET", "/ws", nil)
	r.Header.Set("Upgrade", "websocket")
	if reads(r) {
		t.Error("a WebSocket counts as reading")
	}
	if code, who, _ := g.ask("GET", "/holdfast.v1.Cluster/GetController", g.key.Token()); code != http.StatusOK || who != "viewer controllers" {
		t.Errorf("another controller gets %d as %q", code, who)
	}
	if code, _, _ := g.ask("POST", "/holdfast.v1.Operations/Drain", g.key.Token()); code != http.StatusForbidden {
		t.Errorf("with what controllers send each other one gets %d", code)
	}
}

// A guard of a cluster without TLS and tokens asks nobody, but knows no other paths either.
func TestOpen(t *testing.T) {
	open, err := NewGuard(t.Context(), &config.Cluster{}, nil, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	g := &guarded{Guard: open}
	if code, _, text := g.ask("POST", "/holdfast.v1.Operations/ChangeMembers", ""); code != http.StatusOK {
		t.Errorf("%d: %s", code, text)
	}
	if code, _, _ := g.ask("POST", "/holdfast.v1.Operations/Unknown", ""); code != http.StatusForbidden {
		t.Errorf("an unknown path gets %d", code)
	}
	with := newGuarded(t)
	missing := &config.Cluster{Tokens: with.file + "x"}
	if _, err := NewGuard(t.Context(), missing, with.key, nil, quiet); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file of tokens that is not there: %v", err)
	}
	tokens := &config.Cluster{Tokens: with.file}
	if _, err := NewGuard(t.Context(), tokens, nil, nil, quiet); err == nil {
		t.Error("tokens without TLS and without the key of the cluster are accepted")
	}
}

// The audit log has who has changed what, with the result, and who was refused; not who has read. If it cannot be
// written, nothing is changed.
func TestAudit(t *testing.T) {
	g := newGuarded(t)
	g.ask("GET", "/holdfast.v1.Cluster/GetController", g.tokens[pki.Viewer])
	g.ask("POST", "/holdfast.v1.Operations/Drain", g.tokens[pki.Operator])
	g.ask("POST", "/holdfast.v1.Operations/ChangeMembers", g.tokens[pki.Operator])
	g.ask("POST", "/holdfast.store.v1.Store/Do", g.tokens[pki.Operator])
	// Somebody who may not read, and polls by POST, does not fill the log, but is in it for a change.
	if code, _, _ := g.ask("POST", "/holdfast.v1.Cluster/GetStatus", g.tokens[pki.Client]); code != http.StatusForbidden {
		t.Errorf("a client that asks for the status gets %d", code)
	}
	g.ask("POST", "/holdfast.v1.Operations/Drain", g.tokens[pki.Client])
	g.ask("POST", "/holdfast.v1.Operations/Drain", "") // an unknown peer does not fill the log
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	if code, who, _ := g.ask("POST", "/holdfast.v1.Operations/Drain", g.tokens[pki.Operator]); code != http.StatusServiceUnavailable ||
		who != "" {
		t.Errorf("without an audit log a change gets %d", code)
	}
	f, err := os.Open(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r struct {
			Who, By, What, Body, Error, Address string
			Status                              int
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Status == 0 {
			if r.Address != "192.0.2.1:1234" || r.By != "token" {
				t.Errorf("the record is %s", lines.Text())
			}
			got = append(got, r.Who+" "+r.What+" "+r.Body)
		} else {
			got = append(got, http.StatusText(r.Status)+" "+strings.SplitAfter(r.Error+":", ":")[0])
		}
	}
	want := []string{`operator the-operator POST /path {"id":7}`, "OK :", `operator the-operator POST /path {"id":7}`,
		"Forbidden operator the-operator may not do this:", `client the-client POST /path {"id":7}`,
		"Forbidden client the-client may not do this:"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Who may change nothing cannot fill the audit log with what is refused: of a path it has one refusal an hour.
func TestRefusalsDoNotFillAudit(t *testing.T) {
	g := newGuarded(t)
	for range 20 {
		for _, path := range []string{"/holdfast.v1.Operations/Drain", "/holdfast.v1.Operations/Move", Applications} {
			if code, _, _ := g.ask("POST", path, g.tokens[pki.Viewer]); code != http.StatusForbidden {
				t.Fatalf("a viewer gets %d", code)
			}
		}
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(g.audit)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(`"who":"viewer the-viewer"`)); n != 3 {
		t.Errorf("60 refusals of three paths have %d records", n)
	}
	r, now := new(refusals), time.Now()
	for i := range 2 * maxRefusals {
		of := refused{pki.Identity{Role: pki.Viewer, Name: fmt.Sprint(i)}, Applications}
		if r.record(of, now) != (i < maxRefusals) {
			t.Fatalf("refusal %d", i)
		}
	}
	if of := (refused{pki.Identity{Name: "0"}, Applications}); !r.record(of, now.Add(refusalEvery)) ||
		r.record(of, now.Add(refusalEvery)) || len(r.last) != 1 {
		t.Errorf("after an hour %d refusals are remembered", len(r.last))
	}
}

// A token that is added or removed counts without a restart, and one that is removed ends what its holder does.
func TestTokensChange(t *testing.T) {
	g := newGuarded(t)
	began, ended := make(chan struct{}), make(chan struct{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.Serve(w, r, Applications, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				close(began)
				<-r.Context().Done()
				close(ended)
			}
		}))
	}))
	server.Config.ConnContext = mtls.WithConn
	server.Start()
	defer server.Close()
	get := func(path, secret string) int {
		r, err := http.NewRequest("GET", server.URL+path, nil)
		if err != nil {
			t.Error(err)
			return 0
		}
		r.Header.Set("Authorization", bearer+secret)
		a, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return 0
		}
		a.Body.Close()
		return a.StatusCode
	}
	secret := g.tokens[pki.Viewer]
	go get("/long", secret) // ends with its connection
	<-began
	if err := token.Remove(g.file, "the-viewer"); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := get("/", secret); code != http.StatusUnauthorized {
		t.Errorf("a removed token gets %d", code)
	}
	added, err := token.Add(g.file, pki.Identity{Role: pki.Viewer, Name: "new"})
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the new token to count", func() bool { return get("/", added) == http.StatusOK })
	if err := os.WriteFile(g.file, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	g.Guard.tokens.mu.Lock()
	g.Guard.tokens.looked = g.Guard.tokens.looked.Add(-lookEvery)
	g.Guard.tokens.mu.Unlock()
	if code := get("/", added); code != http.StatusOK {
		t.Errorf("when the file is damaged, what it had before gets %d", code)
	}
}

// A token that gets another role ends what its holder does in the old one, and only that.
func TestTokenGetsAnotherRole(t *testing.T) {
	g := newGuarded(t)
	held := map[pki.Role]net.Conn{} // the far ends of connections
	for _, role := range []pki.Role{pki.Operator, pki.Admin} {
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		held[role] = far
		if _, _, known := g.Guard.tokens.begin(token.HashOf(g.tokens[role]), near); !known {
			t.Fatal("an unknown token")
		}
	}
	text, err := os.ReadFile(g.file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("operator the-operator"), []byte("viewer the-operator"), 1)
	if err := os.WriteFile(g.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	g.Guard.tokens.mu.Lock()
	err = g.Guard.tokens.look(time.Now())
	g.Guard.tokens.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	for role, want := range map[pki.Role]error{pki.Operator: io.EOF, pki.Admin: os.ErrDeadlineExceeded} {
		_ = held[role].SetReadDeadline(time.Unix(1, 0)) // fails if it is closed
		if _, err := held[role].Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Errorf("%s: %v, not %v", role, err, want)
		}
	}
}
