package ledger_test

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

var seedFlag = flag.Uint64("seed", 0, "run TestCluster with this seed only")

// TestCluster runs three ledgers with switches, agents and nondeterministic applications, while leaders, switches
// and connections come and go at random.
func TestCluster(t *testing.T) {
	first, n := uint64(1), uint64(500)
	if testing.Short() {
		n = 100
	}
	if *seedFlag != 0 {
		first, n = *seedFlag, 1
	}
	var sum Counters
	var closed, stale, entries, leaders, skipped, seen, bestEffort, taken int
	var fed feedCounts
	var calls callCounts
	for seed := first; seed < first+n; seed++ {
		c := newCluster(t, seed)
		c.run(600)
		if hostedIn(seed) {
			c.run(1400) // it takes two rounds until an event has an effect
		}
		c.drain()
		c.check()
		calls.add(checkCalls(c))
		for _, node := range c.nodes {
			k := node.core.Counters()
			sum.Transactions += k.Transactions
			sum.Duplicates += k.Duplicates
			sum.Failures += k.Failures
			sum.Reverted += k.Reverted
			sum.Completions += k.Completions
		}
		closed, stale, entries, leaders = closed+len(c.oracle.closed), stale+c.stale, entries+len(c.log),
			leaders+int(c.term)
		fed.add(c.oracle.feed)
		skipped, seen, bestEffort, taken = skipped+c.oracle.skipped, seen+c.oracle.seen, bestEffort+len(c.bestEffort),
			taken+c.taken
	}
	t.Logf("%d seeds: %d entries, %d leaders, %+v, %d epochs closed, %d events of stale epochs, %d skipped, %d "+
		"seen, %d best-effort commands, of which %d reached their switch",
		n, entries, leaders, sum, closed, stale, skipped, seen, bestEffort, taken)
	t.Logf("calls: %+v", calls)
	t.Logf("replayed applications: %+v", fed)
	if *seedFlag == 0 && !testing.Short() && (sum.Duplicates == 0 || sum.Failures == 0 || sum.Reverted == 0 ||
		sum.Completions == 0 || closed == 0 || skipped == 0 || seen == 0 || taken == 0 || !fed.thorough()) {
		t.Error("the simulation does not reach what it is to test")
	}
}

// cluster is the simulated world. log[:committed] is what consensus has decided. The rest is what the leader of
// term has proposed.
type cluster struct {
	t          testing.TB
	seed       uint64
	rng        *rand.Rand
	now        int64
	uniques    uint64
	bestEffort map[string]bool // bodies of commands without a sequence that were released
	log        [][]byte
	digests    map[int]uint64 // by the number of entries
	committed  int
	term       uint64
	leader     int // node that leads in term, whether it knows that or not
	barrier    int // number of entries that the leader must have applied
	quiet      bool
	stale      int
	taken      int // best-effort commands that reached their switch
	nodes      []*simNode
	switches   []*simSwitch
	oracle     *oracle
	limits     Limits
	group      uint64 // of the site
	site       *site  // nil if this is the only group
}

func newCluster(t testing.TB, seed uint64) *cluster {
	c := &cluster{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 0)), now: 1_000_000, bestEffort: map[string]bool{}}
	c.begin()
	return c
}

// begin makes what the cluster consists of.
func (c *cluster) begin() {
	c.digests = map[int]uint64{}
	seed := c.seed
	for i := range 3 {
		c.nodes = append(c.nodes, &simNode{c: c, id: i, skew: c.rng.Int64N(100_000) - 50_000,
			read: map[string]reading{}})
	}
	limits := Limits{BatchInputs: 1 + c.rng.IntN(8), InFlight: 1 + c.rng.IntN(4)}
	if seed%3 == 0 {
		limits.QueueCommands = 4 + c.rng.IntN(12)
	}
	if seed%5 == 0 {
		limits.BatchBytes = 300
	}
	if c.site != nil {
		limits.OutboxItems, limits.PieceBytes = c.site.outbox, 20+c.rng.IntN(200)
	}
	c.limits = limits
	for _, n := range c.nodes {
		n.core, n.log = c.newCore(limits, n.id)
		n.host.n = n
	}
	ref, _ := c.newCore(limits, 0)
	c.oracle = newOracle(ref)
	c.oracle.cluster = c
	for i := range 1 + c.rng.IntN(4) {
		id := openflow.DatapathID(i + 1)
		if c.site != nil {
			id = openflow.DatapathID(i*siteGroups) + openflow.DatapathID(c.group)
		}
		s := newSimSwitch(c, id)
		c.switches = append(c.switches, s)
		s.begin(uint64(1 + i))
	}
	c.elect()
}

