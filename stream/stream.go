// Package stream carries items from one sender to one receiver exactly once and in order, across crashes and broken
// connections of either.
//
// The sender numbers its items 1, 2, 3, … and keeps each in an Outbox until it is acknowledged. The receiver keeps one
// number for each sender, its Watermark: it drops an item at or below that, accepts the next one, and refuses a gap.
// Acknowledgements are cumulative. After a reconnect, or a change of the leader at either end, the sender sends
// everything that it still keeps. So a crash costs a repetition on the wire and never one at the receiver, provided
// that
//
//   - the sender keeps its outbox at least as long as its numbers: both are replicated, or lost together;
//   - the receiver's watermark is as durable as what the items caused, and changes together with it;
//   - the receiver acknowledges nothing that it could forget: only what is committed.
//
// A stream has the identity (sender, receiver). Both types are values without identity, and belong to what has it: a
// switch, a client or an actor. Whoever moves an actor moves its outboxes and watermarks with it (AppendTo,
// ParseOutbox).
//
// The package is pure: no I/O, clock, goroutine or lock. It knows nothing of OpenFlow, switches or Raft, nor of what an
// item means. Framing, fencing, epochs and the decision when to send are those of its users.
package stream

import "fmt"

// Watermark is the receiver's end of a stream: the number of the last accepted item. The zero value has accepted
// nothing. It is a plain number, so a receiver can save it, and can set it back when it undoes the effects of items.
type Watermark uint64

// Accept accepts count items, numbered from first on, and returns how many of the first of them are duplicates, to be
// dropped. Afterwards the watermark includes all of them. If items before first are missing, nothing is accepted, and
// the error is a *GapError: close the connection, so that the sender sends everything again that it keeps.
func (w *Watermark) Accept(first uint64, count int) (duplicates int, err error) {
	next := uint64(*w) + 1
	if first > next {
		return 0, &GapError{Number: first, Next: next}
	}
	if end := first + uint64(count); end > next {
		*w = Watermark(end - 1)
		return int(next - first), nil
	}
	return count, nil
}

// GapError is the error of a receiver that lacks the items before one that has arrived.
type GapError struct {
	Number uint64 // of the item that has arrived
	Next   uint64 // the number that was expected
}

func (e *GapError) Error() string {
	return fmt.Sprintf("stream: a gap: item %d where %d is next", e.Number, e.Next)
}

// RangeError is the error of an Outbox for an impossible number: an acknowledgement of an item that was never sent, or
// a call of TakeBack for items that are acknowledged.
type RangeError struct {
	Op          string // "acknowledge" or "take back to"
	Number      uint64
	Acked, Last uint64 // of the outbox
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("stream: cannot %s item %d: %d is acknowledged, and %d is the last", e.Op, e.Number, e.Acked,
		e.Last)
}

// Bounds limits what an outbox keeps. An outbox does not enforce it. The sender checks Room or Full before it executes
// an input that makes items; replicas that apply the outcome must not decide again. A sender that also receives needs
// two bounds, because two senders could otherwise wait for each other. At the soft one it accepts no new work, but
// still accepts items of streams. At the hard one the execution that makes the items fails.
type Bounds struct{ Items, Bytes int }
