// Package tap is a witness on the wire: a TCP relay between switches and an agent (or
// controller) that shows every OpenFlow message of both directions to an observer. It
// changes nothing, and knows of a switch only the datapath id in its FEATURES_REPLY.
package tap

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Observer sees messages in the order in which they pass, from one goroutine for each direction
// of each connection. The bytes are valid during the call.
type Observer interface {
	FromSwitch(sw openflow.DatapathID, msg []byte)
	ToSwitch(sw openflow.DatapathID, msg []byte)
}

// Tap is a running relay.
type Tap struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	observer Observer
	wg       sync.WaitGroup

	mu     sync.Mutex // guards conns
	conns  map[net.Conn]bool
	closed bool
}

// Start relays connections to listener on to the address target, until Close.
func Start(listener net.Listener, target string, o Observer) *Tap {
	return StartBetween(listener, func() (net.Conn, error) { return net.DialTimeout("tcp", target, time.Second) }, o)
}

// StartBetween relays connections to listener on to what dial connects to, until Close.
func StartBetween(listener net.Listener, dial func() (net.Conn, error), o Observer) *Tap {
	t := &Tap{listener: listener, dial: dial, observer: o, conns: map[net.Conn]bool{}}
	t.wg.Go(t.accept)
	return t
}

// Addr is where switches connect.
func (t *Tap) Addr() string { return t.listener.Addr().String() }

// Close ends all connections and waits for the goroutines.
func (t *Tap) Close() error {
	err := t.listener.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
	if err != nil {
		return fmt.Errorf("close tap at %s: %w", t.Addr(), err)
	}
	return nil
}

func (t *Tap) accept() {
	for {
		sw, err := t.listener.Accept()
		if err != nil {
			return // Close
		}
		target, err := t.dial()
		if err != nil {
			sw.Close() // the switch tries again
			continue
		}
		if !t.keep(sw) || !t.keep(target) {
			sw.Close()
			target.Close()
			return
		}
		r := &relay{tap: t, known: make(chan struct{})}
		t.wg.Go(func() { r.run(sw, target, r.fromSwitch) })
		t.wg.Go(func() { r.run(target, sw, r.toSwitch) })
	}
}

func (t *Tap) keep(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = true
	return !t.closed
}

func (t *Tap) forget(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c)
}

// relay is one connection.
type relay struct {
	tap   *Tap
	sw    openflow.DatapathID // set before known is closed
	known chan struct{}
}

func (r *relay) fromSwitch(msg []byte) {
	select {
	case <-r.known:
	default:
		if msg[1] == of13.TypeFeaturesReply && len(msg) >= openflow.HeaderLen+8 { // the same number in 1.0
			r.sw = openflow.DatapathID(binary.BigEndian.Uint64(msg[openflow.HeaderLen:]))
			close(r.known)
		}
		return // the handshake
	}
	r.tap.observer.FromSwitch(r.sw, msg)
}

func (r *relay) toSwitch(msg []byte) {
	select {
	case <-r.known:
		r.tap.observer.ToSwitch(r.sw, msg)
	default:
	}
}

// run relays one direction until either side closes; then it closes both. What passes is
// shown before it is passed on: an observer never knows less than the receiver.
func (r *relay) run(from, to net.Conn, show func([]byte)) {
	defer r.tap.forget(from)
	defer to.Close()
	in := ofconn.NewReader(from)
	for {
		batch, err := in.Next()
		if err != nil {
			return
		}
		for rest := batch; len(rest) > 0; {
			var msg []byte
			if msg, rest, err = openflow.Next(rest); err != nil {
				return
			}
			show(msg)
		}
		if _, err := to.Write(batch); err != nil {
			return
		}
	}
}
