package heartbeat

// Pair is what the streams of one connection between two processes know of each other. What one of them has sent or
// heard shows that the processes reach each other, so it counts for all: a thousand streams need no more heartbeats
// than one.
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
