package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of10"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestRun(t *testing.T) {
	for _, version := range []uint8{openflow.Version10, openflow.Version13} {
		for _, mode := range []Mode{Throughput, Latency} {
			for _, transport := range []string{"tcp", "pipe"} {
				t.Run(fmt.Sprintf("version %d, mode %d, %s", version, mode, transport), func(t *testing.T) {
					r := &responder{version: version}
					t.Cleanup(r.wg.Wait)
					cfg := Config{Mode: mode, Version: version, Switches: 3, MACsPerSwitch: 50, Window: 64,
						Warmup: 20 * time.Millisecond, Duration: 100 * time.Millisecond, Drain: time.Second,
						Dial: r.pipe}
					if transport == "tcp" {
						cfg.Dial = r.listen(t)
					}
					got, err := Run(context.Background(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					total := got.Total
					if got.Answered == 0 || total.Sent != total.Answered || got.Unanswered != 0 || total.Lost != 0 ||
						total.Unexpected != 0 || total.FlowMods != total.Answered {
						t.Errorf("%+v, %d unanswered", total, got.Unanswered)
					}
					if got.Answered >= total.Answered {
						t.Errorf("measured %d of %d: the warm-up is not to count", got.Answered, total.Answered)
					}
					if p50, p99 := got.Latency.Quantile(0.5), got.Latency.Quantile(0.99); p50 <= 0 || p99 < p50 ||
						got.Latency.Max() < p99 || got.Latency.Max() > time.Second {
						t.Errorf("latency %v, %v, %v", p50, p99, got.Latency.Max())
					}
					if got.Latency.Count() == 0 || len(got.Samples) != 1 || got.PerSecond <= 0 ||
						got.Elapsed < cfg.Duration {
						t.Errorf("%d latencies, %v samples, %v per second in %v", got.Latency.Count(), got.Samples,
							got.PerSecond, got.Elapsed)
					}
				})
			}
		}
	}
}

// Packet-ins are sent at the rate, and all are answered. That the machine is busy makes them late, and not fewer.
func TestPaced(t *testing.T) {
	r := &responder{version: openflow.Version13}
	got, err := Run(context.Background(), Config{Mode: Paced, Rate: 2000, Switches: 3, MACsPerSwitch: 50,
		Warmup: 20 * time.Millisecond, Duration: 100 * time.Millisecond, Drain: time.Second, Dial: r.listen(t)})
	if err != nil {
		t.Fatal(err)
	}
	if most := uint64(2000 * (got.Elapsed.Seconds() + 1)); got.Answered == 0 || got.Sent > most ||
		got.Total.Answered != got.Total.Sent || got.Unanswered != 0 {
		t.Errorf("%+v, %+v, %d unanswered in %v", got.Counts, got.Total, got.Unanswered, got.Elapsed)
	}
	if n := got.Late.Count(); n == 0 || n > got.Total.Sent || got.Latency.Max() < got.Latency.Quantile(0.5) ||
		got.Latency.Count() == 0 {
		t.Errorf("%d were late, %d latencies", got.Late.Count(), got.Latency.Count())
	}
}

func TestWithoutWindow(t *testing.T) {
	r := &responder{version: openflow.Version10}
	got, err := Run(context.Background(), Config{Version: openflow.Version10, Switches: 2,
		Duration: 100 * time.Millisecond, Dial: r.listen(t)})
	if err != nil {
		t.Fatal(err)
	}
	if got.Answered == 0 || got.Latency.Count() != 0 || got.Unanswered != 0 {
		t.Errorf("%+v", got.Counts)
	}
}

// The window is respected: a controller that answers nothing receives exactly that many packet-ins, and new ones
// when these count as lost.
func TestWindowHoldsAndLossesMakeRoom(t *testing.T) {
	r := &responder{version: openflow.Version13, mute: true}
	cfg := Config{Switches: 2, Window: 10, Duration: 50 * time.Millisecond, Dial: r.listen(t)}
	got, err := Run(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if got.Total.Sent != 20 || got.Unanswered != 20 || got.Total.Answered != 0 || got.Total.Lost != 0 {
		t.Errorf("%+v, %d unanswered", got.Total, got.Unanswered)
	}
	cfg.LostAfter, cfg.Duration = 30*time.Millisecond, 200*time.Millisecond
	if got, err = Run(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	// The last ones of a switch may count as lost when it sends no more.
	atMost := 20 * uint64(cfg.Duration/cfg.LostAfter+2)
	if n := got.Total; n.Lost == 0 || n.Sent > atMost || n.Lost%10 != 0 || n.Sent <= 20 || n.Sent != n.Lost+got.Unanswered ||
		got.Unanswered > 20 {
		t.Errorf("%+v, %d unanswered", n, got.Unanswered)
	}
}

func TestSecondAnswersAreUnexpected(t *testing.T) {
	r := &responder{version: openflow.Version13, twice: true}
	got, err := Run(context.Background(), Config{Switches: 1, Window: 8, Duration: 50 * time.Millisecond,
		Drain: time.Second, Dial: r.listen(t)})
	if err != nil {
		t.Fatal(err)
	}
	// The last of two answers may arrive after the end.
	if c := got.Total; c.Answered != c.Sent || c.Answered == 0 || c.Unexpected+8 < c.Answered ||
		c.Unexpected > c.Answered {
		t.Errorf("%+v", c)
	}
}

// A learning switch knows the destination from the first packet-in that has a buffer.
func TestDestinationIsKnown(t *testing.T) {
	for _, version := range []uint8{openflow.Version10, openflow.Version13} {
		var mu sync.Mutex
		learned := map[string]uint64{} // port, by switch and address
		var wrong []string
		r := &responder{version: version, see: func(i int, msg []byte) {
			mu.Lock()
			defer mu.Unlock()
			in, err := packetInOf(msg)
			if err != nil {
				wrong = append(wrong, err.Error())
				return
			}
			src, dst := fmt.Sprint(i, in.Data[6:12]), fmt.Sprint(i, in.Data[:6])
			port, _ := in.Match.InPort()
			if old, ok := learned[src]; ok && old != uint64(port) {
				wrong = append(wrong, fmt.Sprintf("%v moved from port %d to %d", src, old, port))
			}
			learned[src] = uint64(port)
			if _, ok := learned[dst]; !ok && in.BufferID != of13.NoBuffer {
				wrong = append(wrong, "unknown destination "+dst)
			}
		}}
		got, err := Run(context.Background(), Config{Version: version, Switches: 2, MACsPerSwitch: 5, Window: 4,
			Duration: 50 * time.Millisecond, Drain: time.Second, Dial: r.listen(t)})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if len(wrong) > 0 {
			t.Errorf("version %d: %d times, first: %s", version, len(wrong), wrong[0])
		}
		if len(learned) != 2*(5+1) || got.Answered == 0 {
			t.Errorf("version %d: %d addresses: %v", version, len(learned), learned)
		}
		mu.Unlock()
	}
}

func packetInOf(msg []byte) (m of13.PacketIn, err error) {
	if msg[0] == openflow.Version10 {
		if msg, err = of10.ToV13(nil, msg); err != nil {
			return m, err
		}
	}
	return m, m.Decode(msg)
}

func TestFailures(t *testing.T) {
	r := &responder{version: openflow.Version13}
	good := Config{Switches: 2, Window: 1, Duration: 10 * time.Second, ReadyTimeout: 50 * time.Millisecond,
		Dial: r.listen(t)}
	refused := errors.New("no route")
	silent := func(t *testing.T) func(context.Context, int) (net.Conn, error) {
		return func(context.Context, int) (net.Conn, error) {
			a, b := net.Pipe()
			done := make(chan struct{})
			go func() { defer close(done); _, _ = io.Copy(io.Discard, b) }()
			t.Cleanup(func() { b.Close(); <-done })
			return a, nil
		}
	}
	for _, c := range []struct {
		name, want string
		edit       func(*testing.T, *Config)
	}{
		{"no Dial", "Dial is missing", func(_ *testing.T, c *Config) { c.Dial = nil }},
		{"version", "OpenFlow version 2", func(_ *testing.T, c *Config) { c.Version = 2 }},
		{"window", "window of 20000", func(_ *testing.T, c *Config) { c.Window = 20000 }},
		{"rate", "0 packet-ins a second", func(_ *testing.T, c *Config) { c.Mode = Paced }},
		{"switches", "5000 switches", func(_ *testing.T, c *Config) { c.Switches = 5000 }},
		{"refused", "connect switch 0000000000000001: no route", func(_ *testing.T, c *Config) {
			c.Dial = func(context.Context, int) (net.Conn, error) { return nil, refused }
		}},
		{"no handshake", "was not asked for its features", func(t *testing.T, c *Config) { c.Dial = silent(t) }},
		{"controller goes away", "closed", func(t *testing.T, c *Config) {
			c.Dial = func(context.Context, int) (net.Conn, error) {
				a, b := net.Pipe()
				go func() { _, _ = b.Read(make([]byte, 8)); b.Close() }()
				return a, nil
			}
		}},
		{"error message", "the controller sent an error", func(t *testing.T, c *Config) {
			r := &responder{version: openflow.Version13, greet: func(xid uint32, dst []byte) []byte {
				return (&of13.Error{ErrType: of13.ErrTypeHelloFailed}).Append(dst, xid)
			}}
			c.Dial = r.listen(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good
			c.edit(t, &cfg)
			if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	got, err := Run(ctx, good)
	if !errors.Is(err, context.DeadlineExceeded) || got.Answered == 0 {
		t.Errorf("cancelled: %v after %d answers", err, got.Answered)
	}
}

func benchmark(b *testing.B, version uint8, window int) {
	r := &responder{version: version}
	got, err := Run(context.Background(), Config{Version: version, Switches: 4, Window: window, MACsPerSwitch: 1000,
		Warmup: 100 * time.Millisecond, Duration: time.Second, Dial: r.listen(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(got.PerSecond, "answers/s")
	b.ReportMetric(float64(got.Latency.Quantile(0.5).Microseconds()), "p50-µs")
	b.ReportMetric(0, "ns/op")
}

// The figure includes the responder, which uses the other processor.
func BenchmarkThroughput10(b *testing.B)          { benchmark(b, openflow.Version10, 0) }
func BenchmarkThroughput10Window512(b *testing.B) { benchmark(b, openflow.Version10, 512) }
func BenchmarkThroughput13Window512(b *testing.B) { benchmark(b, openflow.Version13, 512) }
func BenchmarkLatency13(b *testing.B)             { benchmark(b, openflow.Version13, 1) }

// BenchmarkSwitch is the generator alone: one packet-in and its answer.
func BenchmarkSwitch(b *testing.B) {
	s := newSwitch13(1, 1000, newWindow(256, dialect13.ids))
	s.ready, s.measuring = true, true
	r := &responder{version: openflow.Version13}
	answer := r.flowMod()
	var out, back []byte
	b.ReportAllocs()
	for n := 0; b.Loop(); {
		if n > 0 {
			n--
			continue
		}
		out, back = s.fill(out[:0], time.Duration(b.N+1), sendLimit), back[:0]
		for msg := range messages(out) {
			be.PutUint32(answer[32:], be.Uint32(msg[8:]))
			back = append(back, answer...)
			n++
		}
		if err := s.receive(back, time.Duration(b.N+2)); err != nil {
			b.Fatal(err)
		}
	}
	if s.counts.Unexpected > 0 || s.counts.Answered != s.counts.Sent {
		b.Fatalf("%+v", s.counts)
	}
}
