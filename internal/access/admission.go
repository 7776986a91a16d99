package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// admission says which certificates may speak for which switches. What a certificate says of itself goes first, then
// the list of the cluster file. Whoever has a certificate without either may speak for any switch, unless the cluster
// file refuses that.
type admission struct {
	list           []config.Admitted
	refuseUnlisted bool
}

func admissionOf(cluster *config.Cluster) admission {
	return admission{cluster.Admit, cluster.RefuseUnlisted}
}

// identify returns who the holder of a certificate is. One that does not say it may be in the list.
func (a admission) identify(cert *x509.Certificate) (pki.Identity, error) {
	id, err := pki.Of(cert)
	if err == nil {
		return id, nil
	}
	if e := a.find(cert); e != nil {
		return pki.Identity{Role: pki.Role(e.Role), Name: cert.Subject.String()}, nil
	}
	return id, fmt.Errorf("%w; if another authority has made it, list it in tls: admit of the cluster file", err)
}

func (a admission) find(cert *x509.Certificate) *config.Admitted {
	if len(a.list) == 0 {
		return nil
	}
	sum, subject := mtls.Fingerprint(cert), cert.Subject.String()
	i := slices.IndexFunc(a.list, func(e config.Admitted) bool {
		return e.Fingerprint == sum || e.Fingerprint == "" && e.Subject == subject
	})
	if i < 0 {
		return nil
	}
	return &a.list[i]
}

var errRole = errors.New("its certificate is for another role")

// holder returns who the peer of a connection is, and whether its certificate or the list says which switches are its
// own.
func (a admission) holder(conn net.Conn) (who string, bound bool, err error) {
	cert, err := mtls.Certificate(conn)
	if err != nil {
		return "", false, err
	}
	id, err := a.identify(cert)
	if err != nil {
		return "", false, err
	}
	ids, err := pki.Datapaths(cert)
	return id.String(), len(ids) > 0 || a.find(cert) != nil, err
}

// admit returns an error if a peer may not speak for a switch: agent says whether it does as an agent.
func (a admission) admit(conn net.Conn, id openflow.DatapathID, agent bool) error {
	cert, err := mtls.Certificate(conn)
	if err != nil {
		return err
	}
	return a.admitCertificate(cert, id, agent)
}

func (a admission) admitCertificate(cert *x509.Certificate, switchID openflow.DatapathID, agent bool) error {
	id, err := a.identify(cert)
	if err != nil {
		return err
	}
	if speaks := role(agent); id.Role != speaks {
		return fmt.Errorf("%w: it is that of %s, which speaks as %s: issue one for that with `holdfast pki issue %s`",
			errRole, id, speaks, speaks)
	}
	ids, err := pki.Datapaths(cert)
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		e := a.find(cert)
		switch {
		case e != nil:
			ids = e.Switches
		case a.refuseUnlisted:
			return fmt.Errorf("the certificate of %s has no datapath ids, and tls of the cluster file has unlisted: "+
				"refuse: issue one with `holdfast pki issue --switch %s`, or list it in admit (fingerprint %s)", id,
				switchID, mtls.Fingerprint(cert))
		default:
			return nil
		}
	}
	if !slices.Contains(ids, switchID) {
		return fmt.Errorf("the certificate of %s is not for switch %s, but for %v: use the switch's own certificate, "+
			"or issue one with `holdfast pki issue --switch %s`", id, switchID, ids, switchID)
	}
	return nil
}

func role(agent bool) pki.Role {
	if agent {
		return pki.Agent
	}
	return pki.Switch
}
