package consensus

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
)

// saver writes the log of all groups in a goroutine of its own. Batches that are added during a write become durable
// together, by the next write, whatever their groups. So a slow disk makes larger writes, and never delays a heartbeat.
// Raft's flow control bounds the queue. What the storage saves without waiting for the disk, loops save by themselves.
type saver struct {
	store    storage.Storage
	prompt   storage.Prompt // the same; nil if it is none
	interval time.Duration  // see markInterval
	failed   func(error)    // called at most once, with the reason

	mu     sync.Mutex // guards the queue; held to copy
	queue  saves
	closed bool
	wake   chan struct{}

	// Who uses the store has the turn. Only run waits for it.
	turn   sync.Mutex
	broken bool        // the store has failed
	marked bool        // since the last save: while it is false the timer runs
	mark   *time.Timer // a Mark is due
	slow   time.Time   // loops leave everything to run until then
}

// A loop that has waited slowSave or more for a save leaves saves to run for slowRest times as long: the file system
// may wait for the disk although the storage does not. So that takes at most a hundredth of the loop's time.
const (
	slowSave = 20 * time.Millisecond
	slowRest = 100
)

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
	s := &saver{store: store, interval: interval, failed: failed, wake: make(chan struct{}, 1),
		mark: time.NewTimer(interval)}
	s.prompt, _ = store.(storage.Prompt)
	return s
}

// addNow saves batches of one group at once, and reports whether it did: not if it might wait. Then the caller passes
// them to add. No batch of the group may be queued.
func (s *saver) addNow(batches []storage.Batch) bool {
	if s.prompt == nil || !s.turn.TryLock() {
		return false
	}
	defer s.turn.Unlock()
	begin := time.Now()
	if s.broken || begin.Before(s.slow) {
		return false
	}
	if saved, err := s.prompt.SavePrompt(batches); !s.did(err) || !saved {
		return false
	}
	s.saved()
	if end := time.Now(); end.Sub(begin) >= slowSave {
		s.slow = end.Add(slowRest * end.Sub(begin))
	}
	return true
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
	defer s.mark.Stop()
	for {
		select {
		case <-s.wake:
		case <-s.mark.C:
			if !s.use(nil) {
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
		if !s.use(work.batches) {
			return
		}
		work.tell()
	}
}

// use waits for its turn and saves batches, or if there are none marks the log. It reports whether the store works.
func (s *saver) use(batches []storage.Batch) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	switch {
	case s.broken:
		return false
	case len(batches) > 0:
		return s.save(batches)
	}
	s.marked = true
	return s.did(s.store.Mark())
}

// save saves batches. The caller has the turn.
func (s *saver) save(batches []storage.Batch) bool {
	if !s.did(s.store.Save(batches)) {
		return false
	}
	s.saved()
	return true
}

// saved makes a Mark due.
func (s *saver) saved() {
	if s.marked {
		s.marked = false
		s.mark.Reset(s.interval)
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
		s.broken = true
		s.failed(fmt.Errorf("consensus: save the log: %w", err))
	}
	return err == nil
}
