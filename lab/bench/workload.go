package bench

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

// StoreWorkload measures a control application on the store with one kind of packet: the workloads of Botelho et al.,
// section VI and VII. The controllers of the network are clients with a namespace each.
type StoreWorkload struct {
	Binary     string // the holdfast binary
	Workload   string
	Variant    string
	Flows      int // at a time; 0: Run looks for the most whose p90 is at most a millisecond
	Clients    int
	Seconds    int
	Durability string
}

// workload is a kind of packet.
type workload struct {
	app    string
	packet func(n int) onstore.Packet
	rows   int // that each packet adds to the namespace
	paper  map[onstore.Variant]figures
}

// variants returns those that can be measured.
func (w workload) variants() (list []string) {
	for _, v := range onstore.Names[w.app] {
		list = append(list, string(v))
	}
	if w.app != "devices" { // it answers nothing
		list = append(list, Inside)
	}
	return list
}

// figures are those of the paper: what one flow asks for, as in tables I and II, and the throughput of section VII, as
// far as its text gives it.
type figures struct {
	operations string // type (bytes of request, of reply)
	flows      float64
}

const knownHosts = 1000

func hostMAC(n int) of13.MAC {
	return of13.MAC{2, 0, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
}

func hostIP(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func vipIP(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, byte(n >> 8), byte(n)}) }

var broadcast = of13.MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// fromHost returns a packet of one known host to another one.
func fromHost(n int) onstore.Packet {
	n %= knownHosts
	to := (n*7 + 1) % knownHosts
	return onstore.Packet{Switch: 1, InPort: of13.Port(n%40 + 1), Packet: packet.Packet{Src: hostMAC(n),
		Dst: hostMAC(to), Type: packet.IPv4, From: hostIP(n), To: hostIP(to)}}
}

// toVIP returns a packet of a host to one of the virtual addresses.
func toVIP(n int) onstore.Packet {
	p := fromHost(n)
	p.Dst, p.To = of13.MAC{2, 1}, vipIP(n%knownHosts)
	return p
}

var workloads = map[string]workload{
	"ls-bcast": {"learning", func(n int) onstore.Packet {
		p := fromHost(n)
		p.Dst = broadcast
		return p
	}, 0, map[onstore.Variant]figures{onstore.Plain: {"W(113,1)", 0}}},
	"ls-ucast": {"learning", fromHost, 0, map[onstore.Variant]figures{
		onstore.Plain: {"W(113,1) R(36,77)", 12_000}, onstore.Component: {"(56,6)", 22_000},
		onstore.Cached: {"W(29,1) R(27,6), at worst", 21_500}}},
	"lb-arp": {"balancer", func(n int) onstore.Packet {
		p := toVIP(n)
		p.Dst, p.Type, p.ARP = broadcast, packet.ARP, packet.ARPRequest
		return p
	}, 0, map[onstore.Variant]figures{
		onstore.Plain: {"R(104,8) R(29,509)", 0}, onstore.References: {"R(104,509)", 0},
		onstore.Versions: {"R(104,513)", 0}, onstore.Columned: {"R(62,324)", 0}}},
	"lb-vip": {"balancer", toVIP, 0, map[onstore.Variant]figures{
		onstore.Plain:      {"R(104,8) R(29,509) R(30,369) W(772,1) R(32,221)", 5_400},
		onstore.References: {"R(104,509) R(30,369) W(772,1) R(32,221)", 0},
		onstore.Versions:   {"R(104,513) R(30,373) W(403,1) R(32,225)", 0},
		onstore.Columned:   {"R(62,324) R(30,373) W(403,1) R(32,225)", 6_500},
		onstore.Component:  {"R(62,324) W(11,4) R(44,4)", 11_400},
		onstore.Cached:     {"W(21,4)", 21_400}}},
	"dm-known": {"devices", fromHost, 0, map[onstore.Variant]figures{
		onstore.Plain:      {"R(408,8) R(26,1444) W(2942,0) R(408,8) R(26,1369)", 5_000},
		onstore.References: {"R(408,1274) W(2602,0) R(408,1199)", 0},
		onstore.Versions:   {"R(408,1278) W(1316,1) R(408,1203)", 0},
		onstore.Columned:   {"R(486,1261) W(667,1) R(416,474)", 0},
		onstore.Component:  {"R(28,1414) W(36,0)", 12_000},
		onstore.Cached:     {"W(36,0)", 21_400}}},
	"dm-unknown": {"devices", func(n int) onstore.Packet {
		p := fromHost(n)
		p.Src, p.From, p.Type, p.ARP = hostMAC(knownHosts+n), hostIP(knownHosts+n), packet.ARP, packet.ARPReply
		return p
	}, 3, map[onstore.Variant]figures{
		onstore.Plain:      {"R(408,0) W(21,4) W(1395,1) W(416,0) R(386,0) W(517,0) R(408,8) R(26,1378)", 3_000},
		onstore.References: {"R(408,0) W(21,4) W(1225,1) W(416,0) R(386,0) W(517,0) R(408,1208)", 0},
		onstore.Versions:   {"R(408,0) W(21,4) W(1225,1) W(416,0) R(386,0) W(517,0) R(408,1212)", 0},
		onstore.Columned:   {"R(486,0) W(21,4) W(1183,1) W(416,0) R(386,0) W(517,0) R(416,474)", 0},
		onstore.Component:  {"R(28,201) W(476,8)", 11_000}}},
}

