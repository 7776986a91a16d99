package load

import "time"

// window tracks the unanswered packet-ins. They have consecutive numbers, and their buffer ids are the numbers modulo
// ids. At most size numbers, from the oldest unanswered one, are in use. So a slow answer delays those after it, but
// memory is bounded.
type window struct {
	ids    uint64
	sentAt []time.Duration // by number modulo size; answered: 0
	oldest uint64          // every number below is answered or lost
	next   uint64          // the next number to use
	open   int             // how many are unanswered
}

const answered time.Duration = 0

func newWindow(size int, ids uint64) *window {
	return &window{ids: ids, sentAt: make([]time.Duration, size), oldest: 1, next: 1}
}

func (w *window) slot(n uint64) *time.Duration { return &w.sentAt[n%uint64(len(w.sentAt))] }

// room returns how many more may be sent.
func (w *window) room() int { return len(w.sentAt) - int(w.next-w.oldest) }

// send allocates the next number, at a time after 0, and returns its buffer id. There must be room.
func (w *window) send(now time.Duration) uint32 {
	n := w.next
	*w.slot(n) = now
	w.next++
	w.open++
	return uint32(n % w.ids)
}

// answer records the answer for a buffer id, and returns when its packet-in was sent; false if none is outstanding
// under that id.
func (w *window) answer(id uint32) (time.Duration, bool) {
	ahead := (uint64(id) + w.ids - w.oldest%w.ids) % w.ids
	if uint64(id) >= w.ids || ahead >= w.next-w.oldest {
		return 0, false
	}
	return w.settle(w.oldest + ahead)
}

// answerOldest records an answer without a usable buffer id.
func (w *window) answerOldest() (time.Duration, bool) {
	if w.open == 0 {
		return 0, false
	}
	return w.settle(w.oldest)
}

func (w *window) settle(n uint64) (time.Duration, bool) {
	slot := w.slot(n)
	sent := *slot
	if sent == answered {
		return 0, false
	}
	*slot = answered
	w.open--
	for w.oldest < w.next && *w.slot(w.oldest) == answered {
		w.oldest++
	}
	return sent, true
}

// expire counts those sent before a time as lost, oldest first, and returns how many.
func (w *window) expire(before time.Duration) (lost uint64) {
	for w.open > 0 && *w.slot(w.oldest) < before {
		w.settle(w.oldest)
		lost++
	}
	return lost
}
