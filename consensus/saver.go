package consensus

import (
	"fmt"
	"sync"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

// saver writes the log in a goroutine of its own. What is added while it writes becomes
// durable by the next write, all at once; so a slow disk makes larger groups and not a
// longer queue, and never delays a heartbeat. Raft's flow control bounds the queue.
type saver struct {
	store storage.Storage
	inbox *inbox

	mu     sync.Mutex
	queue  []storage.Batch
	closed bool
	wake   chan struct{}
}

func newSaver(store storage.Storage, in *inbox) *saver {
	return &saver{store: store, inbox: in, wake: make(chan struct{}, 1)}
}

func (s *saver) add(batches []storage.Batch) {
	if len(batches) == 0 {
		return
	}
	s.mu.Lock()
	s.queue = append(s.queue, batches...)
	s.mu.Unlock()
	s.signal()
}

func (s *saver) stop() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.signal()
}

func (s *saver) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *saver) run() {
	var group []storage.Batch
	for range s.wake {
		s.mu.Lock()
		group, s.queue = s.queue, group[:0]
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		if len(group) == 0 {
			continue
		}
		if err := s.store.Save(group); err != nil {
			// What the log holds is unknown now, so nothing may be acknowledged any more.
			s.inbox.stop(fmt.Errorf("consensus: save the log: %w", err))
			return
		}
		s.inbox.saved(len(group))
		clear(group)
	}
}
