package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/e2e/apps"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/vswitch"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// testCluster is a running cluster with scripted switches.
type testCluster struct {
	*cluster.Cluster
	t        *testing.T
	ctx      context.Context // lives as long as the test: see startCluster
	dir      string
	tally    *oracle.Tally
	stock    *stockPeers       // nil: the switches have agents
	asSwitch *mtls.Credentials // nil: without TLS
	switches []player
	played   int // packet-ins of play so far
}

// election is the election timeout: long, so that on a busy machine the leader changes only when a test wants it.
const election = 500 * time.Millisecond

// startCluster runs a cluster until the end of the test. Empty fields of cfg default to the armed binary, three
// controllers that audit, and the application counter. Each wait has a bound of its own, and all together have none:
// how long a test takes depends on what else the machine does.
func startCluster(t *testing.T, cfg cluster.Config) *testCluster {
	t.Helper()
	if cfg.Binary == "" {
		var err error
		if cfg.Binary, err = armed(); err != nil {
			t.Fatal(err)
		}
	}
	if cfg.Apps == nil {
		cfg.Apps = []string{"counter"}
	}
	if cfg.Election == 0 {
		cfg.Election = election
	}
	if cfg.Patience == 0 {
		cfg.Patience = 2 * patience
	}
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	cfg.Audit = true
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	c, err := cluster.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &testCluster{Cluster: c, t: t, ctx: ctx, dir: cfg.Dir, tally: oracle.NewTally()}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range c.Controllers() {
			for _, sign := range []string{"DATA RACE", "panic: ", "fatal error: "} {
				if len(lines(t, n.LogFile(), sign)) > len(lines(t, n.LogFile(), "application failed", sign)) {
					t.Errorf("%s: %s", n.LogFile(), sign)
				}
			}
		}
		if t.Failed() {
			t.Log(c.Logs())
		}
	})
	return s
}

// connect adds a switch for each agent, one after the other, so that the first event of each is in the ledger before
// the next one connects.
func (s *testCluster) connect() {
	s.t.Helper()
	if s.stock != nil {
		s.connectStock()
		return
	}
	if s.asSwitch != nil {
		s.connectTLS(s.asSwitch)
		return
	}
	s.connectTo(s.Agents()...)
}

// connectTo adds a switch for each of some agents.
func (s *testCluster) connectTo(agents ...*cluster.Agent) {
	s.t.Helper()
	for _, a := range agents {
		n := len(s.switches) + 1
		s.switches = append(s.switches, dialSwitch(s.t, openflow.DatapathID(n), "127.0.0.1", a.Listen, s.tally))
		s.waitUp(n)
	}
}

// ring starts embedded switches with the first agent, in a ring: port 1 of each leads to port 2 of the next one. They
// have so many ports. It waits until all are up.
func (s *testCluster) ring(size, ports int) (ring []*vswitch.Runner, links []*vswitch.Link) {
	s.t.Helper()
	for i := range size {
		r := vswitch.StartRunner(vswitch.RunnerConfig{Controllers: []string{s.Agents()[0].Listen},
			Switch: vswitch.Config{DatapathID: openflow.DatapathID(i + 1), Ports: vswitch.Ports(i+1, ports)}})
		s.t.Cleanup(r.Close)
		ring = append(ring, r)
	}
	for i := range ring {
		links = append(links, vswitch.Connect(ring[i].Port(1), ring[(i+1)%size].Port(2)))
	}
	s.waitUp(size)
	return ring, links
}

func (s *testCluster) waitUp(n int) cluster.Status {
	s.t.Helper()
	return s.await(fmt.Sprintf("%d switches to be up", n), func(st cluster.Status) bool { return up(st) == n })
}

// up returns how many switches are up, and have a master.
func up(st cluster.Status) (n int) {
	for _, sw := range st.Switches {
		if sw.State == "up" && sw.Role == "master" {
			n++
		}
	}
	return n
}

func (s *testCluster) await(what string, ok func(cluster.Status) bool) cluster.Status {
	s.t.Helper()
	st, err := s.Wait(s.ctx, what, ok)
	s.check(err)
	return st
}

