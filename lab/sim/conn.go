package sim

import (
	"io"
	"math/rand/v2"
	"time"
)

// conn is one end of a connection.
type conn struct {
	// onData takes the next bytes, valid during the call. They come in the order in which they were
	// written, most of the time as one write wrote them.
	onData func(b []byte)
	// onClose is called once when the other end has closed (io.EOF, after all of its data) or the
	// connection has broken, and not after close.
	onClose func(err error)

	n       *network
	p       *process
	peer    *conn
	in      pipe // from the peer
	open    bool
	stopped bool   // reading is paused
	step    func() // deliver, made once

	dialed   func(*conn, error) // until there is an answer
	arriving func()             // of the end that was dialled, until the dial is there
	halfOpen bool               // the peer's machine is gone without a word
	watching int                // odd: since then, something was not acknowledged
}

// write sends a copy of b.
func (c *conn) write(b []byte) {
	out := &c.peer.in
	if !c.open || len(b) == 0 || out.end != nil || !c.peer.open && !c.halfOpen {
		return
	}
	out.add(b, c.n.w.now+c.n.delay(out.link))
	c.peer.arm()
	c.watch()
	c.knock()
}

// unread is how much was written and not delivered yet.
func (c *conn) unread() int { return c.peer.in.unread() }

// close ends the connection: the peer gets what was written, then io.EOF. Nothing more comes here.
func (c *conn) close() {
	if !c.open {
		return
	}
	c.peer.finish(io.EOF)
	c.leave()
	c.watch()
}

// reset breaks the connection for both ends, and what is on its way is lost.
func (c *conn) reset() {
	if c.open {
		c.peer.abort()
		c.broken()
	}
}

// pauseReading lets what arrives wait, or go on.
func (c *conn) pauseReading(stop bool) {
	c.stopped = stop
	c.arm()
}

// leave makes this end deaf and dumb.
func (c *conn) leave() {
	c.open, c.dialed = false, nil
	c.in.clear()
	if !c.peer.open {
		c.n.forget(c)
	}
}

// told ends the connection with what this end learns of it.
func (c *conn) told(err error) {
	done := c.dialed
	c.leave()
	if done != nil {
		done(nil, err)
	} else if c.onClose != nil {
		c.onClose(err)
	}
}

// broken lets this end learn at once that the connection has broken.
func (c *conn) broken() {
	c.in.clear()
	c.in.end, c.in.endAt = errReset, c.n.w.now
	c.p.after(0, func() {
		if c.open {
			c.told(errReset)
		}
	})
}

// finish lets this end learn, after all that is on its way, that the other one is gone.
func (c *conn) finish(err error) {
	if c.open && c.in.end == nil {
		c.in.end = err
		c.in.endAt = max(c.in.last, c.n.w.now+c.n.delay(c.in.link))
		c.arm()
	}
}

// abort lets this end learn that the connection has broken. What was on its way is lost.
func (c *conn) abort() {
	c.in.clear()
	c.in.end = nil
	c.finish(errReset)
}

// arm schedules the next delivery, if there is one.
func (c *conn) arm() {
	in := &c.in
	if in.armed || !c.open || c.stopped || in.link.blocked {
		return
	}
	if at, ok := in.next(); ok {
		in.armed = true
		c.p.after(at-c.n.w.now, c.step)
	}
}

// deliver hands out what has arrived.
func (c *conn) deliver() {
	in, now := &c.in, c.n.w.now
	in.armed = false
	for c.open && !c.stopped && !in.link.blocked {
		at, ok := in.next()
		if !ok || at > now {
			break
		}
		switch {
		case in.first == len(in.pieces):
			c.told(in.end)
		case c.dialed != nil:
			in.first++ // the answer to the dial
			done := c.dialed
			c.dialed = nil
			done(c, nil)
		default:
			b := in.take(now, c.n.w.rand)
			if c.onData != nil {
				c.onData(b)
			}
			in.trim()
		}
	}
	c.arm()
}

// watch breaks the connection after userTimeout if what this end sends, or what would acknowledge
// it, is stuck for so long.
func (c *conn) watch() {
	if c.watching%2 == 1 || !c.in.link.blocked && !c.peer.in.link.blocked {
		return
	}
	c.watching++
	since := c.watching
	c.n.w.after(userTimeout, nil, func() {
		if c.watching != since {
			return
		}
		c.peer.abort()
		if c.open {
			c.broken()
		}
	})
}

