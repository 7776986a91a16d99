// Package trunk carries the connections of many switches in one connection between an agent and a controller. They
// share its reads and writes, its TLS handshake and its heartbeats. Each is a stream of whole OpenFlow messages with
// flow control of its own, so that one that is not read does not hold up the others.
//
// A frame is a HOLDFAST_STREAM message, and for data the messages behind it. So a trunk is a sequence of OpenFlow
// messages, too. The package knows nothing of switches or sessions: those who use a stream implement End. Who dials and
// accepts is in agent and southbound. docs/design/control-path.md has the protocol.
package trunk

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/rawconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// Bounds.
const (
	// Window is how many bytes of a stream may be on their way or not taken. Beyond that its End is not asked for more.
	Window = 64 << 10
	// MaxUnread is what a stream may have been sent that its End has not taken: a window, and what the sender's End has
	// appended at a time. A stream that is sent more ends.
	MaxUnread = Window + maxTaken
	maxTaken  = 2 << 20
	// maxOver bounds the streams that have ended here, which the peer does not know yet.
	maxOver = 4096
	// batchBytes is about how much is written at a time. Streams that are left have their turn in the next write.
	batchBytes = 1 << 20
	// keepBuffer is the largest buffer that is kept for reuse.
	keepBuffer = 2 << 20
)

// End is what uses one end of a stream. Its methods do not wait, and may call those of the Stream, except that Take
// must not call Wake.
type End interface {
	// Take appends whole messages that are to be written now, about as many bytes as may be sent, and reports whether
	// there are more.
	Take(dst []byte, credit int) (out []byte, more bool)
	// Input gets whole messages, which are valid during the call only. When the End is done with them, it says so with
	// Stream.Took.
	Input(batch []byte)
	// Ended says that the stream has ended: io.EOF if the other end has closed it. It is not called after Close or
	// Stop.
	Ended(err error)
}

// Errors that end a stream or a trunk.
var (
	errIdle     = errors.New("it carried no stream any more")
	errMany     = fmt.Errorf("it opens streams, and does not read that more than %d of them have ended", maxOver)
	errOverfull = fmt.Errorf("the peer has sent more than %d bytes of a stream that were not taken", MaxUnread)
)

// Trunk is one end of the connection. Its methods are safe for concurrent use.
type Trunk struct {
	conn    net.Conn
	direct  rawconn.Direct            // nil: only the writer writes
	timeout time.Duration             // of a write
	accept  func(*Stream) (End, bool) // nil at the end that opens streams
	wake    chan struct{}             // capacity 1: for the writer
	done    chan struct{}             // closed when the writer has ended

	mu      sync.Mutex // guards the fields below, and those of streams; held for copies only
	streams map[uint32]*Stream
	ending  int       // of streams: are closing
	last    uint32    // the newest stream
	due     []*Stream // have something to write, in this order
	spare   []*Stream // is due next time
	err     error     // why the trunk has ended

	// Who writes has the turn. Only the writer waits for it.
	turn sync.Mutex
	buf  []byte
	rest []byte // of buf; it is written before anything else

	// Of the frame that is being read.
	into *Stream // nil: nobody wants it
	left int     // bytes
}

// New makes one end of a trunk on conn. A write that takes longer than timeout ends it.
//
// accept makes it the end of a controller: it is called with each stream that the agent opens, and returns its End, or
// false to refuse it. With nil it is the end of an agent, which opens streams, and which writes what is due itself
// instead of waking its writer, if the connection can be written without waiting.
func New(conn net.Conn, timeout time.Duration, accept func(*Stream) (End, bool)) *Trunk {
	t := &Trunk{conn: conn, timeout: timeout, accept: accept, streams: map[uint32]*Stream{},
		wake: make(chan struct{}, 1), done: make(chan struct{})}
	if accept == nil {
		t.direct, _ = conn.(rawconn.Direct)
	}
	return t
}

// Open opens a stream. The other end learns of streams in their order, also of one that is closed before it has sent
// something.
func (t *Trunk) Open(end End) (*Stream, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.err != nil:
		return nil, t.err
	case t.last == math.MaxUint32:
		return nil, errors.New("the trunk has no more numbers for streams")
	}
	t.last++
	s := t.add(t.last, end)
	s.fresh = true
	s.wake()
	return s, nil
}

// add is called with mu locked.
func (t *Trunk) add(id uint32, end End) *Stream {
	s := &Stream{t: t, id: id, end: end, credit: Window}
	t.streams[id] = s
	return s
}

// Run serves the trunk until it ends: next returns what has come, whole messages, and is called again when the streams
// have got that. It closes the connection. A trunk ends when its last stream has.
func (t *Trunk) Run(batch []byte, next func() ([]byte, error)) error {
	go t.write() // ends with the trunk
	for {
		err := t.read(batch)
		if err == nil {
			batch, err = next()
		}
		if err != nil {
			err = t.fail(err)
			<-t.done
			return err
		}
	}
}