func (s *testCluster) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// command runs a command, and returns what it prints.
func (s *testCluster) command(args ...string) string {
	s.t.Helper()
	text, err := s.Command(s.ctx, args...)
	s.check(err)
	return text
}

// killInTurn kills and restarts one controller after the other, each time after clients have done enough, which they
// count in done.
func (s *testCluster) killInTurn(kills int, done *atomic.Int64, enough int64) {
	s.t.Helper()
	more := func() {
		s.t.Helper()
		n := done.Load()
		await.Until(s.t, "clients to go on", func() bool { return done.Load() >= n+enough || s.t.Failed() })
	}
	more()
	for i := range kills {
		c := s.Controllers()[i%len(s.Controllers())]
		s.check(c.Kill())
		more()
		s.check(c.Restart())
		more()
	}
}

func (s *testCluster) leader() *cluster.Controller {
	s.t.Helper()
	l, err := s.WaitLeader(s.ctx)
	s.check(err)
	return l
}

// followers returns the running controllers that are not the leader, in the order of their election ranking.
func (s *testCluster) followers() []*cluster.Controller {
	s.t.Helper()
	leader := s.leader()
	var list []*cluster.Controller
	for _, c := range s.Controllers() {
		if c != leader && c.Running() {
			list = append(list, c)
		}
	}
	return list
}

// id is the Raft id of a controller.
func (s *testCluster) id(c *cluster.Controller) uint64 {
	s.t.Helper()
	conf, err := config.Load(s.ClusterFile(), []string{"counter"})
	s.check(err)
	found, _ := conf.Controller(c.Name)
	return found.ID
}

// lead makes c the leader, by killing and restarting each other leader.
func (s *testCluster) lead(c *cluster.Controller) {
	s.t.Helper()
	for range 20 {
		l := s.leader()
		if l == c {
			return
		}
		s.check(l.Kill())
		s.leader()
		s.check(l.Restart())
		s.inSync()
	}
	s.t.Fatalf("%s does not become the leader\n%s", c.Name, s.Logs())
}

// counted is how many commands each switch has when all packet-ins of play are processed.
func (s *testCluster) counted() int { return s.played * apps.CounterCommands }

// play sends n packet-ins from the switches in turn, each after all commands for the previous one have arrived.
// between, which may be nil, is called before each.
func (s *testCluster) play(n int, between func(i int)) {
	s.t.Helper()
	for i := range n {
		if between != nil {
			between(i)
		}
		s.switches[s.played%len(s.switches)].packetIn(fmt.Sprintf("packet %d", s.played))
		s.played++
		s.arrived()
	}
}

// arrived waits until every switch has received all commands.
func (s *testCluster) arrived() {
	s.t.Helper()
	for _, sw := range s.switches {
		if err := sw.wait(s.counted()); err != nil {
			s.t.Fatalf("packet-in %d: %v\n%s", s.played, err, s.Logs())
		}
	}
}

// inSync waits until every command is logged as executed, every running controller has applied the whole log, and the
// controllers hold the remaining events of stock switches.
func (s *testCluster) inSync() {
	s.t.Helper()
	s.await("all controllers to be in sync", func(leader cluster.Status) bool {
		for _, sw := range leader.Switches {
			if sw.CommandsDone != sw.CommandsSent {
				return false
			}
		}
		for _, c := range s.Controllers() {
			if c.Running() {
				if st, err := c.Status(s.ctx); err != nil || st.Applied != leader.Applied {
					return false
				}
			}
		}
		return true
	})
	s.ready()
}

// ready waits until the controllers hold the remaining events of stock switches.
func (s *testCluster) ready() {
	s.t.Helper()
	if s.stock != nil && !s.stock.single {
		s.check(s.WaitReady(s.ctx, len(s.switches)))
	}
}

// exact waits until all is done and compares: nothing is lost or repeated, and everything is in order.
func (s *testCluster) exact() oracle.Result {
	s.t.Helper()
	return s.expect(oracle.Result.Exact)
}

