// Package crash names the points at which a leader may die (Ravana, figure 5). In builds with the tag crashpoints it
// can make the process die there: HOLDFAST_CRASH=point or point:n kills the process with SIGKILL at the n-th passage;
// point:n:hang stops it with SIGSTOP. HOLDFAST_CRASH_MARK names a file that several processes share: only the first one
// that reaches its point dies, after writing its process id to the file. HOLDFAST_CRASH_AFTER names a file: passages
// count only once it exists. Other builds compile At to nothing.
package crash

// Point is a place in the life of a transaction.
type Point string

// The cases of figure 5. Execution precedes replication here, so (iii) is the last moment
// before any command is sent. A transaction without commands does not pass (ii) and (iii).
const (
	BeforeReplicate Point = "before-replicate"  // (i) executed, not in the log
	AfterCommit     Point = "after-commit"      // (ii) in the log, the switch not acknowledged
	AfterEventAck   Point = "after-event-ack"   // (iii) acknowledged, no command sent
	BetweenCommands Point = "between-commands"  // (iv) some switches have their commands, others not
	AfterCommands   Point = "after-commands"    // (v) commands sent, no acknowledgement seen
	AfterCommandAck Point = "after-command-ack" // (vi) acknowledged, completion not in the log
	AfterComplete   Point = "after-complete"    // (vii) completion in the log
)

// Those of streams between groups, which the paper does not have.
const (
	BeforeFrames Point = "before-frames" // items or acknowledgements for another group are committed and not sent
	AfterFrames  Point = "after-frames"  // sent
	AfterReceive Point = "after-receive" // items of another group are executed, not in the log
	BeforeAck    Point = "before-ack"    // they are in the log, not acknowledged
	AfterAck     Point = "after-ack"     // the acknowledgement is with the sender, not in its log
)

// StreamPoints lists those in order.
var StreamPoints = []Point{BeforeFrames, AfterFrames, AfterReceive, BeforeAck, AfterAck}

// Those of a move of an actor, as they are committed. Every controller with a replica of that group passes them.
const (
	MoveGranted   Point = "move-granted"   // in the log of its group: the actor begins to move
	MoveCopying   Point = "move-copying"   // a part of it is in the log of the other group
	MoveDeparted  Point = "move-departed"  // it is in no group, and on its way
	MoveArrived   Point = "move-arrived"   // it lives in the other group
	MovePublished Point = "move-published" // the directory has that
)

// MovePoints lists those in order.
var MovePoints = []Point{MoveGranted, MoveCopying, MoveDeparted, MoveArrived, MovePublished}

// Points lists those of figure 5 in order.
var Points = []Point{BeforeReplicate, AfterCommit, AfterEventAck, BetweenCommands, AfterCommands, AfterCommandAck,
	AfterComplete}
