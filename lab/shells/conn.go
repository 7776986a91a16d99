package shells

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// conn is one end of a connection. It implements net.Conn and rawconn.Direct.
type conn struct {
	n      *network
	p      *process
	peer   *conn
	remote address
	cond   *sync.Cond // of n.mu: something has changed
	in     pipe

	closed   bool      // by its process, or with it
	broken   error     // from now on, whoever uses it gets this
	vanished bool      // the process ended and the machine says nothing
	heard    time.Time // when something was read last

	readBy, writeBy time.Time
	alarm           *time.Timer // wakes this end
	alarmAt         time.Time   // zero: it is not set

	// Of observers; set before the process has the connection. They are called without locks.
	beforeRead  func()
	afterRead   func(b []byte)
	readFailed  func(err error)
	beforeWrite func()
	closing     func()
	uplink      *uplink // of the end of a switch, if the other is its agent's
}

// pipe is what is on its way to an end.
type pipe struct {
	link   *link
	buf    []byte
	pieces []piece
	last   time.Time // arrival of the latest piece
	end    error     // comes after all of them
}

type piece struct {
	at   time.Time
	size int
}

func newConn(n *network, p *process, in *link, remote string) *conn {
	c := &conn{n: n, p: p, remote: address(remote), cond: sync.NewCond(&n.mu), in: pipe{link: in}}
	c.alarm = time.AfterFunc(time.Hour, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		c.alarmAt = time.Time{}
		c.wake()
	})
	c.alarm.Stop()
	return c
}

// The following run with n.mu held.

func (c *conn) wake() { c.cond.Broadcast() }

// wakeAt has whoever uses the connection look again then, or earlier. What is over wakes nobody.
func (c *conn) wakeAt(at time.Time) {
	if at.After(time.Now()) && (c.alarmAt.IsZero() || at.Before(c.alarmAt)) {
		c.alarmAt = at
		c.alarm.Reset(time.Until(at))
	}
}

// forget drops a connection that both ends have left.
func (c *conn) forget() {
	if c.closed && c.peer.closed && !c.vanished && !c.peer.vanished {
		delete(c.n.conns, c)
		delete(c.n.conns, c.peer)
	}
}

// breakDown ends the connection for this end at once, with what was on its way.
func (c *conn) breakDown(err error) {
	if c.broken == nil && !c.closed {
		c.broken, c.in.buf, c.in.pieces = err, nil, nil
	}
	c.wake()
}

// hangUp has the peer learn that this end is gone. Unless everything was read here, what is on its way to the peer may
// be lost, as when TCP answers with a reset.
func (c *conn) hangUp() {
	to := &c.peer.in
	if to.end == nil {
		to.end = io.EOF
		if len(c.in.buf) > 0 || c.p.dead && c.n.rand.IntN(2) == 0 {
			to.end = errReset
			to.cut(c.n.rand.IntN(len(to.buf) + 1))
		}
		to.add(nil, c.n.delay(to.link))
	}
	c.peer.wakeAt(to.last)
	c.in.buf, c.in.pieces = nil, nil
	c.peer.wake()
	c.forget()
}

func (p *pipe) add(b []byte, delay time.Duration) {
	if at := time.Now().Add(delay); at.After(p.last) {
		p.last = at
	}
	p.buf = append(p.buf, b...)
	p.pieces = append(p.pieces, piece{p.last, len(b)})
}

// cut keeps only the first bytes.
func (p *pipe) cut(keep int) {
	p.buf = p.buf[:keep]
	for i := range p.pieces {
		p.pieces[i].size = min(p.pieces[i].size, keep)
		keep -= p.pieces[i].size
	}
}

// arrived is how many bytes may be read by now, and whether that is all that will come.
func (p *pipe) arrived(now time.Time) (bytes int, all bool) {
	for _, x := range p.pieces {
		if x.at.After(now) {
			return bytes, false
		}
		bytes += x.size
	}
	return bytes, true
}

