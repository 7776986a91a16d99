package rpc

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/rawconn"
)

// Clients in Go do not speak HTTP/2, which takes more processor time for a small request than all replicas together.
// Their connection begins as a request of HTTP/1.1 that is upgraded (RFC 9110, section 7.8) to a sequence of frames in
// each direction:
//
//	length u32, big endian | Request or Response of store.proto
//
// Responses come in any order, and have the ids of the requests. A length of signOfLife has no message after it. From a
// client it asks whether the controller is there, which answers with the same.
const (
	frames   = service + "Frames"
	protocol = "holdfast-store-1"
)

// frameConn is a connection that carries frames. Several goroutines may send, and one receive.
type frameConn struct {
	net.Conn
	direct     rawconn.Direct // the same; nil: it cannot be written without waiting
	in         *bufio.Reader
	patience   time.Duration // how long the peer may read nothing
	mostToRead int           // bytes of a frame

	helpers sync.WaitGroup // see later

	mu      sync.Mutex // guards the fields below
	drained *sync.Cond // there is less pending than before
	pending []byte     // frames to be written
	spare   []byte     // for the next ones
	writing bool       // a goroutine writes, and goes on with what is pending
	failed  error
}

// maxPending bounds the bytes that wait for the goroutine that writes: further frames wait with their senders. It is
// also what is kept of a buffer.
const maxPending = 1 << 20

const signOfLife = math.MaxUint32

func newFrameConn(conn net.Conn, in *bufio.Reader, patience time.Duration, mostToRead int) *frameConn {
	f := &frameConn{Conn: conn, in: in, patience: patience, mostToRead: mostToRead}
	f.direct, _ = conn.(rawconn.Direct)
	f.drained = sync.NewCond(&f.mu)
	return f
}

// lives sends a sign of life.
func (f *frameConn) lives() error { return f.put(signOfLife, nil) }

// send sends a message. It returns before the frame is written if another goroutine is writing, which then writes this
// one too: so one call of the system carries what many have to send. If the peer reads nothing for patience, the
// connection is closed.
func (f *frameConn) send(message []byte) error { return f.put(uint32(len(message)), message) }

func (f *frameConn) put(length uint32, message []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.writing && len(f.pending) > maxPending && f.failed == nil {
		f.drained.Wait()
	}
	if f.failed != nil {
		return f.failed
	}
	f.pending = append(binary.BigEndian.AppendUint32(f.pending, length), message...)
	if f.writing {
		return nil
	}
	f.writing = true
	f.mu.Unlock()
	runtime.Gosched() // others that are about to send, because the same entry was committed, do it first
	f.mu.Lock()
	f.drain()
	return f.failed
}

// queue is send for a goroutine that must not wait, and calls flush afterwards. It reports false if more than most
// bytes wait already: then it has not taken the message.
func (f *frameConn) queue(message []byte, most int) (taken bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return true // nobody is there
	case len(f.pending) > most:
		return false
	}
	f.pending = append(binary.BigEndian.AppendUint32(f.pending, uint32(len(message))), message...)
	return true
}

// flush writes what was queued, as far as the connection takes it without waiting. A goroutine writes the rest.
func (f *frameConn) flush() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.writing || f.failed != nil || len(f.pending) == 0 {
		return
	}
	if f.direct != nil {
		n := f.direct.WriteDirect(f.pending)
		f.pending = f.pending[:copy(f.pending, f.pending[n:])]
	}
	if len(f.pending) == 0 {
		if cap(f.pending) > maxPending {
			f.pending = nil
		}
		return
	}
	f.writing = true
	f.helpers.Go(func() { // ends when everything is written, or end is called
		f.mu.Lock()
		defer f.mu.Unlock()
		f.drain()
	})
}

// later runs f in a goroutine for which end waits. It reports false if the connection has ended.
func (f *frameConn) later(run func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed != nil {
		return false
	}
	f.helpers.Go(run)
	return true
}

// end closes the connection, and waits for the goroutines that write to it.
func (f *frameConn) end() {
	f.mu.Lock()
	f.failed = cmp.Or(f.failed, net.ErrClosed)
	f.drained.Broadcast()
	f.mu.Unlock()
	_ = f.Close()
	f.helpers.Wait()
}

// drain writes what is pending, also what others add meanwhile.
func (f *frameConn) drain() {
	for len(f.pending) > 0 && f.failed == nil {
		f.write()
	}
	f.writing = false
}

// write writes what is pending.
func (f *frameConn) write() {
	b := f.pending
	f.pending, f.spare = f.spare[:0], nil
	f.mu.Unlock()
	err := f.inPieces(b)
	f.mu.Lock()
	if cap(b) <= maxPending {
		f.spare = b
	}
	if err != nil {
		f.failed = err
		_ = f.Close() // so that receive ends, too
	}
	f.drained.Broadcast()
}

// maxPiece is how much a slow peer has to read within patience.
const maxPiece = 64 << 10

// inPieces writes to the connection, with a deadline for each piece: a peer behind a slow link takes long for all.
func (f *frameConn) inPieces(b []byte) error {
	for piece := range slices.Chunk(b, maxPiece) {
		_ = f.SetWriteDeadline(time.Now().Add(f.patience)) // if it fails, so does Write
		if _, err := f.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

// receive returns the next message, which is the caller's; nil for a sign of life. The error is io.EOF if the peer has
// closed the connection between two frames.
func (f *frameConn) receive() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(f.in, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n == signOfLife {
		return nil, nil
	}
	if uint64(n) > uint64(f.mostToRead) {
		return nil, fmt.Errorf("a frame of %d bytes; at most %d are possible", n, f.mostToRead)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(f.in, b); err != nil {
		return nil, fmt.Errorf("a frame is cut off: %w", err)
	}
	return b, nil
}

// more reports whether the next frame is a message, and has come as a whole.
func (f *frameConn) more() bool {
	const header = 4
	have := f.in.Buffered()
	if have < header {
		return false
	}
	b, _ := f.in.Peek(header) // it is there
	n := binary.BigEndian.Uint32(b)
	return n != signOfLife && uint64(n) <= uint64(have-header)
}

// deadlined is a connection whose reads fail if nothing comes for so long. Before that, ask is called once at half of
// it; nil: nobody is asked.
type deadlined struct {
	net.Conn
	silence time.Duration
	ask     func() error
	until   time.Time // the deadline that is set
}

// lateDeadline is by which part of it a deadline may be too early: to set one for each read takes longer than a read.
const lateDeadline = 16

func (d *deadlined) Read(b []byte) (int, error) {
	for asked := d.ask == nil; ; asked = true {
		wait := d.silence
		if d.ask != nil {
			wait /= 2
		}
		if now := time.Now(); d.until.Before(now.Add(wait - wait/lateDeadline)) {
			d.until = now.Add(wait)
			if err := d.SetReadDeadline(d.until); err != nil {
				return 0, err
			}
		}
		n, err := d.Conn.Read(b)
		late, is := err.(net.Error)
		switch {
		case n > 0 || !is || !late.Timeout():
			return n, err
		case asked:
			return 0, fmt.Errorf("nothing was heard for %v", d.silence)
		}
		if err := d.ask(); err != nil {
			return 0, err
		}
	}
}
