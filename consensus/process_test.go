package consensus

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv makes the test binary run a member of a group instead of the tests.
const childEnv = "CONSENSUS_TEST_CHILD"

// childConfig configures such a member. While it leads it proposes, a number of entries at once. It reports what
// happens on its output, one line each.
type childConfig struct {
	ID        uint64
	Members   map[uint64]string
	Dir       string
	Fsync     bool
	Election  time.Duration
	EntrySize int
	Window    int           // proposals outstanding
	Pause     time.Duration // before each proposal
	Compact   int           // entries between two snapshots
	More      uint64        // groups beside group 0, of which nothing but a fault is reported
}

// child runs a member until it is killed or its input ends.
func child() {
	var cfg childConfig
	if err := json.Unmarshal([]byte(os.Getenv(childEnv)), &cfg); err != nil {
		panic(err)
	}
	level := slog.LevelWarn
	if os.Getenv("CONSENSUS_TEST_LOG") != "" {
		level = slog.LevelDebug
	}
	l, err := net.Listen("tcp", cfg.Members[cfg.ID])
	if err != nil {
		panic(err)
	}
	h, err := NewHost(HostConfig{
		ID: cfg.ID, Cluster: "processes", Listener: l, Dir: cfg.Dir, Fsync: cfg.Fsync, Election: cfg.Election,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	})
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	for group := cfg.More; group > 0; group-- {
		go childGroup(h, cfg, group, io.Discard)
	}
	childGroup(h, cfg, 0, os.Stdout)
}

// childGroup takes part in one group until the process ends.
func childGroup(h *Host, cfg childConfig, group uint64, out io.Writer) {
	n, err := h.Start(GroupConfig{Group: group, Members: cfg.Members})
	if err == nil {
		c := &childOwner{cfg: cfg, n: n, out: out, sent: make(map[uint64]time.Time)}
		c.run()
		err = n.Err()
	}
	fmt.Println("failed", group, err)
}

// childOwner counts the entries, and checks that there is no gap: an entry contains the number of entries before
// it, as its proposer saw them.
type childOwner struct {
	cfg        childConfig
	n          *Node
	out        io.Writer // of reports
	role       Role
	count      uint64 // entries applied
	proposed   uint64 // count when the next proposal is applied
	waiting    int
	first      bool // the next commit is the first in this term
	sent       map[uint64]time.Time
	latency    []time.Duration
	reported   time.Time
	reportedAt uint64
	compacted  uint64
}

func (c *childOwner) run() {
	var tick <-chan time.Time
	if c.cfg.Pause > 0 {
		ticker := time.NewTicker(c.cfg.Pause)
		defer ticker.Stop()
		tick = ticker.C
	}
	for {
		select {
		case <-c.n.News():
			took := false
			for u, ok := c.n.Next(); ok; u, ok = c.n.Next() {
				c.take(u)
				took = true
			}
			if c.n.Err() != nil {
				return
			}
			if !took || c.cfg.Pause > 0 && !c.first {
				continue
			}
		case <-tick:
		}
		for c.role.Leading && c.waiting < c.cfg.Window {
			data := binary.BigEndian.AppendUint64(make([]byte, 0, c.cfg.EntrySize), c.proposed)
			if c.n.Propose(c.role.Term, data[:max(8, c.cfg.EntrySize)]) != nil {
				break
			}
			c.sent[c.proposed] = time.Now()
			c.proposed++
			c.waiting++
			if c.cfg.Pause > 0 {
				break
			}
		}
	}
}

func (c *childOwner) take(u Update) {
	switch {
	case u.Snapshot != nil:
		c.count = binary.BigEndian.Uint64(u.Snapshot.State)
		fmt.Fprintln(c.out, "snapshot", c.count)
	case u.Role != nil:
		c.role, c.waiting, c.first = *u.Role, 0, u.Role.Leading
		clear(c.sent)
		c.proposed = c.count
		fmt.Fprintln(c.out, "role", u.Role.Term, u.Role.Leader, u.Role.Leading)
	default:
		now := time.Now()
		for _, e := range u.Entries {
			if got := binary.BigEndian.Uint64(e.Data); got != c.count {
				fmt.Println("failed entry", e.Index, "counts", got, "after", c.count)
				os.Exit(1)
			}
			if at, ok := c.sent[c.count]; ok {
				c.latency = append(c.latency, now.Sub(at))
				delete(c.sent, c.count)
			}
			c.count++
		}
		if c.role.Leading {
			c.waiting -= len(u.Entries)
			if c.first {
				c.first = false
				fmt.Fprintln(c.out, "commit", c.role.Term, now.UnixNano())
			}
		}
		c.report(now)
		c.compact(u.Entries[len(u.Entries)-1].Index)
	}
}

func (c *childOwner) compact(index uint64) {
	if c.cfg.Compact > 0 && c.count-c.compacted >= uint64(c.cfg.Compact) {
		if c.n.Compact(index, binary.BigEndian.AppendUint64(nil, c.count)) == nil {
			c.compacted = c.count
		}
	}
}

