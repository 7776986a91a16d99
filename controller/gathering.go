package controller

import (
	"net"
	"sync"
)

// gatherMost bounds what is gathered, in bytes: a larger message is sent in parts.
const gatherMost = 64 << 10

// gathered are buffers for what is gathered, of pointers to slices.
var gathered = sync.Pool{New: func() any { return new([]byte) }}

// gathering is a connection that can gather what is written, and send it at once. The server of net/http writes a
// message of some kilobytes, and its end, in three or more parts. Each would be a record of TLS and a system call.
type gathering struct {
	net.Conn

	mu  sync.Mutex // guards buf
	buf *[]byte    // nil: nothing is gathered

	*turn // of a connection that may have to wait before it is read; nil: it need not
}

// gatheringKey is the key of the *gathering in the context of a request of HTTP/1. In HTTP/2 other streams have the
// same connection, and must not wait.
type gatheringKey struct{}

// Write implements net.Conn.
func (g *gathering) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.buf == nil {
		return g.Conn.Write(b)
	}
	if len(*g.buf)+len(b) > gatherMost {
		if err := g.send(); err != nil {
			return 0, err
		}
		if len(b) > gatherMost {
			return g.Conn.Write(b)
		}
	}
	*g.buf = append(*g.buf, b...)
	return len(b), nil
}

// send sends what is gathered. The caller holds mu.
func (g *gathering) send() error {
	b := *g.buf
	*g.buf = b[:0]
	if len(b) == 0 {
		return nil
	}
	_, err := g.Conn.Write(b)
	return err
}

// together calls write, and sends at once what that writes to the connection. A nil gathering only calls it.
func (g *gathering) together(write func() error) error {
	if g == nil {
		return write()
	}
	g.mu.Lock()
	g.buf = gathered.Get().(*[]byte)
	g.mu.Unlock()
	failed := write()
	g.mu.Lock()
	defer g.mu.Unlock()
	err := g.send()
	gathered.Put(g.buf)
	g.buf = nil
	if failed != nil {
		return failed
	}
	return err
}
