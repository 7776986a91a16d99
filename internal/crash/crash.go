// Package crash names the points at which a leader may die (Ravana, figure 5) and, in
// builds with the tag crashpoints, makes it die there: HOLDFAST_CRASH=point or point:n
// kills the process with SIGKILL at the n-th passage; point:n:hang stops it with SIGSTOP.
// HOLDFAST_CRASH_MARK names a file: of the processes that share it only the first to come so
// far dies, having written its process id there. HOLDFAST_CRASH_AFTER names a file, too: passages count from when
// it is there. Other builds compile At to nothing.
package crash

// Point is a place in the life of a transaction.
type Point string

// The cases of figure 5. Execution precedes replication here, so (iii) is the last moment
// before any command leaves. What has no commands does not pass (ii) and (iii).
const (
	BeforeReplicate Point = "before-replicate"  // (i) executed, not in the log
	AfterCommit     Point = "after-commit"      // (ii) in the log, the switch not acknowledged
	AfterEventAck   Point = "after-event-ack"   // (iii) acknowledged, no command sent
	BetweenCommands Point = "between-commands"  // (iv) some switches have their commands, others not
	AfterCommands   Point = "after-commands"    // (v) commands sent, no acknowledgement seen
	AfterCommandAck Point = "after-command-ack" // (vi) acknowledged, completion not in the log
	AfterComplete   Point = "after-complete"    // (vii) completion in the log
)

// Points lists them in order.
var Points = []Point{BeforeReplicate, AfterCommit, AfterEventAck, BetweenCommands, AfterCommands, AfterCommandAck,
	AfterComplete}
