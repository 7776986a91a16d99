package e2e

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/exchange"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// streamCluster is controllers that lead a group each, and switches with a host each, which are distributed among the
// groups.
type streamCluster struct {
	*testCluster
	groups []uint64 // of the switches
	sent   []int    // packets for each host
	renews bool     // a switch may begin a new epoch
}

// startStreams runs three controllers, and a switch in each group. One actor sends packets from host to host, so that
// they pass several groups.
func (m mode) startStreams(t *testing.T, cfg cluster.Config) *streamCluster {
	t.Helper()
	cfg.Apps = []string{exchange.Name}
	s := m.startGroups(t, crashSwitches, cfg)
	for i, g := range s.groups {
		for _, other := range s.groups[:i] {
			if g == other {
				t.Fatalf("the switches are in the groups %v, two in one", s.groups)
			}
		}
		s.packet(i, i, "hello") // makes the host known
		s.arrive(i)
	}
	return s
}

// startGroups runs controllers with n switches.
func (m mode) startGroups(t *testing.T, n int, cfg cluster.Config) *streamCluster {
	t.Helper()
	cfg.Sections = "groups: per-controller\n" + cfg.Sections
	s := &streamCluster{testCluster: m.start(t, n, cfg), groups: make([]uint64, n), sent: make([]int, n)}
	s.expectDeaths()
	s.check(s.WaitHome(s.ctx))
	s.connect()
	for _, sw := range s.waitUp(n).Switches {
		var id int
		if _, err := fmt.Sscanf(sw.Switch, "%x", &id); err != nil {
			t.Fatalf("datapath id %q: %v", sw.Switch, err)
		}
		s.groups[id-1] = sw.Group
	}
	return s
}

// packet makes the host at one switch send a packet to the host at another.
func (s *streamCluster) packet(from, to int, text string) {
	s.t.Helper()
	frame := append([]byte{2, 0, 0, 0, 0, byte(to), 2, 0, 0, 0, 0, byte(from), exchange.EtherType >> 8,
		exchange.EtherType & 0xff}, text...)
	switch sw := s.switches[from].(type) {
	case *fakeSwitch:
		sw.event(&of13.PacketIn{BufferID: of13.NoBuffer, TotalLen: uint16(len(frame)),
			Match: of13.Match(nil).WithInPort(1), Data: frame})
	case *embeddedPlayer:
		for !sw.runner.Receive(1, frame) {
			time.Sleep(time.Millisecond) // too many wait for the switch
		}
	default:
		s.t.Fatalf("switch %d is a %T", from+1, sw)
	}
	s.sent[to]++
}

// arrive waits until a host has all packets.
func (s *streamCluster) arrive(i int) {
	s.t.Helper()
	const flows = 1 // first
	if err := s.switches[i].wait(flows + s.sent[i]); err != nil {
		s.t.Fatalf("%v\n%s", err, s.Logs())
	}
}

// has reports whether a host has all packets.
func (s *streamCluster) has(i int) bool { return len(s.switches[i].executed()) >= 1+s.sent[i] }

// haveAll reports whether all hosts have all packets.
func (s *streamCluster) haveAll() bool {
	all := true
	for i := range s.switches {
		all = all && s.has(i)
	}
	return all
}

// exactStreams is exact, also for what groups sent to each other.
func (s *streamCluster) exactStreams() oracle.Streams {
	s.t.Helper()
	r := s.exact()
	records, err := oracle.Read(s.AuditFiles())
	s.check(err)
	streams := oracle.CheckStreams(records)
	if streams.Fault != "" || streams.Received == 0 {
		s.t.Errorf("%+v", streams)
	}
	if r.Epochs != len(s.switches) && !s.renews {
		s.t.Errorf("%d epochs: a switch lost its connection", r.Epochs)
	}
	return streams
}

// leaderOf returns the index of the controller that leads a group.
func (s *streamCluster) leaderOf(group uint64) int {
	s.t.Helper()
	st := s.await("a leader", func(cluster.Status) bool { return true })
	for _, g := range st.Groups {
		for i, c := range s.Controllers() {
			if g.Group == group && g.Leader == c.Name {
				return i
			}
		}
	}
	s.t.Fatalf("nobody leads group %d: %+v", group, st.Groups)
	return 0
}

// victims are the leaders that die at a crash point.
type victims string

const (
	oneLeader        victims = "one leader"         // the first that comes to the point
	senderAndActor   victims = "sender and actor"   // of the group of the switch, and of that of the actor
	actorAndReceiver victims = "actor and receiver" // of the group of the actor, and of that of the other switch
)

