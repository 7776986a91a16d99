package e2e

import (
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// The experiments of Ravana's section 2, figure 3. Traffic is counted where it arrives.

// TestFlowAllocationStaysConsistent is figure 3a: two flows arrive from two switches at the same time, the leader dies,
// and the next one puts the third flow on the path that has room.
func TestFlowAllocationStaysConsistent(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 4, Apps: []string{"allocator"}})
	v := newVnet(s)
	v.startAll()
	const end1, end2 = 3, 4 // of the paths
	for i := 1; i <= 2; i++ {
		v.link(i, apps.AllocatorPath, end1, of13.Port(i))
		v.link(i, apps.AllocatorPath+1, end2, of13.Port(i))
	}
	sources := []*station{v.station(1, 1), v.station(2, 1)}
	ends := []*station{v.station(end1, 3), v.station(end2, 3)}
	flows := []struct {
		name   string
		demand byte
		from   *station
	}{{"A", 2, sources[0]}, {"B", 1, sources[1]}, {"C", 1, sources[0]}}
	begin := func(i int) {
		f := flows[i]
		for range f.demand { // as many streams as it demands capacity
			f.from.stream(t, frame(of13.MAC{2, 0, 0, 0, f.demand, byte(i + 1)}, f.name))
		}
	}
	arrives := func(i int) {
		t.Helper()
		await.Until(t, "flow "+flows[i].name+" to arrive", func() bool {
			return ends[0].count(flows[i].name)+ends[1].count(flows[i].name) >= 100
		})
	}
	begin(0)
	begin(1)
	arrives(0)
	arrives(1)
	s.check(s.leader().Kill())
	begin(2)
	arrives(2)
	for p, end := range ends {
		load := 0
		for _, f := range flows {
			if end.count(f.name) > 0 {
				load += int(f.demand)
			}
		}
		if load != apps.AllocatorCapacity {
			t.Errorf("path %d carries flows that demand %d, it has %d: %v", p+1, load, apps.AllocatorCapacity, end.got)
		}
	}
	s.exact()
}

// TestLinkDownSurvivesFailover is figure 3b: a link fails, and the leader dies before the event is in the log. The next
// leader receives it all the same.
func TestLinkDownSurvivesFailover(t *testing.T) {
	notInShort(t)
	t.Parallel()
	const switches = 3
	tr := newTrap(t, crash.BeforeReplicate, switches+1, false) // at the first event after they came up
	s := startCluster(t, cluster.Config{Agents: switches, Apps: []string{"rerouter"}, Env: tr.env})
	s.expectDeaths()
	v := newVnet(s)
	v.startAll()
	direct := v.link(1, apps.ReroutePrimary, 2, 2)
	v.link(1, apps.RerouteBackup, 3, 2)
	v.link(3, 3, 2, 3)
	h1, h2 := v.station(1, 1), v.station(2, 1)
	h1.stream(t, frame(of13.MAC{2, 0, 0, 0, 0, 2}, "ping"))
	await.Until(t, "traffic on the direct link", func() bool { return h2.count("ping") >= 50 })
	if tr.sprung() {
		t.Fatalf("the leader died too early\n%s", s.Logs())
	}
	direct.SetUp(false)
	await.Until(t, "the leader to die", tr.sprung)
	s.victim(tr).WaitEnd()
	before := h2.count("ping")
	await.Until(t, "traffic by the other way", func() bool { return h2.count("ping") >= before+100 })
	s.exact()
}

// TestNoLeakWhenRulesAreReplaced is figure 3c: the leader dies when it has sent the commands that replace overlapping
// rules, and has no acknowledgement of them. If they were repeated, packets would reach h3; none does.
func TestNoLeakWhenRulesAreReplaced(t *testing.T) {
	notInShort(t)
	t.Parallel()
	newCluster := func(t *testing.T) (*testCluster, *trap) {
		tr := newTrap(t, crash.AfterCommands, 2, false) // first come those of the start
		s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"redirect"}, Env: tr.env})
		s.expectDeaths()
		return s, tr
	}
	t.Run("vswitch", func(t *testing.T) {
		s, tr := newCluster(t)
		lane := newSlowLane(t, "127.0.0.1", s.witness(0, "127.0.0.1"))
		v := newVnet(s)
		v.start(1, lane.addr)
		s.noLeak(tr, lane, []*station{v.station(1, 1), v.station(1, 2), v.station(1, 3)})
	})
	t.Run("ovs", func(t *testing.T) {
		lab := netlab.ForTest(t)
		s, tr := newCluster(t)
		sw, hosts := ovsStations(t, lab, 3)
		lane := newSlowLane(t, lab.Addr().String(), s.witness(0, "127.0.0.1"))
		s.check(sw.SetControllers(lane.addr))
		s.noLeak(tr, lane, hosts)
	})
}

// noLeak runs the experiment with the hosts h1, h2 and h3 of figure 2c.
func (s *testCluster) noLeak(tr *trap, lane *slowLane, hosts []*station) {
	t := s.t
	t.Helper()
	const rules = 3 // at the start, and again when they are replaced
	h1, h2, h3 := hosts[0], hosts[1], hosts[2]
	s.waitUp(1)
	await.Until(t, "the first rules", func() bool { return lane.passed() == rules })
	s.inSync()
	stop := h1.stream(t, ipFrame([4]byte{10, 0, 0, 21}, "h1"))
	await.Until(t, "traffic from h1 to h2", func() bool { return h2.count("h1") >= 50 })

	s.check(h2.send(frame(of13.MAC{2, 0, 0, 0, 0, 9}, "go")))
	await.Until(t, "the leader to die", tr.sprung)
	s.victim(tr).WaitEnd()
	await.Until(t, "the rules to be replaced", func() bool { return lane.passed() >= 2*rules })
	s.exact()
	time.Sleep(10 * flowModTime) // in which a repetition would come
	before := h2.count("h1")
	await.Until(t, "traffic from h1 to h2", func() bool { return h2.count("h1") >= before+50 })
	if n := h3.count("h1"); n > 0 {
		t.Errorf("%d packets of h1 leaked to h3", n)
	}
	s.check(h1.send(ipFrame([4]byte{10, 0, 7, 7}, "other"))) // what is to go there does
	await.Until(t, "a packet of the redirected network at h3", func() bool { return h3.count("other") == 1 })

	// And so this test would see a leak. A switch that gets no processor between two commands has none, so the commands
	// are repeated until it does.
	times := 0
	await.Until(t, "repeated commands to leak", func() bool {
		lane.repeat(t, rules)
		times++
		return h3.count("h1") > 0
	})
	stop()
	t.Logf("h2 got %d packets of h1; h3 got %d once the commands were repeated %d times, and none before",
		h2.count("h1"), h3.count("h1"), times)
}
