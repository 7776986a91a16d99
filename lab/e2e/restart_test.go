package e2e

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// flows returns what an embedded switch has in its tables, a line for each entry, without counters.
func (v *vnet) flows(i int) (lines []string) {
	v.s.t.Helper()
	const observer = vswitch.ConnID(1) << 63 // no connection of the runner's
	request := of13.MultipartRequest{Part: of13.PartFlow,
		Body: (&of13.FlowStatsRequest{TableID: of13.TableAll, OutPort: of13.PortAny,
			OutGroup: of13.GroupAny}).AppendTo(nil)}
	var out []byte
	v.runners[i-1].Do(func(sw *vswitch.Switch, now time.Duration) {
		sw.Connect(observer)
		hello := of13.NewHello(of13.VersionsOf(openflow.Version13))
		sw.Message(now, observer, hello.Append(nil, 1))
		sw.Message(now, observer, request.Append(nil, 2))
		pending, _ := sw.Pending(observer)
		out = bytes.Clone(pending)
		sw.Disconnect(observer)
	})
	for len(out) > 0 {
		msg, rest, err := openflow.Next(out)
		v.s.check(err)
		out = rest
		var reply of13.MultipartReply
		if msg[1] != of13.TypeMultipartReply {
			continue
		}
		v.s.check(reply.Decode(msg))
		for f := range of13.List[of13.FlowStats](reply.Body).All() {
			lines = append(lines, fmt.Sprintf("table %d priority %d cookie %d match %x: %x", f.TableID, f.Priority,
				f.Cookie, f.Match, f.Instructions))
		}
	}
	slices.Sort(lines)
	return lines
}

// host is the address of the host at a port of a switch.
func host(sw, port int) of13.MAC { return of13.MAC{2, 0, 0, 1, byte(sw), byte(port)} }

// between is a frame from one host to another.
func between(from, to of13.MAC, l string) []byte {
	f := frame(to, l)
	copy(f[6:], from[:])
	return f
}

// talk makes two hosts learn of each other, so that flows lead from each to the other.
func talk(t *testing.T, from, to *station, a, b of13.MAC) {
	t.Helper()
	heard := func(i int) int { return []int{to.count("flooded"), from.count("back"), to.count("there")}[i] }
	for i, send := range []func() error{
		func() error { return from.send(between(a, b, "flooded")) },
		func() error { return to.send(between(b, a, "back")) },
		func() error { return from.send(between(a, b, "there")) },
	} {
		before := heard(i) // it may have talked to others
		if err := send(); err != nil {
			t.Fatal(err)
		}
		await.Until(t, "hosts to hear each other", func() bool { return heard(i) > before })
	}
}

// TestAgentRestart kills the agent of a switch that forwards traffic. The flows stay, and the traffic continues, while
// the agent is down and after it is back; then the controllers control the switch again.
func TestAgentRestart(t *testing.T) {
	notInShort(t)
	t.Parallel()
	t.Run("vswitch", func(t *testing.T) {
		t.Parallel()
		s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"learning"}})
		v := newVnet(s)
		v.startAll()
		s.restartAgent([]*station{v.station(1, 1), v.station(1, 2), v.station(1, 3)},
			func() []string { return v.flows(1) })
	})
	t.Run("ovs", func(t *testing.T) {
		lab := netlab.ForTest(t)
		s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"learning"}})
		sw, hosts := ovsStations(t, lab, 3)
		s.check(sw.SetControllers(s.witness(0, lab.Addr().String())))
		s.waitUp(1)
		s.restartAgent(hosts, func() []string {
			flows, err := sw.Flows()
			s.check(err)
			slices.Sort(flows)
			return flows
		})
	})
}

