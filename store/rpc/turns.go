package rpc

import "sync/atomic"

// Bounds of the requests that came as frames and are executed at a time. While a controller executes maxExecuting, a
// connection with fewer than ownTurns goes on: so neither a client that does not read, nor a group without a leader,
// stops the requests of others. As there are at most maxStreams connections, all together are at most twice
// maxExecuting. At its bound, a connection is not read.
const (
	maxOfConnection = 256 // which may be that of many callers
	maxExecuting    = 1024
	ownTurns        = maxExecuting / maxStreams
)

// turns are the requests of one connection. One goroutine takes.
type turns struct {
	slots chan struct{} // of the controller, of capacity maxExecuting
	mine  atomic.Int64
	fewer chan struct{} // capacity 1: mine has decreased
}

// take waits until another request may be executed, and reports whether it has one of the slots.
func (t *turns) take() (slot bool) {
	for {
		slots, n := t.slots, t.mine.Load()
		if n >= maxOfConnection {
			slots = nil // it waits for one of its own
		}
		select {
		case slots <- struct{}{}:
			t.mine.Add(1)
			return true
		default:
		}
		if n < ownTurns {
			t.mine.Add(1)
			return false
		}
		select {
		case slots <- struct{}{}:
			t.mine.Add(1)
			return true
		case <-t.fewer:
		}
	}
}

// leave is called when the request is executed and its answer is sent.
func (t *turns) leave(slot bool) {
	if slot {
		<-t.slots
	}
	t.mine.Add(-1)
	select {
	case t.fewer <- struct{}{}:
	default:
	}
}
