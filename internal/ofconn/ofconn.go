// Package ofconn transfers OpenFlow messages over a stream in batches: one read returns all complete messages that have
// arrived, and one write sends all that were queued meanwhile. It knows the framing and not the meaning of messages.
// Southbound, agent and vswitch connect their protocol cores to it.
package ofconn

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A Reader asks the stream for readMin bytes at once, and for more, up to readMax, as long
// as the stream fills what it is offered: thousands of quiet connections stay small.
const (
	readMin = 4 << 10
	readMax = 64 << 10
)

// keepQueue is the largest queue that a Writer keeps for reuse after it was sent.
const keepQueue = 512 << 10

// Reader splits a stream into batches of whole messages. Not for concurrent use.
type Reader struct {
	src        io.Reader
	buf        []byte
	start, end int // buf[start:end] is read and not yet returned
	begun      bool
}

// NewReader reads from src.
func NewReader(src io.Reader) *Reader {
	return &Reader{src: src, buf: make([]byte, readMin)}
}

// ErrTLS says that a stream begins with TLS, where plain OpenFlow is expected.
var ErrTLS = errors.New("it speaks TLS, which this side does not: give both the certificates, or neither")

// Next waits for at least one whole message and returns all that are there, one after the
// other. The slice is valid until the next call. The error is io.EOF at the end of the
// stream between two messages, io.ErrUnexpectedEOF within one, or ErrTLS or an
// *openflow.Error when the stream is not OpenFlow.
func (r *Reader) Next() ([]byte, error) {
	for {
		if !r.begun && r.end >= 2 {
			r.begun = true
			// A record of TLS that begins a handshake, or the alert of a server that expected one. Neither is a version
			// of OpenFlow.
			if (r.buf[0] == 0x16 || r.buf[0] == 0x15) && r.buf[1] == 3 {
				return nil, ErrTLS
			}
		}
		whole, err := wholeMessages(r.buf[r.start:r.end])
		if whole > 0 {
			batch := r.buf[r.start : r.start+whole]
			r.start += whole
			return batch, nil
		}
		if err != nil {
			return nil, err
		}
		r.compact()
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		if n == 0 && err != nil {
			if err == io.EOF && r.end > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

// compact moves what is not returned yet to the front, and makes room for the next read.
func (r *Reader) compact() {
	buf, left := r.buf, r.end-r.start
	if r.end == len(buf) && len(buf) < readMax+openflow.MaxMessageLen {
		buf = make([]byte, min(2*len(buf), readMax+openflow.MaxMessageLen))
	}
	copy(buf, r.buf[r.start:r.end])
	r.buf, r.start, r.end = buf, 0, left
}

// wholeMessages returns how many bytes of b are whole messages. The error, if the next
// bytes cannot start a message, counts only once these are consumed.
func wholeMessages(b []byte) (int, error) {
	n := 0
	for len(b)-n >= openflow.HeaderLen {
		h, err := openflow.ParseHeader(b[n:])
		if err != nil {
			return n, err
		}
		if len(b)-n < int(h.Length) {
			break
		}
		n += int(h.Length)
	}
	return n, nil
}

// ErrFull says that the peer does not read: a Writer's queue has reached its bound.
var ErrFull = errors.New("the peer does not read: its send queue is full")

// ErrClosed says that the Writer was closed.
var ErrClosed = errors.New("connection closed")

// Writer queues messages and writes them from a goroutine of its own, which ends with
// Close or at the first write error. Safe for concurrent use.
type Writer struct {
	conn    net.Conn
	limit   int
	timeout time.Duration
	written func(mark uint64)

	mu     sync.Mutex // guards the fields below; held for copies only, never for I/O
	queue  []byte
	err    error
	closed bool
	mark   uint64        // the newest of Mark
	wake   chan struct{} // capacity 1: something is queued, or closed
	done   chan struct{} // closed when the goroutine has ended
}

// NewWriter starts a writer to conn. Its queue holds limit bytes, in addition to the batch that is being written. A
// write that takes longer than timeout fails the writer. written is called for Mark; it may be nil.
func NewWriter(conn net.Conn, limit int, timeout time.Duration, written func(mark uint64)) *Writer {
	w := &Writer{conn: conn, limit: limit, timeout: timeout, written: written,
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	go w.run()
	return w
}

// Send queues a copy of the parts, with nothing between them. It never blocks: it fails
// with ErrFull when the queue is full, with ErrClosed, or with the error that ended the writer.
func (w *Writer) Send(parts ...[]byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.failure(); err != nil {
		return err
	}
	if !w.fits(parts) {
		return ErrFull
	}
	w.push(parts)
	return nil
}

// Mark makes the writer call written with mark, or with a later one, from its goroutine, as soon as everything that was
// queued before is written.
func (w *Writer) Mark(mark uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark = mark
	w.signal()
}

// Queued returns how many bytes wait.
func (w *Writer) Queued() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue)
}

// Close writes what is queued, for at most the write timeout, closes the connection and
// waits for the goroutine to end. It returns the error that ended the writer, if any.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.signal()
	w.mu.Unlock()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *Writer) failure() error {
	if w.err != nil {
		return w.err
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// fits reports whether parts may be queued. Alone they always may: no message is too long to send.
func (w *Writer) fits(parts [][]byte) bool {
	n := len(w.queue)
	for _, p := range parts {
		n += len(p)
	}
	return len(w.queue) == 0 || n <= w.limit
}

func (w *Writer) push(parts [][]byte) {
	for _, p := range parts {
		w.queue = append(w.queue, p...)
	}
	w.signal()
}

func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *Writer) run() {
	defer close(w.done)
	defer w.conn.Close()
	var batch []byte
	var told uint64 // the mark that was told last
	for range w.wake {
		for {
			if cap(batch) > keepQueue {
				batch = nil
			}
			w.mu.Lock()
			batch, w.queue = w.queue, batch[:0]
			closed, mark := w.closed, w.mark
			w.mu.Unlock()
			if len(batch) > 0 {
				if err := w.write(batch); err != nil {
					w.mu.Lock()
					w.err = err
					w.mu.Unlock()
					return
				}
			}
			if mark != told {
				told = mark
				w.written(mark)
			}
			if len(batch) == 0 {
				if closed {
					return
				}
				break
			}
		}
	}
}

func (w *Writer) write(batch []byte) error {
	if w.timeout > 0 {
		if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
			return fmt.Errorf("set write deadline for %s: %w", address.Peer(w.conn), err)
		}
	}
	if _, err := w.conn.Write(batch); err != nil {
		return fmt.Errorf("write to %s: %w", address.Peer(w.conn), err)
	}
	return nil
}
