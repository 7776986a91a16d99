package command

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/balancer"
	"github.com/holdfast-sdn/holdfast/apps/devices"
	"github.com/holdfast-sdn/holdfast/apps/firewall"
	"github.com/holdfast-sdn/holdfast/apps/graph"
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/apps/kandoo"
	"github.com/holdfast-sdn/holdfast/apps/kv"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/apps/path"
	"github.com/holdfast-sdn/holdfast/apps/queue"
	"github.com/holdfast-sdn/holdfast/apps/router"
	"github.com/holdfast-sdn/holdfast/apps/tenants"
	"github.com/holdfast-sdn/holdfast/apps/valiant"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/failover"
	"github.com/holdfast-sdn/holdfast/lab/flock"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/edge"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/monitor"
	"github.com/holdfast-sdn/holdfast/network/node"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// applications are those that this binary holds, by the name that stands in the cluster file.
var applications = map[string]func(*config.Cluster) ledger.Application{
	"hub":      plain(hub.New),
	"learning": plain(learning.New),
	"kv":       plain(kv.New),
	"queue":    plain(queue.New),
	"balancer": plain(balancer.New),
	"devices":  plain(devices.New),
	"firewall": func(s *config.Cluster) ledger.Application {
		return firewall.New(firewall.Config{Detours: slices.Contains(withRequirements(s.Apps), recovery.Name)})
	},
	"router":   plain(router.New),
	"path":     plain(path.New),
	"node":     plain(node.New),
	"tenants":  plain(tenants.New),
	"graph":    plain(graph.New),
	"kandoo":   plain(kandoo.New),
	"flock":    plain(flock.New), // for bench kv and actors
	"topology": plain(topology.New),
	"liveness": plain(liveness.New),
	"edge":     plain(edge.New),
	"monitor":  plain(monitor.New),
	"recovery": func(s *config.Cluster) ledger.Application {
		c := recoveryConfig(s.Recovery)
		c.Table, _ = pipeline(withRequirements(s.Apps))
		return recovery.New(c)
	},
	"valiant":  plain(valiant.New),
	"burst":    plain(failover.NewBurst), // for bench modes
	"exchange": plain(exchange.New),      // for the demo, and bench hops
	"store":    func(s *config.Cluster) ledger.Application { return rpc.New(storeAccess(s)...) },

	kandoo.NameCentral: plain(kandoo.NewCentral), // to compare
}

// own are the names of the applications that this program has beside those of Holdfast.
var own []string

// include adds applications to those of Holdfast. It is called once, before any command.
func include(apps []func() *app.App) error {
	for _, make := range apps {
		name := make().Name()
		if _, taken := applications[name]; taken || name == config.RyuApp {
			return fmt.Errorf("two applications are called %q, one of them may be Holdfast's: give yours another name",
				name)
		}
		applications[name] = plain(make)
		own = append(own, name)
	}
	return nil
}

func plain[A ledger.Application](make func() A) func(*config.Cluster) ledger.Application {
	return func(*config.Cluster) ledger.Application { return make() }
}

// requirements are the applications that one needs before it.
var requirements = map[string][]string{
	"liveness": {"topology"},
	"edge":     {"topology"},
	"path":     {"topology", "node"},
	"recovery": {"topology", "liveness", "edge"},
	"tenants":  {"topology"},
	"graph":    {"topology"},
	"kandoo":   {"topology"},
	"valiant":  {"topology", "edge"},

	kandoo.NameCentral: {"topology"},
}

// forwarding are the applications that answer packet-ins by sending the packets on. Two of them would send each packet
// twice, and install entries against each other, unless one passes on to the other.
var forwarding = []string{"exchange", "hub", "learning", "recovery", "router", "tenants", "valiant"}

// passing are the applications that leave to recovery what they do not handle, in the order in which packets come to
// them.
var passing = []string{kandoo.Name, kandoo.NameCentral, router.Name}

