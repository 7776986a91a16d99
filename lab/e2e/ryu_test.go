package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// ryuPatience is how long a wait for replayed applications may take: some have timers of half a minute.
const ryuPatience = 4 * time.Minute

// findRyu finds a Python with os-ken, and the folder of Ryu's own applications, which the tests of python/
// download.
var findRyu = sync.OnceValues(func() (cluster.Ryu, error) {
	r := cluster.Ryu{Python: os.Getenv("HOLDFAST_PYTHON"), LogLevel: "info"}
	if r.Python == "" {
		return r, fmt.Errorf("HOLDFAST_PYTHON does not name a python that has os-ken and pytest")
	}
	cmd := exec.Command(r.Python, "-c", "import conftest, os_ken, greenlet, routes, webob; print(conftest.fetched())")
	cmd.Env = append(os.Environ(), "PYTHONPATH=../../python/tests", "PYTHONDONTWRITEBYTECODE=1")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%s lacks what the tests need: %w\n%s", r.Python, err, said.Bytes())
	}
	r.Path = []string{strings.TrimSpace(string(out))}
	return r, nil
})

// needRyu skips the test, or fails it if nothing may be missing.
func needRyu(t *testing.T) cluster.Ryu {
	t.Helper()
	r, err := findRyu()
	switch {
	case err == nil:
	case os.Getenv("HOLDFAST_REQUIRE_ORACLES") == "1":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return r
}

// ownApp returns the file of an application in testdata/ryu.
func ownApp(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", "ryu", name+".py"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ryuCluster is a cluster with Ryu applications. Its own switches, if it has any, are Open vSwitches with hosts.
type ryuCluster struct {
	*testCluster
	nodes []*netlab.Switch
	links []*netlab.Link
	hosts [][]*netlab.Host // by switch, in the order of the ports
	at    [][]*station     // the same
}

// starting bounds the clusters that start at once: each starts six Python processes.
var starting = make(chan struct{}, 2)

// startRyu is start for a cluster with Ryu applications. options are those of ryu-manager.
func (m mode) startRyu(t *testing.T, switches int, cfg cluster.Config, options ...string) *ryuCluster {
	t.Helper()
	return m.startRyuWith(t, switches, cfg, func(r *cluster.Ryu) { r.Options = options })
}

// startRyuWith is start for a cluster with Ryu applications, whose host is configured by the function.
func (m mode) startRyuWith(t *testing.T, switches int, cfg cluster.Config, configure func(*cluster.Ryu)) *ryuCluster {
	t.Helper()
	ryu := needRyu(t)
	configure(&ryu)
	cfg.Ryu, cfg.Binary, cfg.Election, cfg.LogLevel = &ryu, plain, 4*election, "debug"
	cfg.Patience = ryuPatience
	starting <- struct{}{}
	defer func() { <-starting }()
	r := &ryuCluster{testCluster: m.start(t, switches, cfg)}
	r.running()
	return r
}

// running waits until the host of every running controller is running.
func (r *ryuCluster) running() {
	r.t.Helper()
	r.await("the hosts of all controllers", func(cluster.Status) bool {
		for _, c := range r.Controllers() {
			if st, err := c.Status(r.ctx); c.Running() && (err != nil || st.Replayed == nil ||
				st.Replayed.State != "running") {
				return false
			}
		}
		return true
	})
}

// build makes Open vSwitches with a number of hosts each, at ports 1 and up, puts cables between some of them, and
// connects them one after the other.
func (r *ryuCluster) build(switches, hosts int, links ...[2]int) {
	r.t.Helper()
	lab := r.lab()
	for i := range switches {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		r.check(err)
		r.nodes = append(r.nodes, sw)
		r.hosts, r.at = append(r.hosts, nil), append(r.at, nil)
		for p := range hosts {
			h, err := lab.AddHost(fmt.Sprintf("h%dp%d", i+1, p+1),
				netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i + 1), byte(p + 1)}), 16))
			r.check(err)
			r.hosts[i], r.at[i] = append(r.hosts[i], h), append(r.at[i], r.plug(lab, sw, h))
		}
	}
	for _, l := range links {
		k, err := lab.Connect(r.nodes[l[0]-1], r.nodes[l[1]-1])
		r.check(err)
		r.links = append(r.links, k)
	}
	r.control(lab, r.nodes)
	r.ready()
}