// Workloads returns the names of all workloads, with their variants.
func Workloads() (list []string) {
	for name, w := range workloads {
		for _, v := range w.variants() {
			list = append(list, name+" "+v)
		}
	}
	slices.Sort(list)
	return list
}

// Validate returns a *FieldError for a value that cannot be.
func (s StoreWorkload) Validate() error {
	w, there := workloads[s.Workload]
	switch {
	case !there:
		return &FieldError{"workload", s.Workload, "ls-bcast, ls-ucast, lb-arp, lb-vip, dm-known or dm-unknown"}
	case !slices.Contains(w.variants(), s.Variant):
		return &FieldError{"variant", s.Variant, fmt.Sprintf("one of %v for %s", w.variants(), s.Workload)}
	}
	return cmp.Or(inRange("flows", s.Flows, 0, maxFlows), inRange("clients", s.Clients, 1, 64),
		inRange("seconds", s.Seconds, 1, 60), isDurability(s.Durability))
}

// domain is a client with its application.
type domain struct {
	*client.Client
	cache *client.Cache
	app   onstore.App
	sizes sizes
}

// sizes notes what a flow asks for.
type sizes struct {
	onstore.Parallel
	mu         sync.Mutex // guards what follows
	operations []string
	ops        int
	bytes      int
	rounds     int // that follow each other
}

// Do executes ops, and notes their sizes.
func (s *sizes) Do(ctx context.Context, ops ...store.Op) (store.Outcome, error) {
	out, err := s.Parallel.Do(ctx, ops...)
	s.note([][]store.Op{ops}, []store.Outcome{out})
	return out, err
}

// Together does so with several transactions.
func (s *sizes) Together(ctx context.Context, transactions ...[]store.Op) ([]store.Outcome, []error) {
	outcomes, errs := s.Parallel.Together(ctx, transactions...)
	s.note(transactions, outcomes)
	return outcomes, errs
}

// forget forgets what was noted.
func (s *sizes) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.operations, s.ops, s.bytes, s.rounds = nil, 0, 0, 0
}

// note notes transactions that were executed side by side.
func (s *sizes) note(transactions [][]store.Op, outcomes []store.Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rounds++
	for i, ops := range transactions {
		kind := "R"
		if slices.ContainsFunc(ops, func(o store.Op) bool { return o.Kind.Writes() }) {
			kind = "W"
		}
		if len(ops) > 1 {
			kind = fmt.Sprint(len(ops), kind)
		}
		request := len(store.AppendTransactions(nil, [][]store.Op{ops}))
		reply := len((&store.Response{Outcomes: outcomes[i : i+1]}).Append(nil))
		s.operations = append(s.operations, fmt.Sprintf("%s(%d,%d)", kind, request, reply))
		s.ops += len(ops)
		s.bytes += request + reply
	}
}

// oneProcessor is how many processors each process uses at a time. The four of them share the machine, which has two in
// our measurements: with more, a goroutine that another one wakes is often looked for by a thread that has to be woken
// too, at the cost of the other processes.
const oneProcessor = 1

