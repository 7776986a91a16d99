// Package access says who may connect to whom in a cluster with TLS, and secures these connections:
// docs/operating/access.md has the rules as a table. If the cluster file has no tls, everything is plain TCP.
//
// It neither issues certificates (package pki does) nor reads and checks them (package mtls does).
package access

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// load reads the certificate and key of the process called name, and the file of certificates that are denied.
func load(t config.TLS, deny, name string, own mtls.Policy, log *slog.Logger) (*mtls.Credentials, error) {
	c, err := mtls.LoadDenying(mtls.Files(t.Of(name)), deny, own, log)
	if err != nil {
		return nil, fmt.Errorf("tls: %w; the section tls of the cluster file names these files, and holdfast pki "+
			"makes them", err)
	}
	return c, nil
}

// Controller secures the connections of one controller. A nil Controller is one without TLS: it leaves listeners as
// they are, and its other methods must not be called.
type Controller struct {
	dialer
	admission
	members map[uint64]string // names of the controllers in the cluster file, by id
	tokens  bool              // those who have one need no certificate
}

// OfController reads the certificate of a controller, and watches its files until ctx ends. It returns nil if the
// cluster has no TLS.
func OfController(ctx context.Context, cluster *config.Cluster, name string, log *slog.Logger) (*Controller, error) {
	if cluster.TLS == nil {
		return nil, nil
	}
	c, err := load(*cluster.TLS, cluster.Deny, name, mtls.Only(pki.Identity{Role: pki.Controller, Name: name}), log)
	if err != nil {
		return nil, err
	}
	go c.Watch(ctx)
	a := &Controller{dialer{c, map[string]string{}}, admissionOf(cluster), map[uint64]string{}, cluster.Tokens != ""}
	for _, n := range cluster.Controllers {
		a.names[n.API], a.names[n.REST], a.members[n.ID] = n.Name, n.Name, n.Name
	}
	return a, nil
}

// Switches accepts agents and switches.
func (a *Controller) Switches(l net.Listener) net.Listener {
	if a == nil {
		return l
	}
	return a.credentials.ListenerOf(l, a.identify, mtls.Role(pki.Agent, pki.Switch))
}

// Scrapes accepts who may read metrics: those that may read the API of controllers.
func (a *Agent) Scrapes(l net.Listener) net.Listener {
	return a.credentials.WebListener(l, mtls.Web{What: "the metrics", Protocols: []string{"http/1.1"},
		Policy: mtls.Role(pki.Viewer, pki.Operator, pki.Admin, pki.Controller)})
}

// AdmitSwitch returns an error if a peer that Switches has accepted may not speak for a switch: agent says whether it
// does as an agent. Without TLS everybody may.
func (a *Controller) AdmitSwitch(_ context.Context, conn net.Conn, id openflow.DatapathID, agent bool) error {
	if a == nil {
		return nil
	}
	return a.admit(conn, id, agent)
}

// Holder returns who the peer of a connection that Switches has accepted is, and whether its certificate or the cluster
// file says which switches are its own.
func (a *Controller) Holder(conn net.Conn) (who string, bound bool, err error) { return a.holder(conn) }

// API accepts those who may use the API, of which a Guard looks at each request, and logs why others are refused.
// Without TLS it logs who speaks it.
func (a *Controller) API(l net.Listener, log *slog.Logger) net.Listener {
	if a == nil {
		return mtls.Plain(l, log, "the API")
	}
	return a.credentials.WebListener(l, mtls.Web{What: "the API", Anonymous: a.tokens,
		Protocols: []string{"h2", "http/1.1"}, Policy: mtls.Role(pki.Viewer, pki.Operator, pki.Admin, pki.Controller)})
}

// REST accepts those whom API accepts, and clients of applications.
func (a *Controller) REST(l net.Listener, log *slog.Logger) net.Listener {
	const what = "the applications over HTTP"
	if a == nil {
		return mtls.Plain(l, log, what)
	}
	return a.credentials.WebListener(l, mtls.Web{What: what, Anonymous: a.tokens, Protocols: []string{"h2", "http/1.1"},
		Policy: mtls.Role(pki.Client, pki.Viewer, pki.Operator, pki.Admin, pki.Controller)})
}

