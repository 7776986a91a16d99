// Package transport carries Raft messages, and payloads of the groups' owners, between controllers over TCP. All groups
// of a controller share its connections. Each controller dials every other one and writes only on that connection. So
// each pair has two connections, and neither side waits for the other to dial. The package handles framing and
// connections and knows little of Raft: it drops and reports messages that cannot be sent, and Raft sends them again.
//
// With several groups, heartbeats wait for one another until Flush, or for a millisecond: those that are sent because
// of one tick leave in one write to each controller, and are received by one read. Answers to heartbeats wait for the
// next heartbeats to that controller, which leave within the time of a tick. Any other message is sent at once, and
// takes along what waits.
//
// By default every peer that can connect is trusted; see Config.Dial, Config.Listener and Config.Admit. A controller
// gives connections that are authenticated by TLS, or by the key of its cluster (package clusterkey).
package transport

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/incident"
)

// Handler receives messages and events of connections. It is called from several goroutines. Messages and payloads of
// all groups come on one connection, one after the other. So Received and Payload must not block: a group that cannot
// take more must drop what comes, and Raft sends it again.
type Handler interface {
	// Received is given each message of Raft that is for a replica at this controller.
	Received(wire.Message)
	// Payload is given each payload that a controller sent for a group, in the order in which it sent them.
	Payload(group, from uint64, payload []byte)
	// Disconnected reports that the connection on which a controller sent has broken and there is no newer one: the
	// controller may be dead.
	Disconnected(controller uint64)
	// Dropped says that messages with entries for a replica of a group were dropped. Called by Send too.
	Dropped(group, replica uint64)
	// Removed reports that, according to another controller, this one was removed from group 0.
	Removed()
	// Stranger reports that a controller, whose group 0 has had a leader, does not have this one in its group 0.
	Stranger(controller uint64)
	// SnapshotSent reports whether a snapshot message for a replica of a group was sent. Called by Send too.
	SnapshotSent(group, replica uint64, ok bool)
}

// Config is what a Transport needs to know.
type Config struct {
	ID       uint64 // of this controller
	Cluster  string
	Listener net.Listener      // closed by Close; nil: nobody dials
	Peers    map[uint64]string // controller to address; ID itself is ignored
	Handler  Handler
	Logger   *slog.Logger
	Names    map[uint64]string // of controllers, for the log
	// Dial opens the connection to a controller and verifies its identity; nil: TCP without verification.
	Dial func(ctx context.Context, controller uint64, address string) (net.Conn, error)
	// Admit says, after the hello, whether a peer may act as a given controller; nil: every peer may.
	Admit func(conn net.Conn, controller uint64) error

	// Heartbeat is the time between two heartbeats of a group, for which answers to them wait at most.
	Heartbeat time.Duration

	// Founded says whether this controller's log of group 0 is still as it was created for a new group, or not known
	// yet; nil: it is not.
	Founded func() bool

	gone    func(controller uint64) bool // see Transport.Gone
	dials   func(controller uint64) bool // see Transport.SetPeers
	gathers *atomic.Bool                 // see Transport.Gather
}

// name returns what the log calls a controller.
func (c *Config) name(controller uint64) string {
	return cmp.Or(c.Names[controller], strconv.FormatUint(controller, 10))
}

func (c Config) withDefaults() Config {
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, _ uint64, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	if c.Founded == nil {
		c.Founded = func() bool { return false }
	}
	if c.Admit == nil {
		c.Admit = func(net.Conn, uint64) error { return nil }
	}
	return c
}

// Bounds.
const (
	// to one controller, not yet written; more is dropped. Beside it one snapshot of each group
	maxQueueBytes    = 32 << 20
	maxQueueMessages = 4096
	maxQueuePayload  = 12 << 20         // bytes of payloads to one controller; more is refused
	maxHandshakes    = 64               // incoming connections that have not said hello
	handshakeTime    = 2 * time.Second  // for dialing, and for hello and answer
	stallTime        = 10 * time.Second // for a write, and for the other side's acknowledgement
	steady           = time.Second      // a connection that lasted so long makes the back-off begin anew
	gather           = time.Millisecond // a heartbeat waits so long, at most, for those of other groups
)

// Pauses before a controller is dialed again. They double from MinBackoff to MaxBackoff, which is how long a controller
// that returns may wait.
const (
	MinBackoff = 5 * time.Millisecond
	MaxBackoff = 200 * time.Millisecond
)

// Transport is the connections of one controller. Its methods are safe for concurrent use.
type Transport struct {
	cfg       Config
	incidents *incident.Log
	wait      sync.WaitGroup
	peers     atomic.Pointer[map[uint64]*peer] // never changed, only replaced

	mu       sync.Mutex // guards the fields below, and replacing peers
	closed   bool
	incoming map[uint64]net.Conn // the newest of each controller
	accepted map[net.Conn]bool   // all, so that Close finds them
	gone     []uint64
}

