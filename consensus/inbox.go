package consensus

import (
	"sync"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
)

// Bounds of the inbox. They are small, because everything that waits here delays a heartbeat.
const (
	maxQueuedBytes = 32 << 20 // of messages; beyond it one more message is taken, and others are dropped
	maxQueuedData  = 8 << 20  // of proposals; Propose waits while it is full
	maxTurn        = 256      // arrivals of a turn, before the loop looks at the clock again
)

// arrival is a message or a hint from the transport. Their order is kept: if a hint overtook earlier messages of the
// member, these would look like signs of life.
type arrival struct {
	message wire.Message
	down    uint64 // if not 0: a hint that the connection from this controller broke
}

type proposal struct {
	term  uint64
	data  []byte
	early []uint64 // controllers
}

// inbox is the queue of work for the next turn.
type inbox struct {
	wake chan struct{} // capacity 1: there is something
	mu   sync.Mutex    // guards the fields below; held only to copy
	room sync.Cond     // signalled when a turn has taken something

	arrivals  []arrival
	bytes     int // of messages in arrivals
	calls     []func(*Core)
	stored    int // batches that became durable
	propose   []proposal
	data      int    // bytes of propose
	taken     bool   // the owner has taken an update
	delivered uint64 // index of the last entry that it has taken
	err       error  // why the node has stopped; nil while it runs
}

// turn is what is taken in one turn. Its slices are reused.
type turn struct {
	calls     []func(*Core)
	arrivals  []arrival
	propose   []proposal
	stored    int
	taken     bool
	delivered uint64
	err       error
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

// message queues a message, or says that there is no room. It does not wait, because messages of other groups come on
// the same connection. A dropped message is like one that was lost with a connection: after the answer to the next
// heartbeat the leader finds out what is missing here, and sends it again. That is rare: the inbox has room for twice
// what a leader sends without an answer (maxInflightBytes), and for a snapshot of any size.
func (b *inbox) message(m wire.Message) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return true
	}
	if b.bytes > maxQueuedBytes {
		return false
	}
	b.bytes += messageSize(m)
	b.arrivals = append(b.arrivals, arrival{message: m})
	return true
}

// hint does not wait: there is at most one for each connection.
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

// proposal queues a proposal; it waits while the inbox is full. The error is the one that stopped the node.
func (b *inbox) proposal(term uint64, data []byte, early []uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.data > 0 && b.data+len(data) > maxQueuedData && b.err == nil {
		b.room.Wait()
	}
	if b.err != nil {
		return b.err
	}
	b.data += len(data)
	b.propose = append(b.propose, proposal{term, data, early})
	return nil
}

// call queues a function that the next turn runs. The number of queued calls is bounded by the callers: each connection
// and each goroutine of the owner has one or two at a time.
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

// took records that the owner has taken an update.
func (b *inbox) took(u Update) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = true
	if len(u.Entries) > 0 {
		b.delivered = u.Entries[len(u.Entries)-1].Index
	}
}

// stop makes the inbox refuse everything from now on. The first reason is kept.
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

// take moves queued work into t: at most maxTurn messages, and proposals only if asked for.
func (b *inbox) take(t *turn, proposals bool) {
	clear(t.calls)
	clear(t.arrivals)
	clear(t.propose)
	t.calls, t.arrivals, t.propose = t.calls[:0], t.arrivals[:0], t.propose[:0]

	b.mu.Lock()
	defer b.mu.Unlock()
	t.err = b.err
	t.stored, b.stored = b.stored, 0
	t.taken, b.taken = b.taken, false
	t.delivered, b.delivered = b.delivered, 0
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

// resume wakes the loop for proposals that it did not take earlier.
func (b *inbox) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.propose) > 0 {
		b.signal()
	}
}
