package controller

import (
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/quota"
)

// maxConnections bounds the connections to one port for HTTP. It is more than maxWatchers. If all are taken, the host
// that has most loses its newest one to a host that has fewer. A connection that a handler takes over does not count:
// of these there are at most maxServed.
const maxConnections = 8192

// places returns a hook of an HTTP server that bounds its connections.
func places(most int) func(net.Conn, http.ConnState) {
	var mu sync.Mutex // guards of
	free, of := quota.New[net.Conn](most), map[net.Conn]*quota.Place[net.Conn]{}
	return func(conn net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			mine, lost := free.Take(hostOf(conn), conn)
			if mine == nil {
				conn.Close() // the server notices when it reads
				return
			}
			if of[conn] = mine; lost != nil {
				delete(of, lost.For)
				lost.For.Close()
			}
		case http.StateClosed, http.StateHijacked:
			if mine := of[conn]; mine != nil {
				free.Leave(mine)
				delete(of, conn)
			}
		}
	}
}

// hostOf returns the address of a peer without its port.
func hostOf(conn net.Conn) string {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	return host
}

// acceptEvery is the time from one connection of a host to the next one of that host which the API serves. What a
// handshake and the first answer cost would otherwise delay the loops of the groups by a tenth of a second, when a
// thousand clients connect at once. A connection that comes earlier waits, and one that would wait for longer than
// acceptWait is closed. Other hosts do not wait for it.
const (
	acceptEvery = 2 * time.Millisecond
	acceptWait  = 10 * time.Second
)

// turns say when connections are served. One goroutine uses them.
type turns struct {
	next map[string]time.Time // of each host that has connected just now; at most maxConnections
}

// turn returns when a connection of a host is served; false: it is closed.
func (t *turns) of(host string, now time.Time) (at time.Time, served bool) {
	if len(t.next) >= maxConnections {
		maps.DeleteFunc(t.next, func(_ string, at time.Time) bool { return at.Before(now) })
	}
	if t.next == nil || len(t.next) >= maxConnections { // so many at once: none of them waits
		t.next = map[string]time.Time{}
	}
	if at = t.next[host]; at.Before(now) {
		at = now
	}
	if at.Sub(now) > acceptWait {
		return at, false
	}
	t.next[host] = at.Add(acceptEvery)
	return at, true
}

// gatheringListener accepts connections that can gather, and that wait for their turn. One goroutine accepts.
type gatheringListener struct {
	net.Listener
	turns turns
}

// Accept implements net.Listener.
func (l *gatheringListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		at, served := l.turns.of(hostOf(conn), now)
		switch {
		case !served:
			conn.Close()
		case at.Equal(now):
			return &gathering{Conn: conn}, nil
		default:
			return &gathering{Conn: conn, turn: &turn{at: at, closed: make(chan struct{})}}, nil
		}
	}
}

// turn is when a connection may be read first.
type turn struct {
	at     time.Time
	once   sync.Once
	closed chan struct{} // closed when the connection is
}

// wait waits for the turn, or until the connection is closed.
func (t *turn) wait() {
	if t == nil || !time.Now().Before(t.at) {
		return
	}
	due := time.NewTimer(time.Until(t.at))
	defer due.Stop()
	select {
	case <-due.C:
	case <-t.closed:
	}
}

// Read implements net.Conn.
func (g *gathering) Read(b []byte) (int, error) {
	g.wait()
	return g.Conn.Read(b)
}

// SetReadDeadline implements net.Conn. Who waits does so before the time that the server gives a client.
func (g *gathering) SetReadDeadline(end time.Time) error {
	if g.turn != nil && !end.IsZero() {
		end = end.Add(max(0, time.Until(g.at)))
	}
	return g.Conn.SetReadDeadline(end)
}

// Close implements net.Conn.
func (g *gathering) Close() error {
	if g.turn != nil {
		g.once.Do(func() { close(g.closed) })
	}
	return g.Conn.Close()
}