// ready waits until every running controller could lead, and nothing is in flight.
func (r *ryuCluster) ready() {
	r.t.Helper()
	r.check(r.WaitReady(r.ctx, len(r.nodes)))
	r.running()
	r.settled()
}

// settled waits until the hosts have executed everything, their results are logged, and the switches have executed
// the commands.
func (r *ryuCluster) settled() {
	r.t.Helper()
	r.await("all inputs to be executed", func(st cluster.Status) bool {
		for _, sw := range st.Switches {
			if sw.CommandsDone != sw.CommandsSent {
				return false
			}
		}
		return st.Replayed != nil && st.Replayed.Logged == st.Replayed.Inputs
	})
}

// pass sends a frame with a unique label, and waits until each of the others has received it.
func (r *ryuCluster) pass(from *station, src, dst of13.MAC, to ...*station) {
	r.t.Helper()
	r.carry(r.label(), from, src, dst, to...)
}

func (r *ryuCluster) carry(l string, from *station, src, dst of13.MAC, to ...*station) {
	r.t.Helper()
	if err := from.send(between(src, dst, l)); err != nil {
		r.t.Fatal(err)
	}
	for _, st := range to {
		await.Until(r.t, fmt.Sprintf("frame %s from %x to %x", l, src, dst), func() bool { return st.count(l) > 0 })
	}
}

// label returns a label that no other frame of the cluster has.
func (r *ryuCluster) label() string {
	r.played++
	return fmt.Sprintf("f%d", r.played)
}

// client sends the requests of users of applications, with a timeout.
var client = &http.Client{Timeout: 2 * patience, Transport: &http.Transport{DisableKeepAlives: true}}

// ask sends a request to the REST interface at a controller.
func (r *ryuCluster) ask(c *cluster.Controller, method, path, body string) (int, string, error) {
	req, err := http.NewRequestWithContext(r.ctx, method, "http://"+c.REST+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0, "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// rest is ask for a request that an application must answer, now or when there is a leader.
func (r *ryuCluster) rest(c *cluster.Controller, method, path, body string) string {
	r.t.Helper()
	var answer string
	await.Until(r.t, method+" "+path+" at "+c.Name, func() bool {
		status, text, err := r.ask(c, method, path, body)
		answer = strings.TrimSpace(fmt.Sprintf("%d %s", status, text))
		return err == nil && (status < 500 || status == http.StatusInternalServerError)
	})
	return answer
}

// strike kills the leader, and returns it.
func (r *ryuCluster) strike() *cluster.Controller {
	r.t.Helper()
	l := r.leader()
	r.check(l.Kill())
	return l
}

// flows returns the flow entries of all switches, without the markers.
func (r *ryuCluster) flows() (list []string) {
	r.t.Helper()
	for i, sw := range r.nodes {
		flows, err := sw.Flows()
		r.check(err)
		for _, f := range flows {
			if !strings.Contains(f, "table=") {
				list = append(list, fmt.Sprintf("s%d %s", i+1, f))
			}
		}
	}
	slices.Sort(list)
	return list
}

// commands returns the commands in the log, switch by switch, without those of some types.
func (r *ryuCluster) commands(without ...string) (list []string) {
	r.t.Helper()
	records, err := oracle.Read(r.AuditFiles())
	r.check(err)
	slices.SortStableFunc(records, func(a, b audit.Record) int { return int(a.Switch) - int(b.Switch) })
	for _, rec := range records {
		if rec.Kind == audit.Command && !slices.Contains(without, rec.Type) {
			list = append(list, fmt.Sprintf("%s %s %s", rec.Switch, rec.Type, rec.Digest))
		}
	}
	return list
}

var appLine = regexp.MustCompile(` msg=("(?:[^"\\]|\\.)*"|\S+) controller=\S+ (?:group=\d+ )?app=\S+$`)

// lines returns the log lines of applications that match, of all controllers together, sorted and without
// duplicates.
func (r *ryuCluster) lines(which *regexp.Regexp) (list []string) {
	r.t.Helper()
	for _, c := range r.Controllers() {
		for _, line := range lines(r.t, c.LogFile(), " app=") {
			m := appLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			text, err := strconv.Unquote(m[1])
			if err != nil {
				text = m[1]
			}
			if text = strings.TrimSpace(text); which.MatchString(text) {
				list = append(list, text)
			}
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// dpid formats a switch as REST interfaces do.
func dpid(id openflow.DatapathID) string { return fmt.Sprintf("%016x", uint64(id)) }
