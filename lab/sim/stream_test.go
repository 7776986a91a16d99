package sim

import (
	"fmt"
	"hash/fnv"
	"io"
	"testing"
	"time"
)

// storm is a set of processes that send at random while everything fails. It checks every connection.
type storm struct {
	w         *world
	n         *network
	processes []*process
	ends      []*end
	of        map[*conn]*end
	digest    uint64
	delivered int
	calm      bool // no more faults, and nothing more is sent
	ended     map[error]int
}

// end is one end of a connection. Each direction has its own sequence of bytes.
type end struct {
	s           *storm
	p           *process
	incarnation uint32
	c           *conn
	key         int
	sent, got   int
	closed      bool // closed by this end
	said        error
}

func (e *end) byteAt(i int) byte { return byte(e.key*31 + i*7 + i>>8) }

func newStorm(seed uint64) *storm {
	w := newWorld(seed)
	s := &storm{w: w, n: newNetwork(w), of: map[*conn]*end{}, ended: map[error]int{}}
	for i := range 4 {
		s.processes = append(s.processes, w.newProcess(fmt.Sprint(i)))
		s.start(s.processes[i])
	}
	return s
}

func (s *storm) start(p *process) {
	p.start()
	s.n.listen(p, p.name, func(c *conn) { s.adopt(p, c) })
	p.every(time.Duration(1+s.w.rand.IntN(20))*ms, func() { s.act(p) })
}

func (s *storm) adopt(p *process, c *conn) {
	e := &end{s: s, p: p, incarnation: p.incarnation, c: c, key: len(s.ends)}
	s.ends, s.of[c] = append(s.ends, e), e
	c.onData, c.onClose = e.data, e.close
}

// alive fails if this end should receive nothing any more.
func (e *end) alive(what string) {
	if e.closed || e.said != nil || !e.p.up || e.p.incarnation != e.incarnation {
		e.s.w.fail("end %d: %s after the end: closed %v, told %v, process up %v", e.key, what, e.closed, e.said, e.p.up)
	}
}

func (e *end) data(b []byte) {
	e.alive("data")
	peer := e.s.of[e.c.peer]
	for i, x := range b {
		if peer == nil || e.got+i >= peer.sent || x != peer.byteAt(e.got+i) {
			e.s.w.fail("end %d: byte %d of %d is not what was written", e.key, e.got+i, len(b))
			return
		}
	}
	e.got += len(b)
	e.s.delivered += len(b)
	e.s.record(e.key, len(b))
}

func (e *end) close(err error) {
	e.alive("close")
	e.said = err
	e.s.ended[err]++
	e.s.record(e.key, -1)
	if peer := e.s.of[e.c.peer]; err == io.EOF && (!peer.closed || e.got != peer.sent) {
		e.s.w.fail("end %d: EOF after %d bytes of %d, closed %v", e.key, e.got, peer.sent, peer.closed)
	}
}

// record adds a delivery to the digest.
func (s *storm) record(what ...int) {
	h := fnv.New64a()
	fmt.Fprint(h, s.digest, s.w.now, what)
	s.digest = h.Sum64()
}

// mine returns the ends that a process may use.
func (s *storm) mine(p *process) (mine []*end) {
	for _, e := range s.ends {
		if e.p == p && e.incarnation == p.incarnation && !e.closed && e.said == nil {
			mine = append(mine, e)
		}
	}
	return mine
}

// act makes a process do something.
func (s *storm) act(p *process) {
	if s.calm {
		return
	}
	r := s.w.rand
	mine := s.mine(p)
	if len(mine) == 0 || len(mine) < 4 && r.IntN(4) == 0 {
		s.n.dial(p, s.processes[r.IntN(len(s.processes))].name, func(c *conn, err error) {
			if err == nil {
				s.adopt(p, c)
				return
			}
			s.ended[err]++
		})
		return
	}
	e := mine[r.IntN(len(mine))]
	switch x := r.IntN(100); {
	case x < 3:
		e.c.close()
		e.closed = true
	case x == 3:
		e.c.reset()
	case x < 10:
		e.c.pauseReading(x < 6)
	case e.c.unread() < 100_000:
		b := make([]byte, 1+r.IntN(3000))
		for i := range b {
			b[i] = e.byteAt(e.sent + i)
		}
		before := e.c.unread()
		e.c.write(b)
		if open := e.c.peer.open && e.c.peer.in.end == nil; open && e.c.unread() != before+len(b) {
			s.w.fail("end %d: %d bytes unread after writing %d behind %d", e.key, e.c.unread(), len(b), before)
		}
		e.sent += len(b)
	}
}

