package ledger

import (
	"context"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/tally"
)

// Application is what the ledger runs. Package app makes one out of typed handlers.
type Application interface {
	// Name is unique in a cluster and does not change: the log refers to it.
	Name() string
	// Handle processes one input in a transaction, on the leader only. If it returns an error or panics, its changes in
	// this call are undone, and the failure is recorded. It may be nondeterministic, because followers apply its
	// outcome. It must not keep tx or in.
	Handle(tx *Tx, in *Input) error
}

// Answerer is an Application that alone handles some of the emitted messages.
type Answerer interface {
	Application
	// Answers returns their names. It is called once.
	Answers() []string
}

// Explainer is an Application that can say why its handlers belong to the actors that run them.
type Explainer interface {
	Application
	// Explain returns what is known of its handlers. Safe for concurrent use.
	Explain() []Mapping
}

// Mapping says which cells a handler needs, as far as that does not depend on its message.
type Mapping struct {
	Kind      InputKind
	Type      uint8    // of a Message
	Name      string   // of an Emitted one
	Handler   string   // with its file and line
	Whole     bool     // the application is one actor
	Unmapped  bool     // it has no map function: it is run to find out
	All       []string // tables of which it needs all cells
	Undivided []string // tables of which it needs cells, and all of which belong to one actor
}

// Server is an Application that executes calls over HTTP. Its methods are safe for concurrent use.
type Server interface {
	Application
	// Routes returns what it serves, as patterns of net/http.ServeMux.
	Routes() []string
	// Callee returns the shard that executes a message for a route.
	Callee(route string, message []byte) (Shard, error)
}

// Backend is the cluster, for an Application that serves an interface of its own. It is safe for concurrent use.
type Backend interface {
	// Call has an actor execute a message, wherever it lives, and returns its reply. A call is executed at most once.
	// The error is, or wraps, ErrCallFailed, ErrUnanswered or ErrNoActor; with any other one it was not executed.
	Call(ctx context.Context, q Call) ([]byte, error)
	// Begin is Call for a caller that does not wait. If it reports false, nothing was executed, and Call is to be used,
	// which looks for the actor.
	Begin(q Call, within time.Duration, w Waiter) (id uint64, begun bool)
	// End ends a call that was begun, for which nobody waits any more. It may be executed nevertheless. If it reports
	// false, the Waiter is told of the outcome all the same, or was.
	End(id uint64) bool
	// Replica reports whether the group in which an actor lives has a replica at this controller.
	Replica(a Actor) bool
	// Read has a Reader answer a message from the replica at this controller. It reports false if there is none, or it
	// leads: then it has changes that are not committed.
	Read(ctx context.Context, a Actor, message []byte) (answer []byte, ok bool)
}

// Waiter gets the answer to a call that was begun. Its methods are called in any goroutine, and must not wait.
type Waiter interface {
	// Answer is called once, with what Backend.Call returns. The error is ErrElsewhere if the call was not executed,
	// and Call is to be used.
	Answer(reply []byte, err error)
	// Flush is called after Answer, and after that of other calls which have ended at the same time.
	Flush()
}

// Reader is an Application that answers messages which change nothing at any replica, from what this has applied.
type Reader interface {
	Application
	// Read must not write. It is called as Handle is, and in its place.
	Read(tx *Tx, message []byte) (answer []byte)
}

// Terse is an Application whose calls are logged by their effects, without their messages: these would be about as
// large again. Checkers that execute calls again cannot check it.
type Terse interface {
	Application
	LogsEffects()
}

// Placer is an Application that has a say in where its actors live. Its methods are safe for concurrent use.
type Placer interface {
	Application
	// Place returns the group of a new actor, one of groups; the first of these is where its first message is. 0 is the
	// same as the first.
	Place(at Shard, groups []uint64) uint64
	// Stays reports whether actors of the application move only if an operator says so.
	Stays() bool
}

// Limiter is an Application that bounds how many messages each of its actors handles. The ledger does not do that. Its
// method is safe for concurrent use.
type Limiter interface {
	Application
	// Limit returns how many messages a second; 0 is no bound.
	Limit() (perSecond int)
}

// InputKind is the kind of an Input.
type InputKind uint8

// The kinds of input.
const (
	SwitchUp      InputKind = iota + 1 // Message: the event that began the epoch
	SwitchDown                         // Reason
	Message                            // Message, from the switch, a whole OpenFlow 1.3 message
	Timer                              // Switch of the actor, Name, Message: the data given to SetTimer
	Emitted                            // Name, Message: what an application gave to Emit
	ReplayedInput                      // Seq, its number at the replayed application; only in a Failure
	Request                            // Message: what a controller gave to Core.Request
	Discarded                          // Seq: what Tx.Send returned for a command to a switch of another group
	Called                             // Name, Message: of a Call
	Forgotten                          // Switch: it is gone for good, see Core.Forget
)

