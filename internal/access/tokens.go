package access

import (
	"context"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/internal/token"
)

const lookEvery = time.Second // at the file of tokens

// tokens are those of a file, as it is: a changed one is read without a restart.
type tokens struct {
	file string
	log  *slog.Logger

	mu     sync.Mutex // guards the fields below
	looked time.Time
	seen   [2]int64 // time and size of the file when it was read
	read   bool     // it was
	list   token.List
	failed string            // what was wrong with the file since, as the log has it
	live   map[*session]bool // requests that are served
}

// session is a request that somebody has made with a token.
type session struct {
	hash token.Hash
	who  pki.Identity
	conn net.Conn // nil if it is not known
}

func loadTokens(file string, log *slog.Logger) (*tokens, error) {
	t := &tokens{file: file, log: log, live: map[*session]bool{}}
	return t, t.look(time.Now())
}

// watch reads the file when it has changed, until ctx ends. So a token that is removed, or gets another role, ends what
// its holder does.
func (t *tokens) watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-ticker.C:
			t.mu.Lock()
			t.refresh(now)
			t.mu.Unlock()
		}
	}
}

// refresh reads a changed file. The caller holds mu.
func (t *tokens) refresh(now time.Time) {
	if since := now.Sub(t.looked); since >= 0 && since < lookEvery {
		return
	}
	if err := t.look(now); err != nil && err.Error() != t.failed {
		t.failed = err.Error()
		t.log.Warn("the changed file of tokens is not used, what it held before is", "err", err)
	}
}

func (t *tokens) look(now time.Time) error {
	t.looked = now
	var seen [2]int64
	if info, err := os.Stat(t.file); err == nil { // else reading it will tell
		seen = [2]int64{info.ModTime().UnixNano(), info.Size()}
	}
	if t.read && seen == t.seen {
		return nil
	}
	list, err := token.Read(t.file)
	if err != nil {
		return err
	}
	if t.read {
		t.log.Info("read the file of tokens again", "tokens", len(list))
	}
	t.list, t.seen, t.read, t.failed = list, seen, true, ""
	for s := range t.live {
		if e, _ := list.Find(s.hash); e.Identity != s.who && s.conn != nil {
			t.log.Warn("connection closed: its token was removed, or has another role or name", "who", s.who.String(),
				"remote", s.conn.RemoteAddr())
			s.conn.Close()
		}
	}
	return nil
}

// begin returns whose token it is, and a session for end.
func (t *tokens) begin(hash token.Hash, conn net.Conn) (pki.Identity, *session, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refresh(time.Now())
	e, known := t.list.Find(hash)
	if !known {
		return pki.Identity{}, nil, false
	}
	s := &session{hash, e.Identity, conn}
	t.live[s] = true
	return e.Identity, s, true
}

func (t *tokens) end(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.live, s)
}
