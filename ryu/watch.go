package ryu

import (
	"fmt"
	"time"
)

// hangTicks is the number of ticks in Config.Hang. Ticks are counted instead of measuring time: if this process itself
// was stopped, it has not read the results of the host either.
const hangTicks = 10

// watch ends the host if it hangs or uses too much memory. It returns when the end of the host is decided.
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
		case <-ended: // do not wait for a process that may still have the socket open
			_ = h.conn.CloseRead() // read gets what has arrived
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

// owes counts a tick, and reports whether the host has owed an answer for too long.
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

// examine requests a traceback from the host, and ends the host unless it continues in the meantime.
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

// late describes what did not arrive in time.
func (h *Host) late(printed string) string {
	if h.ready {
		return fmt.Sprintf("no result for %v\n%s", h.cfg.Hang, printed)
	}
	return fmt.Sprintf("the applications were not loaded in %v\n%s", h.cfg.loading, printed)
}

// listen waits, for a bounded time, until the process has printed something after the first so many bytes and has
// finished.
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
