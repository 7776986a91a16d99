// Package cluster runs a whole cluster of real holdfast processes on loopback, and kills,
// stops and restarts them: for the demo, the benchmarks and the tests. Every process ends
// with Close, and with the process that started it. It knows the command line of
// holdfast and nothing of its insides.
package cluster

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pki"
)

// Config says what to run.
type Config struct {
	Binary      string // the holdfast binary
	Dir         string // for the cluster file, logs, data and audit files; must exist
	Controllers int    // 3 if 0
	// of Controllers, so many of the last are in the cluster file and are not started; see Join
	Later  int
	Apps   []string                     // of the cluster file
	Levels map[string]map[string]string // of the cluster file; may be nil
	// of the cluster file, for applications of Ryu among Apps
	Ryu           *Ryu
	Sections      string // more of the cluster file, as YAML: what has no field here
	Durability    string // "memory" if empty
	Agents        int    // agent processes, each for one or more switches
	Audit         bool   // controllers write audit files
	SnapshotEvery int    // entries between snapshots; 0 is the default of serve
	Listen        string // address to bind to, "127.0.0.1" if empty
	TLS           bool   // everything over TLS, by an authority made for the cluster
	Sockets       bool   // agents listen at Unix sockets in Dir; not with TLS
	Unlisted      string // with TLS, of the cluster file; "": its default
	LogLevel      string // of the controllers; "" is the default of serve
	// Election is how long a leader may be silent; 0 is the cluster file's default. Heartbeats are ten
	// times as frequent. Machines with much else to do need more. A leader that dies is noticed at once.
	Election time.Duration
	// Patience is how long each wait and each command may take; 0: as long as its context. So a test need not know how
	// long all of them take together.
	Patience time.Duration
	// Route says at which address process from finds process to, so that a relay can stand between
	// them; nil: at the address itself. They are called c1, c2 and so on, and agent1.
	Route func(from, to, address string) string
	// Before is called with Dir before anything starts; may be nil.
	Before func(dir string) error
	// Env adds variables to the environment of controller i, as "NAME=value"; may be nil.
	Env func(i int) []string
}

// Ryu is the section of that name in the cluster file.
type Ryu struct {
	Python   string   `json:"python,omitempty"`
	User     string   `json:"user,omitempty"`
	Options  []string `json:"options,omitempty"`
	Path     []string `json:"path,omitempty"`
	Files    []string `json:"files,omitempty"`
	MemoryMB int      `json:"memory_mb,omitempty"`
	LogLevel string   `json:"log_level,omitempty"`
}

// Cluster is a running cluster.
type Cluster struct {
	cfg         Config
	controllers []*Controller
	agents      []*Agent
}

// Controller is one controller process of the cluster.
type Controller struct {
	Name                string
	Peer, OpenFlow, API string // addresses
	REST                string // likewise, of applications over HTTP
	client              *http.Client
	id                  uint64 // in the cluster file; 0: none
	process
}

// Agent is one agent process.
type Agent struct {
	Listen string // switches connect here: an address, or unix:PATH
	process
}

