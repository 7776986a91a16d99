package bfd_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// watch monitors the database of a switch.
func watch(t testing.TB, s *netlab.Switch) *ovsdb.Client {
	t.Helper()
	c := must(ovsdb.New(ovsdb.Config{Remote: s.Database(), Logger: slog.New(slog.DiscardHandler)}))(t)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return c
}

// await waits until ok accepts the state of an interface of the switch.
func await(t testing.TB, c *ovsdb.Client, name, what string, good func(ovsdb.Interface) bool) ovsdb.Interface {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		v, err := c.View()
		i, ok := v.Named(name)
		if err == nil && ok && good(i) {
			return i
		}
		select {
		case <-c.Changed():
		case <-deadline:
			t.Fatalf("%s: not %s: %+v, error %v", name, what, i, err)
		}
	}
}

func isUp(i ovsdb.Interface) bool    { return i.BFD.State == "up" && i.BFD.Forwarding }
func isDown(i ovsdb.Interface) bool  { return i.BFD.State == "down" && !i.BFD.Forwarding }
func hasLink(i ovsdb.Interface) bool { return i.Port > 0 && i.LinkUp }

// port is a session at the end of a cable.
type port struct {
	file  *os.File
	began time.Time

	mu       sync.Mutex // guards the fields below
	session  *bfd.Session
	silent   bool // neither receives nor sends
	polledAt time.Duration
	answers  []time.Duration // from poll to final
}

// newPort runs a session on the only interface of a host until the end of the test.
func newPort(t testing.TB, h *netlab.Host, minTx, minRx time.Duration) *port {
	t.Helper()
	p := &port{file: must(h.Raw())(t), began: time.Now()}
	p.session = must(bfd.New(0, bfd.Config{Discriminator: rand.Uint32() | 1, MinTx: minTx, MinRx: minRx,
		Multiplier: bfd.Multiplier, Jitter: rand.Float64}))(t)
	frames := make(chan bfd.Packet, 64)
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { p.read(frames, ended) })
	running.Go(func() { p.run(frames, ended, [6]byte(h.MAC)) })
	t.Cleanup(func() {
		close(ended)
		p.file.Close()
		running.Wait()
	})
	return p
}

func (p *port) read(frames chan<- bfd.Packet, ended <-chan struct{}) {
	for buf := make([]byte, 2048); ; {
		n, err := p.file.Read(buf)
		if err != nil {
			return
		}
		packet, err := bfd.DecodeFrame(buf[:n])
		if err != nil {
			continue
		}
		select {
		case frames <- packet:
		case <-ended:
			return
		}
	}
}

func (p *port) run(frames <-chan bfd.Packet, ended <-chan struct{}, src [6]byte) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case packet := <-frames:
			p.receive(packet)
		case <-timer.C:
		case <-ended:
			return
		}
		for len(frames) > 0 { // first what has arrived, then the check for silence
			p.receive(<-frames)
		}
		timer.Reset(p.tick(src))
	}
}

func (p *port) receive(packet bfd.Packet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		return
	}
	now := time.Since(p.began)
	if packet.Final && p.polledAt > 0 {
		p.answers = append(p.answers, now-p.polledAt)
		p.polledAt = 0
	}
	_ = p.session.Receive(now, packet) // a packet for an earlier session is dropped
}

// tick sends what is due, and returns the time of the next call.
func (p *port) tick(src [6]byte) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Since(p.began)
		packet, ok := p.session.Tick(now)
		if !ok {
			break
		}
		if packet.Poll && p.polledAt == 0 {
			p.polledAt = now
		}
		if !p.silent {
			_, _ = p.file.Write(bfd.AppendFrame(nil, src, packet)) // an error is a lost packet
		}
	}
	at, ok := p.session.Deadline()
	if !ok {
		return time.Second
	}
	return at - time.Since(p.began)
}

func (p *port) setSilent(silent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = silent
}

func (p *port) status() bfd.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session.Status()
}

// await waits until ok accepts the state of the session.
func (p *port) await(t testing.TB, what string, good func(bfd.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !good(p.status()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s: %+v", what, p.status())
		}
	}
}
