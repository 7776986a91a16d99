package ofconn

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// ErrSilent says that the peer sent nothing for the time that a Watched allows.
var ErrSilent = errors.New("the peer is silent")

// Watched reads from a connection, and fails if the peer sends nothing for SilentAfter during a read. The caller sends
// echo requests, so that a live peer always answers. Time between reads does not count, so a delay of the reader is not
// taken for silence of the peer. Only one goroutine may read; Heard is safe for concurrent use.
type Watched struct {
	conn        net.Conn
	silentAfter time.Duration
	deadline    time.Time // as set on conn
	heard       atomic.Uint64
}

// NewWatched watches conn.
func NewWatched(conn net.Conn, silentAfter time.Duration) *Watched {
	return &Watched{conn: conn, silentAfter: silentAfter}
}

// CheckEcho returns an error if a live peer could be taken for a silent one. An end looks once in each interval, and
// sends an echo request if it has heard nothing since the last look. So the request may leave after two intervals, and
// a Watched waits for at least seven eighths of its time.
func CheckEcho(interval, silentAfter time.Duration) error {
	if 2*interval < silentAfter-silentAfter/8 {
		return nil
	}
	return fmt.Errorf("EchoInterval %v is too long for SilentAfter %v: twice the interval must be less than seven "+
		"eighths of it, or quiet peers that live count as dead; use less than %v", interval, silentAfter,
		(silentAfter-silentAfter/8)/2)
}

// Heard counts the reads that returned data.
func (w *Watched) Heard() uint64 { return w.heard.Load() }

// Read implements io.Reader. It fails with ErrSilent. If that comes late, this process was stopped, or its machine, and
// what the peer has sent may wait to be read: it gets its time once more.
func (w *Watched) Read(b []byte) (int, error) {
	n, err := w.read(b)
	if err == ErrSilent && time.Since(w.deadline) > w.silentAfter/8 {
		n, err = w.read(b)
	}
	return n, err
}

func (w *Watched) read(b []byte) (int, error) {
	now := time.Now()
	// Setting a deadline costs about a tenth of a read: once in an eighth of the time is enough.
	if w.deadline.Sub(now) < w.silentAfter-w.silentAfter/8 {
		w.deadline = now.Add(w.silentAfter)
		if err := w.conn.SetReadDeadline(w.deadline); err != nil {
			return 0, err
		}
	}
	n, err := w.conn.Read(b)
	if n > 0 {
		w.heard.Add(1)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = ErrSilent
	}
	return n, err
}