// Members accepts other controllers. Which one it is Admit checks, once it has said so.
func (a *Controller) Members(l net.Listener) net.Listener {
	if a == nil {
		return l
	}
	return a.credentials.Listener(l, mtls.Role(pki.Controller))
}

// Admit returns an error if a connection that Members accepted is not that of this member.
func (a *Controller) Admit(conn net.Conn, member uint64) error {
	id, err := mtls.Peer(conn)
	if err != nil {
		return err
	}
	return controllerCalled(a.members[member])(id)
}

// DialMember connects to another controller.
func (a *Controller) DialMember(ctx context.Context, member uint64, address string) (net.Conn, error) {
	return a.credentials.Dial(ctx, address, controllerCalled(a.members[member]))
}

// DialDatabase connects to the database of a switch.
func (a *Controller) DialDatabase(ctx context.Context, address string) (net.Conn, error) {
	conn, err := a.credentials.Dial(ctx, address, mtls.Role(pki.Switch))
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok &&
		invalid.Reason == x509.IncompatibleUsage {
		return nil, fmt.Errorf("%w; to serve its database, a switch needs the certificate of `holdfast pki issue "+
			"switch NAME --address ADDRESS`", err)
	}
	return conn, err
}

// controllerCalled is the policy that accepts the controller of a name. If the name is "" it accepts any controller:
// that is a member which is not in this cluster file yet.
func controllerCalled(name string) mtls.Policy {
	if name == "" {
		return mtls.Role(pki.Controller)
	}
	return mtls.Only(pki.Identity{Role: pki.Controller, Name: name})
}

// Agent secures the connections of an agent. It is not made without TLS.
type Agent struct {
	dialer
	admission
}

// OfAgent reads the certificate of the agent called name, and watches its files until ctx ends.
func OfAgent(ctx context.Context, cluster *config.Cluster, name string, log *slog.Logger) (*Agent, error) {
	c, err := load(*cluster.TLS, cluster.Deny, name, mtls.Role(pki.Agent), log)
	if err != nil {
		return nil, err
	}
	go c.Watch(ctx)
	names := map[string]string{}
	for _, n := range cluster.Controllers {
		names[n.OpenFlow] = n.Name
	}
	return &Agent{dialer{c, names}, admissionOf(cluster)}, nil
}

// Switches accepts switches.
func (a *Agent) Switches(l net.Listener) net.Listener {
	return a.credentials.ListenerOf(l, a.identify, mtls.Role(pki.Switch))
}

// AdmitSwitch returns an error if a peer that Switches has accepted is not to be this switch.
func (a *Agent) AdmitSwitch(conn net.Conn, id openflow.DatapathID) error {
	return a.admit(conn, id, false)
}

// operatorNames replace {name} in the cluster file for the command line: the first whose certificate is there.
var operatorNames = []string{"admin", "operator", "viewer"}

func operatorName(t config.TLS) string {
	for _, name := range operatorNames {
		if _, err := os.Stat(t.Of(name).Cert); err == nil {
			return name
		}
	}
	return string(pki.Operator) // reading its certificate tells what is wrong
}

// OfOperator reads the certificate of who uses the command line, and returns what connects to the API of controllers;
// nil if the cluster has no TLS.
func OfOperator(cluster *config.Cluster, log *slog.Logger) (func(context.Context, string) (net.Conn, error), error) {
	if cluster.TLS == nil {
		return nil, nil
	}
	// what is denied is on the machines of controllers and agents
	c, err := load(*cluster.TLS, "", operatorName(*cluster.TLS),
		mtls.Role(pki.Viewer, pki.Operator, pki.Admin, pki.Controller), log)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, n := range cluster.Controllers {
		names[n.API] = n.Name
	}
	return dialer{c, names}.DialController, nil
}

// dialer connects to controllers.
type dialer struct {
	credentials *mtls.Credentials
	names       map[string]string // of controllers, by the address that is dialled
}

// DialController connects to the controller whose address it is.
func (d dialer) DialController(ctx context.Context, address string) (net.Conn, error) {
	return d.credentials.Dial(ctx, address, controllerCalled(d.names[address]))
}
