package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/onstore"
)

// flowLoad is the load of a StoreWorkload on a cluster.
type flowLoad struct {
	StoreWorkload
	workload
	leader string // its address
	users  users
	made   int // how often clients were made
	on     []*domain
	sent   []atomic.Int64 // packets of each client
	full   atomic.Bool    // a namespace has no room for more rows
}

// ready makes the clients, before the first packet and whenever those before may have filled their namespaces.
func (l *flowLoad) ready(ctx context.Context) error {
	if l.made > 0 && l.rows == 0 {
		return nil
	}
	l.close()
	l.made++
	l.sent = make([]atomic.Int64, l.Clients)
	l.full.Store(false)
	for i := range l.Clients {
		c, err := l.domain(ctx, l.workload, fmt.Sprintf("domain%d.%d", l.made, i), l.leader)
		if err != nil {
			return err
		}
		l.on = append(l.on, c)
	}
	return nil
}

func (l *flowLoad) close() {
	for _, c := range l.on {
		c.close()
	}
	l.on = nil
}

// next returns the next packet of a client, if its namespace has room for what that adds.
func (l *flowLoad) next(client int) (p onstore.Packet, ok bool) {
	n := int(l.sent[client].Add(1))
	if l.rows > 0 && n > (store.MaxRows-4*knownHosts)/l.rows {
		l.full.Store(true)
	}
	return l.packet(n*l.Clients + client), !l.full.Load()
}

// run handles so many packets at a time, until the time is over or a namespace is full.
func (l *flowLoad) run(ctx context.Context, flows int, about time.Duration) (offer, error) {
	if err := l.ready(ctx); err != nil {
		return offer{}, err
	}
	began, used := time.Now(), l.users.used()
	took, err := timed(flows, about, nil, func(i, _ int) error {
		client := i % l.Clients
		p, ok := l.next(client)
		if !ok {
			return errEnough
		}
		_, err := l.on[client].app.Handle(ctx, &p)
		return err
	})
	return offerOf(flows, took, time.Since(began), l.users.since(used)), err
}

// maxP90 is the p90, in ms, that a load may have which is reported.
const maxP90 = 1.0

// Of the runs of measure, if it chooses the loads.
const (
	maxRuns  = 5
	fullP90  = 0.85 // ms: a load with less leaves room for more flows at a time
	mostStep = 4    // by which factor a load is larger than one before it
)

// nextLoad returns how many flows at a time are measured next; 0: what was measured is good enough. The p90 is about
// proportional to the load, so the last one says how much is too much. The next one is between the largest that fits
// and the smallest that does not.
func nextLoad(measured []offer) int {
	low, high := 0, maxFlows+1
	for _, o := range measured {
		if o.fits(maxP90) {
			low = max(low, o.flows)
		}
	}
	for _, o := range measured {
		if !o.fits(maxP90) && o.flows > low { // a smaller one was slow because of what else the machine did
			high = min(high, o.flows)
		}
	}
	last := measured[len(measured)-1]
	same := func(o offer) bool { return o.flows == last.flows } // Inside has multiples of its switches
	if last.p90 >= fullP90 && last.fits(maxP90) || high-low <= max(1, low/10) ||
		slices.ContainsFunc(measured[:len(measured)-1], same) {
		return 0
	}
	next := int(min(probeP90/last.p90, mostStep) * float64(last.flows))
	switch {
	case next >= high, next <= low && high <= maxFlows:
		next = (low + high) / 2
	case next <= low:
		next = low + 1
	}
	return max(next, 1)
}

// measure measures what run does, with Flows at a time. If that is 0, a search finds the first load, and further ones
// are measured until the p90 is a little less than maxP90.
func (s StoreWorkload) measure(progress Progress, setup map[string]any,
	run func(flows int, about time.Duration) (offer, error)) (map[string]float64, error) {
	flows, runs := s.Flows, 1
	if flows == 0 {
		progress.show(0, "looking for the load of "+s.Workload)
		tried, err := search(func(flows int) (offer, error) { return run(flows, probeTime) })
		if err != nil {
			return nil, err
		}
		found := best(tried, probeP90)
		flows, runs, setup["search"] = found.flows, maxRuns, found.of(tried)
	}
	about := time.Duration(s.Seconds) * time.Second
	var measured []offer
	for flows > 0 && len(measured) < runs {
		stop := progress.during(about, s.Workload)
		o, err := run(flows, about)
		stop()
		if err != nil {
			return nil, err
		}
		measured = append(measured, o)
		flows = nextLoad(measured)
	}
	found := best(measured, maxP90)
	setup["flows"], setup["measured_flows"] = found.flows, found.n
	if len(measured) > 1 {
		setup["measured"] = offered(measured)
	}
	f := map[string]float64{"flows_per_s": found.rate, "p50_ms": found.p50, "p90_ms": found.p90}
	for who, used := range found.used {
		f[who+"_us_per_flow"] = micros(used) / float64(max(1, found.n))
		f["us_per_flow"] += micros(used) / float64(max(1, found.n))
	}
	return f, nil
}

