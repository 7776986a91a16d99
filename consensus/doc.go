// Package consensus is one Raft group: it replicates a log, elects a leader, and delivers committed entries and changes
// of the leadership to the owner of each member, which is the ledger. It is neither a state machine nor a client
// protocol. One Node takes part in one group.
//
// # Layers
//
//	Node        one loop, one goroutine that writes the log, those of the transport
//	Core        pure: ticks, messages and proposals in, Ready out; around raft.RawNode
//	storage     what must survive; in memory (pure), or on disk
//	transport   TCP between the members; wire is its bytes (pure)
//
// # The loop
//
// This is the whole loop (node.go). It never waits for the disk, the network or the owner, so these never delay a
// heartbeat:
//
//	for {
//		n.ready()                      // send, save and deliver until the core has nothing more to do
//		out, next := n.next()          // nil if the owner has taken all updates
//		select {
//		case <-n.ticker.C:
//			n.tick()
//		case <-n.elect.C:
//			n.core.Elect()
//		case out <- next:
//			n.taken(next)
//		case <-n.inbox.wake:
//			…                          // a tick that is due is handled first
//			n.inbox.take(&t, n.core.Accepts())
//			if err := n.work(&t); err != nil {
//				n.inbox.stop(err)
//				return
//			}
//		}
//	}
//
// # The owner's side
//
//	for u := range node.Updates() {
//		switch {
//		case u.Snapshot != nil: // replace all state
//		case u.Role != nil:     // u.Role.Leading: Propose(u.Role.Term, …) from now on
//		default:                // apply u.Entries
//		}
//	}
//	err := node.Err()
//
// Roles and entries are delivered in one stream, so their order is defined: see Role, and Propose.
//
// # Failover
//
// When the process of a leader dies, its connections break. Followers take a broken connection as a hint: they forget
// the leader, whose lease would forbid them to vote, and start elections, 5 ms apart by rank, so that votes do not
// split. If a follower receives a vote request before its own hint, it keeps the request and handles it after the hint.
// One broken connection does not depose a live leader: a PreVote comes first, and members that still hear the leader do
// not grant it. If a leader hangs, its followers start an election after the election timeout, which is Config.Election
// on a quiet machine and longer on a busy one (lateness.go).
//
// # Members
//
// Plan computes the configuration changes for a change of the members, step by step. New members join as learners and
// become voters when they have the log; the number of voters is odd. An id is used only once: a member without its
// directory has forgotten its votes and acknowledgements. So a member whose directory is empty does not start
// (Config.Founded, ErrNoLog), a removed member stays removed, and both can return only with a new id.
//
// # Faults
//
// A slow disk delays only its own member: the leader sends entries before it has stored them. It delivers committed
// entries to its owner only when it has stored them, though, so it transfers the leadership if its disk delays the
// group (relief.go).
//
// A fault that a member cannot tolerate stops its Node, and Err returns the reason: an error of the disk
// (*disk.FullError if it was full; the member can be restarted when there is room), a log that lacks acknowledged
// entries (LostLogError), the removal of the member (ErrRemoved), or a group of the others to which it does not belong
// (ErrStranger). A member never continues with a log that may be incomplete.
package consensus
