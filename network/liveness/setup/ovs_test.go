package setup

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/network/liveness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is a network that changes when the test changes it.
type fixed struct {
	mu        sync.Mutex
	view      *liveness.View
	addresses map[app.Switch]string
}

func (f *fixed) Links(context.Context) (*liveness.View, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.view, nil
}

func (f *fixed) Addresses(context.Context) (map[app.Switch]string, error) { return f.addresses, nil }

func (f *fixed) set(v *liveness.View) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.view = v
}

// run runs a Setup until the returned function is called.
func run(t *testing.T, cfg Config, of Network) (*Setup, func()) {
	t.Helper()
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	s := New(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { s.Run(ctx, of); close(ended) }()
	stop := sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(stop)
	return s, stop
}

// await waits for a report that ok accepts.
func await(t *testing.T, s *Setup, what string, good func(*Report) bool) *Report {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r := s.Report()
		if good(r) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("no report in which %s; the last: %+v", what, *r)
		}
	}
}

// wholly reports whether all links are monitored without a problem.
func wholly(r *Report) bool {
	for _, l := range r.Links {
		if !l.Watched() || l.Ends[0].Why != "" || l.Ends[1].Why != "" {
			return false
		}
	}
	return len(r.Links) > 0
}

func vsctl(t *testing.T, s *netlab.Switch, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ovs-vsctl",
		append([]string{"--db=" + s.Database(), "--timeout=10"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("ovs-vsctl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// changes counts the changes that Holdfast has made in the databases of the switches.
func changes(t *testing.T, switches []*netlab.Switch) (n int) {
	t.Helper()
	for _, s := range switches {
		file := filepath.Join(filepath.Dir(strings.TrimPrefix(s.Database(), "unix:")), "conf.db")
		out, err := exec.CommandContext(t.Context(), "ovsdb-tool", "show-log", file).CombinedOutput()
		if err != nil {
			t.Fatalf("log of the database: %v: %s", err, out)
		}
		n += strings.Count(string(out), "holdfast: BFD")
	}
	return n
}

// twice makes two Open vSwitches with two links between them. Only the database of the first can be reached.
func twice(t *testing.T) (switches []*netlab.Switch, cables []*netlab.Link, of *fixed) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	lab := netlab.ForTest(t)
	of = &fixed{addresses: map[app.Switch]string{}}
	for i := range 2 {
		s, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(0x11+i))
		must(err)
		switches = append(switches, s)
		of.addresses[app.Switch(s.DatapathID)] = s.Address.String() + ":40000"
	}
	must(switches[0].SetManager("ptcp:6640"))
	for range 2 {
		k, err := lab.Connect(switches[0], switches[1])
		must(err)
		cables = append(cables, k)
	}
	return switches, cables, of
}

// BFD comes up at both ends of two links. The next leader changes nothing, settings of others are kept, a silent
// cut is detected, and unwanted settings are removed.
func TestOpenVSwitches(t *testing.T) {
	t.Parallel()
	switches, cables, of := twice(t)
	first := liveness.Link{A: at(0x11, 1), B: at(0x12, 1), Up: true}
	second := liveness.Link{A: at(0x11, 2), B: at(0x12, 2), Up: true}
	of.view = &liveness.View{Links: []liveness.Link{first, second}}

	// With so many missed packets no interval is longer than the least, so none changes meanwhile.
	cfg := Config{Enabled: true, Database: "tcp:{address}:6640", Floor: 100 * ms, Multiplier: 15}
	leader, stop := run(t, cfg, of)
	await(t, leader, "nothing is watched from one end", func(r *Report) bool {
		return len(r.Links) > 0 && r.Links[0].Ends[0].Why == errAlone.Error() &&
			strings.Contains(r.Links[0].Ends[1].Why, "no connection")
	})
	if n := changes(t, switches); n != 0 {
		t.Errorf("%d interfaces are changed while the other ends are not known", n)
	}
	if err := switches[1].SetManager("ptcp:6640"); err != nil {
		t.Fatal(err)
	}
	await(t, leader, "all is watched", wholly)
	stop()
	before := changes(t, switches)
	leader, stop = run(t, cfg, of)
	await(t, leader, "all is watched", wholly)
	if after := changes(t, switches); before != 4 || after != before {
		t.Errorf("the first leader has changed %d interfaces of 4, the second %d more", before, after-before)
	}

	if err := cables[0].CutSilently(); err != nil {
		t.Fatal(err)
	}
	r := await(t, leader, "the first link has failed",
		func(r *Report) bool { return r.Links[0].Failure != nil && !r.Links[0].Watched() })
	if f := r.Links[0].Failure; f.At == nil || f.Diagnostic == "" || f.Switch == "" {
		t.Errorf("after a silent cut: %+v", f)
	}
	if err := cables[0].Restore(); err != nil {
		t.Fatal(err)
	}
	await(t, leader, "all is watched again", wholly)

	vsctl(t, switches[0], "set", "interface", "p2", "bfd:min_rx=77")
	await(t, leader, "the change is shown", func(r *Report) bool {
		return strings.Contains(r.Links[1].Ends[0].Why,
			"min_rx=77 is not ours")
	})
	if got := vsctl(t, switches[0], "get", "interface", "p2", "bfd:min_rx"); got != `"77"` {
		t.Errorf("what somebody has changed is %s", got)
	}
	vsctl(t, switches[0], "set", "interface", "p2", "bfd:min_rx=100")
	await(t, leader, "all is ours", wholly)

	// The cables have been changed.
	of.set(&liveness.View{Links: []liveness.Link{second}, Former: []app.PortOf{first.A, first.B}})
	clear := func(name string) bool {
		for _, s := range switches {
			if vsctl(t, s, "get", "interface", name, "bfd") != "{}" ||
				vsctl(t, s, "get", "interface", name, "external_ids") != "{}" {
				return false
			}
		}
		return true
	}
	await(t, leader, "the first link has no BFD", func(*Report) bool { return clear("p1") })
	await(t, leader, "the second is watched", wholly)
	stop()

	cfg.Enabled = false
	leader, _ = run(t, cfg, of)
	await(t, leader, "nothing has BFD", func(*Report) bool { return clear("p2") })
	await(t, leader, "it is said why", func(r *Report) bool {
		return strings.Contains(r.Links[0].Ends[1].Why,
			"turned off")
	})
}

// BFD begins careful and gets fast; after a false alarm it is slower, and the next leader goes on from there.
func TestPaceOfOpenVSwitches(t *testing.T) {
	t.Parallel()
	switches, _, of := twice(t)
	if err := switches[1].SetManager("ptcp:6640"); err != nil {
		t.Fatal(err)
	}
	of.view = &liveness.View{Links: []liveness.Link{{A: at(0x11, 1), B: at(0x12, 1), Up: true}}}
	// A busy machine must not cause alarms of its own, so many packets may be missed.
	cfg := Config{Enabled: true, Database: "tcp:{address}:6640", Floor: 60 * ms, Multiplier: 10}
	leader, stop := run(t, cfg, of)
	var first float64
	await(t, leader, "it is fast", func(r *Report) bool {
		if len(r.Links) > 0 && first == 0 {
			first = r.Links[0].IntervalMs
		}
		return wholly(r) && r.Links[0].IntervalMs == 60 && minTx(t, switches[0]) == `"60"`
	})
	if first != 100 {
		t.Errorf("it began with %v ms", first)
	}
	alarms := leader.Report().Links[0].FalseAlarms
	ctl, err := appctl.Dial(switches[0].Control(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	pid, err := ctl.PID()
	if err != nil {
		t.Fatal(err)
	}
	// The process of a switch has to wait for longer than the detection time.
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, leader, "the false alarm is counted", func(r *Report) bool {
		return r.Links[0].FalseAlarms > alarms && r.Links[0].IntervalMs >= 120 && minTx(t, switches[1]) >= `"120"`
	})
	stop()
	leader, _ = run(t, cfg, of)
	await(t, leader, "the next leader finds the interval", func(r *Report) bool {
		return wholly(r) && r.Links[0].IntervalMs >= 120
	})
	await(t, leader, "it is faster again", func(r *Report) bool { return wholly(r) && r.Links[0].IntervalMs < 100 })
}

func minTx(t *testing.T, s *netlab.Switch) string {
	t.Helper()
	return vsctl(t, s, "--if-exists", "get", "interface", "p1", "bfd:min_tx")
}

// Switches without a database, and switches that have never connected, are reported as such. If BFD is turned off, they
// may have BFD all the same, and the log has nothing of them.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	of := &fixed{addresses: map[app.Switch]string{1: "127.0.0.1:40000"},
		view: &liveness.View{Links: []liveness.Link{{A: at(1, 1), B: at(2, 1), Up: true}}}}
	cfg := Config{Enabled: true, Database: "tcp:{address}:1", Floor: 15 * ms, Multiplier: 3}
	s, stop := run(t, cfg, of)
	r := await(t, s, "it is said why there is no BFD", func(r *Report) bool {
		return len(r.Links) == 1 && strings.Contains(r.Links[0].Ends[0].Why, "refused") &&
			strings.Contains(r.Links[0].Ends[1].Why, "address")
	})
	if r.Links[0].Watched() {
		t.Errorf("%+v", r.Links[0])
	}
	stop()

	var log strings.Builder
	off, stop := run(t, Config{Database: cfg.Database, Multiplier: 3,
		Logger: slog.New(slog.NewTextHandler(&log, nil))}, of)
	r = await(t, off, "the database is missing", func(*Report) bool {
		d, open := off.at(at(1, 1))
		if !open {
			return false
		}
		_, err := d.client.View()
		return strings.Contains(err.Error(), "refused")
	})
	stop()
	for i, want := range []string{"refused", "address"} {
		if e := r.Links[0].Ends[i]; !strings.HasPrefix(e.Why, NotRead) || !strings.Contains(e.Why, want) {
			t.Errorf("BFD is turned off, and port %s:%d says %q", e.Switch, e.Port, e.Why)
		}
	}
	if log.Len() > 0 {
		t.Errorf("BFD is turned off, and the log has %s", &log)
	}
}
