package agent

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// numbers is a channel that has numbers to write.
type numbers struct {
	next, end uint64
	taken     int // calls of Take
}

func (c *numbers) Input([]byte) ([]byte, error) { return nil, nil }
func (c *numbers) Full() bool                   { return false }

func (c *numbers) Take(dst []byte) []byte {
	c.taken++
	for ; c.next < c.end && len(dst) < takeAtMost; c.next++ {
		dst = binary.BigEndian.AppendUint64(dst, c.next)
	}
	return dst
}

// narrow is a connection that takes at once what is left of its room, and of which a writer waits for the reader.
type narrow struct {
	net.Conn
	mu     sync.Mutex
	room   int
	direct int // bytes that were taken at once
	got    []byte
}

func (c *narrow) WriteDirect(b []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(b), c.room)
	c.room -= n
	c.direct += n
	c.got = append(c.got, b[:n]...)
	return n
}

func (c *narrow) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		time.Sleep(100 * time.Microsecond)
		c.mu.Lock()
		n := min(len(rest), 1+rand.IntN(1000))
		c.got, rest = append(c.got, rest[:n]...), rest[n:]
		c.room = rand.IntN(5000)
		c.mu.Unlock()
	}
	return len(b), nil
}

func (c *narrow) SetWriteDeadline(time.Time) error { return nil }
func (c *narrow) Close() error                     { return nil }

func outletOf(conn net.Conn) (*device, *outlet, *numbers) {
	d := &device{a: &Agent{cfg: Config{WriteTimeout: time.Second}}}
	d.changed = sync.NewCond(&d.mu)
	o, c := newOutlet(d, conn, "there"), &numbers{}
	o.ch = c
	return d, o, c
}

// What several goroutines make due arrives once and in order, whoever writes it.
func TestOutletKeepsOrder(t *testing.T) {
	conn := &narrow{room: 100}
	d, o, c := outletOf(conn)
	var writer, others sync.WaitGroup
	writer.Go(func() { d.write(o) })
	for range 4 {
		others.Go(func() {
			for range 500 {
				d.mu.Lock()
				c.end += 1 + rand.Uint64N(100)
				o.Wake()
				d.unlock()
				if rand.IntN(4) == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		})
	}
	others.Wait()
	arrived := func() (n int) {
		conn.mu.Lock()
		defer conn.mu.Unlock()
		return len(conn.got)
	}
	for begin := time.Now(); arrived() < int(c.end)*8; time.Sleep(time.Millisecond) {
		if time.Since(begin) > 30*time.Second {
			t.Fatalf("%d bytes of %d numbers have arrived", arrived(), c.end)
		}
	}
	d.end(o)
	writer.Wait()
	if conn.direct == 0 || conn.direct == len(conn.got) {
		t.Errorf("%d bytes of %d were written directly", conn.direct, len(conn.got))
	}
	for i := range c.end {
		if n := binary.BigEndian.Uint64(conn.got[i*8:]); n != i {
			t.Fatalf("number %d is %d", i, n)
		}
	}
}

// Once its reader has ended, a connection takes nothing: the controller may have the next one already.
func TestOutletHasEnded(t *testing.T) {
	conn := &narrow{room: 1000}
	d, o, c := outletOf(conn)
	d.mu.Lock()
	c.end = 10
	o.Wake()
	d.mu.Unlock() // and before unlock is called
	d.end(o)
	d.mu.Lock()
	d.unlock()
	if c.taken > 0 || len(conn.got) > 0 {
		t.Errorf("%d bytes for the next connection are written to the last one", len(conn.got))
	}
}

// torn is a connection of which a write fails in the middle.
type torn struct{ narrow }

func (c *torn) Write(b []byte) (int, error) {
	c.got = append(c.got, b[:len(b)/2]...)
	c.room = 1000
	return len(b) / 2, io.ErrClosedPipe
}

// Nothing follows a part of a message.
func TestOutletAfterAFailedWrite(t *testing.T) {
	conn := &torn{}
	d, o, c := outletOf(conn)
	conn.room = 4
	for range 3 {
		d.mu.Lock()
		c.end++
		o.Wake()
		d.unlock()
	}
	d.write(o) // ends with the error
	n := len(conn.got)
	if !errors.Is(o.cause, io.ErrClosedPipe) || n != 4+(4+2*8)/2 {
		t.Errorf("%d bytes, and then %v", n, o.cause)
	}
	d.mu.Lock()
	c.end++
	o.Wake()
	d.unlock()
	if len(conn.got) > n {
		t.Error("a part of a message is followed by another one")
	}
}
