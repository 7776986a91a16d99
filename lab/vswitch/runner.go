package vswitch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Pauses before a controller is dialled again, which double from MinBackoff to MaxBackoff, and how long a controller
// may be silent.
const (
	MinBackoff         = 50 * time.Millisecond
	MaxBackoff         = time.Second
	DefaultSilentAfter = 15 * time.Second
)

const (
	dialTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	// sendChunk is how much is passed to a connection at once; the rest waits in the Switch, which knows what it may
	// drop.
	sendChunk = 256 << 10
	// maxArrived bounds the frames that wait for the switch; further ones are dropped.
	maxArrived = 4096
	// tolerance is by how much the loop may be late and still trust that a peer was silent. After a longer delay the
	// readers of devices may have been delayed too, and frames that they have not read must not count as silence.
	tolerance = 2 * time.Millisecond
)

// RunnerConfig describes a Runner. The zero value of a field is its default.
type RunnerConfig struct {
	Switch      Config
	Controllers []string      // addresses to dial: host:port, or unix:path
	TickEvery   time.Duration // default 10 ms
	SilentAfter time.Duration // a controller that is silent for so long is disconnected; default 15 s
	Log         *slog.Logger  // default: none
	// Dial opens the connection to one of Controllers; default TCP, or a Unix socket.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Runner runs a Switch: one goroutine owns it, and gives it time, controllers and frames. Its methods are safe for
// concurrent use.
type Runner struct {
	config RunnerConfig
	sw     *Switch // owned by loop
	origin time.Time
	cancel context.CancelFunc
	ctx    context.Context
	tasks  sync.WaitGroup

	calls    chan call
	wake     chan struct{} // capacity 1: frames have arrived, or a writer has room
	nextID   atomic.Uint64
	sessions map[ConnID]*session         // owned by loop
	outlets  map[of13.Port]func(transit) // owned by loop
	dropped  atomic.Uint64

	mu      sync.Mutex // guards the fields below
	arrived []arrival
	slab    []byte // the bytes of arrived
	// spare are the other two slices, while loop reads these.
	spareArrived []arrival
	spareSlab    []byte
}

type call struct {
	f    func(now time.Duration)
	done chan struct{}
}

// arrival is a frame that waits for the switch.
type arrival struct {
	port     of13.Port
	from, to int // its bytes in the slab
	hops     int
}

// transit is a frame between two nodes, with the number of switches that it has passed.
type transit struct {
	data []byte
	hops int
}

// StartRunner makes a switch and runs it until Close.
func StartRunner(c RunnerConfig) *Runner {
	if c.TickEvery == 0 {
		c.TickEvery = 10 * time.Millisecond
	}
	if c.SilentAfter == 0 {
		c.SilentAfter = DefaultSilentAfter
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = dialPlain
	}
	c.Log = c.Log.With("switch", c.Switch.DatapathID)
	r := &Runner{
		config: c, sw: New(c.Switch), origin: time.Now(), calls: make(chan call), wake: make(chan struct{}, 1),
		sessions: map[ConnID]*session{}, outlets: map[of13.Port]func(transit){},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.tasks.Go(r.loop)
	for _, addr := range c.Controllers {
		r.tasks.Go(func() { r.dial(addr) })
	}
	return r
}

// Close ends the switch and all its connections, and waits for them.
func (r *Runner) Close() {
	r.cancel()
	r.tasks.Wait()
}

// Do calls f with the switch in the goroutine that owns it, and waits. It returns false, and does not call f, if the
// runner is closed. f must not keep the switch, nor take its frames or what is pending.
func (r *Runner) Do(f func(s *Switch, now time.Duration)) bool {
	return r.do(func(now time.Duration) { f(r.sw, now) })
}

func (r *Runner) do(f func(now time.Duration)) bool {
	c := call{f, make(chan struct{})}
	select {
	case r.calls <- c:
		<-c.done
		return true
	case <-r.ctx.Done():
		return false
	}
}

// SetPortLive reports that the link of a port came up or went down.
func (r *Runner) SetPortLive(no of13.Port, up bool) {
	r.do(func(now time.Duration) { r.sw.SetPortLive(now, no, up) })
}

// Receive queues a copy of a frame that arrived at a port. It returns false if too many wait, or the runner is closed:
// the frame is lost, and counted in Dropped.
func (r *Runner) Receive(no of13.Port, frame []byte) bool { return r.receive(no, transit{frame, 0}) }

func (r *Runner) receive(no of13.Port, t transit) bool {
	r.mu.Lock()
	full := len(r.arrived) >= maxArrived || r.ctx.Err() != nil
	if !full {
		from := len(r.slab)
		r.slab = append(r.slab, t.data...)
		r.arrived = append(r.arrived, arrival{no, from, len(r.slab), t.hops})
	}
	r.mu.Unlock()
	if full {
		r.dropped.Add(1)
		return false
	}
	r.signal()
	return true
}

// signal wakes the loop.
func (r *Runner) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Dropped counts the frames that Receive did not queue.
func (r *Runner) Dropped() uint64 { return r.dropped.Load() }

// Transmit makes send the output of a port. send is called from the switch's goroutine: it must not block, nor call
// methods of the runner other than Receive, and the frame is valid only during the call.
func (r *Runner) Transmit(no of13.Port, send func(frame []byte)) {
	r.attach(no, func(t transit) { send(t.data) })
}

func (r *Runner) attach(no of13.Port, send func(transit)) {
	r.do(func(time.Duration) { r.outlets[no] = send })
}

// loop owns the switch.
func (r *Runner) loop() {
	tickAt := r.config.TickEvery // at the latest
	due, excused := tickAt, false
	timer := time.NewTimer(due)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case c := <-r.calls:
			c.f(r.now())
			r.transmit(0)
			r.flush()
			close(c.done)
		case <-r.wake:
			r.process(r.now())
		case <-timer.C:
			now := r.now() // one time for all that is done: a pause amid it must not look like silence
			late := now - due
			// once: a runner that is always late must detect silence, too
			if excused = !excused && late > tolerance; excused {
				r.sw.excuse(now, late)
			}
			r.tick(now)
			tickAt, due = r.now()+r.config.TickEvery, 0
		}
		r.transmit(0)
		r.flush()
		next := tickAt
		if at, ok := r.sw.Deadline(); ok {
			next = min(next, at)
		}
		if next != due {
			due = next
			timer.Reset(due - r.now())
		}
	}
}

