package shells

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	minDelay = 50 * time.Microsecond
	maxDelay = 500 * time.Microsecond
	// backlog is how many connections wait for Accept.
	backlog = 128
	// window is how many bytes of a connection are written and not read. Then the writer waits.
	window = 64 << 10
	// retry is how often a dial that gets no answer is tried.
	retry = 20 * time.Millisecond
)

// network carries connections between places. Within one connection bytes come in order, as in TCP. Its methods are
// safe for concurrent use.
type network struct {
	mu        sync.Mutex // guards the fields below, and those of connections, places and links; held for copies only
	rand      *rand.Rand
	listeners map[string]*listener
	conns     map[*conn]struct{}
	links     map[[2]*place]*link
}

// place is where processes run, one after the other.
type place struct {
	name   string
	paused bool     // whoever reads or writes there waits
	now    *process // the newest
}

// process is one life of a program. Of a dead one nothing leaves its place, and nothing reaches it.
type process struct {
	at   *place
	dead bool
}

// link is one direction between two places.
type link struct {
	base    time.Duration
	blocked int // partitions in force
	spike   time.Duration
}

func newNetwork(seed uint64) *network {
	return &network{rand: rand.New(rand.NewPCG(seed, 2)), listeners: map[string]*listener{},
		conns: map[*conn]struct{}{}, links: map[[2]*place]*link{}}
}

// begin starts a process.
func (n *network) begin(at *place) *process {
	n.mu.Lock()
	defer n.mu.Unlock()
	at.now = &process{at: at}
	for c := range n.conns { // the machine knows of none of those that it had
		if c.peer.vanished && c.peer.p.at == at && len(c.peer.in.buf) > 0 {
			c.breakDown(errReset)
		}
	}
	return at.now
}

// end kills a process. Vanished, its machine says nothing to those who are connected with it.
func (n *network) end(p *process, vanish bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.dead = true
	for c := range n.conns {
		if c.p != p {
			continue
		}
		if c.closed = true; vanish {
			c.vanished = true
		} else {
			c.hangUp()
		}
		c.wake()
	}
	for address, l := range n.listeners {
		if l.p == p {
			l.shut()
			delete(n.listeners, address)
		}
	}
}

func (n *network) link(from, to *place) *link {
	l := n.links[[2]*place{from, to}]
	if l == nil {
		l = &link{base: minDelay + time.Duration(n.rand.Int64N(int64(maxDelay-minDelay)))}
		n.links[[2]*place{from, to}] = l
	}
	return l
}

func (n *network) delay(l *link) time.Duration {
	return l.base + l.spike + time.Duration(n.rand.Int64N(int64(l.base/4)))
}

// block lets nothing through from one place to another, until the function that it returns is called.
func (n *network) block(from, to *place) (heal func()) {
	n.change(func() { n.link(from, to).blocked++ })
	return func() { n.change(func() { n.link(from, to).blocked-- }) }
}

// slow delays what is sent from one place to another, until the function that it returns is called.
func (n *network) slow(from, to *place, by time.Duration) (heal func()) {
	n.change(func() { n.link(from, to).spike += by })
	return func() { n.change(func() { n.link(from, to).spike -= by }) }
}

// pause holds up all that a place reads and writes, until the function that it returns is called.
func (n *network) pause(at *place) (resume func()) {
	n.change(func() { at.paused = true })
	return func() { n.change(func() { at.paused = false }) }
}

// reset breaks the connections between two places.
func (n *network) reset(a, b *place) {
	n.change(func() {
		for c := range n.conns {
			if c.p.at == a && c.peer.p.at == b {
				c.breakDown(errReset)
				c.peer.breakDown(errReset)
			}
		}
	})
}

// change makes a change, and has everybody look.
func (n *network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	for c := range n.conns {
		c.wake()
	}
}

var (
	errReset   = &net.OpError{Op: "read", Net: "memory", Err: syscall.ECONNRESET}
	errRefused = &net.OpError{Op: "dial", Net: "memory", Err: syscall.ECONNREFUSED}
	errDead    = errors.New("the process is dead")
)

// address is that of a listener, or of a place.
type address string

func (address) Network() string  { return "memory" }
func (a address) String() string { return string(a) }

// listener implements net.Listener.
type listener struct {
	n        *network
	p        *process
	address  string
	arrivals chan *conn
	once     sync.Once
	closed   chan struct{}
	accepted func(*conn) // sees each connection before the process does; may be nil
}

func (n *network) listen(p *process, address string, accepted func(*conn)) *listener {
	l := &listener{n: n, p: p, address: address, arrivals: make(chan *conn, backlog), closed: make(chan struct{}),
		accepted: accepted}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listeners[address] = l
	return l
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrivals:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) shut() { l.once.Do(func() { close(l.closed) }) }

// Close implements net.Listener.
func (l *listener) Close() error {
	l.shut()
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	if l.n.listeners[l.address] == l {
		delete(l.n.listeners, l.address)
	}
	for {
		select {
		case c := <-l.arrivals:
			c.peer.breakDown(errReset)
			c.forget()
		default:
			return nil
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address(l.address) }

// dial connects a process with a listener. dialed sees the connection before the process does; it may be nil.
func (n *network) dial(ctx context.Context, p *process, to string, dialed func(*conn)) (net.Conn, error) {
	for wait := minDelay; ; wait = retry {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: "memory", Err: context.Cause(ctx)}
		}
		if c, done, err := n.tryDial(p, to, dialed); done {
			if err != nil {
				return nil, err
			}
			return c, nil
		}
	}
}

func (n *network) tryDial(p *process, to string, dialed func(*conn)) (c *conn, done bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.listeners[to]
	switch {
	case p.dead:
		return nil, true, errDead
	case p.at.paused:
		return nil, false, nil
	case l == nil:
		return nil, true, errRefused
	case n.link(p.at, l.p.at).blocked > 0 || n.link(l.p.at, p.at).blocked > 0 || len(l.arrivals) == cap(l.arrivals):
		return nil, false, nil
	}
	out, in := n.link(p.at, l.p.at), n.link(l.p.at, p.at)
	c = newConn(n, p, in, to)
	s := newConn(n, l.p, out, p.at.name+":1")
	c.peer, s.peer = s, c
	n.conns[c], n.conns[s] = struct{}{}, struct{}{}
	if dialed != nil {
		dialed(c)
	}
	if l.accepted != nil {
		l.accepted(s)
	}
	l.arrivals <- s
	return c, true, nil
}
