package bfd_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/netlab"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// The figures of docs/design/bfd.md: go test ./bfd -run '^$' -bench . -benchtime 60x -timeout 30m

// settings are the intervals of the paper's figure 5, and what makes 1 ms hold on a shared machine.
var settings = []ovsdb.BFD{
	{MinTx: ms, MinRx: ms, Multiplier: 3},
	{MinTx: ms, MinRx: ms, Multiplier: 5},
	{MinTx: 5 * ms, MinRx: 5 * ms, Multiplier: 3},
	{MinTx: 15 * ms, MinRx: 15 * ms, Multiplier: 3},
}

// rig is h1 – s1 = s2 – h2: two links between two Open vSwitches, the second of which takes over when the first fails.
type rig struct {
	s      [2]*netlab.Switch
	h      [2]*netlab.Host
	db     [2]*ovsdb.Client
	tc     [2]io.Writer // a tc at the end of the first link in each switch, which does what is written to it
	probes stream
}

// The ports: 1 to the host, 2 and 3 to the other switch.
var watched = []string{"p2", "p3"}

const (
	typeProbe = 0x88b5 // local experimental, IEEE 802
	typeHere  = 0x88b6 // comes back from the first switch
	typeThere = 0x88b7 // comes back from the second
)

func newRig(b *testing.B, setting ovsdb.BFD) *rig {
	b.Helper()
	lab := netlab.ForTest(b)
	r := &rig{}
	for i := range r.s {
		r.s[i] = must(lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1)))(b)
		r.h[i] = must(lab.AddHost(fmt.Sprintf("h%d", i+1), netip.MustParsePrefix(fmt.Sprintf("10.0.0.%d/24", i+1))))(b)
	}
	for i := range r.s {
		must(lab.Connect(r.s[i], r.h[i]))(b)
	}
	for range watched {
		must(lab.Connect(r.s[0], r.s[1]))(b)
	}
	for i, s := range r.s {
		must(s.OFCtl("add-group", "group_id=1,type=ff,bucket=watch_port:2,actions=output:2,bucket=watch_port:3,actions=output:3"))(b)
		must(s.OFCtl("add-flow", "in_port=1,actions=group:1"))(b)
		must(s.OFCtl("add-flow", "priority=1,actions=output:1"))(b)
		back := fmt.Sprintf("priority=65535,dl_type=%#x,in_port=%d,actions=in_port", []int{typeHere, typeThere}[i], []int{1, 2}[i])
		must(s.OFCtl("add-flow", back))(b)
		r.db[i] = watch(b, s)
		for _, name := range watched {
			if err := r.db[i].SetBFD(b.Context(), await(b, r.db[i], name, "plugged in", hasLink), setting); err != nil {
				b.Fatal(err)
			}
		}
		r.tc[i] = newTC(b, s.Namespace)
	}
	r.settle(b)
	return r
}

// newTC starts a tc that takes commands until the end of the test: one that has to be started takes longer to cut a link than BFD to
// notice.
func newTC(b *testing.B, namespace string) io.Writer {
	b.Helper()
	cmd := exec.Command("tc", "-n", namespace, "-batch", "-")
	cmd.Stderr = os.Stderr
	in := must(cmd.StdinPipe())(b)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { in.Close(); cmd.Wait() })
	must(io.WriteString(in, "qdisc add dev p2 clsact\n"))(b)
	return in
}

// both makes the tc at each end of the first link do something, as nearly at once as two processes can.
func (r *rig) both(b *testing.B, command string) {
	b.Helper()
	for i := range r.tc {
		must(io.WriteString(r.tc[1-i], command+"\n"))(b)
	}
}

// cut loses all that enters the first link, at both ends, as netlab.Link.CutSilently does.
func (r *rig) cut(b *testing.B) {
	r.both(b, `filter add dev p2 egress pref 1 bpf da bytecode "1,6 0 0 4,"`)
}
func (r *rig) mend(b *testing.B) { r.both(b, "filter del dev p2 egress pref 1") }

