package sim

import (
	"errors"
	"io"
	"testing"
	"time"
)

// talk is two processes with a connection, and what each end of it received.
type talk struct {
	w        *world
	n        *network
	a, b     *process // a dials
	from, to *seen
}

// seen records what happened at one end.
type seen struct {
	c      *conn
	got    string
	closed []error
	at     time.Duration // time of the last event
}

func (s *seen) on(c *conn) {
	s.c = c
	c.onData = func(b []byte) { s.got += string(b); s.at = c.n.w.now }
	c.onClose = func(err error) { s.closed = append(s.closed, err); s.at = c.n.w.now }
}

// want checks what was received and how the connection ended. An end of nil means that it did not end.
func (s *seen) want(t *testing.T, got string, end error) {
	t.Helper()
	if s.got != got {
		t.Errorf("got %q, want %q", s.got, got)
	}
	if end == nil && len(s.closed) > 0 || end != nil && (len(s.closed) != 1 || s.closed[0] != end) {
		t.Errorf("it ended with %v, want %v", s.closed, end)
	}
}

func newTalk(t *testing.T) *talk {
	t.Helper()
	w := newWorld(7)
	k := &talk{w: w, n: newNetwork(w), a: started(w, "a"), b: started(w, "b"), from: &seen{}, to: &seen{}}
	k.n.listen(k.b, "b", k.to.on)
	k.n.dial(k.a, "b", func(c *conn, err error) {
		if err != nil {
			t.Fatal(err)
		}
		k.from.on(c)
	})
	k.run(t, 10*ms)
	if k.from.c == nil || k.to.c == nil || k.from.c.peer != k.to.c {
		t.Fatal("there is no connection")
	}
	return k
}

func (k *talk) run(t *testing.T, d time.Duration) {
	t.Helper()
	runTo(t, k.w, k.w.now+d)
}

func (k *talk) write(from, to string) {
	k.from.c.write([]byte(from))
	k.to.c.write([]byte(to))
}

func TestStream(t *testing.T) {
	k := newTalk(t)
	b := []byte("one ")
	k.from.c.write(b)
	copy(b, "xxxx")
	k.from.c.write([]byte("two"))
	if k.from.c.unread() != 7 {
		t.Errorf("%d bytes are on the way", k.from.c.unread())
	}
	k.to.c.write([]byte("three"))
	k.run(t, 10*ms)
	k.to.want(t, "one two", nil)
	k.from.want(t, "three", nil)
	if k.from.c.unread() != 0 {
		t.Errorf("%d bytes are still on the way", k.from.c.unread())
	}
}

func TestClose(t *testing.T) {
	k := newTalk(t)
	k.write("all", "lost")
	k.from.c.close()
	k.from.c.write([]byte("never"))
	k.from.c.close()
	k.run(t, 10*ms)
	k.to.want(t, "all", io.EOF)
	k.from.want(t, "", nil)
	k.to.c.write([]byte("never"))
	if len(k.n.conns) != 0 {
		t.Error("the network still has the connection")
	}
}

func TestReset(t *testing.T) {
	k := newTalk(t)
	k.write("lost", "lost")
	k.n.resetAll(k.a, k.b)
	k.write("never", "never")
	k.run(t, 10*ms)
	k.from.want(t, "", errReset)
	k.to.want(t, "", errReset)
	if k.from.at != 10*ms || k.to.at == 10*ms {
		t.Errorf("they learned of it at %v and %v", k.from.at, k.to.at)
	}
}

func TestPauseReading(t *testing.T) {
	k := newTalk(t)
	k.to.c.pauseReading(true)
	k.from.c.write([]byte("waits"))
	k.run(t, time.Second)
	k.to.want(t, "", nil)
	if k.from.c.unread() != 5 {
		t.Errorf("%d bytes wait", k.from.c.unread())
	}
	k.from.c.close()
	k.run(t, time.Second)
	k.to.want(t, "", nil)
	k.to.c.pauseReading(false)
	k.run(t, 0)
	k.to.want(t, "waits", io.EOF)
}