func (s *testCluster) restartAgent(hosts []*station, flows func() []string) {
	t := s.t
	t.Helper()
	h1, h2, h3 := hosts[0], hosts[1], hosts[2]
	await.Until(t, "the first flow", func() bool { return len(flows()) == 1 })
	talk(t, h1, h2, host(1, 1), host(1, 2))
	await.Until(t, "three flows", func() bool { return len(flows()) == 3 })
	s.inSync()
	before := flows()

	stop := h1.stream(t, between(host(1, 1), host(1, 2), "traffic"))
	more := func(when string) {
		t.Helper()
		seen := h2.count("traffic")
		await.Until(t, "traffic "+when, func() bool { return h2.count("traffic") >= seen+100 })
	}
	more("before")
	agent := s.Agents()[0]
	s.check(agent.Kill())
	more("while the agent is away")
	if now := flows(); !slices.Equal(now, before) {
		t.Errorf("without its agent the switch has the flows %q, and had %q", now, before)
	}
	s.check(agent.Restart())
	s.await("a new epoch", func(st cluster.Status) bool { // whose first event is SWITCH_UP
		return len(st.Switches) == 1 && st.Switches[0].State == "up" && st.Switches[0].EventsLogged < 3 &&
			st.Switches[0].CommandsSent > 0 &&
			st.Switches[0].CommandsDone == st.Switches[0].CommandsSent
	})
	if now := flows(); !slices.Equal(now, before) {
		t.Errorf("with its agent back the switch has the flows %q, and had %q", now, before)
	}
	more("with the agent back")
	talk(t, h3, h2, host(1, 3), host(1, 2))
	await.Until(t, "two flows more", func() bool { return len(flows()) == 5 })
	stop()
	s.exact()
}

// TestSwitchRestart stops a switch while no controller runs, and starts it again. The agent keeps the events of the old
// connection, and the controllers receive them before those of the new one, which begins with empty tables.
func TestSwitchRestart(t *testing.T) {
	notInShort(t)
	t.Parallel()
	const packets = 20
	s := startCluster(t, cluster.Config{Agents: 1, Apps: []string{"learning"}})
	v := newVnet(s)
	addr := s.witness(0, "127.0.0.1")
	v.start(1, addr)
	s.waitUp(1)
	h1, h2 := v.station(1, 1), v.station(1, 2)
	await.Until(t, "the first flow", func() bool { return len(v.flows(1)) == 1 })
	first := v.flows(1)
	talk(t, h1, h2, host(1, 1), host(1, 2))
	await.Until(t, "three flows", func() bool { return len(v.flows(1)) == 3 })
	s.inSync()

	for _, c := range s.Controllers() {
		s.check(c.Kill())
	}
	sent, _ := s.tally.Counts()
	for i := range packets {
		s.check(h1.send(between(host(9, i), host(1, 2), "held")))
	}
	v.runners[0].SetPortLive(3, false)
	await.Until(t, "the agent to have the switch's events", func() bool {
		now, _ := s.tally.Counts()
		return now == sent+packets+1
	})
	v.runners[0].Close()
	v.start(1, addr)
	if n := len(v.flows(1)); n != 0 {
		t.Fatalf("the switch begins with %d flows", n)
	}
	for _, c := range s.Controllers() {
		s.check(c.Restart())
	}
	await.Until(t, "the first flow again", func() bool { return slices.Equal(v.flows(1), first) })
	s.waitUp(1)
	r := s.exact()
	if r.Epochs != 2 {
		t.Errorf("%d epochs, want 2", r.Epochs)
	}
	if now := v.flows(1); !slices.Equal(now, first) {
		t.Errorf("the new switch has %q, which the old one was told", now)
	}
	records := s.audit(s.leader())
	last := 0
	for i, rec := range records {
		if rec.Type == "PACKET_IN" || rec.Type == "PORT_STATUS" {
			last = i
		}
	}
	if up := slices.IndexFunc(records[last:], func(
		r audit.Record) bool {
		return r.Type == "HOLDFAST_SWITCH_UP"
	}); up < 0 {
		t.Error("what the agent held does not come before the new switch")
	}
	talk(t, v.station(1, 1), v.station(1, 2), host(1, 1), host(1, 2)) // which have not moved
}

