package config

import (
	"fmt"
	"net/url"

	"go.yaml.in/yaml/v3"
)

// Tracing says which events of switches are followed through the cluster, and where their traces go.
type Tracing struct {
	Endpoint string // URL of a collector that takes OTLP over HTTP
	OneIn    uint64 // of so many events one is followed
}

func (p *parser) tracing(n *yaml.Node) error {
	t := &Tracing{OneIn: 1000}
	err := p.mapping(n, "tracing", []field{
		{"endpoint", func(n *yaml.Node) error { return p.endpoint(n, &t.Endpoint) }},
		{"one_in", func(n *yaml.Node) error { return p.number(n, "one_in", 1, 1_000_000_000, &t.OneIn) }},
	})
	if err == nil && t.Endpoint == "" {
		err = p.mistake(n, "tracing has no endpoint",
			"write endpoint: http://127.0.0.1:4318, the address of the collector")
	}
	p.cluster.Tracing = t
	return err
}

func (p *parser) endpoint(n *yaml.Node, to *string) error {
	if err := p.text(n, "endpoint", to); err != nil {
		return err
	}
	u, err := url.Parse(*to)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return p.mistake(n, fmt.Sprintf("endpoint is %q", *to), "write a URL like http://127.0.0.1:4318")
	}
	return nil
}
