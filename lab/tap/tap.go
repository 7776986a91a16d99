// Package tap is a witness on the wire: a relay between switches and an agent (or
// controller) that shows every OpenFlow message of both directions to an observer. It
// changes nothing, unless Config.NoBundles, and knows of a switch only the datapath id in its
// FEATURES_REPLY, and of the connection of an agent its streams.
package tap

import (
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Observer sees messages in the order in which they pass, from one goroutine for each direction
// of each connection. The bytes are valid during the call.
type Observer interface {
	FromSwitch(sw openflow.DatapathID, msg []byte)
	ToSwitch(sw openflow.DatapathID, msg []byte)
}

// Config describes a Tap.
type Config struct {
	Dial    func() (net.Conn, error) // to the agent or controller; see At
	Observe func() Observer          // for each new connection; see Same
	// NoBundles makes the switches seem to have no bundles (ONF extension 230): what a controller says
	// of them is answered here with an error, as such a switch does, and neither shown nor passed on.
	NoBundles bool
}

// At dials an address; see package address.
func At(to string) func() (net.Conn, error) {
	network, at := address.Of(to)
	return func() (net.Conn, error) { return net.DialTimeout(network, at, time.Second) }
}

// Same shows all connections to one observer.
func Same(o Observer) func() Observer { return func() Observer { return o } }

// Tap is a running relay.
type Tap struct {
	config   Config
	listener net.Listener
	wg       sync.WaitGroup
	stop     chan struct{} // closed by Close

	mu    sync.Mutex // guards conns
	conns map[net.Conn]bool
}

// Start relays connections to listener on, until Close.
func Start(listener net.Listener, c Config) *Tap {
	t := &Tap{config: c, listener: listener, stop: make(chan struct{}), conns: map[net.Conn]bool{}}
	t.wg.Go(t.accept)
	return t
}

// Addr is where switches connect.
func (t *Tap) Addr() string { return t.listener.Addr().String() }

// Close ends all connections and waits for the goroutines.
func (t *Tap) Close() error {
	err := t.listener.Close()
	t.mu.Lock()
	close(t.stop)
	t.mu.Unlock()
	t.Cut()
	t.wg.Wait()
	if err != nil {
		return fmt.Errorf("close tap at %s: %w", t.Addr(), err)
	}
	return nil
}

// Cut ends the connections that there are. Switches may connect anew.
func (t *Tap) Cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.conns {
		c.Close()
	}
}

func (t *Tap) accept() {
	for {
		sw, err := t.listener.Accept()
		if err != nil {
			return // Close
		}
		t.wg.Go(func() { t.serve(sw) })
	}
}

// A controller that does not listen is dialled again for a while: a switch that is refused stays away
// for a second or more, which would say nothing about the controller.
const (
	dialAgain = 5 * time.Millisecond
	dialFor   = 4 * time.Second
)

func (t *Tap) serve(sw net.Conn) {
	defer t.keep(sw)()
	target, err := t.config.Dial()
	for begun := time.Now(); err != nil; target, err = t.config.Dial() {
		select {
		case <-t.stop:
			return
		case <-time.After(dialAgain):
		}
		if time.Since(begun) > dialFor {
			return // the switch tries again
		}
	}
	defer t.keep(target)()
	r := &relay{observer: t.config.Observe(), sw: sw, target: target, noBundles: t.config.NoBundles,
		ids: map[uint32]openflow.DatapathID{}}
	var back sync.WaitGroup
	back.Go(func() { pump(target, sw, r.toSwitch) })
	pump(sw, target, r.fromSwitch)
	back.Wait()
}

// keep has Close close a connection until the function that it returns does.
func (t *Tap) keep(c net.Conn) (forget func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[c] = true
	select {
	case <-t.stop:
		c.Close()
	default:
	}
	return func() {
		c.Close()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.conns, c)
	}
}

// relay is one connection: of one switch, or of an agent with a stream for each of several.
type relay struct {
	observer   Observer
	sw, target net.Conn
	noBundles  bool
	from, to   streams // of the two directions

	mu  sync.Mutex // guards ids
	ids map[uint32]openflow.DatapathID
}

// streams says of which stream messages are. A connection without streams has stream 0.
type streams struct {
	now  uint32
	left int // bytes
}

// of returns the stream of the next message, and false for the header of a frame.
func (s *streams) of(msg []byte) (stream uint32, is bool) {
	if s.left > 0 {
		s.left -= len(msg)
		return s.now, true
	}
	if h, err := experimenter.ParseStream(msg); err == nil {
		if h.Kind == experimenter.StreamData {
			s.now, s.left = h.ID, int(h.Number)
		}
		return 0, false
	}
	return 0, true
}

// id returns the datapath id of a stream, if its FEATURES_REPLY has passed. What comes before is the handshake.
func (r *relay) id(stream uint32) (id openflow.DatapathID, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, known = r.ids[stream]
	return id, known
}

func (r *relay) fromSwitch(msg []byte) (pass bool) {
	stream, is := r.from.of(msg)
	if !is {
		return true
	}
	if id, known := r.id(stream); known {
		r.observer.FromSwitch(id, msg)
	} else if msg[1] == of13.TypeFeaturesReply && len(msg) >= openflow.HeaderLen+8 { // the same number in 1.0
		r.mu.Lock()
		r.ids[stream] = openflow.DatapathID(binary.BigEndian.Uint64(msg[openflow.HeaderLen:]))
		r.mu.Unlock()
	}
	return true
}

func (r *relay) toSwitch(msg []byte) (pass bool) {
	if r.noBundles && isBundle(msg) {
		e := of13.Error{ErrType: of13.ErrTypeBadRequest, Code: of13.BadRequestBadExperimenter,
			Data: msg[:min(len(msg), 64)]}
		_, _ = r.target.Write(e.Append(nil, openflow.XID(msg))) // whoever does not take it is gone
		return false
	}
	if stream, is := r.to.of(msg); is {
		if id, known := r.id(stream); known {
			r.observer.ToSwitch(id, msg)
		}
	}
	return true
}

func isBundle(msg []byte) bool {
	return msg[1] == openflow.TypeExperimenter && len(msg) >= openflow.HeaderLen+4 &&
		binary.BigEndian.Uint32(msg[openflow.HeaderLen:]) == of13.OnfID
}

// pump moves one direction until from ends, also what to does not take any more. What passes is shown before
// it is passed on: an observer never knows less than the receiver. Nor does it know more, if the receiver lives:
// the end comes behind all that was said.
func pump(from, to net.Conn, show func([]byte) (pass bool)) {
	defer closeWrite(to)
	in, out := ofconn.NewReader(from), []byte(nil)
	for {
		batch, err := in.Next()
		if err != nil {
			return
		}
		out = out[:0]
		for rest := batch; len(rest) > 0; {
			var msg []byte
			if msg, rest, err = openflow.Next(rest); err != nil {
				return
			}
			if show(msg) {
				out = append(out, msg...)
			}
		}
		_, _ = to.Write(out) // an end of to that matters is seen by the other direction
	}
}

// closeWrite ends one direction.
func closeWrite(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.Close()
	}
}
