package outage

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/realtime"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// realtimePriority of the switches and the stream is above all ordinary processes and below the kernel's own threads,
// which have 50 and more.
const realtimePriority = 10

// cutPriority is above that, and above that of sentries.
const cutPriority = 30

// controlLimit bounds how long a switch may take to answer.
const controlLimit = 10 * time.Second

// network is the network that is measured.
type network struct {
	cfg    Config
	dir    string
	lab    *netlab.Lab
	nodes  map[openflow.DatapathID]*node
	cables []paths.Link // one direction of each
	path   []paths.Link // from the first host to the second
	// ends of the links that the stream uses, also while one link of the path is dead
	quick    map[paths.End]bool
	hosts    [2]*netlab.Host
	breakers map[paths.Link]breaker // of the path
	version  string                 // of the switches
	sentries *sentries              // nil: none

	stop    context.CancelFunc // of the goroutines that watch databases
	running sync.WaitGroup
}

// node is one switch.
type node struct {
	sw    *netlab.Switch
	db    *ovsdb.Client
	ctl   *appctl.Client
	links int
}

func (n *network) graph() *paths.Graph { return n.cfg.Graph }

// build makes the network, with its switches programmed and BFD on its links.
func build(ctx context.Context, cfg Config, dir string) (_ *network, err error) {
	lab, err := netlab.New(dir)
	if err != nil {
		return nil, err
	}
	n := &network{cfg: cfg, dir: dir, lab: lab, nodes: map[openflow.DatapathID]*node{},
		breakers: map[paths.Link]breaker{}}
	watch, stop := context.WithCancel(context.Background())
	n.stop = stop
	for _, step := range []func(context.Context) error{
		func(ctx context.Context) error { return n.addSwitches(ctx, watch) }, n.connect, n.program, n.setBFD,
		n.addSentries, n.addBreakers,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	return n, nil
}

func (n *network) addSwitches(ctx, watch context.Context) (err error) {
	for i, v := range n.graph().Switches() {
		n.cfg.Progress(0, fmt.Sprintf("switch %d of %d starts", i+1, len(n.graph().Switches())))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		d := &node{}
		n.nodes[v] = d
		if d.sw, err = n.lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(v)); err != nil {
			return err
		}
		if d.ctl, err = appctl.Dial(d.sw.Control(), controlLimit); err != nil {
			return err
		}
		d.db, err = ovsdb.New(ovsdb.Config{Remote: d.sw.Database(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		n.running.Go(func() { d.db.Run(watch) })
		if n.version, err = d.ctl.Call("version"); err != nil {
			return err
		}
		if _, err = d.ctl.Call("vlog/disable-rate-limit", "bfd"); err != nil { // it notes all that its sessions do
			return err
		}
	}
	n.version, _, _ = strings.Cut(n.version, "\n")
	return nil
}

// file is one that netlab keeps for a switch.
func (n *network) file(d *node, name string) string { return filepath.Join(n.dir, d.sw.Name, name) }

// connect plugs in the cables, and then the hosts.
func (n *network) connect(ctx context.Context) (err error) {
	if n.cables, err = inPortOrder(n.graph()); err != nil {
		return err
	}
	for i, l := range n.cables {
		n.cfg.Progress(0, fmt.Sprintf("cable %d of %d", i+1, len(n.cables)))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := n.lab.Connect(n.nodes[l.From.Switch].sw, n.nodes[l.To.Switch].sw); err != nil {
			return err
		}
		n.nodes[l.From.Switch].links++
		n.nodes[l.To.Switch].links++
	}
	for i, v := range []openflow.DatapathID{n.cfg.From, n.cfg.To} {
		addr := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 24)
		if n.hosts[i], err = n.lab.AddHost(fmt.Sprintf("h%d", i+1), addr); err != nil {
			return err
		}
		if _, err := n.lab.Connect(n.nodes[v].sw, n.hosts[i]); err != nil {
			return err
		}
	}
	return nil
}

// inPortOrder returns the cables, one direction of each, in an order in which each takes the next free port of its
// switches: so a lab numbers ports.
func inPortOrder(g *paths.Graph) (cables []paths.Link, err error) {
	used := map[openflow.DatapathID]of13.Port{}
	for found := true; found; {
		found = false
		for _, l := range g.Links() {
			if used[l.From.Switch]+1 == l.From.Port && used[l.To.Switch]+1 == l.To.Port {
				used[l.From.Switch]++
				used[l.To.Switch]++
				cables = append(cables, l)
				found = true
			}
		}
	}
	if 2*len(cables) != len(g.Links()) {
		return nil, errors.New("the ports of the graph are not numbered in an order in which cables can be plugged in")
	}
	return cables, nil
}

// program computes and installs the routes between the hosts.
func (n *network) program(context.Context) error {
	n.cfg.Progress(0, "the routes are installed")
	ends := []openflow.DatapathID{n.cfg.From, n.cfg.To}
	routes, err := paths.Protect(n.graph(), ends, paths.LinkDisjoint)
	if err != nil {
		return err
	}
	var hosts []protect.Host
	for i, v := range ends {
		port := of13.Port(n.nodes[v].links + 1)
		hosts = append(hosts, protect.Host{MAC: of13.MAC(n.hosts[i].MAC), At: paths.End{Switch: v, Port: port}})
	}
	plan, err := protect.Compile(routes, hosts, protect.Config{MaxEntries: math.MaxInt, MaxGroups: math.MaxInt})
	if err != nil {
		return err
	}
	for v, d := range n.nodes {
		if err := d.sw.Execute(protect.Diff(protect.Program{}, plan.Program(v)).Messages()); err != nil {
			return fmt.Errorf("install the plan: %w", err)
		}
	}
	return n.findWays(plan, hosts)
}

// findWays finds the path, and the links that the stream uses while a link of the path is dead.
func (n *network) findWays(plan *protect.Plan, hosts []protect.Host) error {
	net := plan.Network()
	n.quick = map[paths.End]bool{}
	follow := func(dead protect.Failures) ([]paths.Link, error) {
		j := net.Follow(hosts[1].MAC, hosts[0].At, dead)
		for _, l := range j.Links {
			n.quick[l.From], n.quick[l.To] = true, true
		}
		if j.Fate != protect.Delivered || len(j.Links) == 0 {
			return nil, fmt.Errorf("frames from switch %v to %v: %v after %d links, with %v dead", n.cfg.From, n.cfg.To,
				j.Fate, len(j.Links), dead.Ends)
		}
		return j.Links, nil
	}
	var err error
	if n.path, err = follow(protect.Failures{}); err != nil {
		return err
	}
	for _, l := range n.path {
		if _, err := follow(protect.Failures{Ends: map[paths.End]bool{l.From: true}}); err != nil {
			return err
		}
	}
	return nil
}

// setBFD sets BFD up at both ends of every link.
func (n *network) setBFD(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for i, l := range n.graph().Links() {
		n.cfg.Progress(0, fmt.Sprintf("BFD %d of %d", i+1, len(n.graph().Links())))
		db, interval := n.nodes[l.From.Switch].db, n.interval(l.From)
		for {
			view, err := db.View()
			if port, ok := view.Port(uint64(l.From.Switch), uint32(l.From.Port)); err == nil && ok && port.LinkUp {
				if err := db.SetBFD(ctx, port, ovsdb.BFD{MinTx: interval, MinRx: interval,
					Multiplier: n.multiplier()}); err != nil {
					return err
				}
				break
			}
			select {
			case <-db.Changed():
			case <-ctx.Done():
				return fmt.Errorf("wait for port %v: %w", l.From, errors.Join(ctx.Err(), err))
			}
		}
	}
	return nil
}

func (n *network) addSentries(context.Context) (err error) {
	if n.cfg.Sentry == "" {
		return nil
	}
	switches := map[string]openflow.DatapathID{}
	for v, d := range n.nodes {
		switches[d.sw.Control()] = v
	}
	n.sentries, err = startSentries(n.cfg, switches)
	return err
}

func (n *network) addBreakers(context.Context) (err error) {
	for _, l := range n.path {
		if n.breakers[l], err = newBreaker(n.nodes[l.From.Switch].sw, n.nodes[l.To.Switch].sw, l,
			n.cfg.Carrier); err != nil {
			return err
		}
	}
	return nil
}

// prioritise gives the switches, and this process, which sends the stream, priority over other processes; and the
// processes that cut links priority over these. Both ends of a link have to be cut at the same time, or BFD at one end
// would detect it before frames are lost at the other.
func (n *network) prioritise() error {
	first := map[int]int{os.Getpid(): realtimePriority}
	for _, d := range n.nodes {
		pid, err := d.ctl.PID()
		if err != nil {
			return err
		}
		first[pid] = realtimePriority
	}
	for _, b := range n.breakers {
		for _, pid := range b.pids() {
			first[pid] = cutPriority
		}
	}
	for pid, priority := range first {
		if err := realtime.SetProcess(pid, priority); err != nil {
			return err
		}
	}
	return nil
}

// close ends what runs and removes the network.
func (n *network) close() error {
	n.stop()
	for _, b := range n.breakers {
		b.close()
	}
	var err error
	if n.sentries != nil {
		err = n.sentries.close()
	}
	err = errors.Join(err, n.lab.Close())
	for _, d := range n.nodes {
		if d.ctl != nil {
			d.ctl.Close()
		}
	}
	n.running.Wait()
	return err
}