func TestPausedProcess(t *testing.T) {
	k := newTalk(t)
	k.b.pause(time.Second)
	k.write("a", "b")
	k.run(t, 100*ms)
	k.from.c.write([]byte("c"))
	k.run(t, 800*ms)
	k.to.want(t, "", nil)
	k.from.want(t, "b", nil)
	k.run(t, 100*ms)
	k.to.want(t, "ac", nil)
	if k.to.at != 10*ms+time.Second {
		t.Errorf("it came at %v", k.to.at)
	}
}

func TestDialFails(t *testing.T) {
	w := newWorld(1)
	n := newNetwork(w)
	a, b := started(w, "a"), started(w, "b")
	dial := func(address string) (took time.Duration, err error) {
		t.Helper()
		begin, c := w.now, 0
		n.dial(a, address, func(_ *conn, e error) { err, took, c = e, w.now-begin, c+1 })
		runTo(t, w, w.now+3*time.Second)
		if c != 1 {
			t.Fatalf("done was called %d times", c)
		}
		return took, err
	}
	accepted := 0
	listen := func() { n.listen(b, "b", func(*conn) { accepted++ }) }
	if took, err := dial("nobody"); err != errRefused || took > 2*ms {
		t.Errorf("an unknown address: %v after %v", err, took)
	}
	listen()
	for _, blocked := range [][2]*process{{a, b}, {b, a}} {
		n.block(blocked[0], blocked[1], true)
		if took, err := dial("b"); err != errTimeout || took != time.Second {
			t.Errorf("blocked: %v after %v", err, took)
		}
		n.unblock(blocked[0], blocked[1], true)
		runTo(t, w, w.now+time.Second)
	}
	if accepted != 1 { // only the second one, whose answer was delayed, is accepted
		t.Errorf("%d connections accepted while blocked", accepted)
	}
	n.block(a, b, false)
	w.after(500*ms, nil, func() { n.unblock(a, b, false) })
	if took, err := dial("b"); err != nil || took < 500*ms {
		t.Errorf("blocked for half a second: %v after %v", err, took)
	}
	b.kill()
	if took, err := dial("b"); err != errRefused || took > 2*ms {
		t.Errorf("a killed process: %v after %v", err, took)
	}
	b.powerOff()
	if took, err := dial("b"); err != errTimeout || took != time.Second {
		t.Errorf("a machine without power: %v after %v", err, took)
	}
	b.start()
	if _, err := dial("b"); err != errRefused {
		t.Errorf("a process that does not listen yet: %v", err)
	}
	listen()
	if _, err := dial("b"); err != nil {
		t.Errorf("a process that listens again: %v", err)
	}
}

func TestKillBreaksConnections(t *testing.T) {
	whole, parts := 0, 0
	for i := range 50 {
		k := newTalk(t)
		for range i {
			k.w.rand.Uint64() // so that the runs differ
		}
		k.write("first and second", "lost")
		k.a.kill()
		k.run(t, 10*ms)
		k.to.want(t, k.to.got, errReset)
		k.from.want(t, "", nil)
		switch want := "first and second"; {
		case k.to.got == want:
			whole++
		case k.to.got != want[:len(k.to.got)]:
			t.Fatalf("%q is no beginning of what was written", k.to.got)
		default:
			parts++
		}
	}
	if parts == 0 {
		t.Errorf("all arrived %d times of 50", whole)
	}
}

func TestBlockHoldsAll(t *testing.T) {
	k := newTalk(t)
	k.from.c.write([]byte("a"))
	k.n.block(k.a, k.b, true)
	k.write("b", "answer")
	k.run(t, 5*time.Second)
	k.to.want(t, "", nil)
	k.from.want(t, "answer", nil)
	k.from.c.close() // half open: b does not notice
	k.run(t, 5*time.Second)
	k.to.want(t, "", nil)
	k.n.unblock(k.a, k.b, true)
	k.run(t, 10*ms)
	k.to.want(t, "ab", io.EOF)
}