// take removes the first bytes.
func (p *pipe) take(size int) {
	p.buf = p.buf[size:]
	for size > 0 || len(p.pieces) > 0 && p.pieces[0].size == 0 {
		n := min(size, p.pieces[0].size)
		if p.pieces[0].size -= n; p.pieces[0].size == 0 {
			p.pieces = p.pieces[1:]
		}
		size -= n
	}
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if c.beforeRead != nil {
		c.beforeRead()
	}
	n, err := c.read(b)
	switch {
	case err != nil && c.readFailed != nil:
		c.readFailed(err)
	case err == nil && c.afterRead != nil:
		c.afterRead(b[:n])
	}
	return n, err
}

func (c *conn) read(b []byte) (int, error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	for {
		now := time.Now()
		bytes, all := c.in.arrived(now)
		switch {
		case c.closed:
			return 0, net.ErrClosed
		case c.p.at.paused:
		case c.broken != nil:
			return 0, c.broken
		case c.in.link.blocked > 0 && !c.expired(c.readBy, now):
		case bytes > 0 && c.in.link.blocked == 0:
			if bytes = min(bytes, len(b)); bytes > 1 && c.n.rand.IntN(16) == 0 {
				bytes = 1 + c.n.rand.IntN(bytes-1)
			}
			copy(b, c.in.buf[:bytes])
			c.in.take(bytes)
			c.heard = now
			c.peer.wake() // there is room to write
			return bytes, nil
		case all && c.in.end != nil && c.in.link.blocked == 0:
			return 0, c.in.end
		case c.expired(c.readBy, now):
			return 0, os.ErrDeadlineExceeded
		}
		if len(c.in.pieces) > 0 && c.in.pieces[0].at.After(now) {
			c.wakeAt(c.in.pieces[0].at)
		}
		c.wakeAt(c.readBy)
		c.cond.Wait()
	}
}

func (c *conn) expired(by, now time.Time) bool { return !by.IsZero() && !by.After(now) }

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if c.beforeWrite != nil {
		c.beforeWrite()
	}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	written := 0
	for {
		to, now := &c.peer.in, time.Now()
		switch {
		case c.closed:
			return written, net.ErrClosed
		case c.p.at.paused:
		case c.broken != nil:
			return written, c.broken
		case c.peer.closed && !c.peer.vanished:
			c.breakDown(errReset)
			return written, c.broken
		case c.expired(c.writeBy, now):
			return written, os.ErrDeadlineExceeded
		default:
			size := min(len(b)-written, window-len(to.buf))
			if size > 0 {
				to.add(b[written:written+size], c.n.delay(to.link))
				c.peer.wakeAt(to.last)
				written += size
				c.knock()
			}
			if written == len(b) {
				return written, nil
			}
			if size > 0 {
				continue
			}
		}
		c.wakeAt(c.writeBy)
		c.cond.Wait()
	}
}

// WriteDirect implements rawconn.Direct. Sometimes it takes a part only.
func (c *conn) WriteDirect(b []byte) int {
	if c.beforeWrite != nil {
		c.beforeWrite()
	}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	to := &c.peer.in
	size := min(len(b), window-len(to.buf))
	if c.closed || c.p.at.paused || c.broken != nil || c.peer.closed && !c.peer.vanished || size <= 0 {
		return 0
	}
	if c.n.rand.IntN(8) == 0 {
		size = c.n.rand.IntN(size + 1)
	}
	if size > 0 {
		to.add(b[:size], c.n.delay(to.link))
		c.peer.wakeAt(to.last)
		c.knock()
	}
	return size
}

// knock tells this end that the machine at the other has begun anew, and knows nothing of the connection.
func (c *conn) knock() {
	if c.peer.vanished && c.peer.p.at.now != c.peer.p {
		c.breakDown(errReset)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	if c.closing != nil {
		c.closing()
	}
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.hangUp()
	c.wake()
	return nil
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return address(c.p.at.name + ":0") }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.readBy, t) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.writeBy, t) }

func (c *conn) setDeadline(which *time.Time, t time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	*which = t
	c.wake() // whoever waits sets the alarm
	return nil
}