func (c *childOwner) report(now time.Time) {
	if now.Sub(c.reported) < 250*time.Millisecond {
		return
	}
	p50, p99 := time.Duration(0), time.Duration(0)
	if n := len(c.latency); n > 0 {
		slices.Sort(c.latency)
		p50, p99 = c.latency[n/2], c.latency[n*99/100]
		c.latency = c.latency[:0]
	}
	rate := float64(c.count-c.reportedAt) / now.Sub(c.reported).Seconds()
	fmt.Fprintln(c.out, "count", c.count, int(rate), p50.Nanoseconds(), p99.Nanoseconds())
	c.reported, c.reportedAt = now, c.count
}

// process is a member in a process of its own, as its parent sees it.
type process struct {
	cfg   childConfig
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string
}

func spawn(t testing.TB, cfg childConfig) *process {
	t.Helper()
	env, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &process{cfg: cfg, cmd: exec.Command(os.Args[0]), lines: make(chan string, 1<<16)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+string(env))
	p.cmd.Stderr = t.Output()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.lines <- lines.Text()
		}
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	for range p.lines {
	}
	_ = p.cmd.Wait()
	p.stdin.Close()
}

// group starts count processes. dir is "" for members in memory.
func group(t testing.TB, count int, dir string, cfg childConfig) []*process {
	t.Helper()
	cfg.Members = make(map[uint64]string)
	for i := range count {
		l := listen(t)
		cfg.Members[uint64(i+1)] = l.Addr().String()
		l.Close()
	}
	var all []*process
	for i := range count {
		cfg.ID = uint64(i + 1)
		if dir != "" {
			cfg.Dir = filepath.Join(dir, fmt.Sprint(cfg.ID))
		}
		all = append(all, spawn(t, cfg))
	}
	return all
}

// line waits until any of the processes prints a line that starts with prefix, and scans it.
func line(t testing.TB, all []*process, wait time.Duration, prefix string, args ...any) *process {
	t.Helper()
	deadline := time.Now().Add(wait)
	for time.Now().Before(deadline) {
		for _, p := range all {
			select {
			case l := <-p.lines:
				if strings.HasPrefix(l, "failed") {
					t.Fatalf("member %d: %s", p.cfg.ID, l)
				}
				if rest, ok := strings.CutPrefix(l, prefix); ok {
					if _, err := fmt.Sscan(rest, args...); err != nil {
						t.Fatalf("%q: %v", l, err)
					}
					return p
				}
			default:
			}
		}
		time.Sleep(100 * time.Microsecond)
	}
	t.Fatalf("no line %q within %v", prefix, wait)
	return nil
}

func others(all []*process, not *process) []*process {
	return slices.DeleteFunc(slices.Clone(all), func(p *process) bool { return p == not })
}

// TestKilled: processes that are killed (SIGKILL) and restarted lose nothing in any of three groups, with and without
// fsync, even if all of them are killed at once.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	for _, m := range modes[1:] {
		t.Run("log="+m.name, func(t *testing.T) {
			all := group(t, 3, t.TempDir(), childConfig{EntrySize: 1000, Window: 50, Pause: time.Millisecond,
				Compact: 500, Fsync: m.fsync, More: 2})
			var term, at, count int
			leader := line(t, all, 10*time.Second, "commit ", &term, &at)
			for range 3 {
				line(t, []*process{leader}, 10*time.Second, "count ", &count)
				old := slices.Index(all, leader)
				leader.kill()
				leader = line(t, others(all, leader), 10*time.Second, "commit ", &term, &at)
				all[old] = spawn(t, all[old].cfg)
				line(t, all[old:old+1], 10*time.Second, "count ", &count)
			}
			line(t, []*process{leader}, 10*time.Second, "count ", &count)
			committed := count
			for _, p := range all {
				p.signal(syscall.SIGKILL)
			}
			for i, p := range all {
				p.kill()
				all[i] = spawn(t, p.cfg)
			}
			leader = line(t, all, 10*time.Second, "commit ", &term, &at)
			for count = 0; count <= committed; {
				line(t, []*process{leader}, 10*time.Second, "count ", &count)
			}
		})
	}
}

// TestStopped: a leader that hangs (SIGSTOP) is replaced, and follows when it continues.
func TestStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	all := group(t, 3, "", childConfig{EntrySize: 1000, Window: 50, Pause: time.Millisecond})
	var term, next, at, count int
	old := line(t, all, 10*time.Second, "commit ", &term, &at)
	old.signal(syscall.SIGSTOP)
	leader := line(t, others(all, old), 10*time.Second, "commit ", &next, &at)
	if next <= term {
		t.Errorf("term %d after %d", next, term)
	}
	line(t, []*process{leader}, 10*time.Second, "count ", &count)
	old.signal(syscall.SIGCONT)
	for caught := 0; caught < count; {
		line(t, []*process{old}, 10*time.Second, "count ", &caught)
	}
}
