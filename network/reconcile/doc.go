// Package reconcile compares the flow entries and groups of a switch with those that it should have, and computes the
// commands that make them equal. It reads flow statistics and group descriptions reply by reply, so that a check can
// pause between two replies, or continue on another controller. Beehive calls this the consolidator.
//
//	check, err := reconcile.New(want, policy)
//	send(check.Requests())
//	for each reply of these requests {
//		deletions, err := check.Reply(reply) // an error ends the check
//		send(deletions)
//	}
//	if check.Complete() {
//		send(check.Repair())
//	}
//
// It is pure: it has no connections and no clock. The caller says what the switch should hold, passes only the replies
// to these requests (it knows them by their xid), changes nothing on the switch during the check, and ends a check that
// gets an error or no reply. An entry counts as missing only after the last reply to both requests.
package reconcile
