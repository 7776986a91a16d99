package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/internal/realtime"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// fleet runs the switches of a Config.
type fleet struct {
	cfg   Config
	start time.Time
	links []*link
	begin chan struct{} // in Paced mode: closed when all switches are ready
}

// link is one switch on its connection. Its reader and writer are separate goroutines, so that neither waits for the
// other. The reader sends what the connection takes at once, and leaves the rest to the writer, because waking the
// writer costs as much as half a write.
type link struct {
	mu    sync.Mutex
	s     *fakeSwitch
	wake  chan struct{} // capacity 1: the writer has something to send
	ready chan struct{} // closed when the switch may send packet-ins
	cfg   *Config
	start time.Time
	conn  net.Conn

	sending sync.Mutex     // taken before mu; guards the fields below
	direct  rawconn.Direct // nil: only the writer writes
	scratch []byte         // what is being written
	rest    []byte         // HELLO, or of scratch; it is written before anything else
}

// sendLimit bounds one write, in bytes; it is how full cbench keeps its buffer.
const sendLimit = 64 << 10

func newFleet(cfg Config) *fleet {
	f := &fleet{cfg: cfg, start: time.Now().Add(-1), begin: make(chan struct{})} // no packet-in is sent at 0
	create, ids := newSwitch13, dialect13.ids
	if cfg.Version == openflow.Version10 {
		create, ids = newSwitch10, dialect10.ids
	}
	for i := range cfg.Switches {
		var win *window
		if cfg.Window > 0 {
			win = newWindow(cfg.Window, ids)
		}
		f.links = append(f.links, &link{s: create(cfg.FirstDatapathID+openflow.DatapathID(i), cfg.MACsPerSwitch, win),
			wake: make(chan struct{}, 1), ready: make(chan struct{}), cfg: &f.cfg, start: f.start})
		f.links[i].s.afterPorts, f.links[i].s.stopped = cfg.AfterPorts, cfg.Mode == Paced
	}
	return f
}

// run connects and serves all switches until ctx ends or one fails: then it calls fail.
func (f *fleet) run(ctx context.Context, fail context.CancelCauseFunc) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, l := range f.links {
		conn, err := f.cfg.Dial(ctx, i)
		if err != nil {
			fail(fmt.Errorf("load: connect switch %v: %w", l.s.id, err))
			return
		}
		l.conn = rawconn.Of(conn)
		l.direct, _ = l.conn.(rawconn.Direct)
		l.rest = l.s.hello // so nothing is sent before it
		l.signal()
		done := func(what string, err error) {
			if ctx.Err() == nil {
				fail(fmt.Errorf("load: switch %v: %s: %w", l.s.id, what, err))
			}
		}
		wg.Go(func() { <-ctx.Done(); conn.Close() })
		wg.Go(func() { done("write", l.write(ctx)) })
		wg.Go(func() { done("read", l.read()) })
	}
	select {
	case <-f.begin:
		if err := f.pace(ctx); err != nil && ctx.Err() == nil {
			fail(err)
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
}

// pace sends the packet-ins of Paced mode when they are due, until ctx ends. It sleeps in a thread of its own, because
// time.Sleep takes a millisecond or more.
func (f *fleet) pace(ctx context.Context) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	realtime.AddProcessors(1)
	defer realtime.AddProcessors(-1)
	began := f.links[0].now()
	apart := time.Duration(float64(time.Second) / f.cfg.Rate)
	for i, l := range f.links {
		l.mu.Lock()
		l.s.every, l.s.next = apart*time.Duration(len(f.links)), began+apart*time.Duration(i)
		l.s.stopped = false
		l.mu.Unlock()
	}
	for n := 0; ctx.Err() == nil; n++ {
		l := f.links[n%len(f.links)]
		// by the clock of the link: one that is found not to be due would be sent after all other switches had one
		for due := began + apart*time.Duration(n); l.now() < due; {
			_ = realtime.SleepUntil(realtime.Now() + due - l.now()) // after a signal, again
		}
		if err := l.flush(); err != nil {
			return fmt.Errorf("load: switch %v: write: %w", l.s.id, err)
		}
	}
	return nil
}

func (l *link) now() time.Duration { return time.Since(l.start) }

// read handles what the controller sends until the connection ends.
func (l *link) read() error {
	in := ofconn.NewReader(l.conn)
	var deadline time.Duration
	for {
		if now := l.now(); deadline-now < l.cfg.LostAfter { // not for every read, which would be expensive
			deadline = now + 2*l.cfg.LostAfter
			if err := l.conn.SetReadDeadline(l.start.Add(deadline)); err != nil {
				return err
			}
		}
		batch, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the controller closed the connection: %w", err)
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		if err := l.take(batch, err != nil); err != nil {
			return err
		}
	}
}

