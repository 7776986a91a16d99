package access

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// certificate makes one with these URIs.
func certificate(t *testing.T, subject string, uris ...string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: subject},
		NotAfter: time.Now().Add(time.Hour)}
	for _, u := range uris {
		parsed, err := url.Parse(u)
		if err != nil {
			t.Fatal(err)
		}
		template.URIs = append(template.URIs, parsed)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestAdmission: a certificate speaks in its role only, and for its datapath ids only, which it says itself, or the
// list does.
func TestAdmission(t *testing.T) {
	const a1 = "holdfast-datapath:00000000000000a1"
	anySwitch, oneSwitch := certificate(t, "s", "holdfast://switch/s"), certificate(t, "s1", "holdfast://switch/s1", a1)
	anyAgent, oneAgent := certificate(t, "a", "holdfast://agent/a"), certificate(t, "a1", "holdfast://agent/a1", a1)
	foreign, listed, printed := certificate(t, "stranger"), certificate(t, "listed"), certificate(t, "printed")
	named := certificate(t, "named", "holdfast://switch/named")
	damaged := certificate(t, "d", "holdfast://switch/d", "holdfast-datapath:a1")
	a := admission{list: []config.Admitted{
		{Subject: "CN=listed", Role: "switch", Switches: []openflow.DatapathID{0xa1}},
		{Subject: "CN=named", Role: "agent", Switches: []openflow.DatapathID{0xa1}},
		{Subject: "CN=s1", Role: "agent", Switches: []openflow.DatapathID{0xa2}}, // what it says itself goes first
		{Fingerprint: mtls.Fingerprint(printed), Role: "agent", Switches: []openflow.DatapathID{0xa1, 0xa2}}}}
	for _, c := range []struct {
		name    string
		cert    *x509.Certificate
		id      openflow.DatapathID
		agent   bool
		refused string // "": it is admitted
		strict  bool   // refused if unlisted are
	}{
		{"a switch", anySwitch, 0xa2, false, "", true},
		{"a switch as an agent", anySwitch, 0xa2, true, "for another role", true},
		{"a switch for itself", oneSwitch, 0xa1, false, "", false},
		{"a switch for another", oneSwitch, 0xa2, false, "not for switch 00000000000000a2, but for", true},
		{"a switch as an agent for itself", oneSwitch, 0xa1, true, "for another role", true},
		{"an agent", anyAgent, 7, true, "", true},
		{"an agent as a switch", anyAgent, 7, false, "for another role", true},
		{"an agent for its switch", oneAgent, 0xa1, true, "", false},
		{"an agent for another", oneAgent, 7, true, "not for switch", true},
		{"one that does not say its role", foreign, 7, false, "does not say who its holder is", true},
		{"one in the list", listed, 0xa1, false, "", false},
		{"one in the list as an agent", listed, 0xa1, true, "for another role", true},
		{"one in the list for another", listed, 0xa2, false, "not for switch", true},
		{"one with a role in the list", named, 0xa1, false, "", false},
		{"one with another role in the list", named, 0xa1, true, "for another role", true},
		{"a fingerprint in the list", printed, 0xa2, true, "", false},
		{"a fingerprint in the list for another", printed, 0xa3, true, "not for switch", true},
		{"one with a damaged datapath id", damaged, 0xa1, false, "not of the form", true},
	} {
		err := a.admitCertificate(c.cert, c.id, c.agent)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refused)
		}
		strict := a
		strict.refuseUnlisted = true
		if err := strict.admitCertificate(c.cert, c.id, c.agent); (err != nil) != c.strict {
			t.Errorf("%s, unlisted ones are refused: %v", c.name, err)
		}
	}
	if id, err := a.identify(printed); err != nil || id.Role != pki.Agent {
		t.Errorf("it is taken for %v, %v", id, err)
	}
}