// count adds what one flow asks the store for.
func (l *flowLoad) count(ctx context.Context, f map[string]float64, setup map[string]any) error {
	n, c := 1<<22, l.on[0]
	counting, err := onstore.New(l.app, onstore.Variant(l.Variant), &c.sizes, &countedCache{c})
	if err != nil {
		return err
	}
	// The first one has what it shares with others kept by a cache, even if the load was too short for that. The second
	// one learns which rows refer to which.
	for _, on := range []onstore.App{c.app, counting, counting} {
		c.sizes.forget()
		p := l.packet(n)
		if _, err := on.Handle(ctx, &p); err != nil {
			return err
		}
		n += knownHosts
	}
	f["ops_per_flow"], f["bytes_per_flow"] = float64(c.sizes.ops), float64(c.sizes.bytes)
	f["rounds_per_flow"] = float64(c.sizes.rounds)
	setup["operations"] = cmp.Or(strings.Join(c.sizes.operations, " "), "none")
	return nil
}

// offer is what came of some flows at a time.
type offer struct {
	flows, n       int
	rate, p50, p90 float64 // a second; ms
	used           processorTime
}

// offerOf returns an offer of flows that took so many µs each, and all together that long.
func offerOf(flows int, took []float64, elapsed time.Duration, used processorTime) offer {
	return offer{flows, len(took), float64(len(took)) / elapsed.Seconds(), quantile(took, 0.5) / 1000,
		quantile(took, 0.9) / 1000, used}
}

// users are processes, by what they are for a flow.
type users map[string][]int

// processorTime is that of users.
type processorTime map[string]time.Duration

// usersOf returns the controllers, and this process as who: it has the packets, and the client of the store.
func usersOf(c *cluster.Cluster, leader *cluster.Controller, who string) users {
	u := users{who: {os.Getpid()}}
	for _, n := range c.Controllers() {
		what := "followers"
		if n == leader {
			what = "leader"
		}
		u[what] = append(u[what], n.Pid())
	}
	return u
}

func (u users) used() processorTime {
	t := processorTime{}
	for who, pids := range u {
		for _, pid := range pids {
			t[who] += runTime(pid)
		}
	}
	return t
}

// since returns what was used since then.
func (u users) since(before processorTime) processorTime {
	t := u.used()
	for who := range t {
		t[who] -= before[who]
	}
	return t
}

// Of a search.
const (
	maxFlows  = 4096
	probeTime = 200 * time.Millisecond // of each load
	probeP90  = 0.9                    // ms: less than maxP90, because a longer run has more that is rare
	halvings  = 3                      // of the distance between a load that is possible and one that is too much
	// probes is how often each load is tried. The best one counts: what else the machine does makes a load slower, and
	// never faster.
	probes = 2
)

// search tries loads from 1 flow at a time on, until the p90 is far too large, and then some between the largest that
// fits and the next one. With a closed loop more flows at a time give more flows a second, and a larger latency. It
// goes through the first ones as a whole several times, because other load lasts for a while.
func search(probe func(flows int) (offer, error)) (tried []offer, err error) {
	try := func(flows int) (o offer, err error) {
		if o, err = probe(flows); err != nil {
			return o, err
		}
		i := slices.IndexFunc(tried, func(before offer) bool { return before.flows == o.flows })
		if i < 0 {
			i, tried = len(tried), append(tried, o)
		}
		tried[i] = best([]offer{tried[i], o}, probeP90)
		return o, nil
	}
	for range probes {
		for flows := 1; flows <= maxFlows; flows *= 4 {
			o, err := try(flows)
			if err != nil {
				return tried, err
			}
			if o.p90 > 4*probeP90 {
				break
			}
		}
	}
	low := 0
	for _, o := range tried {
		if o.fits(probeP90) {
			low = max(low, o.flows)
		}
	}
	high := 4 * low
	for i := 0; i < halvings && low > 0 && high <= maxFlows; i++ {
		fits, flows := false, (low+high)/2
		for n := 0; n < probes && !fits; n++ {
			o, err := try(flows)
			if err != nil {
				return tried, err
			}
			fits = o.fits(probeP90)
		}
		if fits {
			low = flows
		} else {
			high = flows
		}
	}
	return tried, nil
}

// fits reports whether the p90 is at most one, in ms.
func (o offer) fits(p90 float64) bool { return o.p90 <= p90 }

// best returns the load with the most flows a second of those whose p90 fits. If none does, it is the one with the most
// for its latency.
func best(tried []offer, p90 float64) offer {
	return slices.MaxFunc(tried, func(a, b offer) int {
		switch fits := a.fits(p90); {
		case fits != b.fits(p90) && fits:
			return 1
		case fits != b.fits(p90):
			return -1
		case fits:
			return cmp.Compare(a.rate, b.rate)
		}
		return cmp.Compare(a.rate/a.p90, b.rate/b.p90)
	})
}

// of says how a load was found.
func (o offer) of(tried []offer) string {
	why := fmt.Sprintf("had the most flows/s with a p90 of at most %v ms", probeP90)
	if !o.fits(probeP90) {
		why = fmt.Sprintf("had the most flows/s for its p90, and none had one of at most %v ms", probeP90)
	}
	return fmt.Sprintf("%v of each of %v flows at a time, best of %d: %d %s", probeTime, offered(tried), probes,
		o.flows, why)
}

func offered(tried []offer) (flows []int) {
	for _, o := range tried {
		flows = append(flows, o.flows)
	}
	slices.Sort(flows)
	return flows
}