// take passes messages to the switch, or reports that none came for long, and sends what the switch wants to send then.
func (l *link) take(batch []byte, silent bool) error {
	now := l.now()
	l.mu.Lock()
	before := l.s.ready
	err := l.s.receive(batch, now)
	if silent {
		l.s.expire(now - l.cfg.LostAfter)
	}
	became, waits := l.s.ready && !before, l.s.waits()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if became {
		close(l.ready)
	}
	if waits {
		l.push()
	}
	return nil
}

// push sends once, as far as the connection takes it without waiting. The writer sends what is left.
func (l *link) push() {
	if !l.sending.TryLock() {
		l.signal()
		return
	}
	left := l.direct == nil || len(l.rest) > 0
	if !left {
		left = l.next()
		l.rest = l.scratch[l.direct.WriteDirect(l.scratch):]
		left = left || len(l.rest) > 0
	}
	l.sending.Unlock()
	if left {
		l.signal()
	}
}

// next makes scratch what the switch has to send now, up to sendLimit, and reports whether there is more. The caller
// holds sending.
func (l *link) next() (more bool) {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.scratch = l.s.fill(l.scratch[:0], now, sendLimit)
	return l.s.waits()
}

func (l *link) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// write sends whatever the switch wants to send.
func (l *link) write(ctx context.Context) error {
	for {
		select {
		case <-l.wake:
			if err := l.flush(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// flush sends until the switch has nothing more to send.
func (l *link) flush() error {
	l.sending.Lock()
	defer l.sending.Unlock()
	for {
		if len(l.rest) == 0 {
			if l.next(); len(l.scratch) == 0 {
				return nil
			}
			l.rest = l.scratch
		}
		if _, err := l.conn.Write(l.rest); err != nil {
			return err
		}
		l.rest = nil
	}
}

// measure waits for the handshakes, and measures.
func (f *fleet) measure(ctx context.Context) (Result, error) {
	var r Result
	ready, cancel := context.WithTimeout(ctx, f.cfg.ReadyTimeout)
	defer cancel()
	for i, l := range f.links {
		select {
		case <-l.ready:
		case <-ready.Done():
			if ctx.Err() != nil {
				return r, context.Cause(ctx)
			}
			return r, fmt.Errorf("load: switch %v (%d of %d before it are ready) was not asked for its features "+
				"within %v", l.s.id, i, len(f.links), f.cfg.ReadyTimeout)
		}
	}
	if f.cfg.Mode == Paced {
		close(f.begin)
	}
	if err := pause.For(ctx, f.cfg.Warmup); err != nil {
		return r, err
	}
	f.each(func(s *fakeSwitch) { s.measuring = true })
	first, begin := f.counts(), time.Now()
	err := f.beside(ctx, func() error { return f.sample(ctx, &r, first, begin) })
	r.Elapsed = time.Since(begin)
	r.Counts = f.counts().minus(first)
	f.each(func(s *fakeSwitch) {
		s.measuring, s.stopped = false, true
		r.Latency.Merge(&s.latency)
		r.Late.Merge(&s.late)
	})
	r.PerSecond = float64(r.Answered) / r.Elapsed.Seconds()
	if err != nil {
		return r, err
	}
	return r, f.drain(ctx)
}

// beside runs Config.Beside while it measures.
func (f *fleet) beside(ctx context.Context, measure func() error) error {
	if f.cfg.Beside == nil {
		return measure()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.cfg.Beside(ctx, func() uint64 { return f.counts().Answered }) }() // until ctx ends
	err := measure()
	cancel()
	return errors.Join(err, <-ended)
}

// sample takes a sample every second until the measurement is over; a last, shorter one counts
// when there is no other, or when it is of half a second or more.
func (f *fleet) sample(ctx context.Context, r *Result, last Counts, begin time.Time) error {
	lastAt := begin
	for end := begin.Add(f.cfg.Duration); time.Now().Before(end); {
		err := pause.For(ctx, min(time.Second, time.Until(end)))
		now := f.counts()
		took := time.Since(lastAt)
		if len(r.Samples) == 0 || took >= time.Second/2 {
			r.Samples = append(r.Samples, float64(now.Answered-last.Answered)/took.Seconds())
		}
		last, lastAt = now, time.Now()
		if err != nil {
			return err
		}
	}
	return nil
}

// drain waits until everything is answered, as long as Drain says.
func (f *fleet) drain(ctx context.Context) error {
	const poll = 2 * time.Millisecond
	for end := time.Now().Add(f.cfg.Drain); f.outstanding() > 0 && time.Now().Before(end); {
		if err := pause.For(ctx, poll); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) each(do func(*fakeSwitch)) {
	for _, l := range f.links {
		l.mu.Lock()
		do(l.s)
		l.mu.Unlock()
	}
}

func (f *fleet) counts() (sum Counts) {
	f.each(func(s *fakeSwitch) { sum = sum.plus(s.counts) })
	return sum
}

func (f *fleet) outstanding() (sum uint64) {
	f.each(func(s *fakeSwitch) {
		if s.win != nil {
			sum += uint64(s.win.open)
		}
	})
	return sum
}
