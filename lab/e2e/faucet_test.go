package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
)

// faucet is a cluster that runs Faucet and Gauge with the files of their example configuration.
type faucet struct {
	*ryuCluster
	env          []string
	config, acls string          // files
	gauge        string          // and that of Gauge
	office       [2]*netlab.Host // one at each switch
	third        *netlab.Host    // in the office, too
}

// faucetPing is the interval of the pings that no failure may lose.
const faucetPing = 20 * time.Millisecond

func startFaucet(t *testing.T, m mode, groups string) *faucet {
	t.Helper()
	dir, example := t.TempDir(), faucetExample(t)
	f := &faucet{config: filepath.Join(dir, "faucet.yaml"), acls: filepath.Join(dir, "acls.yaml")}
	for _, to := range []string{f.config, f.acls} {
		text, err := os.ReadFile(filepath.Join(example, filepath.Base(to)))
		check(t, err)
		check(t, os.WriteFile(to, text, 0o600))
	}
	text, err := os.ReadFile(filepath.Join(example, "gauge.yaml"))
	check(t, err)
	f.gauge = filepath.Join(dir, "gauge.yaml")
	check(t, os.WriteFile(f.gauge, []byte(strings.NewReplacer("/etc/faucet", dir, "interval: 10", "interval: 2").Replace(
		string(text))), 0o600))
	f.env = []string{"FAUCET_CONFIG=" + f.config, "GAUGE_CONFIG=" + f.gauge}
	for _, app := range []string{"FAUCET", "GAUGE"} {
		f.env = append(f.env, app+"_LOG=STDOUT", app+"_EXCEPTION_LOG=STDERR")
	}
	f.ryuCluster = m.startRyuWith(t, 2, cluster.Config{Apps: []string{"faucet.faucet", "faucet.gauge"},
		Sections: "groups: " + groups + "\n", Env: func(int) []string { return f.env }},
		func(r *cluster.Ryu) { r.Files = []string{f.config, f.acls, f.gauge} })
	f.wire()
	return f
}

// faucetExample returns the folder of the example configuration that the package of Faucet brings.
func faucetExample(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(needRyu(t).Python, "-c", "import faucet, sys; print(sys.prefix)").Output()
	switch {
	case err == nil:
	case os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1":
		t.Fatal("Faucet is not installed")
	default:
		t.Skip("Faucet is not installed")
	}
	return filepath.Join(strings.TrimSpace(string(out)), "etc", "faucet")
}

// wire builds the network of the example: hosts at the ports that have names, and a trunk from port 5 to port 24.
func (f *faucet) wire() {
	f.t.Helper()
	lab := f.lab()
	for i := range 2 {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		f.check(err)
		f.nodes = append(f.nodes, sw)
	}
	plug := func(sw, port int, address string) *netlab.Host {
		h, err := lab.AddHost(fmt.Sprintf("h%dp%d", sw, port), netip.MustParsePrefix(address))
		f.check(err)
		f.nodes[sw-1].NextPort(port)
		_, err = lab.Connect(f.nodes[sw-1], h)
		f.check(err)
		return h
	}
	f.office = [2]*netlab.Host{plug(1, 1, "10.0.100.1/24"), plug(2, 1, "10.0.100.2/24")}
	f.third = plug(1, 2, "10.0.100.3/24")
	f.nodes[0].NextPort(5)
	f.nodes[1].NextPort(24)
	_, err := lab.Connect(f.nodes[0], f.nodes[1])
	f.check(err)
	f.control(lab, f.nodes)
	f.ready()
}

// reached waits until pings from one host to another are answered, or until none is.
func (f *faucet) reached(from, to *netlab.Host, want bool) {
	f.t.Helper()
	await.Until(f.t, fmt.Sprintf("pings from %s to %s are answered: %v", from.Name, to.Name, want), func() bool {
		echoes, err := from.Ping(f.ctx, to.Addr.Addr(), 3, 100*time.Millisecond, 500*time.Millisecond)
		f.check(err)
		return !slices.ContainsFunc(echoes, func(e netlab.Echo) bool { return e.Replies > 0 != want })
	})
}

// pinging pings from one office host to the other until the returned function is called, which checks that each ping
// was answered once.
func (f *faucet) pinging() (stop func()) {
	lost, total := 0, 0
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			echoes, err := f.office[0].Ping(f.ctx, f.office[1].Addr.Addr(), 50, faucetPing, time.Second)
			for _, e := range echoes {
				if total++; e.Replies != 1 {
					lost++
				}
			}
			select {
			case <-quit:
				done <- err
				return
			default:
			}
		}
	}()
	return func() {
		f.t.Helper()
		close(quit)
		f.check(<-done)
		if lost > 0 || total == 0 {
			f.t.Errorf("%d of %d pings were not answered once", lost, total)
		}
		f.t.Logf("%d pings", total)
	}
}

// strikes kills the leader, waits until another one leads, and lets the killed one return.
func (f *faucet) strikes() {
	f.t.Helper()
	dead := f.strike()
	f.settled()
	f.check(dead.Restart(f.env...))
	f.ready()
}

