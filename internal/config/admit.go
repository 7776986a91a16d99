package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Admitted is a certificate of a switch or an agent, and the datapath ids that it may use. One of Fingerprint and
// Subject is there.
type Admitted struct {
	// SHA-256 of the certificate, in 64 hexadecimal digits
	Fingerprint string `json:"fingerprint,omitempty"`
	// distinguished name (RFC 2253)
	Subject string `json:"subject,omitempty"`
	// switch or agent, if the certificate does not say its role itself
	Role     string                `json:"role"`
	Switches []openflow.DatapathID `json:"switches"`
}

// maxAdmitted bounds the list of certificates, and maxAdmittedIDs the datapath ids of one.
const (
	maxAdmitted    = 4096
	maxAdmittedIDs = 1024
)

var fingerprint = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (p *parser) admit(n *yaml.Node) error {
	items, err := p.sequence(n, "tls.admit")
	if err != nil {
		return err
	}
	if len(items) > maxAdmitted {
		return p.mistake(n, fmt.Sprintf("%d certificates are admitted", len(items)),
			fmt.Sprintf("use at most %d: certificates of holdfast pki issue --switch need no line", maxAdmitted))
	}
	for _, item := range items {
		a := Admitted{Role: "switch"}
		err := p.mapping(item, "a certificate that is admitted", []field{
			{"fingerprint", func(n *yaml.Node) error { return p.fingerprint(n, &a.Fingerprint) }},
			{"subject", func(n *yaml.Node) error { return p.text(n, "subject", &a.Subject) }},
			{"role", func(n *yaml.Node) error { return p.oneOf(n, "role", []string{"switch", "agent"}, &a.Role) }},
			{"switches", func(n *yaml.Node) error { return p.datapaths(n, &a.Switches) }},
		})
		if err != nil {
			return err
		}
		if (a.Fingerprint == "") == (a.Subject == "") || len(a.Switches) == 0 {
			return p.mistake(item, "a certificate that is admitted is not complete",
				"write fingerprint or subject, and switches: the datapath ids that it may use")
		}
		p.cluster.Admit = append(p.cluster.Admit, a)
	}
	return nil
}

// fingerprint reads what openssl x509 -fingerprint -sha256 prints, with or without colons.
func (p *parser) fingerprint(n *yaml.Node, to *string) error {
	if err := p.text(n, "fingerprint", to); err != nil {
		return err
	}
	if *to = strings.ToLower(strings.ReplaceAll(*to, ":", "")); !fingerprint.MatchString(*to) {
		return p.mistake(n, fmt.Sprintf("fingerprint %q", *to), "write the SHA-256 that `openssl x509 -noout "+
			"-fingerprint -sha256 -in FILE` prints: 64 hexadecimal digits")
	}
	return nil
}

func (p *parser) datapaths(n *yaml.Node, to *[]openflow.DatapathID) error {
	var list []string
	if err := p.texts(n, "switches", &list); err != nil {
		return err
	}
	if len(list) > maxAdmittedIDs {
		return p.mistake(n, fmt.Sprintf("%d datapath ids of one certificate", len(list)), fmt.Sprintf("use at most %d",
			maxAdmittedIDs))
	}
	for _, text := range list {
		id, err := openflow.ParseDatapathID(text)
		if err != nil {
			return p.mistake(n, err.Error(), "write it as holdfast status shows it")
		}
		*to = append(*to, id)
	}
	slices.Sort(*to)
	return nil
}
