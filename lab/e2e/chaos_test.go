package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/relay"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// TestChaos injects faults at random while switches send all the time: controllers, one, two or all, are killed or
// stopped; agents are killed; switches come and go; connections break, fall silent in one direction or both, or become
// slow. Then it ends all faults, and compares message by message. HOLDFAST_CHAOS_SECONDS is its duration,
// HOLDFAST_CHAOS_SEED repeats the random choices of an earlier run (but not its timing).
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	t.Parallel()
	seconds, seed := setting(t, "HOLDFAST_CHAOS_SECONDS", 25), setting(t, "HOLDFAST_CHAOS_SEED", rand.Uint64N(1e6))
	t.Logf("HOLDFAST_CHAOS_SEED=%d", seed)
	c := newChaos(seed)
	c.start(t, []time.Duration{50, 100, 300}[c.rand.IntN(3)]*time.Millisecond)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	for time.Now().Before(end) {
		c.fault()
		time.Sleep(c.upTo(400 * time.Millisecond))
	}
	t.Logf("faults: %v", c.counts)
	c.finish()
}

// setting is a number from the environment.
func setting(t *testing.T, name string, normal uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return normal
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

const chaosAgents, chaosSwitches = 3, 4 // the first agent has two switches

// chaos is one run. One goroutine begins its faults, and each ends in a goroutine of its own.
type chaos struct {
	*testCluster
	rand     *rand.Rand
	relays   []*route
	switches []*chaosSwitch
	pending  sync.WaitGroup // faults that have not ended
	counts   map[string]int // faults, by kind

	mu         sync.Mutex   // guards the fields below
	down       map[any]bool // controllers, agents and relays that a fault has now
	agentKills map[*cluster.Agent][]time.Time
	peak       int64 // the largest resident size of a controller, in KiB
}

func newChaos(seed uint64) *chaos {
	return &chaos{rand: rand.New(rand.NewPCG(seed, 0)), down: map[any]bool{},
		agentKills: map[*cluster.Agent][]time.Time{}, counts: map[string]int{}}
}

func (c *chaos) start(t *testing.T, election time.Duration) {
	durability := []string{"memory", "disk"}[c.rand.IntN(2)]
	t.Logf("election timeout %v, durability %s", election, durability)
	c.testCluster = startCluster(t, cluster.Config{Agents: chaosAgents, Election: election, SnapshotEvery: 200,
		Route:      c.route(t),
		Durability: durability})
	for i := range chaosSwitches {
		agent := c.Agents()[max(0, i-1)]
		c.switches = append(c.switches, startChaosSwitch(t, openflow.DatapathID(i+1), agent.Listen))
	}
	c.waitUp(chaosSwitches)
}

// route is a relay between two processes, by their names.
type route struct {
	*relay.Relay
	from, to string
}

// heal ends the faults of the network.
func (r *route) heal() { r.Set(relay.Faults{}) }

// route puts a relay on every connection between two processes.
func (c *chaos) route(t *testing.T) func(from, to, address string) string {
	routes := map[string]*route{}
	return func(from, to, address string) string {
		key := from + " " + address
		if routes[key] == nil {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			routes[key] = &route{relay.Start(l, address), from, to}
			t.Cleanup(routes[key].Close)
			c.relays = append(c.relays, routes[key])
		}
		return routes[key].Addr()
	}
}

func (c *chaos) upTo(d time.Duration) time.Duration { return time.Duration(c.rand.Int64N(int64(d))) }

// fault begins one fault on something that has none.
func (c *chaos) fault() {
	kinds := []struct {
		name   string
		weight int
		begin  func() bool
	}{
		{"controller killed", 6, func() bool { return c.killControllers(1, c.upTo(time.Second)) }},
		{"two controllers killed", 2, func() bool { return c.killControllers(2, c.upTo(time.Second)) }},
		{"all controllers killed", 1, func() bool { return c.killControllers(3, c.upTo(300*time.Millisecond)) }},
		{"leader killed", 4, c.killLeader},
		{"controller stopped", 5, func() bool { return c.stopController(c.upTo(800 * time.Millisecond)) }},
		{"controller stopped for long", 1, func() bool {
			return c.stopController(
				5*time.Second + c.upTo(2*time.Second))
		}},
		{"agent killed", min(1, len(c.Agents())), c.killAgent},
		{"switch restarted", min(2, len(c.switches)), func() bool {
			c.switches[c.rand.IntN(chaosSwitches)].restart(
				c.rand.IntN(2) == 0)
			return true
		}},
		{"connection broken", 4, func() bool { return c.network((*route).Break, 0) }},
		{"network cut", 4, func() bool {
			return c.faulty(relay.Faults{Refuse: true}, c.upTo(time.Second))
		}},
		{"network silent", 4, func() bool {
			return c.faulty(relay.Silent, c.upTo(time.Second))
		}},
		{"network silent for long", 1, func() bool {
			return c.faulty(relay.Silent, 5*time.Second+c.upTo(2*time.Second))
		}},
		{"network silent one way", 4, func() bool {
			var f relay.Faults
			f.Hold[c.rand.IntN(2)] = true
			return c.faulty(f, c.upTo(2*time.Second))
		}},
		{"network slow", 3, func() bool {
			d := c.upTo(30 * time.Millisecond)
			return c.faulty(relay.Faults{Delay: d}, c.upTo(2*time.Second))
		}},
		{"controller isolated", 3, func() bool { return c.isolate(c.upTo(2 * time.Second)) }},
	}
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	n := c.rand.IntN(total)
	for _, k := range kinds {
		if n -= k.weight; n < 0 {
			if k.begin() {
				c.counts[k.name]++
			}
			return
		}
	}
}

// take marks things as failing, or none if one of them already is.
func (c *chaos) take(things ...any) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range things {
		if c.down[x] {
			return false
		}
	}
	for _, x := range things {
		c.down[x] = true
	}
	return true
}