// Start begins to accept and to dial.
func Start(cfg Config) *Transport {
	t := &Transport{cfg: cfg.withDefaults(), incidents: incident.New(cfg.Logger),
		incoming: make(map[uint64]net.Conn), accepted: make(map[net.Conn]bool)}
	t.cfg.gone, t.cfg.dials, t.cfg.gathers = t.isGone, t.isPeer, new(atomic.Bool)
	t.peers.Store(new(map[uint64]*peer))
	t.SetPeers(cfg.Peers)
	if cfg.Listener != nil {
		t.wait.Go(t.accept)
	}
	return t
}

// SetPeers replaces the controllers that are dialed. Connections to those that stay are kept.
func (t *Transport) SetPeers(addrs map[uint64]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	peers := make(map[uint64]*peer, len(addrs))
	for id, p := range *t.peers.Load() {
		if addrs[id] == p.addr {
			peers[id] = p
		} else {
			p.stop()
		}
	}
	var started []*peer
	for id, addr := range addrs {
		if id != t.cfg.ID && peers[id] == nil {
			peers[id] = newPeer(t.cfg, id, addr)
			started = append(started, peers[id])
		}
	}
	t.peers.Store(&peers)
	for _, p := range started {
		t.wait.Go(p.run)
	}
}

// peer returns the connection to a controller; nil if it is not dialed.
func (t *Transport) peer(controller uint64) *peer { return (*t.peers.Load())[controller] }

// Gone replaces the list of removed controllers. Their connections are closed, and when they connect again the answer
// to their hello tells them that they were removed.
func (t *Transport) Gone(ids []uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = ids
	for _, id := range ids {
		if conn := t.incoming[id]; conn != nil {
			conn.Close()
		}
	}
}

func (t *Transport) isGone(id uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.gone, id)
}

func (t *Transport) isPeer(id uint64) bool { return t.peer(id) != nil }

// Gather says whether heartbeats wait for those of other groups. It saves time only if there are several groups.
func (t *Transport) Gather(on bool) { t.cfg.gathers.Store(on) }

// Flush sends the heartbeats that wait for those of other groups, because there are no more.
func (t *Transport) Flush() {
	for _, p := range *t.peers.Load() {
		p.flush()
	}
}

// Send queues messages for the controllers of the replicas that they name. It never waits.
func (t *Transport) Send(messages []wire.Message) {
	for _, m := range messages {
		if p := t.peer(wire.ControllerOf(m.Raft.GetTo())); p != nil {
			p.send(m)
		} else {
			lost(t.cfg.Handler, m)
		}
	}
}

// SendPayload queues a payload of a group for a controller. The payload is not changed afterwards. SendPayload reports
// false if there is no connection, or no room. A payload that was queued is lost if the connection breaks. It never
// waits.
func (t *Transport) SendPayload(group, controller uint64, payload []byte) bool {
	p := t.peer(controller)
	return p != nil && p.sendPayload(group, payload)
}

// Connected says whether there is a connection to a controller.
func (t *Transport) Connected(controller uint64) bool {
	p := t.peer(controller)
	return p != nil && p.isConnected()
}

// Close ends all connections and waits for its goroutines.
func (t *Transport) Close() {
	t.mu.Lock()
	t.closed = true
	for _, p := range *t.peers.Load() {
		p.stop()
	}
	for conn := range t.accepted {
		conn.Close()
	}
	t.mu.Unlock()
	if t.cfg.Listener != nil {
		t.cfg.Listener.Close()
	}
	t.wait.Wait()
}

func (t *Transport) accept() {
	handshakes := make(chan struct{}, maxHandshakes)
	for {
		conn, err := t.cfg.Listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			t.cfg.Logger.Warn("consensus: accept", "listener", t.cfg.Listener.Addr(), "err", err)
			time.Sleep(MinBackoff) // out of file descriptors, most likely
			continue
		}
		t.mu.Lock()
		if t.closed {
			t.mu.Unlock()
			conn.Close()
			return
		}
		t.accepted[conn] = true
		t.wait.Go(func() { t.serve(conn, handshakes) })
		t.mu.Unlock()
	}
}

// serve reads from one incoming connection until it breaks.
func (t *Transport) serve(conn net.Conn, handshakes chan struct{}) {
	defer func() {
		conn.Close()
		t.mu.Lock()
		delete(t.accepted, conn)
		t.mu.Unlock()
	}()
	select {
	case handshakes <- struct{}{}:
	default:
		return
	}
	from, err := welcome(conn, t.cfg)
	<-handshakes
	if err != nil {
		host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
		t.incidents.Warn(host+" "+err.Error(), "consensus: refused a connection", "from", conn.RemoteAddr(), "err", err)
		return
	}
	t.mu.Lock()
	if old := t.incoming[from]; old != nil {
		old.Close() // the controller has dialed again, so it has given the old one up
	}
	t.incoming[from] = conn
	if slices.Contains(t.gone, from) { // it was removed after the hello was answered: its next hello says so
		conn.Close()
	}
	t.mu.Unlock()

	err = receive(conn, from, t.cfg)

	t.mu.Lock()
	newest := t.incoming[from] == conn
	if newest {
		delete(t.incoming, from)
	}
	closed := t.closed
	t.mu.Unlock()
	if newest && !closed {
		t.cfg.Logger.Info("consensus: lost the connection from a controller", "peer", t.cfg.name(from), "err", err)
		t.cfg.Handler.Disconnected(from)
	}
}