// fault makes something fail.
func (s *storm) fault() {
	if s.calm {
		return
	}
	r := s.w.rand
	p, q := s.processes[r.IntN(4)], s.processes[r.IntN(4)]
	d := time.Duration(r.ExpFloat64() * float64(300*ms))
	again := func() { s.start(p) }
	switch r.IntN(8) {
	case 0:
		if p.up {
			p.kill()
			s.w.after(d, nil, again)
		}
	case 1:
		if p.up {
			p.powerOff()
			s.w.after(8*d, nil, again)
		}
	case 2:
		p.pause(d)
	case 3, 4:
		oneWay := r.IntN(2) == 0
		s.n.block(p, q, oneWay)
		s.w.after(20*d, nil, func() { s.n.unblock(p, q, oneWay) })
	case 5:
		s.n.delaySpike(p, q, d/10, d)
	case 6:
		s.n.resetAll(p, q)
	}
	s.w.after(time.Duration(r.ExpFloat64()*float64(500*ms)), nil, s.fault)
}

// run runs the storm, and then checks what is left.
func (s *storm) run(length time.Duration) error {
	s.w.after(0, nil, s.fault)
	if err := s.w.run(length); err != nil {
		return err
	}
	s.calm = true
	if err := s.w.run(s.w.now + time.Minute); err != nil { // until everything is repaired
		return err
	}
	for _, e := range s.ends {
		e.c.pauseReading(false)
	}
	if err := s.w.run(s.w.now + userTimeout + time.Second); err != nil {
		return err
	}
	open := 0
	for _, e := range s.ends {
		peer := s.of[e.c.peer]
		switch {
		case !e.c.open:
		case !e.c.peer.open:
			return fmt.Errorf("end %d does not know that the other is gone", e.key)
		case peer.got != e.sent || e.c.unread() != 0:
			return fmt.Errorf("end %d: %d of %d bytes arrived, unread %d", e.key, peer.got, e.sent, e.c.unread())
		default:
			open++
		}
	}
	if open != 2*len(s.n.conns) {
		return fmt.Errorf("%d ends are open, and the network has %d connections", open, len(s.n.conns))
	}
	return nil
}

// TestStreamsInAStorm: whatever fails, what arrives is a prefix of what was written, and all of it before EOF.
// Nothing arrives after the end, and finally both ends know of it.
func TestStreamsInAStorm(t *testing.T) {
	ended, delivered := map[error]int{}, 0
	for seed := range uint64(40) {
		s := newStorm(seed)
		if err := s.run(20 * time.Second); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for err, count := range s.ended {
			ended[err] += count
		}
		delivered += s.delivered
	}
	for _, err := range []error{io.EOF, errReset, errRefused, errTimeout} {
		if ended[err] < 20 {
			t.Errorf("only %d connections ended with %v", ended[err], err)
		}
	}
	t.Logf("%d bytes; ends: %v", delivered, ended)
}

func TestSameSeedSameRun(t *testing.T) {
	digests := map[uint64]bool{}
	for seed := range uint64(5) {
		a, b := newStorm(seed), newStorm(seed)
		if err := a.run(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		if err := b.run(5 * time.Second); err != nil {
			t.Fatal(err)
		}
		if a.digest != b.digest || a.w.scheduled != b.w.scheduled {
			t.Errorf("seed %d made two different runs", seed)
		}
		digests[a.digest] = true
	}
	if len(digests) != 5 {
		t.Errorf("5 seeds made %d different runs", len(digests))
	}
}
