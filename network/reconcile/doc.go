// Package reconcile compares what a switch holds with what it should hold, and says what to send to make them equal. It
// reads flow statistics and group descriptions part by part as they come, so that a check may wait between two parts,
// or go on at another controller. Beehive calls this the consolidator.
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
// It is pure: it knows no connection and no time. Whoever runs it decides what should be held, tells replies of its
// requests from others (by their xid), changes nothing at the switch meanwhile, and gives up a check that gets an
// error, or no answer. Without the last part of both replies nothing is taken for missing.
package reconcile
