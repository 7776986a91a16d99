package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// authority creates an authority with a certificate of every role, named like the role.
func authority(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := pki.Init(dir, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, r := range pki.Roles {
		if err := pki.Issue(dir, request(r, string(r)), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func request(r pki.Role, name string) pki.Request {
	return pki.Request{Identity: pki.Identity{Role: r, Name: name}, Days: 10}
}

func read(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func TestCertificatesSayWhoAndForWhat(t *testing.T) {
	dir := authority(t)
	ca := read(t, pki.CertFile(dir, pki.AuthorityName))
	roots := x509.NewCertPool()
	roots.AddCert(ca)
	for _, r := range pki.Roles {
		cert := read(t, pki.CertFile(dir, string(r)))
		if id, err := pki.Of(cert); err != nil || id != (pki.Identity{Role: r, Name: string(r)}) {
			t.Errorf("%s: identity %v, %v", r, id, err)
		}
		verify := func(u x509.ExtKeyUsage) bool {
			_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{u}})
			return err == nil
		}
		serves := r == pki.Controller || r == pki.Agent
		if !verify(x509.ExtKeyUsageClientAuth) || verify(x509.ExtKeyUsageServerAuth) != serves {
			t.Errorf("%s: as client %v, as server %v, which should be %v", r, verify(x509.ExtKeyUsageClientAuth),
				verify(x509.ExtKeyUsageServerAuth), serves)
		}
		if cert.IsCA || cert.CheckSignatureFrom(ca) != nil || time.Until(cert.NotAfter) > 10*24*time.Hour {
			t.Errorf("%s: is an authority: %v, signature: %v, expires %s", r, cert.IsCA, cert.CheckSignatureFrom(ca),
				cert.NotAfter)
		}
	}
	addressed := pki.Request{Identity: pki.Identity{Role: pki.Switch, Name: "serving"}, Addresses: []string{"10.0.0.7"},
		Days: 1}
	if err := pki.Issue(dir, addressed, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, renewed := range []bool{false, true} {
		if renewed {
			if err := pki.Renew(dir, "serving", 2, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		serving := read(t, pki.CertFile(dir, "serving"))
		if _, err := serving.Verify(x509.VerifyOptions{Roots: roots,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
			t.Errorf("a switch with an address, renewed %v, does not serve: %v", renewed, err)
		}
	}
	if _, err := pki.Of(ca); err == nil {
		t.Error("the authority's own certificate passes for somebody's")
	}
}

// A certificate says for which switches its holder speaks, also when it is renewed. Only those of switches and agents
// do.
func TestDatapathsInCertificates(t *testing.T) {
	dir := authority(t)
	r := request(pki.Agent, "two")
	r.Switches = []openflow.DatapathID{0xb2, 0xa1}
	if err := pki.Issue(dir, r, time.Now()); err != nil {
		t.Fatal(err)
	}
	for renewed := range 2 {
		cert := read(t, pki.CertFile(dir, "two"))
		ids, err := pki.Datapaths(cert)
		if err != nil || !slices.Equal(ids, []openflow.DatapathID{0xa1, 0xb2}) {
			t.Errorf("renewed %d times: datapath ids %v, %v", renewed, ids, err)
		}
		if id, err := pki.Of(cert); err != nil || id != r.Identity {
			t.Errorf("renewed %d times: identity %v, %v", renewed, id, err)
		}
		if err := pki.Renew(dir, "two", 5, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := pki.Datapaths(read(t, pki.CertFile(dir, "agent"))); err != nil || len(ids) > 0 {
		t.Errorf("of one without: %v, %v", ids, err)
	}
	for _, text := range []string{"1", "00000000000000A1", "0x00000000000000a1", "0000000000000000", ""} {
		cert := &x509.Certificate{URIs: []*url.URL{{Scheme: "holdfast-datapath", Opaque: text}}}
		if ids, err := pki.Datapaths(cert); err == nil {
			t.Errorf("%q is taken for %v", text, ids)
		}
	}
	for _, wrong := range []pki.Request{{Identity: pki.Identity{Role: pki.Operator, Name: "o"}, Days: 1,
		Switches: r.Switches}, {Identity: pki.Identity{Role: pki.Switch, Name: "many"}, Days: 1,
		Switches: make([]openflow.DatapathID, pki.MaxDatapaths+1)}} {
		if err := pki.Issue(dir, wrong, time.Now()); err == nil {
			t.Errorf("a certificate of %s for %d switches was issued", wrong.Identity, len(wrong.Switches))
		}
	}
}

func TestFileModes(t *testing.T) {
	dir := authority(t)
	for file, want := range map[string]fs.FileMode{
		dir: 0o700, pki.KeyFile(dir, "ca"): 0o600, pki.KeyFile(dir, "controller"): 0o600,
	} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, not %o", file, got, want)
		}
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := authority(t)
	before := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		before[f] = string(text)
	}
	if err := os.Remove(pki.KeyFile(dir, "agent")); err != nil { // moved to its machine
		t.Fatal(err)
	}
	delete(before, pki.KeyFile(dir, "agent"))
	for what, err := range map[string]error{
		"init":               pki.Init(dir, time.Now()),
		"a name twice":       pki.Issue(dir, request(pki.Switch, "controller"), time.Now()),
		"the authority":      pki.Issue(dir, request(pki.Switch, "ca"), time.Now()),
		"a key that is away": pki.Issue(dir, request(pki.Agent, "agent"), time.Now()),
	} {
		if err == nil || !strings.Contains(err.Error(), "is there already, and is not overwritten") {
			t.Errorf("%s: %v", what, err)
		}
	}
	after, _ := filepath.Glob(filepath.Join(dir, "*"))
	if len(after) != len(before) {
		t.Errorf("files %v, were %d", after, len(before))
	}
	for _, f := range after {
		if text, _ := os.ReadFile(f); string(text) != before[f] {
			t.Errorf("%s has changed", f)
		}
	}
}

func TestRenew(t *testing.T) {
	dir := authority(t)
	r := request(pki.Controller, "c1")
	r.Addresses = []string{"10.0.0.1", "fd00::1", "c1.example.org"}
	if err := pki.Issue(dir, r, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(pki.KeyFile(dir, "c1")); err != nil {
		t.Fatal(err)
	}
	old := read(t, pki.CertFile(dir, "c1"))
	if err := pki.Renew(dir, "c1", 100, time.Now()); err != nil {
		t.Fatal(err)
	}
	renewed := read(t, pki.CertFile(dir, "c1"))
	if id, err := pki.Of(renewed); err != nil || id != r.Identity {
		t.Errorf("renewed for %v, %v", id, err)
	}
	if !renewed.NotAfter.After(old.NotAfter) || renewed.SerialNumber.Cmp(old.SerialNumber) == 0 {
		t.Errorf("expires %s, did %s", renewed.NotAfter, old.NotAfter)
	}
	if !slices.Equal(renewed.DNSNames, old.DNSNames) || len(renewed.IPAddresses) != 2 ||
		!slices.Equal(renewed.RawSubjectPublicKeyInfo, old.RawSubjectPublicKeyInfo) {
		t.Errorf("names %v, addresses %v, or the key, are not as before", renewed.DNSNames, renewed.IPAddresses)
	}
	for _, name := range []string{"ca", "nobody", "../c1"} {
		if err := pki.Renew(dir, name, 1, time.Now()); err == nil {
			t.Errorf("renewed %s", name)
		}
	}
}

func TestMistakes(t *testing.T) {
	dir := authority(t)
	for want, r := range map[string]pki.Request{
		`unknown role "root"`: request("root", "x"),
		`name "C 1"`:          request(pki.Agent, "C 1"),
		`name "../c1"`:        request(pki.Agent, "../c1"),
		`0 days`:              {Identity: pki.Identity{Role: pki.Agent, Name: "x"}},
		`3651 days`:           {Identity: pki.Identity{Role: pki.Agent, Name: "x"}, Days: 3651},
		`address "h:1"`: {Identity: pki.Identity{Role: pki.Agent, Name: "x"}, Days: 1,
			Addresses: []string{"h:1"}},
	} {
		if err := pki.Issue(dir, r, time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	err := pki.Issue(t.TempDir(), request(pki.Agent, "x"), time.Now())
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "holdfast pki init") {
		t.Errorf("without an authority: %v", err)
	}
	late := time.Now().AddDate(11, 0, 0)
	if err := pki.Issue(dir, request(pki.Agent, "late"), late); err == nil ||
		!strings.Contains(err.Error(), "the authority expired") {
		t.Errorf("by an authority that has expired: %v", err)
	}
	if err := pki.Init(filepath.Join(dir, "ca.pem", "x"), time.Now()); err == nil {
		t.Error("made an authority in a file")
	}
}

// No certificate outlives its authority, whatever validity was requested.
func TestNobodyOutlivesTheAuthority(t *testing.T) {
	dir := authority(t)
	r := request(pki.Agent, "old")
	r.Days = pki.MaxDays
	if err := pki.Issue(dir, r, time.Now().AddDate(5, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if got, limit := read(t, pki.CertFile(dir, "old")).NotAfter,
		read(t, pki.CertFile(dir, "ca")).NotAfter; got.After(limit) {
		t.Errorf("expires %s, after the authority, which does %s", got, limit)
	}
}

func TestOf(t *testing.T) {
	for _, tc := range []struct {
		uris []string
		want string // the identity, or part of the error
	}{
		{[]string{"holdfast://controller/c1"}, "controller c1"},
		{[]string{"spiffe://example.org/x", "holdfast://switch/s-1"}, "switch s-1"},
		{nil, "does not say who"},
		{[]string{"spiffe://controller/c1"}, "does not say who"},
		{[]string{"holdfast://controller/c1", "holdfast://switch/s1"}, "of both"},
		{[]string{"holdfast://controller/c1", "holdfast://controller/c1"}, "of both"},
		{[]string{"holdfast://root/c1"}, "unknown role"},
		{[]string{"holdfast://controller/"}, "not of the form"},
		{[]string{"holdfast://controller"}, "not of the form"},
		{[]string{"holdfast:controller/c1"}, "not of the form"},
		{[]string{"holdfast://controller/c1/c2"}, "not of the form"},
		{[]string{"holdfast://controller/c1?x"}, "not of the form"},
		{[]string{"holdfast://controller/%631"}, "not of the form"},
		{[]string{"holdfast://controller//c1"}, "not of the form"},
		{[]string{"holdfast://x@controller/c1"}, "not of the form"},
		{[]string{"holdfast://controller:1/c1"}, "not of the form"},
	} {
		cert := &x509.Certificate{Subject: pkix.Name{CommonName: "c1", OrganizationalUnit: []string{"controller"}}}
		for _, text := range tc.uris {
			u, err := url.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			cert.URIs = append(cert.URIs, u)
		}
		id, err := pki.Of(cert)
		got := id.String()
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tc.want) || (err == nil) != (got == tc.want) {
			t.Errorf("%q: %s, want %s", tc.uris, got, tc.want)
		}
	}
}

// OpenSSL, which Open vSwitch uses, accepts the certificates.
func TestOpenSSL(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		if os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir := authority(t)
	for _, args := range [][]string{
		{"verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", pki.CertFile(dir, "ca"),
			pki.CertFile(dir, "switch")},
		{"verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", pki.CertFile(dir, "ca"),
			pki.CertFile(dir, "agent")},
		{"pkey", "-in", pki.KeyFile(dir, "switch"), "-noout", "-check"},
	} {
		if out, err := exec.Command(openssl, args...).CombinedOutput(); err != nil {
			t.Errorf("openssl %v: %v\n%s", args, err, out)
		}
	}
}

// Whatever a certificate contains, an identity that is found is valid and in its canonical form.
func FuzzOf(f *testing.F) {
	f.Add("holdfast://controller/c1")
	f.Add("holdfast://controller/%631?a#b")
	f.Add("holdfast:opaque")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil {
			return
		}
		id, err := pki.Of(&x509.Certificate{URIs: []*url.URL{u}})
		if err == nil && (!slices.Contains(pki.Roles, id.Role) ||
			u.String() != "holdfast://"+string(id.Role)+"/"+id.Name) {
			t.Errorf("%q is taken for %v", text, id)
		}
	})
}
