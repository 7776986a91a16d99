// Package ledger is the mechanism that every input takes which must survive a failure:
//
//	input ──► execute ──► replicate ──► release ──► complete
//
// A leader executes an input at once, on its newest state; what the applications write is
// kept undoable and what they send is held back. Executed transactions are cut into
// entries; when an entry is committed by the consensus group its outputs are released.
// Followers apply the outcome and never run an application. Commands stay in the ledger
// until their switch has executed them and that fact is in the log too (Ravana, sections
// 3.1 and 5: the two stages). A new leader has the writes and the outputs, and releases
// again whatever is not complete; receivers drop what they have already done.
//
// One application may be Replayed (package ryu/replay): the ledger does not run it. The log contains its inputs, which
// hosts execute at every controller, and the results of the leader's host, as transactions of their own. replayed.go is
// the ledger's side of that.
//
// Core is pure: inputs and committed entries in, entries and releases out. It has no I/O,
// no clock, no goroutine and no lock, and is not safe for concurrent use; package controller
// owns it from one loop. It is not the consensus: it neither knows how entries are
// replicated nor who leads, it is told.
package ledger
