// Package relay is a network that fails when a test says so: a TCP relay between two ends that breaks connections,
// refuses them, holds what passes in one direction or both, and delays it.
//
// It does not look at what passes: package tap does. Nor does it lose or change a byte of a connection that it keeps.
package relay

import (
	"net"
	"sync"
	"time"
)

// Faults are what a relay does to what passes. The zero value is a network that works.
type Faults struct {
	Refuse bool          // connections are closed at once
	Hold   [2]bool       // nothing passes towards the target, and nothing back
	Delay  time.Duration // of each piece that passes, in both directions
}

// Silent are the faults of a network on which nothing arrives and no connection breaks.
var Silent = Faults{Hold: [2]bool{true, true}}

// Relay is a running relay. It is safe for concurrent use.
type Relay struct {
	target   string
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	changed *sync.Cond
	conns   map[net.Conn]bool
	faults  Faults
	closed  bool
}

// Start relays connections to listener on to the target, until Close.
func Start(listener net.Listener, target string) *Relay {
	r := &Relay{target: target, listener: listener, conns: map[net.Conn]bool{}}
	r.changed = sync.NewCond(&r.mu)
	r.wg.Go(r.accept)
	return r
}

// Addr is where the relay listens.
func (r *Relay) Addr() string { return r.listener.Addr().String() }

// Close ends the listener and all connections, and waits for the goroutines.
func (r *Relay) Close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	r.breakAll()
	r.mu.Unlock()
	r.wg.Wait()
}

// Set replaces the faults. Connections that there are break if the new ones are refused.
func (r *Relay) Set(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = f
	if f.Refuse {
		r.breakAll()
	}
	r.changed.Broadcast()
}

// Break breaks the connections that there are.
func (r *Relay) Break() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breakAll()
}

// breakAll is called with mu.
func (r *Relay) breakAll() {
	for c := range r.conns {
		c.Close()
	}
	r.changed.Broadcast()
}

func (r *Relay) accept() {
	for {
		in, err := r.listener.Accept()
		if err != nil {
			return // Close
		}
		out, err := net.DialTimeout("tcp", r.target, time.Second)
		if err != nil {
			in.Close()
			continue
		}
		r.mu.Lock()
		r.conns[in], r.conns[out] = true, true
		if r.faults.Refuse || r.closed {
			in.Close()
			out.Close()
		}
		r.mu.Unlock()
		r.wg.Go(func() { r.pump(0, in, out) })
		r.wg.Go(func() { r.pump(1, out, in) })
	}
}

// pump moves one direction of a connection until it ends. The end is held and delayed as well.
func (r *Relay) pump(direction int, from, to net.Conn) {
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
func (r *Relay) pass(direction int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d := r.faults.Delay; d > 0 {
		r.mu.Unlock()
		time.Sleep(d)
		r.mu.Lock()
	}
	for r.faults.Hold[direction] && !r.closed {
		r.changed.Wait()
	}
}
