package consensus

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

// saver writes the log in a goroutine of its own. Batches that are added during a write become durable together, by the
// next write. So a slow disk makes larger writes, and never delays a heartbeat. Raft's flow control bounds the queue.
type saver struct {
	store    storage.Storage
	inbox    *inbox
	interval time.Duration // see markInterval

	mu     sync.Mutex
	queue  []storage.Batch
	closed bool
	wake   chan struct{}
}

func newSaver(store storage.Storage, in *inbox, interval time.Duration) *saver {
	return &saver{store: store, inbox: in, interval: interval, wake: make(chan struct{}, 1)}
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

// markInterval is how often the saver records how much of the log is durable, while something is saved. That reads the
// log again. Without fsync, doing so often would take a busy member a tenth of its time, and most of such a
// fast-growing log is soon removed.
func markInterval(fsync bool) time.Duration {
	if fsync {
		return 100 * time.Millisecond
	}
	return 10 * time.Second
}

func (s *saver) run() {
	var group []storage.Batch
	marking := time.NewTimer(s.interval)
	defer marking.Stop()
	marked := false // since the last save: while it is false the timer runs
	for {
		select {
		case <-s.wake:
		case <-marking.C:
			if marked = true; !s.did(s.store.Mark()) {
				return
			}
			continue
		}
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
		if !s.did(s.store.Save(group)) {
			return
		}
		if s.inbox.saved(len(group)); marked {
			marked = false
			marking.Reset(s.interval)
		}
		clear(group)
	}
}

// did stops the node after an error: the contents of the log are then unknown, so nothing may be acknowledged.
func (s *saver) did(err error) bool {
	if err != nil {
		s.inbox.stop(fmt.Errorf("consensus: save the log: %w", err))
	}
	return err == nil
}
