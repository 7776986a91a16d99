package bfd_test

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// Figures of docs/design/bfd.md: go test ./bfd -run '^$' -bench . -benchtime 100x. Those of recovery are measured by
// `holdfast bench recovery`.

const (
	typeHere  = 0x88b5 // local experimental, IEEE 802: comes back from the first switch
	typeThere = 0x88b6 // comes back from the second
)

func frame(from *netlab.Host, etherType uint16, n int) []byte {
	f := append(append(make([]byte, 0, 64), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), from.MAC...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(f, etherType), uint32(n))[:60]
}

func number(f []byte, etherType uint16) (int, bool) {
	if len(f) < 18 || binary.BigEndian.Uint16(f[12:]) != etherType {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(f[14:])), true
}

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

// Each operation is a frame that comes back from the first switch, and one that comes back from the second: the
// difference is the round trip between the two.
func BenchmarkRoundTrip(b *testing.B) {
	lab := netlab.ForTest(b)
	h := must(lab.AddHost("h1", netip.MustParsePrefix("10.0.0.1/24")))(b)
	s1, s2 := must(lab.AddSwitch("s1", 1))(b), must(lab.AddSwitch("s2", 2))(b)
	must(lab.Connect(s1, h))(b)
	must(lab.Connect(s1, s2))(b)
	must(s1.OFCtl("add-flow", fmt.Sprintf("priority=65535,dl_type=%#x,actions=in_port", typeHere)))(b)
	must(s1.OFCtl("add-flow", "in_port=1,actions=output:2"))(b)
	must(s1.OFCtl("add-flow", "in_port=2,actions=output:1"))(b)
	must(s2.OFCtl("add-flow", "actions=in_port"))(b)
	file := must(h.Raw())(b)
	defer file.Close()
	trip := func(etherType uint16, n int) time.Duration {
		began := time.Now()
		must(file.Write(frame(h, etherType, n)))(b)
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
	setting := ovsdb.BFD{MinTx: 15 * ms, MinRx: 15 * ms, Multiplier: 3}
	if err := db.SetBFD(b.Context(), await(b, db, "p1", "plugged in", hasLink), setting); err != nil {
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