// streamCrash is one case of TestCrashPointOfStreams.
type streamCrash struct {
	point crash.Point
	who   victims
}

// TestCrashPointOfStreams kills leaders before and after they send to other groups, when they have executed what
// another group sent, before they acknowledge it, and when it is acknowledged to them: one leader, or the leaders of
// two groups that send to each other, without which no group has a majority until they are restarted. Nothing is lost
// or repeated.
func TestCrashPointOfStreams(t *testing.T) {
	notInShort(t)
	small := map[streamCrash]bool{{crash.BeforeFrames, oneLeader}: true, {crash.AfterFrames, actorAndReceiver}: true,
		{crash.AfterReceive, senderAndActor}: true, {crash.BeforeAck, actorAndReceiver}: true,
		{crash.AfterAck, senderAndActor}: true}
	inModes(t, []mode{withAgents, stock}, func(t *testing.T, m mode) {
		for _, p := range crash.StreamPoints {
			for _, who := range []victims{oneLeader, senderAndActor, actorAndReceiver} {
				if everything || small[streamCrash{p, who}] && !m.stock {
					t.Run(fmt.Sprintf("%s, %s", p, who), func(t *testing.T) { crashInStream(t, m, p, who) })
				}
			}
		}
	})
}

func crashInStream(t *testing.T, m mode, p crash.Point, who victims) {
	const passage, most = 4, 100
	dir := t.TempDir()
	traps := make([]*trap, 3) // of each controller
	after := filepath.Join(dir, "after")
	for i := range traps {
		of := i
		if who == oneLeader {
			of = 0 // the first one springs it for all
		}
		traps[i] = &trap{file: filepath.Join(dir, fmt.Sprintf("mark%d", of)), spec: fmt.Sprintf("%s:%d", p, passage),
			after: after}
	}
	durability := "memory" // then followers pass on what is for another group
	if who == oneLeader {
		durability = "disk" // then leaders send it
	}
	s := m.startStreams(t, cluster.Config{Durability: durability,
		Env: func(i int) []string { return traps[i].env(i) }})
	actor := controller.HomeOf(exchange.Name, len(s.Controllers()))
	from, to := s.elsewhere(actor)
	var dying []int
	switch who {
	case senderAndActor:
		dying = []int{s.leaderOf(s.groups[from]), s.leaderOf(actor)}
	case actorAndReceiver:
		dying = []int{s.leaderOf(actor), s.leaderOf(s.groups[to])}
	}
	for i, tr := range traps {
		if who != oneLeader && i != dying[0] && i != dying[1] {
			writeFile(t, tr.file, "") // not this one
		}
	}
	if who == oneLeader {
		dying = []int{0}
	}
	sprung := func() bool {
		for _, i := range dying {
			if !traps[i].sprung() {
				return false
			}
		}
		return true
	}
	writeFile(t, after, "")
	for n := 0; n < most && !sprung(); n++ {
		s.packet(from, to, fmt.Sprintf("packet %d", n))
		if p == crash.BeforeAck || p == crash.AfterAck {
			s.packet(to, from, fmt.Sprintf("packet %d back", n)) // so that each of the three sends and receives
		}
		await.Until(t, "the packet or the crash", func() bool { return s.has(to) || sprung() })
	}
	if !sprung() {
		t.Fatalf("not all of %v came to %s\n%s", dying, p, s.Logs())
	}
	s.restart(traps, dying, who)
	s.arrive(to)
	s.arrive(from)
	for n := range 5 {
		s.packet(from, to, fmt.Sprintf("later packet %d", n))
		s.packet(to, from, fmt.Sprintf("answer %d", n))
	}
	s.arrive(to)
	s.arrive(from)
	t.Logf("%+v", s.exactStreams())
}

// elsewhere returns two switches in other groups than that of the actor.
func (s *streamCluster) elsewhere(actor uint64) (from, to int) {
	var list []int
	for i, g := range s.groups {
		if g != actor {
			list = append(list, i)
		}
	}
	return list[0], list[1]
}

// restart waits until the controllers have died, and restarts them without crash points.
func (s *streamCluster) restart(traps []*trap, dying []int, who victims) {
	s.t.Helper()
	var dead []*cluster.Controller
	if who == oneLeader {
		dead = []*cluster.Controller{s.victim(traps[0])}
	} else {
		for _, i := range dying {
			dead = append(dead, s.Controllers()[i])
		}
	}
	for _, c := range dead {
		c.WaitEnd()
	}
	for _, c := range dead {
		s.check(c.Restart("HOLDFAST_CRASH="))
	}
}
