// Package consensus runs Raft groups: each replicates a log, elects a leader, and delivers committed entries and
// changes of the leadership to the owner of each replica, which is a ledger. It is neither a state machine nor a client
// protocol.
//
// A controller takes part in one or several groups, with one replica in each. A group is independent of the others: it
// has its own members, leader and term. What the groups of a controller share is in its Host: the log, the
// connections to the other controllers, and the clock.
//
// # Layers
//
//	Host        what all groups of a controller share; starts a Node for each
//	Node        one replica
//	Core        pure: ticks, messages and proposals in, Ready out; around raft.RawNode
//	saver       one goroutine that writes the log of all groups, unless a loop can write without waiting
//	storage     what must survive; in memory (pure), or on disk
//	transport   TCP between the controllers; wire is its bytes (pure)
//
// The members of a group are its replicas. The id of a replica names its controller (wire.ControllerOf): the first
// replica of a group at a controller has the controller's id.
//
// # Turns
//
// A Node works in turns (node.go): it takes what is queued in its inbox, passes it to the core, and sends, saves and
// delivers until the core has nothing more to do. A turn is run by whoever brings work, if nobody else is in one: by
// the owner that proposes, and, if the controller has one group, by the goroutine that reads from another controller.
// The loop of the Node runs those that the clock makes due, and those that others leave to it. So an entry on its way
// wakes no goroutine of the consensus at all. A turn does not wait for the disk, the network, the owner or another
// group, so these do not delay a heartbeat. It saves what needs no fsync by itself, which is a copy to the cache of
// the file system (saver.go). If the file system waits nevertheless, that delays this group alone: a goroutine that
// reads the messages of several groups runs no turns.
//
// # The owner's side
//
//	for range node.News() {
//		for u, ok := node.Next(); ok; u, ok = node.Next() {
//			switch {
//			case u.Snapshot != nil: // replace all state
//			case u.Role != nil:     // u.Role.Leading: Propose(u.Role.Term, …) from now on
//			default:                // apply u.Entries
//			}
//		}
//		if err := node.Err(); err != nil {
//			…
//		}
//	}
//
// Roles and entries are delivered in one stream, so their order is defined: see Role, and Propose.
//
// # Failover
//
// When the process of a leader dies, its connections break. Followers take a broken connection as a hint: they forget
// the leader, whose lease would forbid them to vote, and start elections, 5 ms apart by rank, so that votes do not
// split. The ranks differ from group to group, so that the groups of a dead controller spread over the others. If a
// follower receives a vote request before its own hint, it keeps the request and handles it after the hint. One broken
// connection does not depose a live leader: a PreVote comes first, and members that still hear the leader do not grant
// it. The others grant it to the first in rank before it asks. A new leader that knows all of its log to be committed
// leads as soon as it is elected (vouch.go). So a failover can take one round trip. If a leader hangs, its followers
// start an election after the election timeout, which is HostConfig.Election on a quiet machine and longer on a busy
// one (lateness.go).
//
// # Members
//
// Plan computes the configuration changes for a change of the members, step by step. New members join as learners and
// become voters when they have the log; the number of voters is odd. An id is used only once: a member without its
// directory has forgotten its votes and acknowledgements. So a member whose directory is empty does not start
// (HostConfig.Founded, ErrNoLog), a removed member stays removed, and both can return only with a new id.
//
// # Faults
//
// A slow disk delays only its own member: the leader sends entries before it has stored them. It delivers committed
// entries to its owner only when it has stored them, though, so it transfers the leadership if its disk delays the
// group (relief.go).
//
// A fault that a member cannot tolerate stops its Node, and Err returns the reason: a log that lacks acknowledged
// entries (LostLogError), the removal of the member (ErrRemoved), or a group of the others to which it does not belong
// (ErrStranger). The other nodes of the Host continue. An error of the disk stops all nodes of the Host
// (*disk.FullError if it was full; the Host can be started again when there is room). A member never continues with a
// log that may be incomplete.
package consensus