// after ends a fault after a while.
func (c *chaos) after(d time.Duration, end func(), things ...any) {
	c.pending.Go(func() {
		time.Sleep(d)
		end()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, x := range things {
			delete(c.down, x)
		}
	})
}

func (c *chaos) noError(err error) {
	if err != nil {
		c.t.Error(err)
	}
}

func (c *chaos) killControllers(n int, d time.Duration) bool {
	ok := false
	for _, i := range c.rand.Perm(len(c.Controllers()))[:n] {
		ok = c.kill(c.Controllers()[i], d) || ok
	}
	return ok
}

func (c *chaos) kill(n *cluster.Controller, d time.Duration) bool {
	if !c.take(n) {
		return false
	}
	c.noError(n.Kill())
	c.weigh(n)
	c.after(d, func() { c.noError(n.Restart()) }, n)
	return true
}

// weigh records the size of a controller's process at its end.
func (c *chaos) weigh(n *cluster.Controller) {
	if usage, ok := n.Ended().SysUsage().(*syscall.Rusage); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.peak = max(c.peak, usage.Maxrss)
	}
}

func (c *chaos) killLeader() bool {
	for _, n := range c.Controllers() {
		c.mu.Lock()
		down := c.down[n]
		c.mu.Unlock()
		if st, err := n.Status(c.ctx); !down && err == nil && st.Role == "leader" {
			return c.kill(n, c.upTo(time.Second))
		}
	}
	return false
}

func (c *chaos) stopController(d time.Duration) bool {
	n := c.Controllers()[c.rand.IntN(len(c.Controllers()))]
	if !c.take(n) {
		return false
	}
	c.noError(n.Signal(syscall.SIGSTOP))
	c.after(d, func() { c.noError(n.Signal(syscall.SIGCONT)) }, n)
	return true
}

func (c *chaos) killAgent() bool {
	a := c.Agents()[c.rand.IntN(chaosAgents)]
	if !c.take(a) {
		return false
	}
	c.mu.Lock()
	c.agentKills[a] = append(c.agentKills[a], time.Now())
	c.mu.Unlock()
	c.noError(a.Kill())
	c.after(c.upTo(300*time.Millisecond), func() { c.noError(a.Restart()) }, a)
	return true
}

// network injects a fault into one relay, and ends it after d.
func (c *chaos) network(change func(*route), d time.Duration) bool {
	r := c.relays[c.rand.IntN(len(c.relays))]
	if !c.take(r) {
		return false
	}
	change(r)
	c.after(d, r.heal, r)
	return true
}

func (c *chaos) faulty(f relay.Faults, d time.Duration) bool {
	return c.network(func(r *route) { r.Set(f) }, d)
}

// isolate cuts a controller off from the others; the agents still reach it.
func (c *chaos) isolate(d time.Duration) bool {
	name := c.Controllers()[c.rand.IntN(len(c.Controllers()))].Name
	faults := relay.Faults{Refuse: true}
	if c.rand.IntN(2) == 0 {
		faults = relay.Silent
	}
	done := false
	for _, r := range c.relays {
		peers := r.from[0] == 'c' && r.to[0] == 'c'
		if !peers || r.from != name && r.to != name || !c.take(r) {
			continue
		}
		r.Set(faults)
		c.after(d, r.heal, r)
		done = true
	}
	return done
}

// finish waits for the faults to end and for their consequences, and compares.
func (c *chaos) finish() {
	c.t.Helper()
	c.pending.Wait()
	for _, a := range c.Agents() {
		if !a.Running() {
			c.t.Fatalf("agent %s does not run", a.LogFile())
		}
	}
	time.Sleep(500 * time.Millisecond) // of traffic without faults
	for _, sw := range c.switches {
		sw.quiet()
	}
	c.settle()
	c.verify()
}

// settle waits until all switches are up and all work is done.
func (c *chaos) settle() {
	c.t.Helper()
	calm, last := time.Now(), ""
	c.await("everything to settle", func(st cluster.Status) bool {
		now := fmt.Sprint(st.Applied)
		for _, sw := range st.Switches {
			if sw.State != "up" || sw.Role != "master" || sw.CommandsDone != sw.CommandsSent {
				now += " moving" + fmt.Sprint(time.Now())
			}
		}
		for _, sw := range c.switches {
			_, sent, executed := sw.last()
			now += fmt.Sprint(" ", sent, " ", executed)
		}
		if now != last || len(st.Switches) != chaosSwitches {
			calm, last = time.Now(), now
		}
		return time.Since(calm) > time.Second
	})
	c.inSync()
}
