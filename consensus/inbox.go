package consensus

import (
	"sync"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// Bounds of the inbox. They are short, because what waits here waits in front of a heartbeat.
const (
	maxQueuedBytes = 16 << 20 // of messages; a connection is not read while it is full
	maxQueuedData  = 8 << 20  // of proposals; Propose waits while it is full
	maxTurn        = 256      // arrivals that the loop takes before it looks at the clock again
)

// arrival is what the transport brings, in its order: a hint must not overtake what the
// member has sent before, or that would look like a sign of life.
type arrival struct {
	message wire.Message
	down    uint64 // not 0: no message, but the connection from this member broke
}

type proposal struct {
	term uint64
	data []byte
}

// inbox is where other goroutines leave work for the loop.
type inbox struct {
	wake chan struct{} // capacity 1: there is something
	mu   sync.Mutex    // guards what follows; held for copies only
	room sync.Cond     // signalled when the loop has taken something

	arrivals []arrival
	bytes    int // of messages in arrivals
	calls    []func(*Core)
	stored   int // batches that became durable
	propose  []proposal
	data     int   // bytes of propose
	err      error // why no more is taken
}

// turn is what the loop takes at once. Its slices are used again.
type turn struct {
	calls    []func(*Core)
	arrivals []arrival
	propose  []proposal
	stored   int
	err      error
}

func newInbox() *inbox {
	b := &inbox{wake: make(chan struct{}, 1)}
	b.room.L = &b.mu
	return b
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// message waits for room.
func (b *inbox) message(m wire.Message) {
	size := messageSize(m)
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.bytes > 0 && b.bytes+size > maxQueuedBytes && b.err == nil {
		b.room.Wait()
	}
	if b.err != nil {
		return
	}
	b.bytes += size
	b.arrivals = append(b.arrivals, arrival{message: m})
	b.signal()
}

// hint does not wait: there is one for each connection that breaks.
func (b *inbox) hint(down uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.arrivals = append(b.arrivals, arrival{down: down})
	b.signal()
}

func messageSize(m wire.Message) int {
	if m.Raft == nil {
		return 0
	}
	n := 128 + len(m.State)
	for _, e := range m.Raft.GetEntries() {
		n += len(e.GetData()) + entryOverhead
	}
	return n
}

// proposal waits for room. The error is that which stopped the node.
func (b *inbox) proposal(term uint64, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data > 0 && b.data+len(data) > maxQueuedData && b.err == nil {
		b.room.Wait()
	}
	if b.err != nil {
		return b.err
	}
	b.data += len(data)
	b.propose = append(b.propose, proposal{term, data})
	b.signal()
	return nil
}

// call leaves a function for the loop. The number of calls is bounded by who makes them:
// each connection, and each goroutine of the owner, has one or two at a time.
func (b *inbox) call(f func(*Core)) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return b.err
	}
	b.calls = append(b.calls, f)
	b.signal()
	return nil
}

func (b *inbox) saved(n int) {
	b.mu.Lock()
	b.stored += n
	b.mu.Unlock()
	b.signal()
}

// stop refuses everything from now on. The first reason counts.
func (b *inbox) stop(err error) {
	b.mu.Lock()
	if b.err == nil {
		b.err = err
	}
	b.room.Broadcast()
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) reason() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// take moves what waits into t: at most maxTurn messages, and proposals only if wanted.
func (b *inbox) take(t *turn, proposals bool) {
	clear(t.calls)
	clear(t.arrivals)
	clear(t.propose)
	t.calls, t.arrivals, t.propose = t.calls[:0], t.arrivals[:0], t.propose[:0]

	b.mu.Lock()
	defer b.mu.Unlock()
	t.err = b.err
	t.stored, b.stored = b.stored, 0
	t.calls, b.calls = b.calls, t.calls
	if len(b.arrivals) <= maxTurn {
		t.arrivals, b.arrivals = b.arrivals, t.arrivals
		b.bytes = 0
	} else {
		t.arrivals = append(t.arrivals, b.arrivals[:maxTurn]...)
		rest := copy(b.arrivals, b.arrivals[maxTurn:])
		clear(b.arrivals[rest:])
		b.arrivals = b.arrivals[:rest]
		for _, a := range t.arrivals {
			b.bytes -= messageSize(a.message)
		}
		b.signal()
	}
	if proposals {
		t.propose, b.propose = b.propose, t.propose
		b.data = 0
	}
	b.room.Broadcast()
}

// resume wakes the loop for proposals that it has left here.
func (b *inbox) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.propose) > 0 {
		b.signal()
	}
}
