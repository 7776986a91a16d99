package controller

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/agent"
	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/storage/disk"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/lab/load"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// testCluster is a cluster of three controllers in this process, and an agent.
type testCluster struct {
	t           *testing.T
	dir         string
	apps        func() []ledger.Application
	every       int           // SnapshotEvery of each controller
	several     bool          // each controller has a group of its own
	replicas    int           // of such a group; 0: 3
	logger      *slog.Logger  // of the controllers; nil: quiet
	timeout     time.Duration // SwitchTimeout; 0: 300 ms
	handler     time.Duration // HandlerTimeout
	election    time.Duration // 0: 200 ms
	optimizer   *OptimizerConfig
	apis        map[uint64]net.Listener // of controllers 1 to 3, if there is an optimizer
	later       int                     // controllers 4 and more that may join: the agent knows their addresses
	joins       []uint64                // controllers that were started to join
	members     map[uint64]string
	addrs       map[uint64]string // for agents and switches, by controller
	controllers map[uint64]*Controller
	route       func(id uint64, address string) string // between the agent and a controller; nil: none
	agent       net.Addr
	hold        func(id uint64, to Auditor) Auditor // what a controller writes its audit to; nil: a file
}

func newTestCluster(t *testing.T, every int, apps func() []ledger.Application) *testCluster {
	return startTestCluster(&testCluster{t: t, apps: apps, every: every})
}

// startTestCluster starts what s describes.
func startTestCluster(s *testCluster) *testCluster {
	t := s.t
	s.dir = t.TempDir()
	s.members, s.addrs, s.controllers = map[uint64]string{}, map[uint64]string{}, map[uint64]*Controller{}
	listeners := map[uint64][2]net.Listener{}
	for id := uint64(1); id <= 3; id++ {
		peer, of := s.listen("127.0.0.1:0"), s.listen("127.0.0.1:0")
		s.members[id], s.addrs[id] = peer.Addr().String(), of.Addr().String()
		listeners[id] = [2]net.Listener{peer, of}
	}
	s.apis = map[uint64]net.Listener{}
	for id := range listeners {
		if s.optimizer != nil {
			s.apis[id] = s.listen("127.0.0.1:0")
		}
	}
	for id, l := range listeners {
		s.start(id, l[0], l[1], s.apis[id])
	}
	t.Cleanup(func() {
		for id := range s.controllers {
			s.stop(id)
		}
	})
	known := []string{s.addrs[1], s.addrs[2], s.addrs[3]}
	for i := range known {
		if s.route != nil {
			known[i] = s.route(uint64(i)+1, known[i])
		}
	}
	for i := range s.later {
		l := s.listen("127.0.0.1:0")
		s.addrs[uint64(i)+4] = l.Addr().String()
		known = append(known, l.Addr().String())
		l.Close()
	}
	l := s.listen("127.0.0.1:0")
	s.agent = l.Addr()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- agent.Run(ctx, agent.Config{Listen: l, Controllers: known, Logger: quiet})
	}()
	t.Cleanup(func() {
		cancel()
		if err := await.End(t, "the agent", ended); err != nil {
			t.Errorf("agent: %v", err)
		}
	})
	return s
}

var quiet = slog.New(slog.DiscardHandler)

