// Package rawconn reads and writes TCP connections without telling the scheduler of Go that a system call begins.
//
// The scheduler expects that a system call may block, and so the first one after a pause wakes its monitor, a thread
// that then looks again every 20 µs, and goes on while there are system calls. A controller that has nothing to do but
// to send and receive heartbeats spends most of its processor time on that, and an agent with one busy switch a
// quarter. Reads and writes of a socket of package net never block: they fail if there is nothing to do, and the
// goroutine waits in the poller. So the scheduler need not know of them.
//
// It is not for files, which may block.
package rawconn
