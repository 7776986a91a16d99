package rpc

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/store"
)

// mark says which revision of a namespace was the newest one at a time: the leader has told it in a read that began
// then. A replica that has this revision has everything that was committed before that time.
type mark struct {
	revision uint64
	at       time.Time
}

// readTimeout is how long the replica has to answer. Then the leader is asked.
const readTimeout = time.Second

// maxMarks bounds the namespaces and buckets that have marks, at about 150 bytes each. If they are more, the marks
// begin anew, and the next read of each asks the leader.
const maxMarks = 64 * store.MaxBuckets

// mark keeps the mark of a namespace if it is the newest one.
func (s *server) mark(of ledger.Actor, revision uint64, at time.Time) {
	if revision == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks == nil || len(s.marks) >= maxMarks {
		s.marks = map[ledger.Actor]mark{}
	}
	if m := s.marks[of]; at.After(m.at) {
		s.marks[of] = mark{max(m.revision, revision), at}
	}
}

// recent answers a request from the replica here, if that has everything that was committed before a time.
func (s *server) recent(ctx context.Context, q ledger.Call, since time.Time) ([]byte, bool) {
	s.mu.Lock()
	m, there := s.marks[q.Actor]
	s.mu.Unlock()
	if !there || m.at.Before(since) {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, ok := s.behind.Read(ctx, q.Actor, q.Message)
	if !ok || store.RevisionOf(answer) < m.revision {
		return nil, false // what is refused goes to the leader too: the refusal may be of old rows
	}
	return answer, true
}
