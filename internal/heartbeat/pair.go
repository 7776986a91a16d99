package heartbeat

import "sync"

// Pair is what the connections between the same two processes know of each other. What one of them has sent or heard
// shows that the processes reach each other, so it counts for all: a thousand connections need no more heartbeats than
// one. A single connection that carries nothing while others do is therefore not lost after Missed intervals.
//
// The zero value is ready to use. One goroutine has all calls of Tick of the monitors of a pair.
type Pair struct {
	sent, heard uint64 // how often any of them has
}

// share adds what a monitor has seen, and returns that together with what the others have seen since its last tick.
func (m *Monitor) share(s Seen) Seen {
	p := m.Pair
	if s.Sent {
		p.sent++
	}
	if s.Heard {
		p.heard++
	}
	s.Sent, s.Heard = p.sent != m.known.sent, p.heard != m.known.heard
	m.known = *p
	return s
}

// Pairs are pairs by what names the other process. The zero value is ready to use. It is safe for concurrent use.
type Pairs[K comparable] struct {
	mu  sync.Mutex // guards all
	all map[K]*used
}

// used is a pair, and how many connections have it.
type used struct {
	Pair
	by int
}

// Take returns the pair with a process for one more connection, which calls Leave when it ends.
func (p *Pairs[K]) Take(with K) *Pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.all[with]
	if u == nil {
		if p.all == nil {
			p.all = map[K]*used{}
		}
		u = &used{}
		p.all[with] = u
	}
	u.by++
	return &u.Pair
}

// Leave is called once for each Take.
func (p *Pairs[K]) Leave(with K) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.all[with]
	if u.by--; u.by == 0 {
		delete(p.all, with)
	}
}