// TestPowerOff kills all controllers and all agents at once under traffic, twice. The switches continue with the flows
// that they have. After the restart everything that was logged is there, equal at all controllers, and nothing is
// executed twice.
func TestPowerOff(t *testing.T) {
	t.Parallel()
	const switches = 2
	s := startCluster(t, cluster.Config{Agents: switches, Apps: []string{"learning"}, Durability: "disk"})
	v := newVnet(s)
	v.startAll()
	h1, h2 := v.station(1, 1), v.station(1, 2)
	talk(t, h1, h2, host(1, 1), host(1, 2))
	await.Until(t, "three flows", func() bool { return len(v.flows(1)) == 3 })
	h1.stream(t, between(host(1, 1), host(1, 2), "traffic"))
	stop := v.strangers()
	var logged []audit.Record
	for range 2 {
		s.traffickedSince(len(logged))
		s.powerOff()
		var before [switches][]string
		for i := range before {
			before[i] = v.flows(i + 1)
		}
		records, err := oracle.Read(s.AuditFiles())
		s.check(err)
		logged = records
		seen := h2.count("traffic")
		await.Until(t, "traffic without any controller or agent",
			func() bool { return h2.count("traffic") >= seen+100 })
		for i := range before {
			if now := v.flows(i + 1); !slices.Equal(now, before[i]) {
				t.Errorf("without controllers and agents switch %d has the flows %q, and had %q", i+1, now, before[i])
			}
		}
		for _, c := range s.Controllers() {
			s.check(c.Restart())
		}
		for _, a := range s.Agents() {
			s.check(a.Restart())
		}
		s.waitUp(switches)
		for i := range before {
			now := v.flows(i + 1)
			for _, f := range before[i] {
				if !slices.Contains(now, f) {
					t.Errorf("switch %d has lost the flow %s", i+1, f)
				}
			}
		}
	}
	stop()
	s.inSync()
	s.keptAll(logged)
	records, err := oracle.Read(s.AuditFiles())
	s.check(err)
	r := s.tally.Compare(records)
	// What an agent held when it died may be lost: nobody had acknowledged it.
	if r.EventsRepeated != 0 || r.CommandsLost != 0 || r.CommandsRepeated != 0 || r.CommandsReordered != 0 ||
		r.Failures != 0 || r.Epochs != 3*switches {
		t.Errorf("after two power failures: %+v", r)
	}
	t.Logf("%+v", r)
}