// sw returns a switch of the cluster; nil if it has moved from here.
func (c *cluster) sw(id openflow.DatapathID) *simSwitch {
	i := slices.IndexFunc(c.switches, func(s *simSwitch) bool { return s.id == id })
	if i < 0 {
		return nil
	}
	return c.switches[i]
}

func (c *cluster) unique() uint64 { c.uniques++; return c.uniques }

func (c *cluster) fatalf(format string, args ...any) {
	c.t.Helper()
	test := "TestCluster"
	if c.site != nil {
		test = fmt.Sprint("TestSite; group ", c.group)
	}
	c.t.Fatalf("seed %d (go test ./ledger -seed=%d -run %s): %s", c.seed, c.seed, test, fmt.Sprintf(format, args...))
}

// elect makes a random node the leader of the next term. Some of the proposals survive. No node is told yet.
func (c *cluster) elect() {
	c.log = c.log[:c.committed+c.rng.IntN(len(c.log)-c.committed+1)]
	c.term++
	c.leader, c.barrier = c.rng.IntN(len(c.nodes)), len(c.log)
}

// commit decides the next proposal.
func (c *cluster) commit() {
	if c.committed < len(c.log) {
		if err := c.oracle.commit(c.log[c.committed]); err != nil {
			c.fatalf("entry %d: %v", c.committed, err)
		}
		c.committed++
	}
}

func (c *cluster) run(steps int) {
	for range steps {
		c.act()
	}
}

// oracleOf returns the oracle of the group of a switch.
func (c *cluster) oracleOf(id openflow.DatapathID) *oracle {
	if c.site == nil {
		return c.oracle
	}
	return c.site.groups[siteGroup(id)-1].oracle
}

// act does one random thing.
func (c *cluster) act() {
	c.now += c.rng.Int64N(1000)
	n, p := c.nodes[c.rng.IntN(len(c.nodes))], c.rng.IntN(1000)
	if len(c.switches) == 0 {
		c.actAlone(n, 196+p%404)
		return
	}
	s := c.switches[c.rng.IntN(len(c.switches))]
	switch {
	case p < 120:
		s.packet()
	case p < 125:
		s.down()
	case p < 135:
		if !s.live {
			s.begin(s.epoch + 1)
		}
	case p < 138:
		s.restart()
	case p < 143:
		s.disconnect(n.id)
	case p < 156:
		n.core.Unreachable(s.id)
	case p < 196:
		s.finish()
	case p < 600:
		c.actAlone(n, p)
	default:
		c.deliver(s, n.id)
	}
}

// actAlone does one of the random things for which no switch is needed.
func (c *cluster) actAlone(n *simNode, p int) {
	switch {
	case p < 206:
		c.elect()
	case p < 210:
		n.restart()
	case p < 240:
		n.compare()
	case p < 340:
		c.commit()
	case p < 460:
		n.step()
	case p < 540:
		n.turn()
	default:
		n.host.turn()
	}
}

// deliver moves one frame in each direction, if there is one.
func (c *cluster) deliver(s *simSwitch, node int) {
	if l := &s.links[node]; len(l.toAgent) > 0 {
		s.receive(node)
	}
	if l := &s.links[node]; len(l.toController) > 0 {
		f := l.toController[0]
		if c.nodes[node].receive(s, f) && len(l.toController) > 0 {
			l.toController = l.toController[1:]
		}
	}
}

