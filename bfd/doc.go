// Package bfd watches a link by Bidirectional Forwarding Detection (RFC 5880, asynchronous mode; section
// numbers in this package are of that document, unless they name another).
//
// Session is a pure core: packets and ticks go in, packets and a state come out. It has no socket, clock,
// goroutine or lock, and the same inputs give the same outputs:
//
//	s, err := bfd.New(now, bfd.Config{Discriminator: 7, MinTx: 5 * time.Millisecond, MinRx: 5 * time.Millisecond,
//		Multiplier: bfd.Multiplier, Jitter: rand.Float64})
//	s.Receive(now, packet)         // what the peer says
//	packet, send := s.Tick(now)    // what is due: after each Receive, and at each Deadline
//	at, ok := s.Deadline()
//	s.Status().State               // Up: the link carries packets both ways
//
// DecodeFrame and AppendFrame wrap packets as Open vSwitch does, so that a port of ours and one of an Open vSwitch
// watch the link between them. Interval is the rule by which the two choose how often to send.
//
// It is not a whole BFD: it has no authentication, no echo function, no demand mode of its own (it
// honours that of a peer), no passive role, and no sessions over more than one link.
package bfd
