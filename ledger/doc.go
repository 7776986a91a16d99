// Package ledger executes inputs in transactions, and replicates and releases what they cause. Everything of a group
// that must survive the death of a controller goes through it:
//
//	input ──► execute ──► replicate ──► release ──► complete
//
// The leader executes an input at once, on its newest state. What the applications write can be undone, and what they
// send is held back. Executed transactions are cut into entries. When the consensus has committed an entry, its outputs
// are released. Followers apply the outcome and never run an application. Commands stay in the ledger until their
// switch has executed them and that fact is in the log too: these are the two stages of Ravana, sections 3.1 and 5. A
// new leader has the writes and the outputs, and releases again what is not complete. The receivers drop what they have
// done.
//
// An application has its state in tables, or is Replayed: then it keeps its own state and takes part in the log with
// records that mean nothing to the ledger (replayed.go, and package ryu/replay).
//
// Core is pure: inputs and committed entries go in, entries and releases come out. It has no I/O, clock, goroutine or
// lock, and is not safe for concurrent use: package controller owns it from one loop. It is not the consensus, and is
// told who leads and what is committed. Messages of switches are bytes to it, with an OpenFlow header; package
// internal/message says what else it must know of them.
package ledger
