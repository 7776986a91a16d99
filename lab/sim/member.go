package sim

import (
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/transport"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// maxMemberUnread is how much may wait for another controller; package transport has a larger bound.
const maxMemberUnread = 4 << 20

func (n *controllerNode) peerAddress() string   { return "peer-" + strconv.FormatUint(n.id, 10) }
func (n *controllerNode) switchAddress() string { return "of-" + strconv.FormatUint(n.id, 10) }

// memberLink is the connection on which a controller talks to another; that answers on its own.
type memberLink struct {
	n       *controllerNode
	to      uint64
	address string
	c       *conn // nil while not connected
	backoff time.Duration
	scratch []byte
}

func (l *memberLink) dial() {
	l.backoff = max(l.backoff, transport.MinBackoff)
	l.n.s.net.dial(l.n.p, l.address, func(c *conn, err error) {
		if err != nil {
			l.again()
			return
		}
		l.c, l.backoff = c, transport.MinBackoff
		c.onClose = func(error) { l.c = nil; l.again() }
		c.write(wire.AppendHello(nil, wire.Hello{Version: wire.Version, From: l.n.id, To: l.to}))
	})
}

func (l *memberLink) again() {
	l.n.p.after(l.backoff, l.dial)
	l.backoff = min(2*l.backoff, transport.MaxBackoff)
}

// send writes m, or drops it when there is no connection, or too much waits.
func (l *memberLink) send(m wire.Message) {
	snapshot := m.Raft.GetType() == raftpb.MsgSnap
	if l.c == nil || l.c.unread() > maxMemberUnread {
		switch {
		case snapshot:
			l.n.replica(m.Group).raft.SnapshotSent(l.to, false)
		case m.Raft.GetType() == raftpb.MsgApp:
			l.n.replica(m.Group).raft.Unreachable(l.to)
		}
		return
	}
	b := l.scratch[:0]
	if snapshot {
		b = wire.AppendStateBegin(b, len(m.State))
		for rest := m.State; len(rest) > 0; {
			size := min(len(rest), wire.ChunkSize)
			b = wire.AppendStateChunk(b, rest[:size])
			rest = rest[size:]
		}
	}
	b, err := wire.AppendMessage(b, m)
	if err != nil {
		l.n.check(err)
		return
	}
	l.c.write(b)
	l.scratch = b
	if snapshot {
		l.n.replica(m.Group).raft.SnapshotSent(l.to, true)
	}
}

// sendPayload writes a payload for a group, if there is a connection and room.
func (l *memberLink) sendPayload(group uint64, payload []byte) bool {
	if l.c == nil || l.c.unread() > maxMemberUnread {
		return false
	}
	b := l.scratch[:0]
	for more := true; more; more = len(payload) > 0 {
		b, payload = wire.AppendPayload(b, group, payload)
	}
	l.c.write(b)
	l.scratch = b
	return true
}

// payload takes a payload in. If the scenario says so, Raft's messages that came later are taken in before.
func (r *replica) payload(from uint64, payload []byte) {
	take := func() {
		if !r.n.calls.Take(payload) {
			r.put(func() { r.core.Payload(r.n.p.clock(), from, payload) })
		}
	}
	if late := r.n.s.scenario.LatePayloads; late > 0 {
		r.n.p.after(late, take)
	} else {
		take()
	}
}

// memberReader takes in what another controller says.
type memberReader struct {
	n     *controllerNode
	c     *conn
	from  uint64 // 0 before the hello
	buf   []byte
	frame wire.Decoder
}

func (n *controllerNode) welcome(c *conn) {
	r := &memberReader{n: n, c: c}
	c.onData = r.data
	c.onClose = func(error) {
		if n.incoming[r.from] == c {
			delete(n.incoming, r.from)
			for _, g := range n.replicas {
				g.raft.Hint(r.from)
			}
			n.work()
		}
	}
}

func (r *memberReader) data(piece []byte) {
	n := r.n
	r.buf = append(r.buf, piece...)
	if r.from == 0 {
		if len(r.buf) < wire.HelloLen {
			return
		}
		hello, _, err := wire.ParseHello(r.buf[:wire.HelloLen])
		if err != nil {
			n.check(err)
			return
		}
		r.from, r.buf = hello.From, r.buf[wire.HelloLen:]
		if old := n.incoming[r.from]; old != nil {
			old.close() // it has given that up
		}
		n.incoming[r.from] = r.c
	}
	used := 0
	for n.p.up {
		rest := r.buf[used:]
		if len(rest) < wire.FrameHeaderLen {
			break
		}
		typ, size, err := wire.ParseFrameHeader([wire.FrameHeaderLen]byte(rest))
		if err != nil {
			n.check(err)
			return
		}
		if len(rest) < wire.FrameHeaderLen+size {
			break
		}
		used += wire.FrameHeaderLen + size
		m, whole, err := r.frame.Frame(typ, rest[wire.FrameHeaderLen:wire.FrameHeaderLen+size])
		if err != nil {
			n.check(err)
			return
		}
		if !whole {
			continue
		}
		to := n.replica(m.Group)
		if m.Raft == nil {
			to.payload(r.from, m.Payload)
			continue
		}
		if err := to.raft.Step(m); err != nil {
			n.die(err)
			return
		}
	}
	r.buf = append(r.buf[:0], r.buf[used:]...)
	n.work()
}