// pipeline returns the first table of those that forward and of all that run beside them, and the tables of the
// applications that have one of their own before that: docs/design/pipeline.md.
func pipeline(names []string) (last uint8, before map[string]uint8) {
	before = map[string]uint8{}
	if slices.Contains(names, firewall.Name) {
		last = firewall.Next
	}
	for _, name := range passing {
		if slices.Contains(names, name) && slices.Contains(names, recovery.Name) {
			before[name] = last
			last++
		}
	}
	return last, before
}

func applicationNames() []string { return slices.Sorted(maps.Keys(applications)) }

// withRequirements returns the names with those that they need, each before who needs it.
func withRequirements(names []string) []string {
	all := []string{}
	for _, name := range names {
		for _, n := range append(withRequirements(requirements[name]), name) {
			if !slices.Contains(all, n) {
				all = append(all, n)
			}
		}
	}
	return all
}

// newApplications makes the applications of a cluster, and those that they need.
func newApplications(s *config.Cluster) ([]ledger.Application, error) {
	names := withRequirements(s.Apps)
	for name := range s.Levels {
		if name == config.RyuApp || !slices.Contains(names, name) {
			return nil, fmt.Errorf("levels: application %s is not among the apps %v: remove its levels", name, names)
		}
	}
	last, before := pipeline(names)
	both := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		_, passes := before[name]
		return passes || !slices.Contains(forwarding, name)
	})
	if len(both) > 1 {
		return nil, fmt.Errorf("apps: %s and %s both forward packets, so each packet would be sent twice: remove one",
			both[0], both[1])
	}
	if slices.Contains(names, kandoo.Name) && slices.Contains(names, kandoo.NameCentral) {
		return nil, fmt.Errorf("apps: %s and %s find the same flows and give them different paths: remove one",
			kandoo.Name, kandoo.NameCentral)
	}
	for _, name := range names {
		if slices.Contains(names, firewall.Name) && (name == config.RyuApp || name == tenants.Name) {
			return nil, fmt.Errorf("apps: firewall and %s both use table 0 of the switches, and %s cannot be put into "+
				"another one: remove one", name, name)
		}
	}
	var list []ledger.Application
	for _, name := range names {
		if name == config.RyuApp {
			continue // hosts execute them, see package process
		}
		make, ok := applications[name]
		if !ok {
			return nil, fmt.Errorf("no application is called %q; there are %v", name, applicationNames())
		}
		a := make(s)
		if err := setLevels(a, s.Levels[name]); err != nil {
			return nil, fmt.Errorf("levels: %w", err)
		}
		if a, is := a.(*app.App); is && name != firewall.Name && name != recovery.Name {
			a.InTable(last)
			if table, passes := before[name]; passes {
				a.InTable(table)
				a.Before(table + 1)
			}
		}
		list = append(list, a)
	}
	return list, nil
}

func storeAccess(s *config.Cluster) (list []rpc.Grant) {
	for _, g := range s.StoreAccess {
		grant := rpc.Grant{Client: g.Client, Namespaces: g.Namespaces}
		for _, right := range g.Allow {
			grant.Allow = append(grant.Allow, rpc.Right(right))
		}
		list = append(list, grant)
	}
	return list
}

func recoveryConfig(r config.Recovery) recovery.Config {
	c := recovery.Config{HoldDown: r.HoldDown, Reconcile: r.Reconcile, RemoveForeign: r.RemoveForeign,
		MaxEntries: int(r.MaxEntries), MaxGroups: int(r.MaxGroups)}
	if r.NodeDisjoint {
		c.Disjoint = paths.NodeDisjoint
	}
	return c
}

func setLevels(made ledger.Application, levels map[string]string) error {
	a, is := made.(*app.App)
	if !is && len(levels) > 0 {
		return fmt.Errorf("application %s handles no messages of switches, and has no levels", made.Name())
	}
	for _, message := range slices.Sorted(maps.Keys(levels)) {
		level, err := app.ParseLevel(levels[message])
		if err == nil {
			err = a.SetLevel(message, level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
