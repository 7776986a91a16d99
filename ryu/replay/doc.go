// Package replay replicates unmodified applications of Ryu by executing them at every controller (Ravana, sections 5,
// 6.1 and 6.4): the replayed applications. Their state is in processes, the hosts, and so cannot be logged. The log
// contains the inputs, which all hosts execute in its order, and the results of the leader's host, whose commands are
// sent once they are committed.
//
// Log is the replicated part, a ledger.Replayed: inputs and their numbers, results, and the history from which a new
// host is built. Core is the logic of one controller with its host: it passes committed inputs to the host, logs the
// results at the leader, and at followers compares them with the log. A host that dies or differs is rebuilt by replay.
//
// Both are pure: no I/O, clock or goroutine. Package controller owns them from its loop. Package ryu runs the process
// of a host, and package ryu/wire is the protocol with it.
package replay
