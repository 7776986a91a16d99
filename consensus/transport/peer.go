package transport

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"go.etcd.io/raft/v3/raftpb"
)

// peer is the connection to one controller. It is dialed again, for ever, until stop.
type peer struct {
	cfg    Config
	id     uint64
	addr   string
	ctx    context.Context
	stop   context.CancelFunc
	wake   chan struct{} // capacity 1: something is queued
	late   *time.Timer   // wakes the writer for heartbeats; it runs while gathering
	logged string        // the last failure, so that it is logged once

	mu        sync.Mutex
	connected bool
	queue     []wire.Message
	bytes     int
	gathering bool           // only heartbeats and answers to them are queued, and they wait for others
	waits     time.Duration  // for how long the first of these waits, while gathering
	snapshots []wire.Message // at most one of each group; the first is on its way, or about to be
	payloads  []wire.Message // oldest first, without what was sent of the first
	payload   int            // bytes in payloads
}

func newPeer(cfg Config, id uint64, addr string) *peer {
	p := &peer{cfg: cfg, id: id, addr: addr, wake: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.late = time.AfterFunc(time.Hour, p.signal)
	p.late.Stop()
	return p
}

func (p *peer) isConnected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected
}

// flush sends what waits for others.
func (p *peer) flush() {
	p.mu.Lock()
	gathering := p.gathering
	p.mu.Unlock()
	if gathering {
		p.signal()
	}
}

// send queues m, or drops it.
func (p *peer) send(m wire.Message) {
	switch queued, wait := p.queued(m); {
	case !queued:
		lost(p.cfg.Handler, m)
	case !wait:
		p.signal()
	}
}

func (p *peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// queued says whether m was queued, and whether it waits for others: then the writer will be woken for it, by late or
// for a message that does not wait.
func (p *peer) queued(m wire.Message) (queued, wait bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.connected {
		return false, false
	}
	if m.Raft.GetType() == raftpb.MsgSnap {
		if slices.ContainsFunc(p.snapshots, func(s wire.Message) bool { return s.Group == m.Group }) {
			return false, false
		}
		p.snapshots = append(p.snapshots, m)
		return true, false
	}
	size := 0
	for _, e := range m.Raft.GetEntries() {
		size += len(e.GetData())
	}
	if len(p.queue) >= maxQueueMessages || p.bytes > 0 && p.bytes+size > maxQueueBytes {
		return false, false
	}
	p.queue = append(p.queue, m)
	p.bytes += size
	d := p.cfg.waits(m)
	if d == 0 {
		return true, false
	}
	if len(p.queue) == 1 || p.gathering && d < p.waits {
		p.gathering, p.waits = true, d
		p.late.Reset(d)
	}
	return true, true
}

// waits is how long a message waits for others, at most.
func (c *Config) waits(m wire.Message) time.Duration {
	if !c.gathers.Load() {
		return 0
	}
	switch m.Raft.GetType() {
	case raftpb.MsgHeartbeat:
		return gather
	case raftpb.MsgHeartbeatResp:
		return max(gather, c.Heartbeat)
	default:
		return 0
	}
}

// take returns what the writer sends next: all messages, the snapshot that is on its way, and whether there are
// payloads. Without a snapshot, that message is empty. The slice of messages that take returned before is used again.
func (p *peer) take(used []wire.Message) (messages []wire.Message, snapshot wire.Message, payloads bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	messages, p.queue, p.bytes = p.queue, used[:0], 0
	if p.gathering {
		p.gathering = false
		p.late.Stop()
	}
	if len(p.snapshots) > 0 {
		snapshot = p.snapshots[0]
	}
	return messages, snapshot, len(p.payloads) > 0
}

// sent removes the snapshot that was on its way.
func (p *peer) sent(snapshot wire.Message) {
	p.mu.Lock()
	p.snapshots = slices.Delete(p.snapshots, 0, 1)
	p.mu.Unlock()
	p.cfg.Handler.SnapshotSent(snapshot.Group, snapshot.Raft.GetTo(), true)
}

func (p *peer) sendPayload(group uint64, payload []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.connected || len(payload) > wire.MaxPayload || p.payload+len(payload) > maxQueuePayload {
		return false
	}
	p.payloads = append(p.payloads, wire.Message{Group: group, Payload: payload})
	p.payload += len(payload)
	p.signal()
	return true
}

// takePayloads appends the frames of queued payloads to buf until they have wire.PartSize bytes or more. The last frame
// may have as many again, so Raft's messages wait for less than twice wire.PartSize and a header.
func (p *peer) takePayloads(buf []byte) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	for start := len(buf); len(p.payloads) > 0 && len(buf)-start < wire.PartSize; {
		first := &p.payloads[0]
		before := len(first.Payload)
		buf, first.Payload = wire.AppendPayload(buf, first.Group, first.Payload)
		p.payload -= before - len(first.Payload)
		if len(first.Payload) == 0 {
			if p.payloads = p.payloads[1:]; len(p.payloads) == 0 {
				p.payloads = nil
			}
		}
	}
	return buf
}

