// Package replay replicates unmodified applications of Ryu by executing them at every controller (Ravana, sections 5,
// 6.1 and 6.4). Their state is in processes, the hosts, and so cannot be logged: the log has the inputs, which all
// hosts execute in its order, and the results of the leader's host, whose commands are sent once they are committed.
//
// Log is what is replicated of that, a ledger.Replayed: inputs and their numbers, results, the history from which a new
// host is brought up to date. Core is what one controller does with its host: has it execute what is committed, logs
// its results at the leader, at the others holds them until they are logged, and compares. A host that dies or differs
// is built anew by replay.
//
// Both are pure: no I/O, clock or goroutine. Package controller owns them from its loop, package ryu runs the process
// of a host, and package ryu/wire is what is said to it.
package replay