func (r *Runner) now() time.Duration { return time.Since(r.origin) }

// tick passes the time to the switch, after what has arrived.
func (r *Runner) tick(now time.Duration) {
	r.process(now)
	r.sw.Tick(now)
	for _, s := range r.sessions {
		s.keepAlive(now, r.config.SilentAfter)
	}
}

// process passes the frames that have arrived to the switch.
func (r *Runner) process(now time.Duration) {
	r.mu.Lock()
	arrived, slab := r.arrived, r.slab
	r.arrived, r.slab = r.spareArrived[:0], r.spareSlab[:0]
	r.mu.Unlock()
	for _, a := range arrived {
		r.sw.Frame(now, a.port, slab[a.from:a.to])
		r.transmit(a.hops + 1)
	}
	r.mu.Lock()
	r.spareArrived, r.spareSlab = arrived, slab
	r.mu.Unlock()
}

func (r *Runner) transmit(hops int) {
	for _, f := range r.sw.Frames() {
		if send := r.outlets[f.Port]; send != nil {
			send(transit{f.Data, hops})
		}
	}
}

func (r *Runner) flush() {
	for _, s := range r.sessions {
		s.flush(r.sw)
	}
}

func dialPlain(ctx context.Context, addr string) (net.Conn, error) {
	network, at := address.Of(addr)
	return new(net.Dialer).DialContext(ctx, network, at)
}

// dial keeps a connection to a controller. Why there is none for long is logged once.
func (r *Runner) dial(addr string) {
	said := ""
	for backoff := MinBackoff; r.ctx.Err() == nil; {
		ctx, cancel := context.WithTimeout(r.ctx, dialTimeout)
		nc, err := r.config.Dial(ctx, addr)
		cancel()
		switch {
		case err == nil:
			backoff, said = MinBackoff, ""
			err = r.Serve(nc)
			r.config.Log.Debug("controller not connected any more", "address", addr, "err", err)
		case r.ctx.Err() == nil && backoff == MaxBackoff && err.Error() != said: // it may just be about to start
			said = err.Error()
			r.config.Log.Warn("controller not connected", "address", addr, "err", err)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, MaxBackoff)
	}
}