// onOneProcessor is the environment of a controller.
func onOneProcessor(int) []string { return []string{fmt.Sprint("GOMAXPROCS=", oneProcessor)} }

// Run runs the benchmark.
func (s StoreWorkload) Run(ctx context.Context, progress Progress) (Report, error) {
	w := workloads[s.Workload]
	if s.Variant == Inside {
		return s.inside(ctx, progress, w)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(oneProcessor))
	c, end, err := startCluster(ctx, cluster.Config{Binary: s.Binary, Apps: []string{store.Name},
		Durability: s.Durability, Env: onOneProcessor})
	if err != nil {
		return Report{}, err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return Report{}, err
	}
	progress.show(0, "preparing "+s.Workload)
	load := &flowLoad{StoreWorkload: s, workload: w, leader: leader.REST, users: usersOf(c, leader, "client")}
	defer load.close()
	r := Report{Bench: "store workload", Setup: map[string]any{"workload": s.Workload, "variant": s.Variant,
		"clients": s.Clients, "seconds": s.Seconds, "durability": s.Durability,
		"replicas":           "3 processes on loopback, which share the machine with the clients",
		"processors_of_each": oneProcessor, "paper_operations": "-"}}
	paper := w.paper[onstore.Variant(s.Variant)]
	r.Figures, err = s.measure(progress, r.Setup, func(flows int, about time.Duration) (offer, error) {
		return load.run(ctx, flows, about)
	})
	if err == nil {
		err = load.count(ctx, r.Figures, r.Setup)
	}
	if err != nil {
		return Report{}, c.WithLogs(err)
	}
	if paper.operations != "" {
		r.Setup["paper_operations"] = paper.operations
	}
	if paper.flows > 0 {
		r.Figures[PaperPrefix+"flows_per_s"] = paper.flows
		r.Figures["ratio_paper"] = r.Figures["flows_per_s"] / paper.flows
	}
	return r, nil
}

func (c *domain) close() {
	if c.cache != nil {
		c.cache.Close()
	}
	c.Client.Close()
}

// domain returns a client whose application has seen the known hosts, and has the virtual addresses.
func (s StoreWorkload) domain(ctx context.Context, w workload, namespace, address string) (*domain, error) {
	cl, err := client.New(namespace, address)
	if err != nil {
		return nil, err
	}
	c := &domain{Client: cl}
	c.sizes.Parallel = cl
	var cache onstore.Cache
	if s.Variant == string(onstore.Cached) {
		if c.cache, err = client.NewCache(cl, onstore.CachedTables[w.app]...); err != nil {
			return nil, err
		}
		cache = c.cache
	}
	if c.app, err = onstore.New(w.app, onstore.Variant(s.Variant), cl, cache); err == nil {
		err = c.app.Setup(ctx)
	}
	for n := 0; n < knownHosts && err == nil && w.app == "balancer"; n++ {
		err = onstore.AddVIP(ctx, c.app, vipIP(n), of13.MAC{2, 1}, []onstore.Member{
			{Address: hostIP(1), MAC: hostMAC(1), Port: 1}, {Address: hostIP(2), MAC: hostMAC(2), Port: 2}})
	}
	if err == nil {
		err = together(16, func(i int) error {
			for n := i; n < knownHosts; n += 16 {
				p := fromHost(n)
				if _, err := c.app.Handle(ctx, &p); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// countedCache is a cache that notes what it asks the store for.
type countedCache struct{ *domain }

func (c *countedCache) Get(ctx context.Context, table, key string, maxAge time.Duration) (store.Row, error) {
	before := c.cache.Hits()
	row, err := c.cache.Get(ctx, table, key, maxAge)
	if c.cache.Hits() == before {
		_, err = c.sizes.Do(ctx, store.Op{Kind: store.Get, Table: table, Key: key})
	}
	return row, err
}

func (c *countedCache) Do(ctx context.Context, ops ...store.Op) (store.Outcome, error) {
	out, err := c.cache.Do(ctx, ops...)
	c.sizes.note([][]store.Op{ops}, []store.Outcome{out})
	return out, err
}
