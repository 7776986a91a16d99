package config

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// BFD is how switches are to watch the links between them, if application liveness runs.
type BFD struct {
	Enabled bool // else what was set up is removed
	// Database is where the database of a switch listens, as Open vSwitch writes it, with {address} for the address
	// from which the switch or its agent connects, and {dpid} for its datapath id.
	Database   string
	Floor      time.Duration // the least interval
	Multiplier uint64
}

// databasePort is the registered one of OVSDB.
const databasePort = 6640

func defaultBFD() BFD { return BFD{Enabled: true, Floor: 15 * time.Millisecond, Multiplier: 3} }

func (p *parser) bfd(n *yaml.Node) error {
	b := &p.cluster.BFD
	return p.mapping(n, "bfd", []field{
		{"enabled", func(n *yaml.Node) error { return p.flag(n, "enabled", &b.Enabled) }},
		{"database", func(n *yaml.Node) error {
			p.databaseNode = n
			if err := p.text(n, "database", &b.Database); err != nil {
				return err
			}
			return p.checkDatabase(n, b.Database)
		}},
		{"floor_ms", func(n *yaml.Node) error { return p.millis(n, "floor_ms", 1, 10_000, &b.Floor) }},
		{"multiplier", func(n *yaml.Node) error { return p.number(n, "multiplier", 2, 255, &b.Multiplier) }},
	})
}

var place = regexp.MustCompile(`\{[^}]*\}?`)

func (p *parser) checkDatabase(n *yaml.Node, text string) error {
	bad := func(problem string) error {
		return p.mistake(n, fmt.Sprintf("database %q %s", text, problem),
			fmt.Sprintf("write it like tcp:{address}:%d, ssl:{address}:%d or unix:/run/{dpid}.sock", databasePort,
				databasePort))
	}
	for _, found := range place.FindAllString(text, -1) {
		if found != "{address}" && found != "{dpid}" {
			return bad(fmt.Sprintf("has %s, which stands for nothing", found))
		}
	}
	kind, address, _ := strings.Cut(text, ":")
	switch kind {
	case "unix":
		if address == "" {
			return bad("names no file")
		}
		return nil
	case "tcp", "ssl":
	default:
		return bad("is neither tcp:, ssl: nor unix:")
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return bad("is not host:port")
	}
	if num, err := strconv.ParseUint(port, 10, 16); err != nil || num == 0 {
		return bad("has no port from 1 to 65535")
	}
	return nil
}

// completeBFD is called when the whole file was read: where databases listen depends on whether there is TLS.
func (p *parser) completeBFD() error {
	b, secure := &p.cluster.BFD, p.cluster.TLS != nil
	switch {
	case b.Database == "" && secure:
		b.Database = fmt.Sprintf("ssl:{address}:%d", databasePort)
	case b.Database == "":
		b.Database = fmt.Sprintf("tcp:{address}:%d", databasePort)
	case !secure && strings.HasPrefix(b.Database, "ssl:"):
		return p.mistake(p.databaseNode, fmt.Sprintf("database %q, and no certificates", b.Database),
			"add `tls:` with the files ca, cert and key")
	}
	return nil
}

// flag reads true or false.
func (p *parser) flag(n *yaml.Node, what string, to *bool) error {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!bool" {
		return p.mistake(n, fmt.Sprintf("%s is %s", what, describe(n)), "write true or false")
	}
	return n.Decode(to)
}