// read distributes a batch. At the end of an agent nothing is written meanwhile, so that what the batch makes due is
// written at once.
func (t *Trunk) read(batch []byte) error {
	if t.direct == nil || !t.turn.TryLock() {
		return t.take(batch)
	}
	err := t.take(batch)
	t.turn.Unlock()
	t.flush(false)
	return err
}

// take passes a batch to the streams. Its error ends the trunk.
func (t *Trunk) take(batch []byte) error {
	for len(batch) > 0 {
		if t.left > 0 {
			n := 0
			for n < len(batch) && n < t.left {
				n += int(batch[n+2])<<8 | int(batch[n+3])
			}
			if n > t.left {
				return errors.New("trunk: a frame ends within a message")
			}
			t.left -= n
			if t.into != nil {
				t.input(t.into, batch[:n])
			}
			batch = batch[n:]
			continue
		}
		msg, rest, err := openflow.Next(batch)
		if err != nil {
			return err
		}
		if t.accept == nil && msg[1] == openflow.TypeHello {
			batch = rest // a controller that waits for the first frame asks a switch to begin
			continue
		}
		h, err := experimenter.ParseStream(msg)
		if err == nil {
			err = t.header(h)
		}
		if err != nil {
			return fmt.Errorf("trunk: %w", err)
		}
		batch = rest
	}
	return nil
}

// input passes data to a stream. What is sent to one that is closing here is not read.
func (t *Trunk) input(s *Stream, batch []byte) {
	t.mu.Lock()
	s.unread += len(batch)
	over, closed := s.unread > MaxUnread, s.closing || t.streams[s.id] != s
	t.mu.Unlock()
	switch {
	case closed:
	case over:
		s.Stop()
		s.end.Ended(errOverfull)
	default:
		s.end.Input(batch)
	}
}

// header handles the header of a frame.
func (t *Trunk) header(h experimenter.Stream) error {
	t.mu.Lock()
	s := t.streams[h.ID]
	switch {
	case h.ID == 0, s == nil && h.ID > t.last && (t.accept == nil || h.Kind != experimenter.StreamData):
		t.mu.Unlock()
		return fmt.Errorf("a frame is for stream %d, and there was none after %d", h.ID, t.last)
	case h.Kind == experimenter.StreamData:
		if s == nil && h.ID > t.last {
			if t.ending > maxOver {
				t.mu.Unlock()
				return errMany
			}
			s = t.opened(h.ID)
		}
		t.into, t.left = s, int(h.Number)
	case h.Kind == experimenter.StreamCredit:
		if s != nil {
			s.credit = min(s.credit+int(h.Number), Window)
			if s.waiting {
				s.wake()
				t.signal()
			}
		}
	case h.Kind == experimenter.StreamEnd:
		t.remove(h.ID)
		if s != nil && !s.closing {
			t.mu.Unlock()
			s.end.Ended(io.EOF)
			return nil
		}
	default:
		t.mu.Unlock()
		return fmt.Errorf("a frame is of kind %d", h.Kind)
	}
	t.mu.Unlock()
	return nil
}

// opened takes a stream that the peer has opened; the result is nil if it is refused. It is called with mu locked, and
// unlocks it meanwhile.
func (t *Trunk) opened(id uint32) *Stream {
	t.last = id
	s := t.add(id, nil)
	t.mu.Unlock()
	end, ok := t.accept(s)
	t.mu.Lock()
	if s.end = end; !ok {
		s.end, s.stopped = nobody{}, true
		s.close()
		return nil
	}
	s.wake() // it may have been woken or closed within accept
	t.signal()
	if err := t.err; err != nil { // fail has not found the End
		t.mu.Unlock()
		end.Ended(err)
		t.mu.Lock()
	}
	return s
}

// remove is called with mu locked.
func (t *Trunk) remove(id uint32) {
	if s := t.streams[id]; s != nil && s.closing {
		t.ending--
	}
	delete(t.streams, id)
	if len(t.streams) == 0 {
		t.signal() // the writer looks whether the trunk ends
	}
}

// fail ends the trunk and all streams, and returns why the trunk has ended.
func (t *Trunk) fail(err error) error {
	t.mu.Lock()
	if t.err == nil {
		t.err = err
	}
	err = t.err
	var ends []End
	for _, s := range t.streams {
		if !s.closing && s.end != nil {
			ends = append(ends, s.end)
		}
	}
	t.streams, t.due = map[uint32]*Stream{}, nil
	t.signal()
	t.mu.Unlock()
	t.conn.Close()
	for _, end := range ends {
		end.Ended(err)
	}
	return err
}

// Close ends the trunk, and all streams with err.
func (t *Trunk) Close(err error) { t.fail(err) }
