// Package rawconn reads and writes connections of TCP and of Unix sockets without telling the scheduler of Go that a
// system call begins.
//
// The scheduler expects that a system call may block, and so the first one after a pause wakes its monitor, a thread
// that then looks again every 20 µs, and goes on while there are system calls. A controller that has nothing to do but
// to send and receive heartbeats spends most of its processor time on that, and an agent with one busy switch a
// quarter. Reads and writes of a socket of package net never block: they fail if there is nothing to do, and the
// goroutine waits in the poller. So the scheduler need not know of them.
//
// A connection of this package can also be written without waiting (Direct).
//
// It is not for files, which may block.
package rawconn

// Direct is a connection that can be written without waiting. So a goroutine that must not wait can write by itself,
// and needs the help of another one only while the peer does not read.
type Direct interface {
	// WriteDirect returns how many of the bytes the connection has taken. If it has not taken all, it has no room now
	// or is broken: a Write of the rest waits, or returns the error. One goroutine at a time may call it, and no Write
	// may be in progress. Deadlines do not apply.
	WriteDirect(b []byte) int
}