// drain runs the cluster until nothing is in flight.
func (c *cluster) drain() {
	c.calm()
	for round := 0; ; round++ {
		if round > 2000 {
			c.fatalf("no rest after %d rounds", round)
		}
		c.settle()
		if c.resting() {
			return
		}
	}
}

// calm ends what disturbs the cluster.
func (c *cluster) calm() {
	c.quiet = true
	for _, s := range c.switches {
		if !s.live {
			s.begin(s.epoch + 1)
		}
	}
}

// settle does a round of what brings the cluster to rest.
func (c *cluster) settle() {
	c.now += 50_000
	c.commit()
	for _, n := range c.nodes {
		n.step()
		n.host.turn()
		n.turn()
		for _, s := range slices.Clone(c.switches) {
			s.finish()
			c.deliver(s, n.id)
		}
	}
}

func (c *cluster) resting() bool {
	if _, leading := c.nodes[c.leader].core.Leading(); !leading || !c.hostsRest() || c.committed < len(c.log) ||
		len(c.oracle.timers) > 0 {
		return false
	}
	for _, n := range c.nodes {
		if term, leading := n.core.Leading(); leading && term != c.term || n.applied < c.committed ||
			!n.core.Quiet() || n.core.Acknowledging() {
			return false
		}
	}
	for _, s := range c.switches {
		if len(s.held) > 0 || s.done < s.forwarded {
			return false
		}
		for _, l := range s.links {
			if len(l.toAgent)+len(l.toController) > 0 {
				return false
			}
		}
	}
	return true
}

// check runs at the end, when nothing is in flight.
func (c *cluster) check() {
	for _, n := range c.nodes {
		n.compare()
		c.oracle.feed.checkHistory(c, n)
		for _, st := range n.core.Switches() {
			if st.Done != st.Commands || !st.Live {
				c.fatalf("node %d: %+v is not at rest", n.id, st)
			}
		}
	}
	again, _ := c.newCore(Limits{}, 0)
	for _, entry := range c.log {
		if err := again.Commit(entry); err != nil {
			c.fatalf("apply the log again: %v", err)
		}
	}
	if got, _ := again.Snapshot(); !bytes.Equal(got, c.oracle.snaps[len(c.log)]) {
		c.fatalf("the log applied again gives another state")
	}
	rows, err := again.Rows("counting", 1<<20)
	if err != nil {
		c.fatalf("%v", err)
	}
	for _, s := range c.switches {
		c.checkSwitch(s)
		if got := counted(rows, s.id); got != c.oracle.counts[s.id] {
			c.fatalf("switch %s: the application counted %d packets of %d", s.id, got, c.oracle.counts[s.id])
		}
	}
}

// counted returns how many packets of a switch the application has counted.
func counted(rows []Row, id openflow.DatapathID) uint64 {
	for _, r := range rows {
		if r.Cell.A == uint64(id) {
			return binary.BigEndian.Uint64(r.Value)
		}
	}
	return 0
}

func (c *cluster) checkSwitch(s *simSwitch) {
	equal := func(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }
	for k, made := range s.generated {
		got := c.oracle.events[k]
		if len(got) > len(made) || !slices.EqualFunc(got, made[:len(got)], loggedAs) {
			c.fatalf("switch %s, epoch %d: events in the ledger are not those that were made", s.id, k.epoch)
		}
		if len(got) < len(made) && !s.forgotten[k] && !c.oracle.closed[k] {
			c.fatalf("switch %s, epoch %d: %d events of %d are in the ledger", s.id, k.epoch, len(got), len(made))
		}
		sent, ran := c.oracle.commands[k], s.executed[k]
		if len(ran) > len(sent) || !equal(ran, sent[:len(ran)]) {
			c.fatalf("switch %s, epoch %d: executed commands are not a prefix of those in the ledger", s.id, k.epoch)
		}
		if k.epoch == s.epoch && len(ran) != len(sent) {
			c.fatalf("switch %s, epoch %d: %d commands of %d executed", s.id, k.epoch, len(ran), len(sent))
		}
	}
}