// lost reports a message that was dropped. A heartbeat or a vote needs no report.
func lost(h Handler, m wire.Message) {
	switch m.Raft.GetType() {
	case raftpb.MsgSnap:
		h.SnapshotSent(m.Group, m.Raft.GetTo(), false)
	case raftpb.MsgApp:
		h.Dropped(m.Group, m.Raft.GetTo())
	}
}

func (p *peer) run() {
	backoff := MinBackoff
	for p.ctx.Err() == nil {
		start := time.Now()
		if err := p.connect(); p.ctx.Err() == nil && err != nil {
			p.failed(err)
		}
		if time.Since(start) > steady {
			backoff = MinBackoff
		}
		select {
		case <-p.ctx.Done():
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, MaxBackoff)
	}
}

// failed tells why there is no connection: the log once, and the handler each time, since group 0 may not run yet.
func (p *peer) failed(err error) {
	if err.Error() != p.logged {
		p.logged = err.Error()
		p.cfg.Logger.Info("consensus: no connection to a controller", "peer", p.cfg.name(p.id), "addr", p.addr,
			"err", err)
	}
	switch {
	case errors.Is(err, errRemoved):
		p.cfg.Handler.Removed()
	case errors.Is(err, errStranger):
		p.cfg.Handler.Stranger(p.id)
	}
}

// connect dials, and writes until the connection breaks.
func (p *peer) connect() error {
	patient, late := context.WithTimeout(p.ctx, handshakeTime)
	conn, err := p.cfg.Dial(patient, p.id, p.addr)
	late()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(p.ctx)
	unlink := context.AfterFunc(ctx, func() { conn.Close() })
	defer func() {
		cancel(nil)
		unlink()
		conn.Close()
	}()
	if err := introduce(conn, wire.Hello{Version: wire.Version, From: p.cfg.ID, To: p.id,
		Founded: p.cfg.Founded(), Cluster: p.cfg.Cluster}); err != nil {
		return err
	}
	p.cfg.Logger.Info("consensus: connected to a controller", "peer", p.cfg.name(p.id), "addr", p.addr)
	p.logged = ""

	// Nothing ever comes on this connection but its end.
	var reader sync.WaitGroup
	reader.Go(func() {
		_, err := conn.Read(make([]byte, 1))
		cancel(err)
	})
	defer reader.Wait()
	defer conn.Close()

	p.setConnected(true)
	defer p.setConnected(false)
	return p.write(ctx, rawconn.Of(conn))
}

// setConnected false drops what is queued: it would be stale when the controller is back.
func (p *peer) setConnected(on bool) {
	p.mu.Lock()
	p.connected = on
	dropped := slices.Concat(p.snapshots, p.queue)
	p.queue, p.bytes, p.snapshots = nil, 0, nil
	p.payloads, p.payload = nil, 0
	p.gathering = false
	p.late.Stop()
	p.mu.Unlock()
	told := make(map[uint64]bool) // by group: one report of entries is enough
	for _, m := range dropped {
		entries := m.Raft.GetType() == raftpb.MsgApp
		if !entries || !told[m.Group] {
			told[m.Group] = told[m.Group] || entries
			lost(p.cfg.Handler, m)
		}
	}
}

// write sends all messages that are queued in one write, and with them one chunk of a snapshot, and some payloads.
func (p *peer) write(ctx context.Context, conn net.Conn) error {
	var batch []wire.Message
	var buf []byte
	sent := -1 // bytes of the snapshot's state; -1: not begun
	for {
		messages, snapshot, payloads := p.take(batch)
		batch = messages
		if len(batch) == 0 && snapshot.Raft == nil && !payloads {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-p.wake:
			}
			continue
		}
		var err error
		if buf, err = encode(buf[:0], batch); err != nil {
			return err
		}
		clear(batch)
		if snapshot.Raft != nil {
			if buf, sent, err = appendState(buf, snapshot, sent); err != nil {
				return err
			}
		}
		if payloads {
			buf = p.takePayloads(buf)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
			return err
		}
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		if sent == len(snapshot.State) && snapshot.Raft != nil {
			sent = -1
			p.sent(snapshot)
		}
		if cap(buf) > 4*readSize {
			buf = nil
		}
	}
}

func encode(buf []byte, batch []wire.Message) ([]byte, error) {
	for _, m := range batch {
		var err error
		if buf, err = wire.AppendMessage(buf, m); err != nil {
			return buf, err
		}
	}
	return buf, nil
}

// appendState appends the next chunk of a snapshot's state, and after the last one the
// message itself. It returns how much of the state has been sent.
func appendState(buf []byte, m wire.Message, sent int) ([]byte, int, error) {
	if sent < 0 {
		buf, sent = wire.AppendStateBegin(buf, len(m.State)), 0
	}
	chunk := m.State[sent:min(sent+wire.ChunkSize, len(m.State))]
	if len(chunk) > 0 {
		buf = wire.AppendStateChunk(buf, chunk)
	}
	sent += len(chunk)
	if sent < len(m.State) {
		return buf, sent, nil
	}
	buf, err := wire.AppendMessage(buf, m)
	return buf, sent, err
}
