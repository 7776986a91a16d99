// Package consensus is one Raft group: a replicated log for one owner at each member, and
// the knowledge who leads. It is not a state machine, not a client protocol, and not several
// groups: the ledger above it is the owner, and starts one Node for each group.
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
// This is all of it (node.go). It never waits for the disk, the network or the owner, so a
// heartbeat is never late because of them:
//
//	for {
//		n.ready()                      // send, save, deliver, until the core has no more
//		out, next := n.next()          // nil if the owner has everything
//		select {
//		case <-n.ticker.C:
//			n.core.Tick()
//		case <-n.elect.C:
//			n.core.Elect()
//		case out <- next:
//			n.taken(next)
//		case <-n.inbox.wake:
//			…                          // a tick that is due goes first
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
// Roles and entries come in one stream, so they cannot be confused: see Role, and Propose.
//
// # Failover
//
// When the process of a leader dies, its connections break. The followers take that as a
// hint, forget the leader (Raft's lease would forbid them to vote), and stand for
// election, 5 ms apart by rank, so that votes do not split. A request for a vote that
// comes before a follower's own hint is kept and looked at again. A leader that lives is not deposed by one
// broken connection: PreVote asks first, and members that still hear the leader do not answer.
// A leader that hangs is given up after Config.Election.
//
// # Members
//
// Plan says how a wish about the members comes true, step by step: who is new stands by until it
// has the log, and an odd number votes. An id is used once: what the member that had it
// has promised is gone with its directory. So a member whose directory is empty does not start
// (Config.Founded, ErrNoLog), whoever was removed stays removed, and both come back under a new id.
//
// # Faults
//
// A slow disk delays its own member only: entries leave before they are stored. A leader hands out
// what it has stored, though, and gives the leadership away if that holds the others up (relief.go).
//
// Whatever a member cannot survive ends its Node, and Err says why: an error of the disk (*disk.FullError: there was
// no room; once there is, the member can be started again), a log that has forgotten what was acknowledged
// (LostLogError), its removal (ErrRemoved). It never goes on with a log that it is not sure of.
package consensus
