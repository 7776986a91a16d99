package trunk

import (
	"runtime"
	"time"
)

func (t *Trunk) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// flush writes what is due as far as the connection takes it without waiting. What is left is for who writes now, or
// for the writer. gather: other goroutines that can run go first, because they may make more due.
func (t *Trunk) flush(gather bool) {
	for t.isDue() {
		if !t.turn.TryLock() {
			return // who has it looks again
		}
		if gather {
			runtime.Gosched()
		}
		left := len(t.rest) > 0
		if !left {
			t.gather()
			t.rest = t.buf[t.direct.WriteDirect(t.buf):]
			left = len(t.rest) > 0
		}
		t.turn.Unlock()
		if left {
			t.signal()
			return
		}
	}
}

// alone reports whether there is one stream only, so there is nobody to wait for.
func (t *Trunk) alone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.streams) < 2
}

func (t *Trunk) isDue() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.due) > 0
}

// gather makes buf the rest, and what streams have to write. The caller has the turn.
func (t *Trunk) gather() {
	if cap(t.buf) > keepBuffer && len(t.rest) == 0 {
		t.buf = nil
	}
	t.buf = append(t.buf[:0], t.rest...)
	t.rest = nil
	t.mu.Lock()
	list := t.due
	t.due, t.spare = t.spare[:0], nil
	t.mu.Unlock()
	n := 0
	for n < len(list) && len(t.buf) < batchBytes {
		t.buf = list[n].take(t.buf)
		n++
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < len(list) {
		t.due = append(list[n:len(list):len(list)], t.due...)
		return
	}
	clear(list)
	t.spare = list[:0]
}

// write is the writer.
func (t *Trunk) write() {
	defer close(t.done)
	for range t.wake {
		if !t.alone() {
			runtime.Gosched() // who can run now may have something to write, too
		}
		for again := true; again; again = t.isDue() {
			if err := t.writeNext(); err != nil {
				t.fail(err)
				return
			}
		}
		if t.over() {
			return
		}
	}
}

func (t *Trunk) writeNext() error {
	t.turn.Lock()
	defer t.turn.Unlock()
	t.gather()
	if len(t.buf) == 0 {
		return nil
	}
	err := t.conn.SetWriteDeadline(time.Now().Add(t.timeout))
	if err == nil {
		_, err = t.conn.Write(t.buf)
	}
	if err != nil {
		t.rest = t.buf // so nothing follows a part of a message
	}
	return err
}

// over reports whether the trunk has ended, which it does when it had streams, and has none, and everything is written.
func (t *Trunk) over() bool {
	t.mu.Lock()
	idle := t.err == nil && len(t.streams) == 0 && t.last > 0 && len(t.due) == 0
	if idle {
		t.err = errIdle
	}
	ended := t.err != nil
	t.mu.Unlock()
	if idle {
		t.conn.Close()
	}
	return ended
}
