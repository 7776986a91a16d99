// Package rawconn reads and writes TCP connections without telling the scheduler of Go that a system call begins.
//
// The scheduler expects that a system call may block, and so the first one after a pause wakes its monitor, a thread
// that then looks again every 20 µs. A controller that has nothing to do but to send and receive heartbeats spends most
// of its processor time on that. Reads and writes of a socket of package net never block: they fail if there is nothing
// to do, and the goroutine waits in the poller. So the scheduler need not know of them.
//
// It is not for files, which may block, nor for connections with few bytes in many calls under load, which it does not
// make faster.
package rawconn
