package southbound

import "sync/atomic"

// pool is what the sessions of a server hold together, in bytes. While it is more than the bound, a session that holds
// more than its share is full: so one that holds little is not affected by others that hold much. Those that held more
// when there was room keep it until they send again, so all together hold less than twice the bound. A nil pool has no
// bound.
type pool struct {
	bound    int64
	used     atomic.Int64
	sessions atomic.Int64 // that may hold something
}

// crowds reports whether a session that holds n bytes must not hold more.
func (p *pool) crowds(n int) bool {
	return p != nil && p.used.Load() > p.bound && int64(n) > p.bound/max(1, p.sessions.Load())
}

// add counts what a session holds more, or less.
func (p *pool) add(n int) {
	if p != nil && n != 0 {
		p.used.Add(int64(n))
	}
}