func (c *conn) unwatch() { c.watching += c.watching % 2 }

// powerOff is the end of this end's machine. Of what was on its way some arrives, and nobody says
// that there is no more.
func (c *conn) powerOff() {
	peer := c.peer
	if c.arriving != nil {
		return
	}
	if peer.in.link.blocked {
		peer.in.clear()
		peer.in.end = nil
	} else if c.open {
		peer.in.cut(c.n.w.rand)
	}
	c.open, c.dialed = false, nil
	if !peer.open {
		c.n.forget(c)
		return
	}
	if peer.in.end == nil && !peer.halfOpen {
		peer.halfOpen = true
		peer.p.after(userTimeout, func() {
			if peer.open {
				peer.told(errReset)
			}
		})
	}
}

// knock asks a machine that lost its connections for an acknowledgement: once it is back, it knows
// of no connection.
func (c *conn) knock() {
	if c.halfOpen && c.unread() > 0 && !c.peer.p.off && !c.peer.in.link.blocked {
		c.finish(errReset)
	}
}

// maxPiece is the most that is delivered at once.
const maxPiece = 64 << 10

// pipe is one direction of a connection.
type pipe struct {
	link   *link
	buf    []byte // from head on: written, and not delivered
	head   int
	pieces []piece // from first on: how it arrives
	first  int
	last   time.Duration // arrival of the latest piece
	end    error         // comes after all pieces
	endAt  time.Duration
	armed  bool // a step will deliver
}

type piece struct {
	at   time.Duration
	size int
}

func (p *pipe) unread() int { return len(p.buf) - p.head }

// add sends b, which never arrives before what was sent before it.
func (p *pipe) add(b []byte, at time.Duration) {
	p.last = max(p.last, at)
	p.buf = append(p.buf, b...)
	p.pieces = append(p.pieces, piece{p.last, len(b)})
}

// next is when there is something to deliver.
func (p *pipe) next() (time.Duration, bool) {
	if p.first < len(p.pieces) {
		return p.pieces[p.first].at, true
	}
	return p.endAt, p.end != nil
}

// take removes what has arrived: the next piece, with those that have come behind it, or now and then
// only a part of it.
func (p *pipe) take(now time.Duration, r *rand.Rand) []byte {
	size := p.pieces[p.first].size
	if random := r.Uint64(); size > 1 && random%16 == 0 {
		size = 1 + int(random>>32)%(size-1)
		p.pieces[p.first].size -= size
		p.pieces[p.first].at = now + p.link.jitter
		p.last = max(p.last, now+p.link.jitter)
	} else {
		p.first++
		for p.first < len(p.pieces) && p.pieces[p.first].at <= now && size+p.pieces[p.first].size <= maxPiece {
			size += p.pieces[p.first].size
			p.first++
		}
	}
	b := p.buf[p.head : p.head+size : p.head+size]
	p.head += size
	return b
}

// trim frees what was delivered. It moves bytes, so nobody may hold any.
func (p *pipe) trim() {
	if p.first == len(p.pieces) {
		p.pieces, p.first = p.pieces[:0], 0
		p.buf, p.head = p.buf[:0], 0
		return
	}
	if p.first >= 64 && p.first > len(p.pieces)/2 {
		p.pieces, p.first = p.pieces[:copy(p.pieces, p.pieces[p.first:])], 0
	}
	if p.head >= 4096 && p.head > len(p.buf)/2 {
		p.buf, p.head = p.buf[:copy(p.buf, p.buf[p.head:])], 0
	}
}

// hold lets nothing arrive before then.
func (p *pipe) hold(at time.Duration) {
	if p.first < len(p.pieces) {
		p.pieces[p.first].at = max(p.pieces[p.first].at, at)
	}
	p.last, p.endAt = max(p.last, at), max(p.endAt, at)
}

// cut loses a random end of what is on its way.
func (p *pipe) cut(r *rand.Rand) {
	keep := r.IntN(p.unread() + 1)
	p.buf = p.buf[:p.head+keep]
	i := p.first
	for ; i < len(p.pieces) && (keep > 0 || p.pieces[i].size == 0); i++ {
		p.pieces[i].size = min(p.pieces[i].size, keep)
		keep -= p.pieces[i].size
	}
	p.pieces = p.pieces[:i]
}

func (p *pipe) clear() {
	p.buf, p.head, p.pieces, p.first = nil, 0, nil, 0
}
