package config

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

// StoreGrant gives clients of the store rights in some namespaces. Client and each of Namespaces may end with *, for
// all names that begin so.
type StoreGrant struct {
	Client     string
	Namespaces []string
	Allow      []string // of storeRights
}

// maxGrants bounds them. Each is looked at for a request.
const maxGrants = 256

var storeRights = []string{"read", "write", "upload"}

func (p *parser) store(n *yaml.Node) error {
	p.storeNode = n
	return p.mapping(n, "store", []field{{"access", p.storeAccess}})
}

func (p *parser) storeAccess(n *yaml.Node) error {
	items, err := p.sequence(n, "store.access")
	if err != nil {
		return err
	}
	if len(items) > maxGrants {
		return p.mistake(n, fmt.Sprintf("%d rules of access", len(items)), fmt.Sprintf("use at most %d; names may end "+
			"with *", maxGrants))
	}
	p.cluster.StoreAccess = []StoreGrant{}
	for _, item := range items {
		var g StoreGrant
		err := p.mapping(item, "a rule of access", []field{
			{"client", func(n *yaml.Node) error { return p.text(n, "client", &g.Client) }},
			{"namespaces", func(n *yaml.Node) error { return p.texts(n, "namespaces", &g.Namespaces) }},
			{"allow", func(n *yaml.Node) error { return p.rights(n, &g.Allow) }},
		})
		if err != nil {
			return err
		}
		if g.Client == "" || len(g.Namespaces) == 0 || len(g.Allow) == 0 {
			return p.mistake(item, "a rule of access is not complete", "write client, namespaces and allow")
		}
		p.cluster.StoreAccess = append(p.cluster.StoreAccess, g)
	}
	return nil
}

// rights reads a list of them.
func (p *parser) rights(n *yaml.Node, to *[]string) error {
	items, err := p.sequence(n, "allow")
	if err != nil {
		return err
	}
	for _, item := range items {
		var right string
		if err := p.text(item, "a right", &right); err != nil {
			return err
		}
		if !slices.Contains(storeRights, right) {
			return p.unknown(item, "right", right, storeRights)
		}
		*to = append(*to, right)
	}
	return nil
}

// checkStore refuses rules of access where nobody's name is known.
func (p *parser) checkStore() error {
	switch {
	case p.storeNode == nil:
		return nil
	case p.cluster.TLS == nil && p.cluster.Tokens == "":
		return p.mistake(p.storeNode,
			"store.access without tls and tokens: clients are known by certificates or tokens",
			"add `tls` or `tokens`, or remove this section")
	case len(p.cluster.StoreAccess) == 0:
		return p.mistake(p.storeNode, "store.access has no rules, so nobody or everybody may do everything",
			"add rules, or remove this section: then every client may do everything")
	}
	return nil
}
