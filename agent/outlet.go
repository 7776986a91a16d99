package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/rawconn"
)

// outlet is the Line of a connection, and what is written to it.
type outlet struct {
	d      *device
	conn   net.Conn
	remote string
	wake   chan struct{} // capacity 1; tells the writer that there is something to write
	done   chan struct{} // closed when the reader has ended

	// Guarded by the device's mu.
	ch    channel // the session's end
	due   bool    // it is in device.due
	ended bool    // nothing more is taken: ch may belong to the next connection
	cause error   // why this side has closed it

	// Who writes has the turn. Only the writer waits for it, because it may have it for as long as a write takes.
	turn   sync.Mutex
	direct rawconn.Direct // nil: only the writer writes
	buf    []byte
	rest   []byte // of buf; it is written before anything else
}

// writable is what a device writes: the outlet of a switch, or the stream to a controller. due is guarded by its mu.
type writable interface {
	push()   // writes what it takes without waiting; the device's mu is not locked
	signal() // leaves it to the writer
	undue()  // it is not in device.due any more
}

// channel is the session's end of a connection: a Switch or a Controller.
type channel interface {
	Input(batch []byte) (rest []byte, err error)
	Full() bool
	Take(dst []byte) []byte
}

func newOutlet(d *device, conn net.Conn, remote string) *outlet {
	o := &outlet{d: d, conn: conn, remote: remote, wake: make(chan struct{}, 1), done: make(chan struct{})}
	o.direct, _ = conn.(rawconn.Direct)
	return o
}

// Remote implements Line, as do the following.
func (o *outlet) Remote() string { return o.remote }

func (o *outlet) Wake() {
	if !o.due && !o.ended {
		o.due = true
		o.d.due = append(o.d.due, o)
	}
}

func (o *outlet) Close(cause error) {
	if o.cause == nil {
		o.cause = cause
	}
	o.conn.Close()
}

func (o *outlet) undue() { o.due = false }

func (o *outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// unlock unlocks mu, and writes what is due, also what that makes due. It does not wait.
func (d *device) unlock() {
	for len(d.due) > 0 {
		last := len(d.due) - 1
		o := d.due[last]
		d.due[last], d.due = nil, d.due[:last]
		o.undue()
		d.mu.Unlock()
		o.push()
		d.mu.Lock()
	}
	d.mu.Unlock()
}

// leave leaves what is due to the writers. The caller has locked mu, and is about to wait.
func (d *device) leave() {
	for _, o := range d.due {
		o.undue()
		o.signal()
	}
	clear(d.due)
	d.due = d.due[:0]
}

// end says that the reader of an outlet has ended.
func (d *device) end(o *outlet) {
	d.mu.Lock()
	o.ended = true
	d.mu.Unlock()
	close(o.done)
}

// push writes what is to be written, as far as the connection takes it without waiting. What is left, also because
// somebody else writes, is for the writer.
func (o *outlet) push() {
	if !o.turn.TryLock() {
		o.signal()
		return
	}
	left := o.direct == nil || len(o.rest) > 0
	if !left {
		o.d.mu.Lock()
		o.take()
		o.d.mu.Unlock()
		o.rest = o.buf[o.direct.WriteDirect(o.buf):]
		left = len(o.rest) > 0 || len(o.buf) >= takeAtMost
	}
	o.turn.Unlock()
	if left {
		o.signal()
	}
}

// take makes buf the rest, and what the session has to write. The caller has the turn, has locked mu, and sees to what
// becomes due.
func (o *outlet) take() {
	o.buf = append(o.buf[:0], o.rest...)
	o.rest = nil
	if !o.ended {
		o.buf = o.ch.Take(o.buf)
	}
	o.d.changed.Broadcast()
}

// write is the writer: it writes what others leave to it until the connection is closed or its reader has ended.
func (d *device) write(o *outlet) {
	for {
		select {
		case <-o.wake:
		case <-o.done:
			return
		}
		for {
			wrote, err := o.writeNext()
			if err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					err = fmt.Errorf("%w: nothing for %v", errNotReading, d.a.cfg.WriteTimeout)
				}
				d.mu.Lock()
				o.Close(err)
				d.changed.Broadcast()
				d.unlock()
				return
			}
			if !wrote {
				break
			}
		}
	}
}

// writeNext writes what is to be written now, and reports whether there was something.
func (o *outlet) writeNext() (wrote bool, err error) {
	o.turn.Lock()
	defer o.turn.Unlock()
	o.d.mu.Lock()
	o.take()
	o.d.leave()
	o.d.mu.Unlock()
	if len(o.buf) == 0 {
		return false, nil
	}
	o.conn.SetWriteDeadline(time.Now().Add(o.d.a.cfg.WriteTimeout))
	if _, err := o.conn.Write(o.buf); err != nil {
		o.direct = nil // nothing may follow a part of a message
		return false, err
	}
	return true, nil
}
