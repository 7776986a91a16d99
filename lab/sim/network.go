package sim

import (
	"errors"
	"slices"
	"time"
)

const (
	minDelay = 50 * time.Microsecond
	maxDelay = 500 * time.Microsecond
	// dialTimeout is how long a dial waits for an answer.
	dialTimeout = time.Second
	// userTimeout is how long a connection waits until the other end has taken what was written,
	// like TCP_USER_TIMEOUT.
	userTimeout = 15 * time.Second
)

var (
	errReset   = errors.New("connection reset by peer")
	errRefused = errors.New("connection refused")
	errTimeout = errors.New("connection timed out")
)

// network carries streams of bytes between processes. Loss, duplication and reordering are what
// happens across connections: within one there is none, as TCP promises.
type network struct {
	w         *world
	links     []*link // few
	listeners map[string]*listener
	conns     []*conn // the dialling end of each connection that has an open end
}

// link is one direction between two processes.
type link struct {
	from, to     *process
	base, jitter time.Duration
	blocked      bool
	spike        time.Duration // more delay, for a while
	spikeUntil   time.Duration
}

type listener struct {
	p           *process
	incarnation uint32
	accept      func(*conn)
}

func (l *listener) up() bool { return l.p.up && l.p.incarnation == l.incarnation }

func newNetwork(w *world) *network {
	n := &network{w: w, listeners: map[string]*listener{}}
	w.observe(n)
	return n
}

// link finds the direction, and draws its delay when it is first used.
func (n *network) link(from, to *process) *link {
	for _, l := range n.links {
		if l.from == from && l.to == to {
			return l
		}
	}
	base := minDelay + time.Duration(n.w.rand.Int64N(int64(maxDelay-minDelay)))
	l := &link{from: from, to: to, base: base, jitter: base / 4}
	n.links = append(n.links, l)
	return l
}

// delay is that of what is sent now.
func (n *network) delay(l *link) time.Duration {
	d := l.base + time.Duration(n.w.rand.Uint64N(uint64(l.jitter)))
	if n.w.now < l.spikeUntil {
		d += l.spike
	}
	return d
}

// listen takes connections at an address until the process is killed; an address always belongs to the
// same process. Accept is called with each connection in a step of its own.
func (n *network) listen(p *process, address string, accept func(*conn)) {
	n.listeners[address] = &listener{p, p.incarnation, accept}
}

// dial connects to an address. A later step of the process calls done with the connection or
// with an error: errRefused if nobody listens there, errTimeout if there is no answer.
func (n *network) dial(p *process, address string, done func(*conn, error)) {
	l := n.listeners[address]
	if l == nil { // and nobody ever did
		p.after(2*minDelay, func() { done(nil, errRefused) })
		return
	}
	if !p.up {
		return
	}
	out, in := n.link(p, l.p), n.link(l.p, p)
	c, s := &conn{n: n, p: p, in: pipe{link: in}, open: true, dialed: done}, &conn{n: n, p: l.p, in: pipe{link: out}}
	c.peer, s.peer, c.step, s.step = s, c, c.deliver, s.deliver
	s.arriving = func() { n.arrive(s, address) }
	n.conns = append(n.conns, c)
	n.w.after(n.delay(out), nil, s.arriving)
	p.after(dialTimeout, func() {
		if c.open && c.dialed != nil {
			s.abort()
			c.told(errTimeout)
		}
	})
}

// arrive is the first sign of a dial at the other machine, which answers by itself.
func (n *network) arrive(s *conn, address string) {
	c, l := s.peer, n.listeners[address]
	switch {
	case s.arriving == nil || !c.open || s.p.off: // was here; given up; nobody answers
	case s.in.link.blocked: // comes again when it is not
	case !l.up():
		s.arriving = nil
		c.finish(errRefused)
	default:
		s.arriving, s.open = nil, true
		s.p.after(0, func() {
			if s.open {
				l.accept(s)
			}
		})
		c.in.add(nil, n.w.now+n.delay(c.in.link))
		c.arm()
	}
}

// forget drops a connection that nobody has a part in any more.
func (n *network) forget(c *conn) {
	i := slices.IndexFunc(n.conns, func(o *conn) bool { return o == c || o == c.peer })
	if i >= 0 {
		n.conns = slices.Delete(n.conns, i, i+1)
	}
}

// each calls do for both ends of every connection. Do may end connections.
func (n *network) each(do func(c *conn)) {
	for _, c := range slices.Clone(n.conns) {
		do(c)
		do(c.peer)
	}
}

// block lets nothing through from one process to another, and unless it is oneWay back. What is sent
// is stuck, as TCP sends it again and again.
func (n *network) block(from, to *process, oneWay bool) {
	l := n.link(from, to)
	l.blocked = true
	n.each(func(c *conn) {
		if out := &c.peer.in; out.link == l && (out.unread() > 0 || out.end != nil) {
			c.watch()
		}
	})
	if !oneWay {
		n.block(to, from, true)
	}
}

// unblock lets what is stuck go on.
func (n *network) unblock(from, to *process, oneWay bool) {
	l := n.link(from, to)
	if l.blocked {
		l.blocked = false
		n.each(func(c *conn) {
			if c.in.link != l {
				return
			}
			if c.arriving != nil {
				n.w.after(n.delay(l), nil, c.arriving)
			}
			c.in.hold(n.w.now + n.delay(l))
			c.arm()
			c.peer.knock()
			if !c.peer.in.link.blocked {
				c.unwatch()
				c.peer.unwatch()
			}
		})
	}
	if !oneWay {
		n.unblock(to, from, true)
	}
}

// heal unblocks every link.
func (n *network) heal() {
	for _, l := range n.links {
		n.unblock(l.from, l.to, true)
	}
}

// delaySpike makes what is sent from one process to another take longer, for some time.
func (n *network) delaySpike(from, to *process, d, length time.Duration) {
	l := n.link(from, to)
	l.spike, l.spikeUntil = d, n.w.now+length
}

// resetAll breaks all connections between two processes.
func (n *network) resetAll(a, b *process) {
	n.each(func(c *conn) {
		if c.p == a && c.peer.p == b {
			c.reset()
		}
	})
}

// started tells those who write to connections that the machine has forgotten.
func (n *network) started(p *process) {
	n.each(func(c *conn) {
		if c.peer.p == p {
			c.knock()
		}
	})
}

// killed ends the connections of a process.
func (n *network) killed(p *process, power bool) {
	n.each(func(c *conn) {
		switch {
		case c.p != p:
		case power:
			c.powerOff()
		case c.open:
			c.peer.in.cut(n.w.rand)
			c.peer.finish(errReset)
			c.leave()
		}
	})
}