// settle waits until all sessions are up, and stay so while they agree on their intervals: when it comes up, a session
// still sends once a second, and Open vSwitch tells of a shorter interval in its next packet. Where there is a false alarm every
// few seconds it does not wait for ever.
func (r *rig) settle(b *testing.B) {
	b.Helper()
	for before, tries := -1, 0; tries < 5; tries++ {
		for _, db := range r.db {
			for _, name := range watched {
				await(b, db, name, "up", isUp)
			}
		}
		now := r.flaps(b, watched...)
		if now == before {
			return
		}
		before = now
		time.Sleep(2500 * ms)
	}
}

// flaps is how often sessions have gone down or up.
func (r *rig) flaps(b *testing.B, names ...string) (sum int) {
	for _, db := range r.db {
		for _, name := range names {
			sum += await(b, db, name, "there", hasLink).BFD.Flaps
		}
	}
	return sum
}

// stream is frames from h1 to h2, one every interval, each with its number.
type stream struct {
	mu   sync.Mutex // guards the fields below
	sent []time.Time
	came []bool
}

// start sends until ended is closed.
func (p *stream) start(b *testing.B, from, to *netlab.Host, interval time.Duration, ended <-chan struct{}) *sync.WaitGroup {
	out, in := must(from.Raw())(b), must(to.Raw())(b)
	var running sync.WaitGroup
	running.Go(func() {
		defer out.Close()
		defer in.Close()
		first := time.Now()
		for n := 0; ; n++ {
			select {
			case <-ended:
				return
			default:
			}
			time.Sleep(time.Until(first.Add(time.Duration(n) * interval)))
			p.mu.Lock()
			p.sent, p.came = append(p.sent, time.Now()), append(p.came, false)
			p.mu.Unlock()
			_, _ = out.Write(frame(from, to, typeProbe, n)) // an error is a lost frame
		}
	})
	running.Go(func() {
		for buf := make([]byte, 2048); ; {
			k, err := in.Read(buf)
			if err != nil {
				return
			}
			if n, ok := number(buf[:k], typeProbe); ok {
				p.mu.Lock()
				p.came[n] = true
				p.mu.Unlock()
			}
		}
	})
	return &running
}

func frame(from, to *netlab.Host, etherType uint16, n int) []byte {
	f := append(append(make([]byte, 0, 64), to.MAC...), from.MAC...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(f, etherType), uint32(n))[:60]
}

func number(f []byte, etherType uint16) (int, bool) {
	if len(f) < 18 || binary.BigEndian.Uint16(f[12:]) != etherType {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(f[14:])), true
}

// outage waits until frames sent after since come again, and returns how long they did not: from the first that was lost, as they were sent.
func (p *stream) outage(b *testing.B, since time.Time) time.Duration {
	b.Helper()
	for deadline := since.Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * ms) {
		p.mu.Lock()
		lost := -1
		for n := len(p.sent) - 1; n >= 0 && p.sent[n].After(since); n-- {
			if !p.came[n] {
				lost = n
			}
		}
		// What is on its way is not lost: enough that were sent later have come.
		if back := slices.Index(p.came[max(lost, 0):], true); lost >= 0 && back >= 0 && len(p.sent) > lost+back+20 {
			d := p.sent[lost+back].Sub(p.sent[lost])
			p.mu.Unlock()
			return d
		}
		p.mu.Unlock()
	}
	b.Fatal("frames do not come again")
	return 0
}

func name(s ovsdb.BFD) string { return fmt.Sprintf("interval=%v,multiplier=%d", s.MinTx, s.Multiplier) }