func TestBlockForLong(t *testing.T) {
	k := newTalk(t)
	k.run(t, 90*ms)
	k.n.block(k.a, k.b, true)
	k.run(t, time.Minute)
	k.from.want(t, "", nil) // nothing was sent
	k.write("lost", "arrives, and nobody says so")
	k.run(t, 14*time.Second)
	k.from.want(t, "arrives, and nobody says so", nil)
	k.run(t, 2*time.Second)
	k.from.want(t, "arrives, and nobody says so", errReset)
	k.to.want(t, "", errReset)
	if k.from.at != 75*time.Second+100*ms || k.to.at != k.from.at {
		t.Errorf("they gave up at %v and %v", k.from.at, k.to.at)
	}
}

func TestKilledBehindBlock(t *testing.T) {
	k := newTalk(t)
	k.n.block(k.a, k.b, false)
	k.a.kill()
	k.a.start()
	k.run(t, time.Minute)
	k.to.want(t, "", nil)
	k.n.heal()
	k.run(t, 10*ms)
	k.to.want(t, "", errReset)
}

func TestPowerOffLeavesHalfOpen(t *testing.T) {
	k := newTalk(t)
	k.b.powerOff()
	k.run(t, 5*time.Second)
	k.from.c.write([]byte("into the void"))
	k.run(t, 5*time.Second)
	k.from.want(t, "", nil)
	if k.from.c.unread() == 0 {
		t.Error("a machine without power has read something")
	}
	k.run(t, 6*time.Second)
	k.from.want(t, "", errReset)
	if k.from.at != 10*ms+userTimeout || len(k.n.conns) != 0 {
		t.Errorf("at %v; %d connections left", k.from.at, len(k.n.conns))
	}
}

func TestPowerReturns(t *testing.T) {
	for _, before := range []bool{false, true} { // whether the write is before the machine is back
		k := newTalk(t)
		k.b.powerOff()
		if before {
			k.from.c.write([]byte("x"))
		}
		k.run(t, time.Second)
		k.b.start()
		k.run(t, time.Second)
		if !before {
			k.from.want(t, "", nil)
			k.from.c.write([]byte("x"))
			k.run(t, 10*ms)
		}
		k.from.want(t, "", errReset)
	}
}

func TestPowerOffWhileBlocked(t *testing.T) {
	k := newTalk(t)
	k.n.block(k.a, k.b, false)
	k.from.c.write([]byte("stuck, and lost with the machine"))
	k.from.c.close()
	k.a.powerOff()
	k.n.heal()
	k.run(t, 10*time.Second)
	k.to.want(t, "", nil)
	k.run(t, 6*time.Second)
	k.to.want(t, "", errReset)
}

func TestDelaySpike(t *testing.T) {
	k := newTalk(t)
	k.n.delaySpike(k.a, k.b, 100*ms, ms)
	k.from.c.write([]byte("a"))
	k.run(t, 2*ms)
	k.from.c.write([]byte("b"))
	k.run(t, 90*ms)
	k.to.want(t, "", nil) // nothing overtakes
	k.run(t, 20*ms)
	k.to.want(t, "ab", nil)
}

func TestEndsInsideCallbacks(t *testing.T) {
	k := newTalk(t)
	k.to.c.onData = func([]byte) { k.to.c.close() }
	k.from.c.onClose = func(err error) {
		if !errors.Is(err, io.EOF) {
			t.Errorf("the end is %v", err)
		}
		k.from.c.close()
		k.from.c.write([]byte("never"))
	}
	for range 10 {
		k.from.c.write([]byte("abc"))
	}
	k.run(t, 10*ms)
	if len(k.n.conns) != 0 {
		t.Error("the network still has the connection")
	}
}

func BenchmarkStream(b *testing.B) {
	w := newWorld(1)
	n := newNetwork(w)
	p, q := started(w, "p"), started(w, "q")
	var out *conn
	got := 0
	n.listen(q, "q", func(c *conn) { c.onData = func(b []byte) { got += len(b) } })
	n.dial(p, "q", func(c *conn, err error) { out = c })
	if err := w.run(time.Second); err != nil {
		b.Fatal(err)
	}
	message := make([]byte, 64)
	sent := 0
	p.every(time.Millisecond, func() { out.write(message); sent++ })
	b.ReportAllocs()
	for b.Loop() {
		if err := w.run(w.now + time.Second); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sent), "ns/message")
	if got < (sent-10)*len(message) {
		b.Errorf("%d bytes of %d messages", got, sent)
	}
}
