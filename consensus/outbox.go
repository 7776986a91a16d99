package consensus

import "sync"

// outbox is the updates that the owner has not taken yet. Their number is bounded: raft returns at most maxUndelivered
// bytes of entries, and consecutive roles are merged.
type outbox struct {
	news chan struct{} // capacity 1: it has a value while there is something, and when the node has ended

	mu    sync.Mutex // guards the fields below; held only to copy
	queue []Update
	ended bool
}

func newOutbox() *outbox { return &outbox{news: make(chan struct{}, 1)} }

// put adds updates.
func (b *outbox) put(updates []Update) {
	if len(updates) == 0 {
		return
	}
	b.mu.Lock()
	for _, u := range updates {
		last := len(b.queue) - 1
		switch {
		case last >= 0 && u.Entries != nil && b.queue[last].Entries != nil:
			b.queue[last].Entries = append(b.queue[last].Entries, u.Entries...)
		case last >= 0 && u.Role != nil && !u.Role.Leading && b.queue[last].Role != nil:
			b.queue[last] = u
		default:
			b.queue = append(b.queue, u)
		}
	}
	b.mu.Unlock()
	b.signal()
}

// replace makes updates all that there are.
func (b *outbox) replace(updates []Update) {
	b.mu.Lock()
	b.queue = updates
	b.mu.Unlock()
	b.signal()
}

// next removes the oldest update. last says that there are no more now.
func (b *outbox) next() (u Update, ok, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 || b.ended {
		return u, false, true
	}
	u, b.queue[0] = b.queue[0], Update{}
	if b.queue = b.queue[1:]; len(b.queue) > 0 {
		b.signal()
		return u, true, false
	}
	b.queue = nil
	return u, true, true
}

// end makes next find nothing any more.
func (b *outbox) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.signal()
}

func (b *outbox) signal() {
	select {
	case b.news <- struct{}{}:
	default:
	}
}

// queue passes updates to the owner.
func (n *Node) queue(updates []Update) {
	for _, u := range updates {
		if u.Role != nil {
			n.leading.Store(0)
			if u.Role.Leading {
				n.leading.Store(u.Role.Term)
			}
			if u.Role.Leader != 0 {
				n.founded.Store(false)
			}
		}
	}
	n.outbox.put(updates)
}

// News receives a value when Next may find an update, or the node has stopped.
func (n *Node) News() <-chan struct{} { return n.outbox.news }

// Next returns the oldest update that was not taken: committed entries, snapshots and role changes come in one order.
// It returns false if there is none now, and when the node has stopped; Err then says why. While the owner takes
// nothing, the node continues with elections and heartbeats: it keeps at most 16 MiB of entries, and the role changes
// between them, and then stops delivering entries.
//
// One goroutine calls it whenever News has a value. It may call Propose, Compact and Status in between.
func (n *Node) Next() (Update, bool) {
	u, ok, last := n.outbox.next()
	if ok {
		n.inbox.took(u)
		if last {
			n.drive() // raft may have kept back what follows
		}
	}
	return u, ok
}