// strangers makes every switch see unknown hosts, until stop is called: each is an event.
func (v *vnet) strangers() (stop func()) {
	v.s.t.Helper()
	end := make(chan struct{})
	var sending sync.WaitGroup
	for i := range v.runners {
		from := v.station(i+1, 3)
		sending.Go(func() {
			for n := uint32(0); ; n++ {
				stranger := of13.MAC{2, 9}
				binary.BigEndian.PutUint32(stranger[2:], n)
				_ = from.send(between(stranger, host(9, 9), "stranger")) // a switch may have no room
				select {
				case <-end:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	var once sync.Once
	stop = func() { once.Do(func() { close(end); sending.Wait() }) }
	v.s.t.Cleanup(stop)
	return stop
}

// traffickedSince waits until considerably more than n records are logged.
func (s *testCluster) traffickedSince(n int) {
	s.t.Helper()
	await.Until(s.t, "events and commands to be logged", func() bool {
		records, err := oracle.Read(s.AuditFiles())
		return err == nil && len(records) >= n+500
	})
}

// powerOff kills everything except the switches, in random order.
func (s *testCluster) powerOff() {
	s.t.Helper()
	for _, c := range s.Controllers() {
		s.check(c.Signal(syscall.SIGKILL))
	}
	for _, a := range s.Agents() {
		s.check(a.Signal(syscall.SIGKILL))
	}
	for _, c := range s.Controllers() {
		c.WaitEnd()
	}
	for _, a := range s.Agents() {
		a.WaitEnd()
	}
}

// keptAll compares the controllers' records with each other, and checks that those of before are among them.
func (s *testCluster) keptAll(before []audit.Record) {
	s.t.Helper()
	var first []audit.Record
	for i, c := range s.Controllers() {
		records := s.audit(c)
		if i == 0 {
			first = records
		} else if !slices.Equal(records, first) {
			s.t.Errorf("%s has %d records and %s %d, or others", c.Name, len(records), s.Controllers()[0].Name,
				len(first))
		}
	}
	have := map[audit.Record]bool{}
	for _, r := range first {
		have[r] = true
	}
	for _, r := range before {
		if !have[r] {
			s.t.Fatalf("%+v was logged and is not any more", r)
		}
	}
}

// TestTwoOfThreeLoseTheirFolders: a majority has lost its log, and with it what it has promised. Nobody makes an empty
// cluster, and status says what is wrong.
func TestTwoOfThreeLoseTheirFolders(t *testing.T) {
	notInShort(t)
	t.Parallel()
	s := startCluster(t, cluster.Config{Agents: 1})
	s.connect()
	s.play(4, nil)
	s.inSync()
	lost := s.followers()
	last := s.leader()
	for _, c := range lost {
		s.check(c.Kill())
		s.check(s.Lose(c))
		s.check(c.Restart())
		c.ExpectEnd()
		s.ends(c, "there is no log here", "holdfast member replace")
	}
	s.check(last.Kill())
	s.check(last.Restart())
	for i, c := range lost {
		s.check(s.Rename(c, uint64(4711+i)))
		s.check(c.Join())
	}
	await.Until(t, "the reason why no member is replaced", func() bool { // those that join know no members at first
		out, err := s.Command(s.ctx, "member", "replace", lost[0].Name, lost[0].Name)
		if err == nil {
			t.Fatalf("a member is replaced though no majority has its log: %s", out)
		}
		return strings.Contains(err.Error(), "no controller leads")
	})
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, c := range s.Controllers() {
			if st, err := c.Status(s.ctx); err == nil && st.Role == "leader" {
				t.Fatalf("%s leads; two of three had lost their logs", c.Name)
			}
		}
	}
	if _, err := s.Command(s.ctx, "status"); err == nil || !strings.Contains(err.Error(), "no controller leads") {
		t.Errorf("holdfast status: %v", err)
	}
}

// smallDisk gives the folder of a controller a file system of its own.
func smallDisk(t *testing.T, dir, name, bytes string) {
	t.Helper()
	folder := filepath.Join(dir, "data", name)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size="+bytes); err != nil {
		t.Skipf("mount a small file system: %v; only root can", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(folder, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// TestFullDisk fills the disk of the leader under traffic. The leader stops working, logs why, and keeps running;
// another leads, and when there is room it resumes by itself.
func TestFullDisk(t *testing.T) {
	notInShort(t)
	t.Parallel()
	for _, durability := range []string{"memory", "disk"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			fullDisk(t, durability)
		})
	}
}

func fullDisk(t *testing.T, durability string) {
	const name = "c1"
	s := startCluster(t, cluster.Config{Agents: 2, Durability: durability, SnapshotEvery: 100,
		Before: func(dir string) error { smallDisk(t, dir, name, "300m"); return nil }})
	s.connect()
	small := s.Controllers()[0]
	s.play(2, nil)
	for range 2 {
		s.lead(small)
		stop := s.traffic()
		filler := filepath.Join(s.dir, "data", name, "filler")
		fill(t, filler)
		await.Until(t, name+" to stand still", func() bool { return strings.Contains(s.says(small), "is full") })
		if s.countLines(small.LogFile(), "stands still", filepath.Join(s.dir, "data", name)) == 0 || !small.Running() {
			t.Errorf("%s does not say that its disk is full\n%s", name, s.Logs())
		}
		if s.leader() == small {
			t.Errorf("%s leads with a full disk", name)
		}
		stop()
		s.play(4, nil)
		await.Until(t, name+" to say what it needs", func() bool {
			return strings.Contains(s.says(small),
				"are needed")
		})
		s.check(os.Remove(filler))
		await.Until(t, name+" to be back", func() bool {
			st,
				err := small.Status(s.ctx)
			return err == nil && st.Role == "follower"
		})
		s.caughtUp(small)
	}
	s.play(4, nil)
	s.exact()
}

// says is why a controller's API refuses a request.
func (s *testCluster) says(c *cluster.Controller) string {
	_, err := c.Status(s.ctx)
	return fmt.Sprint(err)
}