// Accept serves controllers that connect to l, until l is closed or the runner is. It closes l, and
// returns nil if the runner was closed.
func (r *Runner) Accept(l net.Listener) error {
	stop := context.AfterFunc(r.ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		nc, err := l.Accept()
		if err != nil {
			if r.ctx.Err() != nil {
				return nil
			}
			return err
		}
		sessions.Go(func() {
			err := r.Serve(nc)
			r.config.Log.Debug("controller gone", "address", nc.RemoteAddr(), "err", err)
		})
	}
}

// Serve serves a controller over nc until one side closes it. It returns nil if it ended between two messages.
func (r *Runner) Serve(nc net.Conn) error {
	stop := context.AfterFunc(r.ctx, func() { nc.Close() })
	defer stop()
	s := &session{
		id: ConnID(r.nextID.Add(1)), nc: nc, watched: ofconn.NewWatched(nc, r.config.SilentAfter),
		writer: ofconn.NewWriter(nc, 2*sendChunk, writeTimeout, func(uint64) { r.signal() }),
		room:   make(chan struct{}, 1),
	}
	defer s.writer.Close()
	begun := r.do(func(now time.Duration) {
		r.sw.Connect(s.id)
		s.heardAt = now
		r.sessions[s.id] = s
	})
	if !begun {
		return nil
	}
	err := r.read(s)
	r.do(func(time.Duration) {
		r.sw.Disconnect(s.id)
		delete(r.sessions, s.id)
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return err
}

// read passes what a controller sends to the switch, until the connection ends.
func (r *Runner) read(s *session) error {
	reader := ofconn.NewReader(s.watched)
	for {
		batch, err := reader.Next()
		if err != nil {
			return err
		}
		open, full := true, false
		alive := r.do(func(now time.Duration) {
			for msg := []byte(nil); len(batch) > 0; {
				if msg, batch, _ = openflow.Next(batch); msg == nil {
					break
				}
				r.sw.Message(now, s.id, msg)
				r.transmit(0)
			}
			s.flush(r.sw)
			var out []byte
			out, open = r.sw.Pending(s.id)
			if full = len(out) > sendChunk; full {
				select { // an old token does not count
				case <-s.room:
				default:
				}
			}
		})
		if !alive || !open {
			return nil
		}
		if full { // it sends requests faster than it reads: TCP slows it down
			select {
			case <-s.room:
			case <-r.ctx.Done():
				return nil
			}
		}
	}
}

// session is the connection to one controller. The fields after room are owned by the runner's loop.
type session struct {
	id      ConnID
	nc      net.Conn
	watched *ofconn.Watched
	writer  *ofconn.Writer
	room    chan struct{} // capacity 1: what is pending has become less

	mark    uint64
	heard   uint64 // as watched counts
	heardAt time.Duration
	asked   bool // an echo request is outstanding
}

// flush passes what is pending to the writer, as far as there is room.
func (s *session) flush(sw *Switch) {
	out, open := sw.Pending(s.id)
	for len(out) > 0 && s.writer.Queued() < sendChunk {
		n := min(len(out), sendChunk)
		if s.writer.Send(out[:n]) != nil {
			out = out[:0] // the reader will notice, too
			s.nc.Close()
			break
		}
		sw.Sent(s.id, n)
		out, open = sw.Pending(s.id)
	}
	if len(out) > 0 { // wake the loop when what is queued is written
		s.mark++
		s.writer.Mark(s.mark)
	}
	if len(out) <= sendChunk/2 || !open {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
	if !open {
		_ = s.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader, which ends the session
	}
}

// keepAlive sends an echo request after a third of the allowed silence.
func (s *session) keepAlive(now, silentAfter time.Duration) {
	if heard := s.watched.Heard(); heard != s.heard {
		s.heard, s.heardAt, s.asked = heard, now, false
		return
	}
	if !s.asked && now-s.heardAt > silentAfter/3 {
		s.asked = true
		m := of13.EchoRequest{}
		_ = s.writer.Send(m.Append(nil, 0)) // if the writer failed the session ends elsewhere
	}
}
