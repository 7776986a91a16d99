package ryu

import (
	"fmt"
	"time"
)

// hangTicks is how many make Config.Hang. They are counted, and not the time: this process may have stood still itself,
// and then the host's result has not been read either.
const hangTicks = 10

// watch ends the host if it hangs, or has too much memory. It returns when the end is decided.
func (h *Host) watch() {
	tick := max(h.cfg.Hang/hangTicks, time.Millisecond)
	loadingTicks := max(int(h.cfg.loading/tick), 1)
	ticker, second := time.NewTicker(tick), time.NewTicker(time.Second)
	defer ticker.Stop()
	defer second.Stop()
	ended := h.process.ended
	for {
		select {
		case <-h.quit:
			return
		case <-ended: // and who may still have its socket is not to be waited for
			_ = h.conn.CloseRead() // read gets what is there
			ended = nil
		case <-second.C:
			if bytes := h.process.residentBytes(); bytes > h.cfg.MemoryBytes {
				h.finish(Leaked, fmt.Sprintf("%d MiB of memory, where at most %d are allowed\n%s", bytes>>20,
					h.cfg.MemoryBytes>>20, h.process.out.since(0)))
			}
		case <-ticker.C:
			if h.owes(loadingTicks) {
				h.examine()
			}
		}
	}
}

// owes counts a tick, and reports whether the host has owed something for too long.
func (h *Host) owes(loadingTicks int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	limit := hangTicks
	if !h.ready {
		limit = loadingTicks
	}
	if h.busy || h.ready && len(h.pending) == 0 {
		h.idle = 0
		return false
	}
	h.idle++
	h.suspect = h.idle >= limit
	return h.suspect
}

// examine asks where the host is, and ends it unless it goes on in the meantime.
func (h *Host) examine() {
	said := h.process.out.size()
	h.process.askTraceback()
	h.listen(said)
	traceback := h.process.out.since(said)

	h.mu.Lock()
	defer h.mu.Unlock()
	if h.suspect {
		h.decide(Hung, h.late(traceback))
	} else {
		h.cfg.Logger.Warn("ryu: a result took long", "limit", h.cfg.Hang, "traceback", traceback)
	}
}

// late says what did not come in time.
func (h *Host) late(printed string) string {
	if h.ready {
		return fmt.Sprintf("no result for %v\n%s", h.cfg.Hang, printed)
	}
	return fmt.Sprintf("the applications were not loaded in %v\n%s", h.cfg.loading, printed)
}

// listen waits until something was printed after the first so many bytes, and no more of it comes; not for long.
func (h *Host) listen(said int) {
	const pause = lingerTime / 10
	for last, left := said, lingerTime; left > 0; left -= pause {
		select {
		case <-h.quit:
			return
		case <-time.After(pause):
		}
		size := h.process.out.size()
		if size > said && size == last {
			return
		}
		last = size
	}
}