// expect waits until all is done and compares. It fails the test, and says what is wrong, unless the result is right.
func (s *testCluster) expect(right func(oracle.Result) bool) oracle.Result {
	s.t.Helper()
	r := s.compared(right)
	if !right(r) {
		tally := s.tally
		if s.stock != nil {
			tally = s.stock.tally.Tally
		}
		all, err := tally.Explain(s.AuditFiles())
		s.check(err)
		s.t.Errorf("not exactly once: %+v\n%s", r, all)
	}
	return r
}

// compared waits until all is done and compares. With periodic timers, such as those of LLDP, messages may be in
// transit at any time: these arrive a moment later, but a message that is lost or repeated stays so. So it retries for
// a while until the result is right.
func (s *testCluster) compared(right func(oracle.Result) bool) (r oracle.Result) {
	s.t.Helper()
	compare := s.tally.Compare
	if s.stock != nil {
		compare = s.stock.tally.Compare
	}
	for began := time.Now(); time.Since(began) < patience/3; time.Sleep(100 * time.Millisecond) {
		s.inSync()
		records, err := oracle.Read(s.AuditFiles())
		s.check(err)
		if r = compare(records); right(r) {
			break
		}
	}
	return r
}

// audit returns the records of one controller, without sync markers, which are logged all the time.
func (s *testCluster) audit(c *cluster.Controller) []audit.Record {
	s.t.Helper()
	r, err := oracle.Read([]string{filepath.Join(s.dir, c.Name+".audit")})
	s.check(err)
	return slices.DeleteFunc(r, func(r audit.Record) bool { return r.Type == experimenter.TypeSyncMarker.String() })
}

// agree compares the audit files of controllers that ran all the time.
func (s *testCluster) agree(list []*cluster.Controller) {
	s.t.Helper()
	first := s.audit(list[0])
	for _, c := range list[1:] {
		if r := s.audit(c); !slices.Equal(first, r) {
			s.t.Errorf("%s and %s disagree: %d and %d records", list[0].Name, c.Name, len(first), len(r))
		}
	}
}

// trap kills the first controller that reaches a crash point for the n-th time.
type trap struct {
	file  string
	spec  string
	after string // the trap is armed once this file exists; empty: from the start
}

func newTrap(t *testing.T, p crash.Point, n int, hang bool) *trap {
	tr := &trap{file: filepath.Join(t.TempDir(), "mark"), spec: fmt.Sprintf("%s:%d", p, n)}
	if hang {
		tr.spec += ":hang"
	}
	return tr
}

// env is Env of cluster.Config.
func (tr *trap) env(int) []string {
	return []string{"HOLDFAST_CRASH=" + tr.spec, "HOLDFAST_CRASH_MARK=" + tr.file, "HOLDFAST_CRASH_AFTER=" + tr.after}
}

// later makes the trap count only from set on: how often a leader passes a point before that depends on timing.
func (tr *trap) later() *trap {
	tr.after = tr.file + ".after"
	return tr
}

func (tr *trap) set(t *testing.T) {
	t.Helper()
	writeFile(t, tr.after, "")
}

// sprung reports whether a controller has reached the crash point.
func (tr *trap) sprung() bool {
	_, err := os.Stat(tr.file)
	return err == nil
}

// expectDeaths tells the cluster that a controller may end by itself.
func (s *testCluster) expectDeaths() {
	for _, c := range s.Controllers() {
		c.ExpectEnd()
	}
}

// victim returns the controller that died at the crash point: the one whose log says so.
func (s *testCluster) victim(tr *trap) *cluster.Controller {
	s.t.Helper()
	point, _, _ := strings.Cut(tr.spec, ":")
	var found []*cluster.Controller
	await.Until(s.t, "a controller to come to "+tr.spec, func() bool { // the file exists before the log line does
		found = nil
		for _, c := range s.Controllers() {
			for range s.countLines(c.LogFile(), "crash point "+point) {
				found = append(found, c)
			}
		}
		return len(found) > 0
	})
	if len(found) > 1 {
		s.t.Fatalf("%d controllers came to %s\n%s", len(found), tr.spec, s.Logs())
	}
	return found[0]
}

// countLines counts the lines of a log that contain all of parts.
func (s *testCluster) countLines(file string, parts ...string) int {
	s.t.Helper()
	return len(lines(s.t, file, parts...))
}

func lines(t *testing.T, file string, parts ...string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(line, p) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
