package southbound

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// keeper is a handler that is not done with the events of switch 7, and counts what comes at once.
type keeper struct {
	*bed
	mu    sync.Mutex // guards the fields below
	kept  []Delivery
	sizes []int
}

func (k *keeper) Events(list []Delivery) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sizes = append(k.sizes, len(list))
	for _, d := range list {
		if d.Session.Switch() == 7 {
			k.kept = append(k.kept, d)
		} else {
			d.Done(k.events(d.Session, d.Batch))
		}
	}
}

// done is done with what is kept.
func (k *keeper) done() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, d := range k.kept {
		d.Done(nil)
	}
	k.kept = nil
}

// together is a connection of several switches, as their agent has it.
type together struct {
	*endpoint
	now  uint32 // the stream of which left bytes come
	left int
}

func (b *bed) together() *together { return &together{endpoint: b.dial()} }

func onStream(id uint32, parts ...[]byte) []byte {
	all := concat(parts...)
	return append(experimenter.Stream{ID: id, Kind: experimenter.StreamData, Number: uint32(len(all))}.Append(nil),
		all...)
}

// awaits reads up to a message of a stream, or the header of a frame, that is wanted.
func (p *together) awaits(what string, want func(stream uint32, msg []byte, head experimenter.Stream) bool) {
	p.t.Helper()
	for {
		for len(p.rest) > 0 {
			var msg []byte
			msg, p.rest, _ = openflow.Next(p.rest)
			if p.left > 0 {
				if p.left -= len(msg); want(p.now, msg, experimenter.Stream{}) {
					return
				}
				continue
			}
			h, err := experimenter.ParseStream(msg)
			if err != nil {
				p.t.Fatal(err)
			}
			if h.Kind == experimenter.StreamData {
				p.now, p.left = h.ID, int(h.Number)
			} else if want(0, nil, h) {
				return
			}
		}
		var err error
		if p.rest, err = p.in.Next(); err != nil {
			p.t.Fatalf("instead of %s: %v", what, err)
		}
	}
}

func (p *together) expect(id uint32, typ uint8) {
	p.t.Helper()
	p.awaits("a message", func(stream uint32, msg []byte, _ experimenter.Stream) bool {
		return stream == id && msg != nil && msg[1] == typ
	})
}

func (p *together) ends(id uint32) {
	p.t.Helper()
	p.awaits("the end of the stream", func(_ uint32, _ []byte, h experimenter.Stream) bool {
		return h.ID == id && h.Kind == experimenter.StreamEnd
	})
}

// attach opens a stream for a switch, which a leader claims.
func (p *together) attach(id uint32, dpid openflow.DatapathID) {
	p.t.Helper()
	p.say(onStream(id, hello13, experimenter.Attach{Epoch: 100, FirstHeld: 1, NextEvent: 2}.Append(nil, 4)))
	p.expect(id, of13.TypeFeaturesRequest)
	p.say(onStream(id, features13(dpid)))
	p.expect(id, of13.TypeRoleRequest)
	p.say(onStream(id, roleReply(1)))
}

func TestStreamsOfAnAgent(t *testing.T) {
	b := &bed{t: t, lead: true}
	k := &keeper{bed: b}
	b.handler = k
	b.start(Config{MaxSessions: 4, SilentAfter: time.Minute})
	t.Cleanup(k.done) // before the server ends
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	p.attach(3, 9)
	event := func(stream uint32, seq uint64) []byte {
		return onStream(stream, eventBlock(100, seq, packetIn13(byte(seq))))
	}
	p.say(event(1, 1), event(2, 1), event(1, 2), event(3, 1), event(1, 3), event(2, 2)) // one read
	await.Until(t, "the others are served", func() bool { return strings.Contains(b.told(), "8/2") })
	await.Until(t, "the third is served", func() bool { return strings.Contains(b.told(), "9/1") })
	k.mu.Lock()
	first := k.kept
	if k.kept = nil; len(first) != 1 || first[0].Batch.First != 1 || !slices.ContainsFunc(k.sizes,
		func(n int) bool { return n > 1 }) {
		t.Errorf("the handler has %d batches of a switch, and got %v", len(first), k.sizes)
	}
	k.mu.Unlock()
	first[0].Done(nil)
	await.Until(t, "the next events", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.kept) > 0 })
	k.mu.Lock()
	next := k.kept[0]
	k.mu.Unlock()
	if next.Batch.First != 2 {
		t.Errorf("event %d follows", next.Batch.First)
	}

	p.say(onStream(4, hello10)) // not an agent, and the connection gave its own place
	p.expect(4, of13.TypeFeaturesRequest)
	p.say(onStream(4, features10(10)))
	p.ends(4)
	p.say(onStream(2, raw(9, 9, 9))) // no event, and not within a block
	p.ends(2)
	await.Until(t, "its switch is detached", func() bool { return strings.Contains(b.told(), "detached 8") })
	next.Done(errors.New("gap"))
	p.ends(1)
	p.say(event(3, 2))
	await.Until(t, "the third is served", func() bool { return strings.Contains(b.told(), "9/2") })
	p.say(experimenter.Stream{ID: 3, Kind: experimenter.StreamEnd}.Append(nil))
	p.closed()
	b.log.Line(t, "gap")
	await.Until(t, "all are detached", func() bool { return strings.Count(b.told(), "detached") == 3 })
}

// If an agent is silent, all of its streams end, and each session that is claimed says so.
func TestSilentConnectionOfAnAgent(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{Heartbeat: 20 * time.Millisecond})
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	one, two := b.session(7), b.session(8)
	p.closed()
	await.Until(t, "both are detached", func() bool { return strings.Count(b.told(), "detached") == 2 })
	if !one.State().Silent || !two.State().Silent {
		t.Errorf("%+v, %+v", one.State(), two.State())
	}
}

// A peer that does not take what a stream has for it loses that stream.
func TestStreamThatIsNotRead(t *testing.T) {
	b := (&bed{t: t, lead: true}).start(Config{WriteTimeout: 200 * time.Millisecond})
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	command := of13.PacketOut{BufferID: of13.NoBuffer, Data: make([]byte, 60000)}
	for seq := range uint64(3) {
		msg := command.Append(nil, 1)
		if err := b.session(7).Send(experimenter.Block{Generation: 1, Epoch: 100, First: seq + 1, Count: 1},
			msg); err != nil {
			t.Fatal(err)
		}
	}
	p.ends(1)
	b.log.Line(t, "it does not read")
	p.say(onStream(2, eventBlock(100, 1, packetIn13(1))))
	await.Until(t, "the other is served", func() bool { return strings.Contains(b.told(), "8/1") })
}

// A stream that sends more than its window loses its place when all have sent too much, and another one does not.
func TestStreamShares(t *testing.T) {
	b := &bed{t: t, lead: true}
	k := &keeper{bed: b}
	b.handler = k
	b.start(Config{HeldBytes: 100 << 10, SilentAfter: time.Minute})
	t.Cleanup(k.done)
	p := b.together()
	p.attach(1, 7)
	p.attach(2, 8)
	packet := of13.PacketIn{BufferID: of13.NoBuffer, Match: of13.Match(nil).WithInPort(1), Data: make([]byte, 60000)}
	for seq := range uint64(4) { // the first is with the handler
		p.say(onStream(1, eventBlock(100, seq+1, packet.Append(nil, 0))))
	}
	p.ends(1)
	k.done()
	b.log.Line(t, "more than its share")
	p.say(onStream(2, eventBlock(100, 1, packetIn13(1))))
	await.Until(t, "the other is served", func() bool { return strings.Contains(b.told(), "8/1") })
}