func (s *testCluster) listen(addr string) net.Listener {
	s.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *testCluster) start(id uint64, peer, of, api net.Listener) *Controller {
	s.t.Helper()
	file, err := audit.Open(filepath.Join(s.dir, fmt.Sprintf("%d.audit", id)))
	if err != nil {
		s.t.Fatal(err)
	}
	held := Auditor(file)
	if s.hold != nil {
		held = s.hold(id, file)
	}
	groups := s.groups()
	for i := range groups {
		groups[i].Consensus.Join = slices.Contains(s.joins, id)
	}
	address := func(id uint64) string {
		if s.apis[id] == nil {
			return ""
		}
		return s.apis[id].Addr().String()
	}
	c, err := Start(Config{
		Name:  fmt.Sprintf("c%d", id),
		Names: map[uint64]string{1: "c1", 2: "c2", 3: "c3"},
		Consensus: consensus.HostConfig{ID: id, Listener: peer,
			Dir: filepath.Join(s.dir, fmt.Sprint(id)),
			// long timeouts, because other tests run at the same time
			Heartbeat: 20 * time.Millisecond, Election: cmp.Or(s.election, 200*time.Millisecond),
			Logger: quiet},
		Groups: groups, Open: func(uint64, uint64) (GroupConfig, error) {
			return GroupConfig{Applications: s.apps()},
				nil
		},
		Southbound: southbound.Config{Logger: quiet}, OpenFlow: of, API: api,
		Replication:    uint64(s.replicas),
		HandlerTimeout: s.handler,
		SwitchTimeout:  cmp.Or(s.timeout, 300*time.Millisecond), SnapshotEvery: s.every, Audit: held,
		Logger: cmp.Or(s.logger, quiet),
		Peers: []Peer{{"c1", 1, address(1), s.addrs[1]}, {"c2", 2, address(2), s.addrs[2]},
			{"c3", 3, address(3), s.addrs[3]}},
		Optimizer: s.optimizer,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.controllers[id] = c
	return c
}

func (s *testCluster) groups() []GroupConfig {
	first := GroupConfig{Consensus: consensus.GroupConfig{Members: s.members}, Applications: s.apps()}
	if !s.several {
		return []GroupConfig{first}
	}
	first.Applications = []ledger.Application{new(directory.Application)}
	first.Consensus.Members = map[uint64]string{1: s.members[1], 2: s.members[2], 3: s.members[3]}
	list := []GroupConfig{first}
	for id := uint64(1); id <= 3; id++ {
		members := map[uint64]string{}
		for i := range uint64(cmp.Or(s.replicas, 3)) {
			at := (id+i-1)%3 + 1
			members[at] = s.members[at]
		}
		list = append(list, GroupConfig{Applications: s.apps(),
			Consensus: consensus.GroupConfig{Group: id, Members: members}})
	}
	return list
}

func (s *testCluster) restart(id uint64) *Controller {
	s.t.Helper()
	return s.start(id, s.listen(s.members[id]), s.listen(s.addrs[id]), nil)
}

func (s *testCluster) stop(id uint64) {
	s.t.Helper()
	c, closed := s.controllers[id], make(chan error, 1)
	go func() { closed <- c.Close() }()
	if err := await.End(s.t, fmt.Sprint("controller ", id), closed); err != nil {
		s.t.Errorf("controller %d: %v", id, err)
	}
	delete(s.controllers, id)
}

// leader waits until there is a leader, and returns it with its status.
func (s *testCluster) leader() (uint64, Status) {
	s.t.Helper()
	var id uint64
	var found Status
	await.Until(s.t, "a leader", func() bool {
		for i, c := range s.controllers {
			if st, err := c.Status(s.t.Context()); err == nil && st.Role == "leader" && st.Term >= found.Term {
				id, found = i, st
			}
		}
		return id != 0
	})
	return id, found
}

// down waits until the leader reports every switch as down.
func (s *testCluster) down() {
	s.t.Helper()
	await.Until(s.t, "the switches to be down", func() bool {
		_, st := s.leader()
		return !slices.ContainsFunc(st.Switches, func(sw SwitchStatus) bool { return sw.State != "down" })
	})
}

// settled waits until every command is done, and returns the leader's status.
func (s *testCluster) settled() Status {
	s.t.Helper()
	var st Status
	await.Until(s.t, "the last commands to be done", func() bool {
		_, st = s.leader()
		return !slices.ContainsFunc(st.Switches, func(
			sw SwitchStatus) bool {
			return sw.CommandsDone != sw.CommandsSent
		})
	})
	return st
}

// quiet waits until all controllers have applied the same index, and nothing more for a while. Until an entry is
// committed, the leader's status contains transactions that nobody can have applied.
func (s *testCluster) quiet() {
	s.t.Helper()
	last, same := uint64(0), 0
	await.Until(s.t, "all to apply the whole log", func() bool {
		applied := map[uint64]bool{}
		for _, c := range s.controllers {
			if st, err := c.Status(s.t.Context()); err == nil {
				applied[st.Applied] = true
			}
		}
		_, st := s.leader()
		if same++; len(applied) != 1 || !applied[last] || st.LastIndex != st.Applied {
			last, same = st.Applied, 0
		}
		return same >= 20
	})
}

// run puts load on the agent.
func (s *testCluster) run(switches int, d time.Duration) load.Result {
	s.t.Helper()
	r, err := load.Run(s.t.Context(), load.Config{Switches: switches, Window: 32, MACsPerSwitch: 100, Duration: d,
		Drain: await.Limit, Dial: load.At(s.agent.String())})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// hubs floods every packet, as package hub does, but not without a majority: then each packet is answered once.
func hubs() []ledger.Application {
	a := app.New("hub")
	app.Handle(a, nil, func(tx *app.Tx, up app.SwitchUp) error {
		tx.FlowMod(up.Switch, of13.FlowMod{Command: of13.FlowAdd, BufferID: of13.NoBuffer})
		return nil
	})
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		out := of13.PacketOut{BufferID: in.BufferID, InPort: in.InPort,
			Actions: of13.Actions(nil).Output(of13.PortFlood, 0)}
		if in.BufferID == of13.NoBuffer {
			out.Data = in.Data
		}
		tx.PacketOut(in.Switch, out)
		return nil
	})
	return []ledger.Application{a}
}

// A leader that stops in the middle of traffic hands over the leadership. Every packet-in is answered once.
func TestHandOverUnderLoad(t *testing.T) {
	s := newTestCluster(t, 10, hubs)
	first, before := s.leader()
	done := make(chan load.Result)
	go func() { done <- s.run(4, 2*time.Second) }()
	time.Sleep(time.Second)
	s.stop(first)
	r := <-done
	second, after := s.leader()
	if second == first || after.Term <= before.Term {
		t.Errorf("leader %d of term %d, after %d of term %d", second, after.Term, first, before.Term)
	}
	if r.Unanswered != 0 || r.Total.Answered != r.Total.Sent {
		t.Errorf("%d packet-ins, %d answered", r.Total.Sent, r.Total.Answered)
	}
	// Each switch also receives the table-miss entry, and the flood of its announcement.
	if r.Total.Unexpected != 8 {
		t.Errorf("%d messages that answer nothing, 8 expected", r.Total.Unexpected)
	}
	s.down() // SWITCH_DOWN is an event too; nothing is counted from here on
	s.quiet()
	st := s.settled()
	if st.Snapshot == 0 {
		t.Error("no snapshot was taken")
	}
	// The stopped controller returns, by a snapshot or by the log, which keeps entries for it, and has the same state.
	back := s.restart(first)
	await.Until(s.t, "the stopped controller to catch up", func() bool {
		got, err := back.Status(t.Context())
		return err == nil && got.Applied >= st.Applied && len(got.Switches) == len(st.Switches)
	})
	got, err := back.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Role != "follower" {
		t.Errorf("it is %s", got.Role)
	}
	for i, sw := range got.Switches {
		if want := st.Switches[i]; sw.TotalEvents != want.TotalEvents || sw.TotalCommands != want.TotalCommands {
			t.Errorf("switch %s: %d events and %d commands, the leader has %d and %d", sw.Switch, sw.TotalEvents,
				sw.TotalCommands, want.TotalEvents, want.TotalCommands)
		}
	}
}

// If an application fails on an input, what it did for this input is discarded, and nothing else.
func TestApplicationFailures(t *testing.T) {
	s := newTestCluster(t, 0, func() []ledger.Application {
		bad := app.New("bad")
		n := 0
		app.Handle(bad, nil, func(*app.Tx, app.PacketIn) error {
			switch n++; n % 3 {
			case 0:
				return errors.New("every third")
			case 1:
				panic("every third, by a panic")
			}
			return nil
		})
		return []ledger.Application{bad, hubs()[0]}
	})
	r := s.run(1, 300*time.Millisecond)
	if r.Total.Answered != r.Total.Sent {
		t.Errorf("%d packet-ins, %d answered by the other application", r.Total.Sent, r.Total.Answered)
	}
	st := s.settled()
	if want := (r.Total.Sent + 1) * 2 / 3; st.Counters.Failures < want-1 || st.Counters.Failures > want+1 {
		t.Errorf("%d failures of %d packet-ins, about %d expected", st.Counters.Failures, r.Total.Sent+1, want)
	}
}

// A switch that leaves its agent is down. A visitor that is not a switch changes nothing.
func TestSwitchDown(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	s.run(1, 100*time.Millisecond) // connects and disconnects: SWITCH_DOWN
	await.Until(s.t, "the switch to be down", func() bool {
		_, st := s.leader()
		return len(st.Switches) == 1 && st.Switches[0].State == "down"
	})
	id, _ := s.leader()
	conn, err := net.Dial("tcp", s.addrs[id])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil { // not a switch
		t.Fatal(err)
	}
	conn.Close()
	if _, st := s.leader(); len(st.Switches) != 1 {
		t.Errorf("switches %+v after a visit of no switch", st.Switches)
	}
}

// The API reports what Status returns.
func TestStatusAPI(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	s.run(2, 100*time.Millisecond)
	id, _ := s.leader()
	s.settled()
	s.stop(id)
	l := s.listen("127.0.0.1:0")
	c := s.start(id, s.listen(s.members[id]), s.listen(s.addrs[id]), l)
	await.Until(s.t, "the controller to catch up", func() bool {
		st, err := c.Status(t.Context())
		return err == nil && len(st.Switches) == 2 && st.Leader != ""
	})
	client := api.NewClusterClient(http.DefaultClient, "http://"+l.Addr().String())
	said, err := client.GetController(t.Context(), &emptypb.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	var st Status
	mirror.Copy(&st, said)
	http.DefaultClient.CloseIdleConnections()
	if st.Name != fmt.Sprintf("c%d", id) || len(st.Switches) != 2 || st.Leader == "" ||
		!slices.Equal(st.Apps, []string{"hub"}) {
		t.Errorf("%+v", st)
	}
	if sw := st.Switches[0]; sw.Switch != openflow.DatapathID(1).String() || sw.TotalEvents == 0 {
		t.Errorf("%+v", sw)
	}
	checkMetrics(t, "http://"+l.Addr().String()+"/metrics")
}

// checkMetrics checks what Prometheus reads from a controller with two switches.
func checkMetrics(t *testing.T, url string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, resp.Status, err)
	}
	for _, want := range []string{`holdfast_group_has_leader{group="`, `holdfast_switches{state="up"}`,
		`holdfast_switch_events_total{switch="0000000000000001"} `, "holdfast_transactions_total ", "go_goroutines ",
		"process_resident_memory_bytes "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// All controllers write the same audit records.
func TestAuditsAgree(t *testing.T) {
	s := newTestCluster(t, 0, hubs)
	r := s.run(2, 200*time.Millisecond)
	s.down()
	s.settled()
	s.quiet()
	var counts []int
	for id := uint64(1); id <= 3; id++ {
		s.stop(id)
		records, err := oracle.Read([]string{filepath.Join(s.dir, fmt.Sprintf("%d.audit", id))})
		if err != nil {
			t.Fatal(err)
		}
		counts = append(counts, len(records))
	}
	all, err := oracle.Read([]string{filepath.Join(s.dir, "1.audit"), filepath.Join(s.dir, "2.audit"),
		filepath.Join(s.dir, "3.audit")})
	if err != nil {
		t.Fatal(err) // the records differ
	}
	// There are records of packet-ins, announcements, SWITCH_UP and SWITCH_DOWN, and one command for each except
	// the last.
	if want := 2*int(r.Total.Sent+2) + 2*3; len(all) != want || slices.Min(counts) != slices.Max(counts) ||
		counts[0] != want {
		t.Errorf("records %v, together %d; want %d", counts, len(all), want)
	}
}

// A controller whose log has other groups than the cluster file refuses to start, and its log stays as it is.
func TestOtherGroups(t *testing.T) {
	s := &testCluster{t: t}
	dir := t.TempDir()
	start := func(groups int) error {
		cfg := Config{Name: "c1", Names: map[uint64]string{1: "c1"}, Logger: quiet, OpenFlow: s.listen("127.0.0.1:0"),
			Consensus: consensus.HostConfig{ID: 1, Dir: dir, Founded: disk.Exists(dir),
				Listener: s.listen("127.0.0.1:0"), Heartbeat: 20 * time.Millisecond,
				Election: 200 * time.Millisecond, Logger: quiet}}
		cfg.Groups = alone(groups)
		c, err := Start(cfg)
		if err != nil {
			cfg.OpenFlow.Close()
			return err
		}
		await.Until(t, "all groups to run", func() bool { return len(c.groups.all()) == groups })
		return c.Close()
	}
	for _, groups := range []int{2, 1, 2} {
		err := start(groups)
		if ok := groups == 2; ok && err != nil || !ok && !errors.Is(err, consensus.ErrGrouping) {
			t.Errorf("with %d groups: %v", groups, err)
		}
	}
}

// alone returns the groups of a cluster of controller 1.
func alone(groups int) (list []GroupConfig) {
	for i := range groups {
		g := GroupConfig{Applications: hubs(),
			Consensus: consensus.GroupConfig{Group: uint64(i), Members: map[uint64]string{1: "c1"}}}
		if i == 0 && groups > 1 {
			g.Applications = []ledger.Application{new(directory.Application)}
		}
		list = append(list, g)
	}
	return list
}

// brokenLog is a storage that fails from some time on.
type brokenLog struct {
	storage.Memory
	failing atomic.Bool
}

var errBroken = errors.New("the disk is broken")

func (l *brokenLog) Save(batches []storage.Batch) error {
	if l.failing.Load() {
		return errBroken
	}
	return l.Memory.Save(batches)
}

// A fault of the log ends a controller of several groups, and is told once.
func TestFaultOfLog(t *testing.T) {
	s, log := &testCluster{t: t}, new(brokenLog)
	cfg := Config{Name: "c1", Names: map[uint64]string{1: "c1"}, Logger: quiet, OpenFlow: s.listen("127.0.0.1:0"),
		Consensus: consensus.HostConfig{ID: 1, Storage: log, Heartbeat: 20 * time.Millisecond,
			Election: 200 * time.Millisecond, Logger: quiet}}
	cfg.Groups = alone(2)
	c, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	await.Until(t, "a leader", func() bool { g := c.replica(1); return g != nil && g.node.Status().Leading })
	node := c.replica(1).node
	log.failing.Store(true)
	change := consensus.MemberChange{Add: map[uint64]string{2: "c2"}}
	if err := node.ChangeMembers(t.Context(), change); !errors.Is(err, errBroken) {
		t.Errorf("an entry that was not saved: %v", err)
	}
	await.End(t, "it", c.Done())
	if err := c.Err(); !errors.Is(err, errBroken) || strings.Count(err.Error(), errBroken.Error()) != 1 {
		t.Errorf("got %v", err)
	}
}
