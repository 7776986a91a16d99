// Package bfd monitors a link with Bidirectional Forwarding Detection (RFC 5880, asynchronous mode). Section numbers in
// this package refer to that RFC, unless they name another document.
//
// Session is a pure core: packets and ticks go in, packets and a state come out. It has no socket, clock,
// goroutine or lock, and the same inputs give the same outputs:
//
//	s, err := bfd.New(now, bfd.Config{Discriminator: 7, MinTx: 5 * time.Millisecond, MinRx: 5 * time.Millisecond,
//		Multiplier: bfd.Multiplier, Jitter: rand.Float64})
//	s.Receive(now, packet)         // a packet of the peer
//	packet, send := s.Tick(now)    // call it after each Receive, and at each Deadline
//	at, ok := s.Deadline()
//	s.Status().State               // Up: the link carries packets both ways
//
// DecodeFrame and AppendFrame use the encapsulation of Open vSwitch, so that a session can have an Open vSwitch as its
// peer. Interval computes how often to send on a link.
//
// It is not a complete implementation of BFD: it has no authentication, no echo function, no passive role, no
// multi-hop sessions, and no demand mode of its own, although it honours that of the peer.
package bfd
