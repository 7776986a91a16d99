package southbound

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// blocker is a handler that takes no deliveries from the second event of switch 7 on, until it is released.
type blocker struct {
	*bed
	blocks, release chan struct{}
}

func (k *blocker) Events(list []Delivery) {
	for _, d := range list {
		if d.Session.Switch() == 7 && d.Batch.First == 2 {
			close(k.blocks)
			<-k.release
		}
		d.Done(k.events(d.Session, d.Batch))
	}
}

// beats answers the echo requests of a stream until n have come.
func (p *together) beats(id uint32, n int) {
	p.t.Helper()
	p.awaits("an echo request", func(stream uint32, msg []byte, _ experimenter.Stream) bool {
		if stream == id && msg != nil && msg[1] == openflow.TypeEchoRequest {
			n--
			reply := append([]byte(nil), msg...)
			reply[1] = openflow.TypeEchoReply
			p.say(onStream(id, reply))
		}
		return n == 0
	})
}

// A connection that is not read, because the handler does not take what has come, does not count as silent.
func TestBlockedReaderIsNotSilent(t *testing.T) {
	b := &bed{t: t, lead: true}
	k := &blocker{b, make(chan struct{}), make(chan struct{})}
	b.handler = k
	b.start(Config{Heartbeat: 100 * time.Millisecond})
	clock := b.together()
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	event := func(stream uint32, seq uint64) []byte {
		return onStream(stream, eventBlock(100, seq, packetIn13(byte(seq))))
	}
	p.say(event(1, 1))
	await.Until(t, "the first event", func() bool { return strings.Contains(b.told(), "7/1") })
	p.say(event(1, 2))
	await.End(t, "the reader", k.blocks)
	p.say(event(2, 1))
	clock.attach(1, 9)
	clock.beats(1, 8) // p would be silent after three
	close(k.release)
	await.Until(t, "the other switch is served", func() bool { return strings.Contains(b.told(), "8/1") })
}

// awaiting is the end of a connection whose other end is peer, of a switch that owes an answer to its claim. Nothing
// serves it: the test calls tick.
func awaiting(t *testing.T, handshake ...[]byte) (c *conn, peer net.Conn) {
	t.Helper()
	end, peer := net.Pipe()
	t.Cleanup(func() { end.Close() })
	c = &conn{srv: &server{cfg: Config{Now: time.Now}}, net: end, heard: ofconn.NewWatched(end, time.Minute),
		wrote: new(atomic.Uint64), out: sink{}}
	c.open()
	for rest := concat(handshake...); len(rest) > 0; {
		var err error
		if rest, _, err = c.session.Input(rest); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.session.Claim(1, Resume{Epoch: 500}); err != nil {
		t.Fatal(err)
	}
	return c, peer
}

// sink is an outlet that writes nothing.
type sink struct{}

func (sink) Send(...[]byte) error { return nil }
func (sink) Mark(uint64)          {}
func (sink) Close() error         { return nil }

// A switch whose answer waits to be read, because the handler has no room for the events before it, is not
// disconnected. The time counts again when the switch is read.
func TestUnreadSwitchIsNotBlamed(t *testing.T) {
	for name, handshake := range map[string][][]byte{
		"bundles": {hello13, features13(7), opened(opening), ports13()},
		"legacy":  {hello10, features10(7)},
	} {
		c, peer := awaiting(t, handshake...)
		c.tick()
		c.busy.Store(true)
		for range 2 * patience {
			c.tick()
		}
		if err := c.why(); err != nil {
			t.Fatalf("%s: while nothing is read: %v", name, err)
		}
		for range patience - 1 { // the handler takes something now and then
			go peer.Write([]byte{4})
			if _, err := c.heard.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			c.tick()
			c.tick()
		}
		c.busy.Store(false)
		c.tick()
		if err := c.why(); err != errNoAnswer {
			t.Fatalf("%s: it is read, and does not answer: %v", name, err)
		}
	}
}

// The switch of a stream that has ended may return on another one as soon as the handler is done with its events.
func TestSwitchReturnsOnAnotherStream(t *testing.T) {
	b := &bed{t: t, lead: true}
	k := &keeper{bed: b}
	b.handler = k
	b.start(Config{EchoInterval: 20 * time.Millisecond, ProbeTimeout: 10 * time.Second})
	t.Cleanup(k.done)
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	p.say(onStream(1, eventBlock(100, 1, packetIn13(1))))
	await.Until(t, "the handler has the event", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.kept) > 0
	})
	p.say(experimenter.Stream{ID: 1, Kind: experimenter.StreamEnd}.Append(nil))
	p.say(onStream(3, hello13, experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, 4)))
	p.expect(3, of13.TypeFeaturesRequest)
	p.say(onStream(3, features13(7)))
	p.beats(2, 5) // so the connection is heard
	k.done()
	p.expect(3, of13.TypeRoleRequest)
}
