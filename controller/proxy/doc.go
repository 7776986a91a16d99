// Package proxy lets the leader serve a switch that is connected to a follower and not to the leader. The session of
// the switch stays at the follower, which is the proxy of the leader: handshake, held events and markers are as at the
// leader itself. The leader drives the session over the link between the two controllers. docs/design/proxy.md is the
// protocol.
//
// Follower and Leader are the two halves. Both are pure: payloads and calls in, payloads and calls out; no I/O, clock,
// goroutine or lock. Payloads may be lost, but then all later ones of the same link are ignored, and a new link begins.
// The package does not know what is in the log: the controller tells it.
package proxy

import "time"

// Bounds of a link, in each direction.
const (
	// window is how many bytes of events, or of commands, are on their way and not yet handled by the other end. While
	// at most half of it is used, one message of any size may be sent: so the bound is window, or window/2 and the
	// largest message. Events that have no room wait in the session, which reads no more from its switch.
	// Commands that have no room stay in the ledger, and are sent later.
	window = 1 << 20
	// block is the size from which on a block of commands is not extended by another transaction.
	block = 64 << 10
	// maxOffers bounds the sessions that a leader knows of one follower, as southbound bounds its connections.
	maxOffers = 4096
)

// Times.
const (
	beatEvery = 100 * time.Millisecond // between two messages of a link, at most
	deadAfter = 2 * time.Second        // without any message the other end is dead
)
