// Package vnet is a network to try things out: embedded switches and hosts in one process, joined in memory. It needs
// no root and no interfaces. A console pings between the hosts, and cuts links. It is no fast datapath, and its hosts
// speak nothing but ARP and ICMP echo.
package vnet

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// MaxNodes bounds the switches, and the hosts: an address has one byte for the number of the host.
const MaxNodes = 250

// Kinds are the topologies that New knows, by the first part of their names.
var Kinds = []string{"single", "linear", "ring"}

// Config describes a network.
type Config struct {
	// Topology is single,N: a switch with N hosts; linear,N: N switches in a row with a host at each; or ring,N.
	Topology    string
	Controllers []string // what each switch connects to
	Log         *slog.Logger
}

// Network is a running network. Close ends it.
type Network struct {
	switches []*vswitch.Runner
	hosts    []*host
	links    []link
}

// link joins two nodes, with the first one's name before that of the second.
type link struct {
	ends [2]string
	*vswitch.Link
	down bool
}

// Ports of switches in a row or ring. Those of a single switch all lead to hosts.
const (
	portHost  of13.Port = 1
	portLeft  of13.Port = 2
	portRight of13.Port = 3
)

// New starts a network.
func New(c Config) (*Network, error) {
	kind, size, err := parse(c.Topology)
	if err != nil {
		return nil, err
	}
	n := &Network{}
	if kind == "single" {
		n.addSwitch(c, size)
		for i := range size {
			n.addHost(0, of13.Port(i+1))
		}
		return n, nil
	}
	for i := range size {
		n.addSwitch(c, int(portRight))
		n.addHost(i, portHost)
		if i > 0 {
			n.join(i-1, i)
		}
	}
	if kind == "ring" {
		n.join(size-1, 0)
	}
	return n, nil
}

// parse reads the name of a topology.
func parse(topology string) (kind string, size int, err error) {
	kind, number, _ := strings.Cut(topology, ",")
	size, err = strconv.Atoi(number)
	least := 1
	if kind == "ring" {
		least = 3
	}
	if err != nil || !slices.Contains(Kinds, kind) || size < least || size > MaxNodes {
		return "", 0, fmt.Errorf("topology %q: use single,N or linear,N, with N from 1, or ring,N, from 3; at most %d",
			topology, MaxNodes)
	}
	return kind, size, nil
}

func (n *Network) addSwitch(c Config, ports int) {
	no := len(n.switches) + 1
	n.switches = append(n.switches, vswitch.StartRunner(vswitch.RunnerConfig{
		Switch:      vswitch.Config{DatapathID: openflow.DatapathID(no), Ports: vswitch.Ports(no, ports)},
		Controllers: c.Controllers, Log: c.Log,
	}))
}

func (n *Network) addHost(at int, port of13.Port) {
	h := newHost(len(n.hosts) + 1)
	n.hosts = append(n.hosts, h)
	n.add(h.name, switchName(at), vswitch.Connect(h.Host, n.switches[at].Port(port)))
}

// join links two switches.
func (n *Network) join(left, right int) {
	n.add(switchName(left), switchName(right),
		vswitch.Connect(n.switches[left].Port(portRight), n.switches[right].Port(portLeft)))
}

func (n *Network) add(a, b string, l *vswitch.Link) {
	n.links = append(n.links, link{[2]string{a, b}, l, false})
}

func switchName(i int) string { return "s" + strconv.Itoa(i+1) }

// Close ends the switches and hosts, and waits for them.
func (n *Network) Close() {
	for _, s := range n.switches {
		s.Close()
	}
	for _, h := range n.hosts {
		h.close()
	}
}

// host returns the host with a name.
func (n *Network) host(name string) (*host, error) {
	for _, h := range n.hosts {
		if h.name == name {
			return h, nil
		}
	}
	return nil, fmt.Errorf("there is no host %s: there are h1 to h%d", name, len(n.hosts))
}

// link returns the link between two nodes.
func (n *Network) link(a, b string) (*link, error) {
	for i := range n.links {
		if l := &n.links[i]; l.ends == [2]string{a, b} || l.ends == [2]string{b, a} {
			return l, nil
		}
	}
	return nil, fmt.Errorf("there is no link between %s and %s: see links", a, b)
}
