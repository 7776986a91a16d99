package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/httpcall"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/flock"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// idleFor is how long the processor time of idle controllers is measured, and liveKills how often a controller is
// killed with and without the actors.
const (
	idleFor   = 5 * time.Second
	liveKills = 3
)

// runLive measures what so many actors cost three controllers: memory, processor time while nothing happens, snapshots,
// and the time of a failover.
func (a Actors) runLive(ctx context.Context, progress Progress) (Report, error) {
	r := Report{Bench: "actors", Figures: map[string]float64{"live": float64(a.Live)}, Setup: map[string]any{
		"controllers": "3 processes on loopback, each of which leads a group; all have replicas of every group",
		"app":         flock.Name, "durability": a.Durability,
		"actors":   "each has one cell with a number, and all of them live in the group of the application",
		"memory":   "resident, mean of the controllers; _without: before the actors are made",
		"idle_cpu": fmt.Sprintf("of all controllers, in %v without any message", idleFor),
		"failover": fmt.Sprintf("from SIGKILL of the leader of that group until a request to the application is "+
			"answered; median of %d", liveKills),
		"snapshot": "in this process: the state of the group, and that of the directory. _held is how long the group " +
			"waits; it is encoded meanwhile",
	}}
	if err := a.snapshots(r.Figures); err != nil {
		return Report{}, err
	}
	c, end, err := startCluster(ctx, cluster.Config{Binary: a.Binary, Apps: []string{flock.Name},
		Durability: a.Durability, Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return Report{}, err
	}
	defer end()
	m := maker{client: newWebClient(16)}
	defer m.client.close()
	if err := c.WaitHome(ctx); err != nil {
		return Report{}, err
	}
	for i, step := range []string{"_without", ""} {
		if m.at, err = survivor(ctx, c); err != nil {
			return Report{}, err
		}
		if i == 1 {
			progress.show(0.5, "making actors")
			if err := m.make(ctx, a.Live); err != nil {
				return Report{}, c.WithLogs(err)
			}
		}
		p := func(done float64, what string) { progress.show((float64(i)+done)/2, what+step) }
		if err := m.measureLive(ctx, p, c, step, r.Figures); err != nil {
			return Report{}, c.WithLogs(err)
		}
	}
	return r, nil
}

// measureLive adds the figures of a cluster; their names end in suffix.
func (m *maker) measureLive(ctx context.Context, progress Progress, c *cluster.Cluster, suffix string,
	f map[string]float64) error {
	used := func() (sum time.Duration) {
		for _, n := range c.Controllers() {
			sum += cpuTime(n.Pid())
		}
		return sum
	}
	progress.show(0, "idle")
	time.Sleep(time.Second) // what was made is committed everywhere
	began, before := time.Now(), used()
	time.Sleep(idleFor)
	f["idle_cpu_ms_per_s"+suffix] = millis(used()-before) / time.Since(began).Seconds()
	memory := 0.0
	for _, n := range c.Controllers() {
		memory += resident(n.Pid()) / float64(len(c.Controllers()))
	}
	f["memory_mib"+suffix] = memory / (1 << 20)
	var took []float64
	for i := range liveKills {
		progress.show(0.2+0.8*float64(i)/liveKills, "failover")
		d, err := m.failover(ctx, c)
		if err != nil {
			return err
		}
		took = append(took, millis(d))
	}
	f["failover_ms_p50"+suffix], f["failover_ms_max"+suffix] = quantile(took, 0.5), quantile(took, 1)
	return nil
}

// failover kills the controller that leads the group of the application, and returns how long that answers no request.
func (m *maker) failover(ctx context.Context, c *cluster.Cluster) (took time.Duration, err error) {
	if err := c.WaitReady(ctx, 0); err != nil {
		return 0, err
	}
	leader, err := flockLeader(ctx, c)
	if err != nil {
		return 0, err
	}
	if m.at, err = survivor(ctx, c); err != nil {
		return 0, err
	}
	ask := func() error {
		_, err := m.client.ask(ctx, m.at, "GET", "/apps/"+flock.Name+"/created", nil)
		return err
	}
	if err := ask(); err != nil { // the connection is open from now on
		return 0, err
	}
	began := time.Now()
	if err := leader.Signal(syscall.SIGKILL); err != nil {
		return 0, err
	}
	for err = ask(); err != nil; err = ask() {
		if ctx.Err() != nil || time.Since(began) > time.Minute {
			return 0, fmt.Errorf("%s is killed, and %s answers: %w", leader.Name, m.at.Name, err)
		}
		time.Sleep(time.Millisecond)
	}
	took = time.Since(began)
	leader.WaitEnd()
	if err := leader.Restart(); err != nil {
		return 0, err
	}
	target, err := m.at.Status(ctx)
	for begun := time.Now(); err == nil && time.Since(begun) < 30*time.Second; time.Sleep(10 * time.Millisecond) {
		if s, late := leader.Status(ctx); late == nil && s.Reached(target) {
			return took, nil
		}
	}
	return took, cmp.Or(err, fmt.Errorf("%s does not catch up", leader.Name))
}

// flockLeader returns the controller that leads the group of the application.
func flockLeader(ctx context.Context, c *cluster.Cluster) (*cluster.Controller, error) {
	s, err := c.Wait(ctx, "a leader", func(cluster.Status) bool { return true })
	if err != nil {
		return nil, err
	}
	group := controller.HomeOf(flock.Name, len(c.Controllers()))
	for _, g := range s.Groups {
		for _, n := range c.Controllers() {
			if g.Group == group && n.Name == g.Leader {
				return n, nil
			}
		}
	}
	return nil, fmt.Errorf("group %d has no leader", group)
}

// survivor returns a controller that does not lead that group.
func survivor(ctx context.Context, c *cluster.Cluster) (*cluster.Controller, error) {
	leader, err := flockLeader(ctx, c)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Controllers(), func(n *cluster.Controller) bool { return n != leader })
	return c.Controllers()[i], nil
}

