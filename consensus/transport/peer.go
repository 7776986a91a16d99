package transport

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3/raftpb"
)

// peer is the connection to one member. It is dialed again, for ever, until stop.
type peer struct {
	cfg    Config
	id     uint64
	addr   string
	ctx    context.Context
	stop   context.CancelFunc
	wake   chan struct{} // capacity 1: something is queued
	logged string        // the last failure, so that it is logged once

	mu        sync.Mutex
	connected bool
	queue     []wire.Message
	bytes     int
	snapshot  *wire.Message // on its way, or about to be
	payloads  [][]byte      // oldest first, without what was sent of the first
	payload   int           // bytes in payloads
}

func newPeer(cfg Config, id uint64, addr string) *peer {
	p := &peer{cfg: cfg, id: id, addr: addr, wake: make(chan struct{}, 1)}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

func (p *peer) isConnected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.connected
}

// send queues m, or drops it.
func (p *peer) send(m wire.Message) {
	if !p.queued(m) {
		lost(p.cfg.Handler, m)
		return
	}
	p.signal()
}

func (p *peer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *peer) sendPayload(payload []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.connected || len(payload) > wire.MaxPayload || p.payload+len(payload) > maxQueuePayload {
		return false
	}
	p.payloads = append(p.payloads, payload)
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
		before := len(p.payloads[0])
		buf, p.payloads[0] = wire.AppendPayload(buf, p.payloads[0])
		p.payload -= before - len(p.payloads[0])
		if len(p.payloads[0]) == 0 {
			if p.payloads = p.payloads[1:]; len(p.payloads) == 0 {
				p.payloads = nil
			}
		}
	}
	return buf
}

func (p *peer) queued(m wire.Message) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.connected {
		return false
	}
	if m.Raft.GetType() == raftpb.MsgSnap {
		if p.snapshot != nil {
			return false
		}
		p.snapshot = &m
		return true
	}
	size := 0
	for _, e := range m.Raft.GetEntries() {
		size += len(e.GetData())
	}
	if len(p.queue) >= maxQueueMessages || p.bytes > 0 && p.bytes+size > maxQueueBytes {
		return false
	}
	p.queue = append(p.queue, m)
	p.bytes += size
	return true
}

// lost reports a message that was dropped. A heartbeat or a vote needs no report.
func lost(h Handler, m wire.Message) {
	switch m.Raft.GetType() {
	case raftpb.MsgSnap:
		h.SnapshotSent(m.Raft.GetTo(), false)
	case raftpb.MsgApp:
		h.Dropped(m.Raft.GetTo())
	}
}

func (p *peer) run() {
	backoff := MinBackoff
	for p.ctx.Err() == nil {
		start := time.Now()
		if err := p.connect(); p.ctx.Err() == nil && err != nil && err.Error() != p.logged {
			p.logged = err.Error()
			p.cfg.Logger.Info("consensus: no connection to a member", "member", p.id, "addr", p.addr, "err", err)
			if errors.Is(err, errRemoved) {
				p.cfg.Handler.Removed()
			}
			if errors.Is(err, errStranger) {
				p.cfg.Handler.Stranger(p.id)
			}
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
	p.cfg.Logger.Info("consensus: connected to a member", "member", p.id, "addr", p.addr)
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
	return p.write(ctx, conn)
}

// setConnected false drops what is queued: it would be stale when the member is back.
func (p *peer) setConnected(on bool) {
	p.mu.Lock()
	p.connected = on
	queue, snapshot := p.queue, p.snapshot
	p.queue, p.bytes, p.snapshot = nil, 0, nil
	p.payloads, p.payload = nil, 0
	p.mu.Unlock()
	if snapshot != nil {
		lost(p.cfg.Handler, *snapshot)
	}
	for _, m := range queue {
		if m.Raft.GetType() == raftpb.MsgApp {
			lost(p.cfg.Handler, m)
			break
		}
	}
}

// write sends all messages that are queued in one write, and with them one chunk of a snapshot, and some payloads.
func (p *peer) write(ctx context.Context, conn net.Conn) error {
	var batch []wire.Message
	var buf []byte
	sent := -1 // bytes of the snapshot's state; -1: not begun
	for {
		p.mu.Lock()
		batch, p.queue, p.bytes = p.queue, batch[:0], 0
		snapshot := p.snapshot
		more := len(p.payloads) > 0
		p.mu.Unlock()

		if len(batch) == 0 && snapshot == nil && !more {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-p.wake:
			}
			continue
		}
		var err error
		if buf, err = p.encode(buf[:0], batch); err != nil {
			return err
		}
		clear(batch)
		if snapshot != nil {
			if buf, sent, err = appendState(buf, *snapshot, sent); err != nil {
				return err
			}
		}
		if more {
			buf = p.takePayloads(buf)
		}
		if err := conn.SetWriteDeadline(time.Now().Add(stallTime)); err != nil {
			return err
		}
		if _, err := conn.Write(buf); err != nil {
			return err
		}
		if snapshot != nil && sent == len(snapshot.State) {
			sent = -1
			p.mu.Lock()
			p.snapshot = nil
			p.mu.Unlock()
			p.cfg.Handler.SnapshotSent(p.id, true)
		}
		if cap(buf) > 4*readSize {
			buf = nil
		}
	}
}

func (p *peer) encode(buf []byte, batch []wire.Message) ([]byte, error) {
	for _, m := range batch {
		var err error
		if buf, err = wire.AppendMessage(buf, m.Raft); err != nil {
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
	buf, err := wire.AppendMessage(buf, m.Raft)
	return buf, sent, err
}