// metrics returns those that a controller serves of the application that has a port for them.
func (f *faucet) metrics(c *cluster.Controller, port int) string {
	f.t.Helper()
	return f.rest(c, "GET", fmt.Sprintf("/port/%d/metrics", port), "")
}

// reloads has the access ports drop what is sent to the third host, and tells all controllers to reload.
func (f *faucet) reloads() {
	f.t.Helper()
	text, err := os.ReadFile(f.acls)
	f.check(err)
	const name = "access-port-protect:\n"
	changed := strings.Replace(string(text), name, name+fmt.Sprintf(
		"        - rule: {dl_type: 0x800, ipv4_dst: %s, actions: {allow: 0}}\n", f.third.Addr.Addr()), 1)
	if changed == string(text) {
		f.t.Fatalf("the example of Faucet has no access list %s", name)
	}
	f.check(os.WriteFile(f.acls, []byte(changed), 0o600))
	for _, c := range f.Controllers() {
		f.check(c.Signal(syscall.SIGHUP))
	}
}

var (
	marked = regexp.MustCompile(`table=253,`)
	expiry = regexp.MustCompile(`(idle|hard)_timeout=\d+, `) // Faucet draws them
)

// polled reports whether metrics of Gauge have packets at a port of a switch.
func polled(metrics, name string) bool {
	return regexp.MustCompile(`of_port_rx_packets\{.*dp_name="` + name + `",.*\} [1-9]`).MatchString(metrics)
}

// tables returns the flow entries of all switches, without the markers.
func (f *faucet) tables() (list []string) {
	f.t.Helper()
	for i, sw := range f.nodes {
		flows, err := sw.Flows()
		f.check(err)
		for _, flow := range flows {
			if !marked.MatchString(flow) {
				list = append(list, fmt.Sprintf("s%d %s", i+1, expiry.ReplaceAllString(flow, "")))
			}
		}
	}
	slices.Sort(list)
	return list
}

// drill reloads the configuration under pings, with deaths of leaders or without, and returns the flow entries.
func (f *faucet) drill(kill bool) []string {
	f.t.Helper()
	strikes := func() {
		if kill {
			f.strikes()
		}
	}
	one, other := f.office[0], f.office[1]
	f.reached(one, other, true)
	f.reached(one, f.third, true)
	stop := f.pinging()
	strikes()
	f.reloads()
	f.reached(one, f.third, false)
	f.check(os.WriteFile(f.config, []byte("dps: {}\n"), 0o600)) // nobody is told to read it
	strikes()
	strikes()
	stop()
	f.reached(one, f.third, false)
	for _, c := range f.Controllers() {
		if m := f.metrics(c, 9302); !strings.Contains(m, "faucet_config_load_error 0.0") ||
			!strings.Contains(m, `dp_status{dp_id="0x1",dp_name="sw1"} 1.0`) {
			f.t.Errorf("metrics at %s: %s", c.Name, m)
		}
		await.Until(f.t, "Gauge at "+c.Name+" to have polled both switches", func() bool {
			m := f.metrics(c, 9303)
			return polled(m, "sw1") && polled(m, "sw2")
		})
		if st, err := c.Status(f.ctx); err != nil || st.Replayed.Diverged != 0 || st.Replayed.Restarts != 0 {
			f.t.Errorf("%s: %+v, %v", c.Name, st.Replayed, err)
		}
	}
	if res := f.exact(); res.Failures > 0 {
		f.t.Errorf("%d failures", res.Failures)
	}
	return f.tables()
}

var faucetRuns = []struct {
	name   string
	mode   mode
	groups string
	kill   bool
	more   bool // only with HOLDFAST_MATRIX=all
}{
	{name: "undisturbed", mode: stockOVS, groups: "1"},
	{name: "killed", mode: stockOVS, groups: "1", kill: true},
	{name: "agents", mode: withAgents, groups: "1", kill: true, more: true},
	{name: "groups", mode: stockOVS, groups: "per-controller", kill: true, more: true},
	{name: "agents and groups", mode: withAgents, groups: "per-controller", kill: true, more: true},
}

// TestFaucet runs Faucet as it is on PyPI, with its example configuration, on three controllers and switches without
// an agent. No ping is lost when leaders die and the configuration is reloaded, and the flow tables are those of a run
// in which nobody dies. HOLDFAST_MATRIX=all adds agents, and a group for each controller.
func TestFaucet(t *testing.T) {
	notInShort(t)
	needOVS(t)
	t.Parallel()
	runs := map[string][]string{}
	var mu sync.Mutex
	t.Run("runs", func(t *testing.T) {
		for _, r := range faucetRuns {
			if r.more && !everything {
				continue
			}
			t.Run(r.name, func(t *testing.T) {
				t.Parallel()
				list := startFaucet(t, r.mode, r.groups).drill(r.kill)
				mu.Lock()
				defer mu.Unlock()
				runs[r.name] = list
			})
		}
	})
	for name, flows := range runs {
		if !t.Failed() {
			same(t, name+": flows", flows, runs["undisturbed"])
			t.Logf("%s: %d flows", name, len(flows))
		}
	}
}
