package rpc

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"
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
	in         *bufio.Reader
	patience   time.Duration // how long the peer may read nothing
	mostToRead int           // bytes of a frame

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
	for len(f.pending) > 0 && f.failed == nil {
		f.write()
	}
	f.writing = false
	return f.failed
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

// deadlined is a connection whose reads fail if nothing comes for so long. Before that, ask is called once at half of
// it; nil: nobody is asked.
type deadlined struct {
	net.Conn
	silence time.Duration
	ask     func() error
}

func (d *deadlined) Read(b []byte) (int, error) {
	for asked := d.ask == nil; ; asked = true {
		until := d.silence
		if d.ask != nil {
			until /= 2
		}
		if err := d.SetReadDeadline(time.Now().Add(until)); err != nil {
			return 0, err
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