// resident returns the bytes of a process that are in memory.
func resident(pid int) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // one that has ended has none
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.Atoi(fields[1])
	return float64(pages) * float64(os.Getpagesize())
}

// snapshots adds the figures of snapshots of so many actors.
func (a Actors) snapshots(f map[string]float64) error {
	group, err := newSnapshot(flock.New())
	if err != nil {
		return err
	}
	system, err := newSnapshot(new(directory.Application))
	if err != nil {
		return err
	}
	system.core.Request(directory.Name, directory.Place{Controllers: []uint64{1, 2, 3}}.Append(nil))
	if err := system.commit(); err != nil {
		return err
	}
	for first := 1; first <= a.Live; first += flock.MaxActors {
		n := min(flock.MaxActors, a.Live-first+1)
		message := httpcall.Encode(app.Request{Method: "POST", Values: map[string]string{
			"first": strconv.Itoa(first), "n": strconv.Itoa(n)}})
		err := group.core.Call(ledger.Call{Actor: ledger.Actor{App: flock.Name}, Name: "POST /create/{first}/{n}",
			Message: message})
		if err != nil {
			return err
		}
		assign := directory.Assign{Groups: []uint64{1}}
		for i := range n {
			key := ledger.Key{A: uint64(first + i)}
			assign.Actors = append(assign.Actors, ledger.Actor{App: flock.Name, Shard: ledger.Shard{Key: key}})
		}
		system.core.Request(directory.Name, assign.Append(nil))
		if err := group.commit(); err != nil {
			return err
		}
		if err := system.commit(); err != nil {
			return err
		}
	}
	if err := group.measure("group", f); err != nil {
		return err
	}
	return system.measure("directory", f)
}

// snapshot is a ledger of which a snapshot is taken.
type snapshot struct {
	core *ledger.Core
	app  ledger.Application
}

func newSnapshot(a ledger.Application) (*snapshot, error) {
	core, err := ledger.New([]ledger.Application{a}, ledger.Limits{})
	if err == nil {
		err = core.Lead(1, 1)
	}
	return &snapshot{core, a}, err
}

func (s *snapshot) commit() error {
	entry, ok := s.core.Cut()
	for _, failed := range s.core.Failures() {
		return failed.Err
	}
	if !ok {
		return nil
	}
	return s.core.Commit(entry)
}

// measure adds the size of a snapshot, and how long it takes to make and to restore it.
func (s *snapshot) measure(of string, f map[string]float64) error {
	began := time.Now()
	encode, err := s.core.Freeze()
	if err != nil {
		return err
	}
	f["snapshot_held_us_"+of] = micros(time.Since(began))
	began = time.Now()
	state, _ := encode()
	f["snapshot_encode_ms_"+of] = millis(time.Since(began))
	f["snapshot_bytes_"+of] = float64(len(state))
	other, err := ledger.New([]ledger.Application{s.app}, ledger.Limits{})
	if err != nil {
		return err
	}
	began = time.Now()
	if err := other.Restore(state); err != nil {
		return err
	}
	f["snapshot_restore_ms_"+of] = millis(time.Since(began))
	return nil
}
