package cluster

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Authority is the folder of the cluster's certificate authority, with Config.TLS.
func (c *Cluster) Authority() string { return filepath.Join(c.cfg.Dir, "pki") }

func (c *Cluster) denyFile() string { return filepath.Join(c.Authority(), "deny.txt") }

// Deny replaces the certificates that all processes refuse, each by its serial number or fingerprint.
func (c *Cluster) Deny(certificates ...string) error {
	next := c.denyFile() + ".new"
	if err := os.WriteFile(next, []byte(strings.Join(certificates, "\n")), 0o600); err != nil {
		return err
	}
	return os.Rename(next, c.denyFile())
}

// Issue makes a certificate of the cluster's authority, for a switch for example, and returns its files.
func (c *Cluster) Issue(id pki.Identity) (mtls.Files, error) {
	dir := c.Authority()
	f := mtls.Files{CA: pki.CertFile(dir, pki.AuthorityName), Cert: pki.CertFile(dir, id.Name),
		Key: pki.KeyFile(dir, id.Name)}
	r := pki.Request{Identity: id, Days: pki.DefaultDays}
	if id.Role == pki.Controller {
		r.Addresses = []string{"127.0.0.1"} // browsers check it
	}
	return f, pki.Issue(dir, r, time.Now())
}

// makeAuthority makes it with the certificates of all processes, and of this one as an admin.
func (c *Cluster) makeAuthority() error {
	if err := pki.Init(c.Authority(), time.Now()); err != nil {
		return err
	}
	if err := c.Deny(); err != nil {
		return err
	}
	for _, a := range c.agents {
		if _, err := c.Issue(pki.Identity{Role: pki.Agent, Name: a.name}); err != nil {
			return err
		}
	}
	for _, n := range c.controllers {
		if _, err := c.Issue(pki.Identity{Role: pki.Controller, Name: n.Name}); err != nil {
			return err
		}
	}
	if _, err := c.Issue(pki.Identity{Role: pki.Operator, Name: "operator"}); err != nil {
		return err
	}
	files, err := c.Issue(pki.Identity{Role: pki.Admin, Name: "admin"})
	if err != nil {
		return err
	}
	admin, err := mtls.Load(files, mtls.Role(pki.Admin), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		address string) (net.Conn, error) {
		return admin.Dial(ctx, address, mtls.Role(pki.Controller))
	}}}
	for _, n := range c.controllers {
		n.client = client
	}
	return nil
}
