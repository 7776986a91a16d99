package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
)

// TestRoles: who has a token, or the certificate of a role, does with controllers what that role may do and nothing
// else. The audit log has each change before it is answered, so also when the controller is then killed.
func TestRoles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	tokens := map[pki.Role]string{}
	for _, role := range token.Roles {
		secret, err := token.Add(file, pki.Identity{Role: role, Name: "my-" + string(role)})
		if err != nil {
			t.Fatal(err)
		}
		tokens[role] = secret
	}
	s := startCluster(t, cluster.Config{TLS: true, Apps: []string{store.Name}, Sections: "tokens: " + file +
		"\nstore: {access: [{client: my-client, namespaces: [default], allow: [read]}]}\n"})
	s.expectDeaths()
	leader := s.leader()
	client := s.curl()
	ask := func(method, url, secret string) (code int, text string) {
		r, err := http.NewRequestWithContext(s.ctx, method, url, strings.NewReader("{}"))
		s.check(err)
		r.Header.Set("Content-Type", "application/json")
		if secret != "" {
			r.Header.Set("Authorization", "Bearer "+secret)
		}
		a, err := client.Do(r)
		s.check(err)
		b, err := io.ReadAll(a.Body)
		s.check(errors.Join(err, a.Body.Close()))
		return a.StatusCode, string(b)
	}
	rest, reads, changes := "https://"+leader.REST, "https://"+leader.API+"/holdfast.v1.Cluster/", "https://"+leader.API+"/holdfast.v1.Operations/"
	do := rest + "/holdfast.store.v1.Store/Do"
	for _, x := range []struct {
		method, url string
		role        pki.Role // "": no token
		want        int
	}{
		{"POST", reads + "GetController", "", http.StatusUnauthorized},
		{"POST", reads + "GetController", pki.Viewer, http.StatusOK},
		{"POST", reads + "GetController", pki.Client, http.StatusForbidden},
		{"POST", changes + "Drain", pki.Viewer, http.StatusForbidden},
		{"POST", changes + "ChangeMembers", pki.Operator, http.StatusForbidden},
		{"POST", changes + "ChangeMembers", pki.Admin, http.StatusBadRequest}, // the change is empty
		{"POST", do, "", http.StatusUnauthorized},
		{"POST", do, pki.Client, http.StatusOK},
		{"POST", rest + "/apps/none", pki.Viewer, http.StatusForbidden},
		{"POST", rest + "/apps/none", pki.Operator, http.StatusNotFound},
	} {
		if code, text := ask(x.method, x.url, tokens[x.role]); code != x.want {
			t.Errorf("%s %s with the token of %q: %d, not %d: %s", x.method, x.url, x.role, code, x.want, text)
		}
	}
	s.storeByToken(tokens)
	for _, role := range []pki.Role{pki.Viewer, pki.Operator, pki.Admin} {
		allowed := role == pki.Admin
		s.onlyAs(role)
		if out, err := s.Command(s.ctx, "status"); err != nil {
			t.Errorf("a certificate of the role %s does not show the status: %v: %s", role, err, out)
		}
		out, err := s.Command(s.ctx, "member", "remove", "c1") // two of three survive no failure
		if refused := strings.Contains(fmt.Sprint(out, err), "it needs the role admin"); refused == allowed || err == nil {
			t.Errorf("a certificate of the role %s: %v: %s", role, err, out)
		}
	}

	if code, text := ask("POST", changes+"Drain", tokens[pki.Operator]); code != http.StatusOK {
		t.Fatalf("drain: %d: %s", code, text)
	}
	s.check(leader.Kill())
	log, err := os.ReadFile(s.AuditLog(leader))
	s.check(err)
	last := map[string]string{} // who has asked for something last
	for line := range strings.Lines(string(log)) {
		var r struct{ Who, What string }
		s.check(json.Unmarshal([]byte(line), &r))
		if r.What != "" {
			last[r.What] = r.Who
		}
	}
	if last["POST /holdfast.v1.Operations/Drain"] != "operator my-operator" || last["POST /holdfast.v1.Operations/ChangeMembers"] != "admin admin" {
		t.Errorf("the audit log of %s says %v:\n%s", leader.Name, last, log)
	}

	other := "https://" + s.followers()[0].API + "/holdfast.v1.Cluster/GetController"
	s.check(token.Remove(file, "my-viewer"))
	await.Until(t, "the removed token to be refused", func() bool {
		code, _ := ask("POST", other, tokens[pki.Viewer])
		return code == http.StatusUnauthorized
	})
}

// curl returns a client without a certificate, which does not look at names of hosts.
func (s *testCluster) curl() *http.Client {
	ca, err := os.ReadFile(pki.CertFile(s.Authority(), pki.AuthorityName))
	s.check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		VerifyConnection: func(c tls.ConnectionState) error {
			_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots})
			return err
		}}}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// onlyAs leaves the command line the certificate of a role, and of no other one.
func (s *testCluster) onlyAs(role pki.Role) {
	for _, r := range []pki.Role{pki.Admin, pki.Operator, pki.Viewer} {
		for _, file := range []string{pki.CertFile(s.Authority(), string(r)), pki.KeyFile(s.Authority(), string(r))} {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				s.check(err)
			}
		}
	}
	_, err := s.Issue(pki.Identity{Role: role, Name: string(role)})
	s.check(err)
}