// Start runs the cluster's processes and waits until a controller leads.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	if cfg.Controllers == 0 {
		cfg.Controllers = 3
	}
	if cfg.Durability == "" {
		cfg.Durability = "memory"
	}
	if cfg.Listen == "" {
		cfg.Listen = "127.0.0.1"
	}
	if cfg.Sockets && cfg.TLS {
		return nil, errors.New("cluster: agents at Unix sockets do not speak TLS")
	}
	addrs, err := FreeAddresses(cfg.Listen, 4*cfg.Controllers+cfg.Agents)
	if err != nil {
		return nil, err
	}
	c := &Cluster{cfg: cfg}
	for i := range cfg.Controllers {
		n := &Controller{Name: fmt.Sprintf("c%d", i+1), Peer: addrs[4*i], OpenFlow: addrs[4*i+1], API: addrs[4*i+2],
			REST: addrs[4*i+3], client: http.DefaultClient}
		n.process = process{name: n.Name, binary: cfg.Binary, log: filepath.Join(cfg.Dir, n.Name+".log"),
			args: []string{"serve", "--config", c.fileOf(n.Name), "--name", n.Name}}
		if cfg.Audit {
			n.args = append(n.args, "--audit", c.auditFile(i))
		}
		if cfg.SnapshotEvery > 0 {
			n.args = append(n.args, "--snapshot-every", fmt.Sprint(cfg.SnapshotEvery))
		}
		if cfg.LogLevel != "" {
			n.args = append(n.args, "--log-level", cfg.LogLevel)
		}
		if cfg.Env != nil {
			n.env = cfg.Env(i)
		}
		c.controllers = append(c.controllers, n)
	}
	for i := range cfg.Agents {
		a := &Agent{Listen: addrs[4*cfg.Controllers+i]}
		name := fmt.Sprintf("agent%d", i+1)
		if cfg.Sockets {
			a.Listen = "unix:" + filepath.Join(cfg.Dir, name+".sock")
		}
		a.process = process{name: name, binary: cfg.Binary, log: filepath.Join(cfg.Dir, name+".log"),
			args: []string{"agent", "--config", c.fileOf(name), "--listen", a.Listen, "--name", name}}
		c.agents = append(c.agents, a)
	}
	if err := c.run(ctx); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Cluster) run(ctx context.Context) error {
	if c.cfg.Before != nil {
		if err := c.cfg.Before(c.cfg.Dir); err != nil {
			return err
		}
	}
	if c.cfg.TLS {
		if err := c.makeAuthority(); err != nil {
			return err
		}
	}
	if err := c.writeClusterFiles(); err != nil {
		return fmt.Errorf("write cluster file: %w", err)
	}
	if err := c.found(ctx); err != nil {
		return err
	}
	for _, n := range c.founders() {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, a := range c.agents {
		if err := a.start(); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, a := range c.agents {
		for !a.listens() {
			if err := c.pause(ctx, began); err != nil {
				return fmt.Errorf("wait for %s to listen: %w", a.name, c.WithLogs(err))
			}
		}
	}
	_, err := c.WaitLeader(ctx)
	return err
}

// listens reports whether the agent has said that it listens.
func (a *Agent) listens() bool {
	text, err := os.ReadFile(a.log)
	return err == nil && bytes.Contains(text, []byte("listen="))
}

// ClusterFile is the path of the file that the processes share, unless Config.Route gives each its own.
func (c *Cluster) ClusterFile() string { return filepath.Join(c.cfg.Dir, "holdfast.yaml") }

// fileOf is that of one process.
func (c *Cluster) fileOf(name string) string {
	if c.cfg.Route == nil {
		return c.ClusterFile()
	}
	return filepath.Join(c.cfg.Dir, name+".yaml")
}

// replace writes a file at once: a process that starts meanwhile reads the old one or the new one.
func replace(name string, text []byte) error {
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func (c *Cluster) writeClusterFiles() error {
	err := replace(c.ClusterFile(), c.text(c.controllers, direct))
	if c.cfg.Route == nil || err != nil {
		return err
	}
	var names []string
	for _, n := range c.controllers {
		names = append(names, n.Name)
	}
	for _, a := range c.agents {
		names = append(names, a.name)
	}
	for _, name := range names {
		text := c.text(c.controllers, func(to, address string) string {
			if to == name {
				return address
			}
			return c.cfg.Route(name, to, address)
		})
		if err := replace(c.fileOf(name), text); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) auditFile(i int) string {
	return filepath.Join(c.cfg.Dir, fmt.Sprintf("c%d.audit", i+1))
}

// AuditFiles are the audit files of all controllers, as far as they exist.
func (c *Cluster) AuditFiles() []string {
	var files []string
	for i := range c.controllers {
		if _, err := os.Stat(c.auditFile(i)); err == nil {
			files = append(files, c.auditFile(i))
		}
	}
	return files
}

func direct(_, address string) string { return address }

// text is the cluster file for a process that finds the controllers by route.
func (c *Cluster) text(controllers []*Controller, route func(to, address string) string) []byte {
	var b strings.Builder
	if !c.cfg.TLS && !strings.HasPrefix(c.cfg.Listen, "127.") {
		b.WriteString("insecure: true\n")
	}
	b.WriteString("controllers:\n")
	for _, n := range controllers {
		fmt.Fprintf(&b, "  - name: %s\n    peer: %s\n    openflow: %s\n    api: %s\n    rest: %s\n",
			n.Name, route(n.Name, n.Peer), route(n.Name, n.OpenFlow), n.API, n.REST)
		if n.id != 0 {
			fmt.Fprintf(&b, "    id: %d\n", n.id)
		}
	}
	fmt.Fprintf(&b, "apps: [%s]\ndurability: %s\ndata: %s\n", strings.Join(c.cfg.Apps, ", "), c.cfg.Durability,
		c.dataDir())
	if c.cfg.Ryu != nil {
		ryu, _ := json.Marshal(c.cfg.Ryu) // text and numbers
		fmt.Fprintf(&b, "ryu: %s\n", ryu)
	}
	b.WriteString(c.cfg.Sections)
	if len(c.cfg.Levels) > 0 {
		levels, _ := json.Marshal(c.cfg.Levels) // maps of text; JSON is YAML too
		fmt.Fprintf(&b, "levels: %s\n", levels)
	}
	if e := c.cfg.Election; e > 0 {
		fmt.Fprintf(&b, "heartbeat_ms: %d\nelection_ms: %d\n", max(1, e.Milliseconds()/10), e.Milliseconds())
	}
	if c.cfg.TLS {
		fmt.Fprintf(&b, "tls:\n  ca: %s\n  cert: %s\n  key: %s\n  deny: %s\n",
			pki.CertFile(c.Authority(), pki.AuthorityName), pki.CertFile(c.Authority(), "{name}"),
			pki.KeyFile(c.Authority(), "{name}"), c.denyFile())
		if c.cfg.Unlisted != "" {
			fmt.Fprintf(&b, "  unlisted: %s\n", c.cfg.Unlisted)
		}
	}
	return []byte(b.String())
}

// Controllers are the controllers, running or not.
func (c *Cluster) Controllers() []*Controller { return c.controllers }

// Agents are the agents, running or not.
func (c *Cluster) Agents() []*Agent { return c.agents }

// Close kills what runs.
func (c *Cluster) Close() error {
	var errs []error
	for _, a := range c.agents {
		errs = append(errs, a.Kill())
	}
	for _, n := range c.controllers {
		errs = append(errs, n.Kill())
	}
	return errors.Join(errs...)
}

// A wait looks again after a tenth of the time that it has taken so far, within these bounds: looking is work for the
// processes that are waited for.
const minPause, maxPause = 5 * time.Millisecond, 50 * time.Millisecond

// WaitLeader waits for a controller that leads in the highest term, and returns it.
func (c *Cluster) WaitLeader(ctx context.Context) (*Controller, error) {
	began := time.Now()
	for {
		var leader *Controller
		var term uint64
		for _, n := range c.controllers {
			if !n.Running() {
				continue
			}
			if s, err := n.Status(ctx); err == nil && s.Role == "leader" && s.Term > term {
				leader, term = n, s.Term
			}
		}
		if leader != nil {
			return leader, nil
		}
		if err := c.pause(ctx, began); err != nil {
			return nil, fmt.Errorf("no controller leads: %w", c.WithLogs(err))
		}
	}
}

// Wait polls the leader until ok, and returns its last status. If there are several groups, Groups and Switches are
// those of the cluster.
func (c *Cluster) Wait(ctx context.Context, what string, ok func(Status) bool) (Status, error) {
	began := time.Now()
	for {
		leader, err := c.WaitLeader(ctx)
		if err != nil {
			return Status{}, err
		}
		s, err := leader.Status(ctx)
		if err == nil && len(s.Groups) > 1 {
			s.Groups, s.Switches, err = leader.cluster(ctx)
		}
		if err == nil && ok(s) {
			return s, nil
		}
		if err := c.pause(ctx, began); err != nil {
			return s, fmt.Errorf("waited for %s; the leader says %+v: %w", what, s, c.WithLogs(err))
		}
	}
}

// WaitReady waits until every controller that runs could be the next master of n switches, with
// nothing lost.
func (c *Cluster) WaitReady(ctx context.Context, n int) error {
	last, began := "", time.Now()
	for {
		late := ""
		for _, m := range c.controllers {
			if !m.Running() {
				continue
			}
			s, err := m.Status(ctx)
			ready := 0
			for _, sw := range s.Switches {
				if sw.Ready() {
					ready++
				}
			}
			if err != nil || ready < n || s.Role == "no leader" {
				late = fmt.Sprintf("%s, which says %+v (%v)", m.Name, s, err)
			}
		}
		if late == "" {
			return nil
		}
		if err := c.pause(ctx, began); err != nil {
			return fmt.Errorf("waited for %s to be in sync: %w", cmp.Or(last, late), c.WithLogs(err))
		}
		last = late
	}
}

// WaitHome waits until each of several groups that has a home is led there.
func (c *Cluster) WaitHome(ctx context.Context) error {
	_, err := c.Wait(ctx, "all groups to be led at home", func(s Status) bool {
		return !slices.ContainsFunc(s.Groups, func(g GroupStatus) bool {
			return g.Home != "" && (g.Role != "leader" || g.Leader != g.Home)
		})
	})
	return err
}

// Leaderships returns how many of several groups that have a home are led by the controller that leads the most of
// them, and by the one that leads the fewest.
func (c *Cluster) Leaderships(ctx context.Context) (most, fewest int, err error) {
	s, err := c.Wait(ctx, "a leader", func(Status) bool { return true })
	if err != nil {
		return 0, 0, err
	}
	leads := map[string]int{}
	for _, g := range s.Groups {
		if g.Role == "leader" && g.Home != "" {
			leads[g.Leader]++
		}
	}
	fewest = len(s.Groups)
	for _, n := range c.controllers {
		most, fewest = max(most, leads[n.Name]), min(fewest, leads[n.Name])
	}
	return most, fewest, nil
}

// pause is what a wait that began then does before it looks again. It also notices the end of
// Config.Patience, and a process that ended by itself.
func (c *Cluster) pause(ctx context.Context, began time.Time) error {
	for _, n := range c.controllers {
		if err := n.failed(); err != nil {
			return err
		}
	}
	for _, a := range c.agents {
		if err := a.failed(); err != nil {
			return err
		}
	}
	if c.cfg.Patience > 0 && time.Since(began) >= c.cfg.Patience {
		return fmt.Errorf("it does not happen within %v", c.cfg.Patience)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(max(time.Since(began)/10, minPause), maxPause)):
		return nil
	}
}

// WithLogs adds the ends of the logs to err, unless somebody has just called it all off.
func (c *Cluster) WithLogs(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w\n%s", err, c.Logs())
}

// Logs returns the last lines of every process's log, for error messages.
func (c *Cluster) Logs() string {
	var b strings.Builder
	add := func(p *process) {
		text, err := os.ReadFile(p.log)
		if err != nil {
			return
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "--- %s\n%s\n", p.log, strings.Join(lines[max(0, len(lines)-10):], "\n"))
	}
	for _, n := range c.controllers {
		add(&n.process)
	}
	for _, a := range c.agents {
		add(&a.process)
	}
	return b.String()
}
