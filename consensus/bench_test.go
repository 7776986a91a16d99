package consensus

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mode is where the log is stored: nowhere, in a file, or in a file with fsync.
type mode struct {
	name  string
	dir   bool
	fsync bool
}

var modes = []mode{{"none", false, false}, {"file", true, false}, {"fsync", true, true}}

func (m mode) group(b *testing.B, cfg childConfig) []*process {
	dir := ""
	if m.dir {
		dir = b.TempDir()
	}
	cfg.Fsync = m.fsync
	return group(b, 3, dir, cfg)
}

// BenchmarkCommit runs three processes on one machine, which commit batches of 1000 events of 100 bytes, with one
// batch outstanding (latency) and with eight (throughput).
func BenchmarkCommit(b *testing.B) {
	for _, m := range modes {
		for _, c := range []struct{ size, window int }{{100, 1}, {100_000, 1}, {100_000, 8}} {
			b.Run(fmt.Sprintf("log=%s/bytes=%d/window=%d", m.name, c.size, c.window), func(b *testing.B) {
				all := m.group(b, childConfig{EntrySize: c.size, Window: c.window, Compact: 2000})
				var rates, p50s, p99s []float64
				var count, rate, p50, p99 int
				var term, at int
				leader := line(b, all, 10*time.Second, "commit ", &term, &at)
				for range 10 {
					line(b, []*process{leader}, 10*time.Second, "count ", &count, &rate, &p50, &p99)
					rates, p50s, p99s = append(rates, float64(rate)), append(p50s, float64(p50)),
						append(p99s, float64(p99))
				}
				for _, v := range [][]float64{rates, p50s, p99s} {
					slices.Sort(v)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(rates[5]*float64(c.size)/100, "events/s")
				b.ReportMetric(p50s[5]/1000, "p50-µs")
				b.ReportMetric(p99s[5]/1000, "p99-µs")
			})
		}
	}
}

// BenchmarkFailover kills the leader (SIGKILL) repeatedly, restarts it, and measures the time until the next leader
// has committed something, at 100,000 events of 100 bytes per second.
func BenchmarkFailover(b *testing.B) {
	for _, m := range []mode{modes[1], modes[2]} {
		b.Run("log="+m.name, func(b *testing.B) {
			failover(b, m, childConfig{EntrySize: 10_000, Window: 100, Pause: time.Millisecond, Compact: 2000}, 31,
				func(p *process) func() *process {
					p.kill()
					return func() *process { return spawn(b, p.cfg) }
				})
		})
	}
	b.Run("stopped", func(b *testing.B) {
		failover(b, modes[1], childConfig{EntrySize: 10_000, Window: 100, Pause: time.Millisecond, Compact: 2000}, 9,
			func(p *process) func() *process {
				p.signal(syscall.SIGSTOP)
				return func() *process {
					p.signal(syscall.SIGCONT)
					return p
				}
			})
	})
}

func failover(b *testing.B, m mode, cfg childConfig, times int, fail func(*process) func() *process) {
	all := m.group(b, cfg)
	var term, at, count int
	leader := line(b, all, 10*time.Second, "commit ", &term, &at)
	var gaps []float64
	needless := 0
	for range times {
		time.Sleep(500 * time.Millisecond)
		if now := leading(all, leader, &term); now != leader { // the leader has changed because the machine is busy
			needless++
			leader = now
		}
		old := leader
		start := time.Now()
		revive := fail(old)
		leader = line(b, others(all, old), 10*time.Second, "commit ", &term, &at)
		gaps = append(gaps, float64(int64(at)-start.UnixNano())/1e6)
		replaced := revive()
		all[slices.Index(all, old)] = replaced
		line(b, []*process{replaced}, 10*time.Second, "count ", &count)
	}
	slices.Sort(gaps)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(gaps[len(gaps)/2], "median-ms")
	b.ReportMetric(gaps[len(gaps)-1], "max-ms")
	b.ReportMetric(float64(needless), "needless")
}

// BenchmarkIdle is the processor time, in percent of one core, of three processes together that commit nothing.
func BenchmarkIdle(b *testing.B) {
	for _, groups := range []int{1, 4, 16} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			all := group(b, 3, b.TempDir(), childConfig{More: uint64(groups) - 1})
			var term, leader, used int
			line(b, all, 10*time.Second, "role ", &term, &leader)
			time.Sleep(2 * time.Second) // until all groups have leaders
			const seconds = 10
			for _, p := range all {
				used -= ticks(b, p)
			}
			time.Sleep(seconds * time.Second)
			for _, p := range all {
				used += ticks(b, p)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(used)/seconds, "%core")
		})
	}
}

// ticks is the processor time of a process, in 1/100 s.
func ticks(b *testing.B, p *process) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}

// leading returns the process that reported last that it leads, or leader if none did.
func leading(all []*process, leader *process, term *int) *process {
	for _, p := range all {
		for len(p.lines) > 0 {
			var t, id int
			var leads bool
			if n, _ := fmt.Sscanf(<-p.lines, "role %d %d %t", &t, &id, &leads); n == 3 && leads && t > *term {
				leader, *term = p, t
			}
		}
	}
	return leader
}
