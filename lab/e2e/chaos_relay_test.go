package e2e

import (
	"net"
	"sync"
	"testing"
	"time"
)

// relay stands between two processes and is their network: it can break their connections, hold what
// they say to each other, in one direction or both, and delay it.
type relay struct {
	from, to string // names of the processes
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	conns   map[net.Conn]bool
	cut     bool    // connections are refused
	held    [2]bool // what goes there, and what comes back
	delay   time.Duration
	closed  bool
}

func startRelay(t *testing.T, from, to, target string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{from: from, to: to, target: target, listener: l, conns: map[net.Conn]bool{}}
	r.changed = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

func (r *relay) close() {
	r.listener.Close()
	r.set(func() { r.closed = true; r.closeConns() })
	r.wg.Wait()
}

// set changes what the relay does.
func (r *relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	r.changed.Broadcast()
}

// The following are for set.

func (r *relay) closeConns() {
	for c := range r.conns {
		c.Close()
	}
}

func (r *relay) heal() { r.cut, r.held, r.delay = false, [2]bool{}, 0 }

func (r *relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return // close
		}
		out, err := net.DialTimeout("tcp", r.target, time.Second)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.conns[in], r.conns[out] = true, true
		if r.cut || r.closed {
			in.Close()
			out.Close()
		}
		r.mu.Unlock()
		r.wg.Go(func() { r.pump(0, in, out) })
		r.wg.Go(func() { r.pump(1, out, in) })
	}
}

// pump moves one direction of a connection until it ends; the end is held and delayed as well.
func (r *relay) pump(direction int, from, to net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		r.pass(direction)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			to.Close()
			break
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	from.Close()
	delete(r.conns, from)
}

// pass returns when bytes may go on in a direction.
func (r *relay) pass(direction int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.delay; d > 0 {
		r.mu.Unlock()
		time.Sleep(d)
		r.mu.Lock()
	}
	for r.held[direction] && !r.cut && !r.closed {
		r.changed.Wait()
	}
}