func report(b *testing.B, what string, samples []time.Duration) {
	if len(samples) == 0 {
		return
	}
	slices.Sort(samples)
	millis := func(q float64) float64 { return float64(samples[int(q*float64(len(samples)-1))]) / float64(ms) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(millis(0), what+"_ms_min")
	b.ReportMetric(millis(0.5), what+"_ms_median")
	b.ReportMetric(millis(0.95), what+"_ms_p95")
	b.ReportMetric(millis(1), what+"_ms_max")
}

// Each operation is a silent cut of the first link: how long a stream is interrupted until the fast-failover group has sent it over the second.
func BenchmarkSilentCut(b *testing.B) {
	for _, s := range settings {
		b.Run(name(s), func(b *testing.B) {
			r := newRig(b, s)
			ended := make(chan struct{})
			running := r.probes.start(b, r.h[0], r.h[1], 2100*time.Microsecond, ended)
			defer func() { close(ended); running.Wait() }()
			var outages []time.Duration
			lone := 0
			b.ResetTimer()
			for range b.N {
				before := r.flaps(b, "p3")
				began := time.Now()
				r.cut(b)
				outage := r.probes.outage(b, began)
				for _, db := range r.db {
					await(b, db, "p2", "down", isDown)
				}
				if r.flaps(b, "p3") == before {
					outages = append(outages, outage)
				} else { // a false alarm there left no way
					lone++
				}
				r.mend(b)
				r.settle(b)
			}
			b.ReportMetric(float64(lone), "both_down")
			report(b, "outage", outages)
		})
	}
}

// Each operation is a second in which nothing fails, without traffic and with 10,000 frames a second.
func BenchmarkFalseAlarms(b *testing.B) {
	for _, s := range settings {
		for _, load := range []string{"idle", "traffic"} {
			b.Run(name(s)+",load="+load, func(b *testing.B) {
				r := newRig(b, s)
				before := r.flaps(b, watched...)
				ended := make(chan struct{})
				running := new(sync.WaitGroup)
				if load == "traffic" {
					running = r.probes.start(b, r.h[0], r.h[1], 100*time.Microsecond, ended)
				}
				b.ResetTimer()
				time.Sleep(time.Duration(b.N) * time.Second)
				b.StopTimer()
				close(ended)
				running.Wait()
				time.Sleep(200 * ms) // until the database has been told
				b.ReportMetric(float64(r.flaps(b, watched...)-before)/2, "alarms")
			})
		}
	}
}

// Each operation is a frame that comes back from the first switch, and one that comes back from the second: the difference is
// the round trip between the two.
func BenchmarkRoundTrip(b *testing.B) {
	r := newRig(b, settings[2])
	file := must(r.h[0].Raw())(b)
	defer file.Close()
	trip := func(etherType uint16, n int) time.Duration {
		began := time.Now()
		must(file.Write(frame(r.h[0], r.h[1], etherType, n)))(b)
		if err := file.SetReadDeadline(began.Add(2 * time.Second)); err != nil {
			b.Fatal(err)
		}
		for buf := make([]byte, 2048); ; {
			k, err := file.Read(buf)
			if err != nil {
				b.Fatal(err)
			}
			if got, ok := number(buf[:k], etherType); ok && got == n {
				return time.Since(began)
			}
		}
	}
	var trips []time.Duration
	b.ResetTimer()
	for n := range b.N {
		here := trip(typeHere, n)
		trips = append(trips, max(0, trip(typeThere, n)-here))
		time.Sleep(ms)
	}
	report(b, "link", trips)
}

// Each operation is a change of intervals, for which we poll Open vSwitch: how long its final takes.
func BenchmarkPoll(b *testing.B) {
	lab := netlab.ForTest(b)
	s := must(lab.AddSwitch("s1", 1))(b)
	h := must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(b)
	must(lab.Connect(s, h))(b)
	db := watch(b, s)
	if err := db.SetBFD(b.Context(), await(b, db, "p1", "plugged in", hasLink), settings[3]); err != nil {
		b.Fatal(err)
	}
	p := newPort(b, h, 15*ms, 15*ms)
	isUp := func(s bfd.Status) bool { return s.State == bfd.Up }
	p.await(b, "up", isUp)
	b.ResetTimer()
	for n := range b.N {
		tx := time.Duration(15+n%2) * ms
		p.mu.Lock()
		err := p.session.SetTimers(time.Since(p.began), tx, 15*ms)
		p.mu.Unlock()
		if err != nil {
			b.Fatal(err)
		}
		time.Sleep(50 * ms)
	}
	p.await(b, "up", isUp)
	p.mu.Lock()
	defer p.mu.Unlock()
	report(b, "final", slices.Clone(p.answers))
}
