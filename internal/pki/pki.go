// Package pki is a small certificate authority for a cluster that has none, and the way in which
// a certificate says who its holder is. Files of PEM in one folder are all that it keeps. It
// revokes nothing, and opens no connection: package mtls does.
package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// Role is what the holder of a certificate may be.
type Role string

// The roles.
const (
	Controller Role = "controller" // one of the group
	Agent      Role = "agent"      // beside a switch
	Switch     Role = "switch"     // with an agent or without; it only connects to others
	Viewer     Role = "viewer"     // a person or program that reads the API of the controllers, and applications
	Operator   Role = "operator"   // one that also changes what a cluster does, but not who belongs to it
	Admin      Role = "admin"      // one that may do everything
	Client     Role = "client"     // a program that uses the applications that controllers serve over HTTP
)

// Roles are all of them.
var Roles = []Role{Controller, Agent, Switch, Viewer, Operator, Admin, Client}

// Identity is who the holder of a certificate is. The certificate has it as a URI among its
// alternative names: holdfast://controller/c1.
type Identity struct {
	Role Role
	Name string
}

func (i Identity) String() string { return string(i.Role) + " " + i.Name }

const scheme = "holdfast"

// datapathScheme is that of the URIs with the datapath ids for which the holder may speak, another alternative name for
// each: holdfast-datapath:00000000000000a1.
const datapathScheme = "holdfast-datapath"

// MaxDatapaths bounds the datapath ids in a certificate.
const MaxDatapaths = 256

func datapathURI(id openflow.DatapathID) *url.URL {
	return &url.URL{Scheme: datapathScheme, Opaque: id.String()}
}

// Datapaths returns the datapath ids for which the holder of a certificate may speak, in order. None: it does not say.
func Datapaths(cert *x509.Certificate) (ids []openflow.DatapathID, err error) {
	for _, u := range cert.URIs {
		if u.Scheme != datapathScheme {
			continue
		}
		id, err := openflow.ParseDatapathID(u.Opaque)
		if err != nil || id == 0 || u.String() != datapathURI(id).String() {
			return nil, fmt.Errorf("its alternative name %q is not of the form %s:0000000000000001", u, datapathScheme)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids, nil
}

func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: string(i.Role), Path: "/" + i.Name}
}

// as in the cluster file; it is also the name of a file
var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// Validate returns an error if there is no such role, or if the name cannot be one.
func (i Identity) Validate() error {
	if !slices.Contains(Roles, i.Role) {
		return fmt.Errorf("unknown role %q; known: %s", i.Role, roleList())
	}
	if !validName.MatchString(i.Name) {
		return fmt.Errorf("name %q: use at most 63 of a-z, 0-9, - and _, beginning with a letter or digit", i.Name)
	}
	return nil
}

func roleList() string {
	var list []string
	for _, r := range Roles {
		list = append(list, string(r))
	}
	return strings.Join(list, ", ")
}

// Of returns the identity in a certificate, which must have exactly one. It does not verify the
// certificate.
func Of(cert *x509.Certificate) (Identity, error) {
	var found []Identity
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			found = append(found, Identity{Role(u.Host), strings.TrimPrefix(u.Path, "/")})
		}
	}
	if len(found) == 0 {
		return Identity{}, errors.New("it does not say who its holder is: it needs the alternative name " +
			"URI:holdfast://ROLE/NAME, as `holdfast pki issue` gives it")
	}
	if len(found) > 1 {
		return Identity{}, fmt.Errorf("it is of both %s and %s: one certificate is for one holder", found[0], found[1])
	}
	// No other spelling of the same, with a query or an escape: what is compared later is the whole.
	if err := found[0].Validate(); err != nil || !slices.ContainsFunc(cert.URIs,
		func(u *url.URL) bool { return u.String() == found[0].uri().String() }) {
		return Identity{}, errors.Join(errors.New("its alternative name is not of the form holdfast://ROLE/NAME"), err)
	}
	return found[0], nil
}
