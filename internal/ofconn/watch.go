package ofconn

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// ErrSilent says that the peer sent nothing for the time that a Watched allows.
var ErrSilent = errors.New("the peer is silent")

// Watched reads from a connection and takes a peer for dead that sends nothing for
// SilentAfter while it is being read. The caller sees to it that a live peer has
// something to say, by echo requests. Time between reads does not count: a reader that
// is held up does not blame the peer. One goroutine may read; Heard is for all.
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

// Heard counts the reads that returned something. If it does not change, nothing came.
func (w *Watched) Heard() uint64 { return w.heard.Load() }

// Read implements io.Reader. It fails with ErrSilent.
func (w *Watched) Read(b []byte) (int, error) {
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