// Input is what an application handles: a message, a timer, a request, or a change of a switch. Its slices are valid
// during the call.
type Input struct {
	Kind    InputKind
	Switch  openflow.DatapathID
	Epoch   uint64
	Seq     uint64 // of the event; 0 when no switch sent it
	Message []byte
	// Command is, for an ERROR, the command that it answers, if that is not known to be done.
	Command []byte
	Name    string
	Reason  message.Reason
	level   Level // if it is Emitted: the level of the input that caused it
	from    Actor // who sends it to other groups
	sender  Actor // of a message that an application has sent; see Tx.Sender
	at      Shard // that it is for if a handler needs no cells
	exact   bool  // it is for one actor and no other: to
	to      Actor
	passed  bool // by Tx.Each, to that actor
	// It was kept, and Tx.Redeliver passes it to that actor; addressed: it was for that one only before.
	again, addressed bool
	// If it is a call: see Call.
	caller, call uint64
	crossed      bool                // it came from another group, or from a client
	source       *tally.Actor[Actor] // who has sent it, for the tally; nil: nobody
}

// maxEmitted bounds the messages that one transaction may emit.
const maxEmitted = 1024

// maxFailures bounds the failures that wait for the caller to log them. Further ones are dropped.
const maxFailures = 64

// maxTimers and maxTimerBytes bound the timers that are set at a time, and their data.
const (
	maxTimers     = 1 << 16
	maxTimerBytes = 64 << 20
)

// Failure reports an application that failed on an input.
type Failure struct {
	App   string
	Input Input // without Message and Command
	Err   error
	Stack []byte // of a panic
}

// Release contains the outputs of committed entries for one switch. The slice is valid until the next call of a Core
// method.
type Release struct {
	Switch   openflow.DatapathID
	Epoch    uint64
	Acked    uint64 // events up to it, and all of earlier epochs, are logged
	First    uint64 // sequence of the first command
	Count    int    // how many commands; may be 0
	Commands []byte // whole messages
	Closed   bool   // the ledger has closed the epoch: the switch is to begin a new one
	Live     bool   // only from Resume: the epoch has not ended

	// Best-effort commands have no sequence, and are sent once. A Release that has some has nothing else.
	BestEffort      []byte
	BestEffortCount int
}

// Limits bounds a Core.
type Limits struct {
	// BatchInputs and BatchBytes bound one entry: 1,024 inputs and 1 MiB by default. The last transaction of an entry
	// may exceed BatchBytes.
	BatchInputs, BatchBytes int
	// EntryBytes bounds one entry including a last transaction that exceeds BatchBytes: 3 MiB by default. An
	// application whose transaction exceeds it fails. The consensus must accept entries of this size.
	EntryBytes int
	// InFlight bounds the entries that are proposed and not committed: 4 by default. Together they are a window of
	// about 2,000 to 4,000 events; a larger one only makes the queue longer.
	InFlight int
	// QueueCommands and QueueBytes bound the commands of a switch that are not complete: 65,536 and 64 MiB by default.
	// If they are exceeded, the epoch of the switch is closed.
	QueueCommands, QueueBytes int
	// SwitchesBytes bounds what all switches hold together, in commands that are not complete and in their SWITCH_UPs:
	// 128 MiB by default. If it is exceeded, epochs are closed: first of switches that are not connected, and of those
	// that hold most.
	SwitchesBytes int
	// OutboxItems and OutboxBytes bound what waits for another group to take it: 65,536 and 64 MiB by default. If they
	// are exceeded, events and timers that would send more to that group are held. At twice the bounds, an application
	// that sends more fails.
	OutboxItems, OutboxBytes int
	// PieceBytes is the size at which a piece of an actor that moves ends: 4 KiB by default. Other inputs of both
	// groups wait behind a piece.
	PieceBytes int
}

func (l Limits) withDefaults() Limits {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&l.BatchInputs, 1024)
	set(&l.BatchBytes, 1<<20)
	set(&l.EntryBytes, 3<<20)
	set(&l.InFlight, 4)
	set(&l.QueueCommands, 1<<16)
	set(&l.QueueBytes, 64<<20)
	set(&l.SwitchesBytes, 128<<20)
	set(&l.OutboxItems, 1<<16)
	set(&l.OutboxBytes, 64<<20)
	set(&l.PieceBytes, 4<<10)
	return l
}

// nanos converts ledger time.
func nanos(t int64) time.Time { return time.Unix(0, t) }
