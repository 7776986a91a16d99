package consensus

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

// saver writes the log of all groups in a goroutine of its own. Batches that are added during a write become durable
// together, by the next write, whatever their groups. So a slow disk makes larger writes, and never delays a heartbeat.
// Raft's flow control bounds the queue.
type saver struct {
	store    storage.Storage
	interval time.Duration // see markInterval
	failed   func(error)   // called at most once, with the reason

	mu     sync.Mutex
	queue  saves
	closed bool
	wake   chan struct{}
}

// saves are batches of all groups in order, and who is told how many of them are its own.
type saves struct {
	batches []storage.Batch
	from    []saveFrom
}

// saveFrom is a run of batches of one group.
type saveFrom struct {
	inbox *inbox
	count int
}

// newSaver makes a saver. After an error of the store it calls failed and ends: the content of the log is then unknown,
// so nothing more may be acknowledged in any group.
func newSaver(store storage.Storage, interval time.Duration, failed func(error)) *saver {
	return &saver{store: store, interval: interval, failed: failed, wake: make(chan struct{}, 1)}
}

// add saves batches of one group, and then tells its inbox how many are durable.
func (s *saver) add(in *inbox, batches []storage.Batch) {
	if len(batches) == 0 {
		return
	}
	s.mu.Lock()
	s.queue.batches = append(s.queue.batches, batches...)
	s.queue.from = append(s.queue.from, saveFrom{in, len(batches)})
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
// log again. Without fsync, doing so often would take a busy controller a tenth of its time, and most of such a
// fast-growing log is soon removed.
func markInterval(fsync bool) time.Duration {
	if fsync {
		return 100 * time.Millisecond
	}
	return 10 * time.Second
}

func (s *saver) run() {
	var work saves
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
		work, s.queue = s.queue, work
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return
		}
		if len(work.batches) == 0 {
			continue
		}
		if !s.did(s.store.Save(work.batches)) {
			return
		}
		if work.tell(); marked {
			marked = false
			marking.Reset(s.interval)
		}
	}
}

// tell reports the batches as durable, and empties the saves.
func (w *saves) tell() {
	for _, f := range w.from {
		f.inbox.saved(f.count)
	}
	clear(w.batches)
	clear(w.from)
	w.batches, w.from = w.batches[:0], w.from[:0]
}

func (s *saver) did(err error) bool {
	if err != nil {
		s.failed(fmt.Errorf("consensus: save the log: %w", err))
	}
	return err == nil
}
