package proxy

import "time"

// Network sends payloads to other controllers.
type Network interface {
	// SendPayload queues a payload, which is not changed afterwards. false: there is no connection, or no room.
	SendPayload(member uint64, payload []byte) bool
}

// link is one end of a link: numbered messages in each direction. It ends when a message is missing, when the other end
// is silent, or when nothing can be sent. Then the follower begins a new one.
type link struct {
	net    Network
	alive  Kind   // of the messages that say that this end lives
	member uint64 // the other end
	id     uint64 // 0: there is none
	broken bool

	sent, got      uint64 // numbers of the last messages
	out, taken     uint64 // bytes of events and commands: sent, and of these consumed by the other end
	consumed, told uint64 // the same of those from the other end, and as the other end knows
	heard, spoke   time.Time
	now            time.Time // when the owner was last called
}

// open begins the link anew.
func (l *link) open(id uint64) {
	*l = link{net: l.net, alive: l.alive, member: l.member, id: id, heard: l.now, now: l.now}
}

// room reports whether n bytes of events or commands may be sent now. Any number may be sent while half of the window
// is free. So a block that is larger than the rest of the window is not left out forever.
func (l *link) room(n int) bool {
	underway := l.out - l.taken
	return underway <= window/2 || underway+uint64(n) <= window
}

// send sends a message, unless the link is broken.
func (l *link) send(m Message) {
	if l.id == 0 || l.broken {
		return
	}
	l.sent++
	m.Link, m.Number, m.Consumed = l.id, l.sent, l.consumed
	l.out += uint64(len(m.Bytes))
	l.told, l.spoke = l.consumed, l.now
	if !l.net.SendPayload(l.member, m.append(make([]byte, 0, 128+len(m.Bytes)))) {
		l.broken = true
	}
}

// takes checks the number of a message of this link. It reports false if an earlier one is missing: then the link is
// broken.
func (l *link) takes(m *Message) bool {
	if l.broken || m.Number != l.got+1 {
		l.broken = true
		return false
	}
	l.got, l.heard = m.Number, l.now
	l.taken = max(l.taken, min(m.Consumed, l.out))
	return true
}

// consume records that n bytes of events or commands are handled.
func (l *link) consume(n int) {
	l.consumed += uint64(n)
	if l.consumed-l.told >= window/4 {
		l.send(Message{Kind: l.alive})
	}
}

// beat reports false if the link is broken, or the other end is silent. Otherwise it says that this end lives, if it
// has said nothing for some time.
func (l *link) beat() bool {
	if l.broken || l.now.Sub(l.heard) > deadAfter {
		return false
	}
	if l.now.Sub(l.spoke) >= beatEvery {
		l.send(Message{Kind: l.alive})
	}
	return !l.broken
}
