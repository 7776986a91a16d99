package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
	"github.com/holdfast-sdn/holdfast/lab/browser"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// TestTLSDashboard: in a cluster with TLS, a browser without a certificate asks for a token, and one with the
// certificate of a viewer does not. Both check the certificate of the controller, and say nothing in the console.
func TestTLSDashboard(t *testing.T) {
	chromium := browser.Find()
	if chromium == "" || !browser.FindCertutil() {
		t.Skip("there is no Chromium, or no certutil: apt-get install chromium libnss3-tools")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tokens")
	secret, err := token.Add(file, pki.Identity{Role: pki.Viewer, Name: "by-token"})
	if err != nil {
		t.Fatal(err)
	}
	s := startCluster(t, cluster.Config{TLS: true, Sections: "tokens: " + file + "\n"})
	leader := s.leader()
	site, dir := "https://"+leader.API, s.Authority()
	alice, err := s.Issue(pki.Identity{Role: pki.Viewer, Name: "alice"})
	s.check(err)
	for _, c := range []browser.Certificates{
		{CA: pki.CertFile(dir, pki.AuthorityName)},
		{CA: alice.CA, Cert: alice.Cert, Key: alice.Key, Site: site},
	} {
		home := t.TempDir()
		s.check(browser.Import(s.ctx, home, c))
		page, err := browser.Open(s.ctx, chromium, home)
		s.check(err)
		t.Cleanup(func() { s.check(page.Close()) })
		s.check(page.Go(site + "/"))
		shown := fmt.Sprintf(`document.querySelector(".leader").textContent === %q`, leader.Name)
		asked := false
		s.check(page.Until(`document.querySelector(".leader, form.login")`))
		s.check(page.Eval(`!!document.querySelector("form.login")`, &asked))
		if asked {
			s.check(page.Until(`document.activeElement.type === "password"`))
			for _, letter := range secret {
				s.check(page.Key(string(letter)))
			}
			s.check(page.Eval(`document.querySelector("form.login button").click()`, nil))
		}
		s.check(page.Until(shown))
		if asked != (c.Cert == "") {
			t.Errorf("the page has asked for a token: %v; the certificate is %q", asked, c.Cert)
		}
		for _, problem := range page.Problems() {
			if !asked || !strings.Contains(problem, "401") { // without a token Chromium itself says so
				t.Errorf("the console says %s", problem)
			}
		}
	}
}
