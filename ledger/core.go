package ledger

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/internal/watchdog"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/tally"
)

// Core is the ledger of one group at one controller.
type Core struct {
	apps     []Application
	audience *audience
	// answerers has the indices of those that handle an emitted message alone, by its name.
	answerers map[string]int
	limits    Limits
	levels    *levels
	degraded  *degraded       // nil if no handler runs without a majority
	deaf      map[string]bool // applications that are not told of epochs: see learn
	degrading bool            // one does
	state     *state

	replayed Replayed // nil if there is none
	told     Input    // the input that is passed to it
	applying int64    // ledger time of the entry that is applied

	group     uint64 // see Join
	directory Directory
	enumerate func(app string) []Shard // see Enumerate; may be nil
	pinned    func(Actor) bool         // see Pinned; may be nil

	guard *watchdog.Guard // see Watch; may be nil

	compare bool // the next entry asks for a Digest, see Compare

	observe        func(id openflow.DatapathID, epoch, seq uint64, msg []byte) // see Observe
	observeSkipped func(id openflow.DatapathID, epoch, seq, asynchronous uint64)
	observers      map[string]func(Change) // by application; see ObserveTables

	// The rest is used while leading.
	leading   bool
	term      uint64
	clock     int64 // ledger time
	offset    int64 // ledger time minus the caller's clock
	numbers   uint64
	stamps    uint64 // the last newStamp
	batch     batch
	deltas    deltas // of batch
	inflight  []batch
	free      []batch // used batches, kept for their slices
	notes     notes
	onReceive func(Link, uint64) (end func())
	due       dueHeap

	// State of the transaction that is being executed.
	transaction uint64 // its number, in this process
	emitted     []Input
	passed      []Input // by the present call of an application; see Tx.Each
	reply       []byte  // to the call
	failure     error   // of an application that failed and was resumed; see Tx.Fail
	keeps       bool    // the input was kept; see Tx.Keep
	stalled     []*switchState
	crowd       crowd

	relay       relay
	peers       map[uint64]*peer      // the groups to which something is sent
	senders     map[Actor][]*outgoing // the streams to an actor
	heard       map[Actor]Assignment  // see hears; by mover
	leaving     []*departure          // see Moves
	ended       []EndedMove           // until EndedMoves returns them
	handing     []handing             // see Handovers
	followers   []follower            // see Tx.Follow
	unmoved     map[Actor]unmoved     // likewise
	unassigned  []Actor               // see Unassigned
	unpublished []Actor               // see Unpublished
	published   int                   // how many it has returned last
	publishedAt int64                 // ledger time
	// see the methods of these names; the last two at any replica
	arrivals, departed, forgotten []openflow.DatapathID
	floor                         uint64 // see Floor
	crossings                     crossings
	taken                         []*outgoing          // whose receivers have more than the log says
	patient                       bool                 // the transaction can be undone and executed later
	held                          bool                 // it must be
	relieved                      uint64               // see Relieved
	late                          map[timerName]uint64 // timers that were held, with relieved at that time

	elapsed func() time.Duration // see Instrument; nil: nothing is counted
	tally   *tally.Tally[Actor]  // what actors do; nil unless it is counted
	paused  *tally.Tally[Actor]  // the tally while nothing is counted, because of Count
	lately  []latest             // by application
	ledAt   int64                // ledger time at which the leadership began
	second  uint32               // of the leadership

	sample     *tally.Tally[Actor] // tally if the present transaction is counted
	standsFor  int                 // for how many it is; 0: it is not
	exceptions []exception         // of it
	uncounted  bool                // see Count

	refused map[Actor]uint64 // inputs of suspended actors

	tx    Tx    // reused: handlers run one at a time
	input Input // likewise

	prefetch prefetcher

	immediate  bestEffortCommands // may be sent, not returned yet
	ordered    bestEffortCommands // likewise, committed
	committed  []touch            // likewise, numbered
	answers    []Answer           // to committed calls, not returned yet
	duplicates []*switchState     // to be acknowledged again
	acked      []*switchState     // have a done watermark that is in no entry yet
	releases   []Release
	failures   []Failure
	counters   Counters
}

// Counters count since the process began.
type Counters struct {
	Transactions uint64 // executed here as leader
	Duplicates   uint64 // events dropped because they are in the ledger already
	Failures     uint64 // of applications, as leader
	Entries      uint64 // applied or committed
	Reverted     uint64 // transactions undone when the leadership was lost
	Completions  uint64 // watermarks of executed commands that were logged, as leader
}

// New returns an empty ledger that runs apps, in this order, on every input that they hear (see Listener). All
// controllers of a group must have the same applications in the same order.
func New(apps []Application, limits Limits) (*Core, error) {
	if len(apps) > int(message.MaxTag) {
		return nil, fmt.Errorf("ledger: %d applications; at most %d are possible", len(apps), message.MaxTag)
	}
	names := map[string]bool{}
	for _, a := range apps {
		if names[a.Name()] {
			return nil, fmt.Errorf("ledger: application %q is there twice", a.Name())
		}
		names[a.Name()] = true
	}
	answerers, err := answerersOf(apps)
	if err != nil {
		return nil, err
	}
	c := &Core{apps: apps, audience: newAudience(apps), answerers: answerers, limits: limits.withDefaults(),
		levels: levelsOf(apps), degraded: degradedOf(apps), deaf: DeafOf(apps), state: newState()}
	c.prefetch = newPrefetcher(c)
	return c, nil
}

// answerersOf returns which application handles an emitted message alone.
func answerersOf(apps []Application) (map[string]int, error) {
	by := map[string]int{}
	for i, a := range apps {
		a, is := a.(Answerer)
		if !is {
			continue
		}
		for _, name := range a.Answers() {
			if other, twice := by[name]; twice {
				return nil, fmt.Errorf("ledger: %q is handled by the applications %s and %s: run one of them", name,
					apps[other].Name(), a.Name())
			}
			by[name] = i
		}
	}
	return by, nil
}

var errNotLeading = errors.New("ledger: input at a controller that does not lead")

// Lead begins the leadership of a term. Everything committed before has been applied. now is the caller's clock, in ns
// since 1970.
func (c *Core) Lead(term uint64, now int64) error {
	if err := c.Follow(); err != nil {
		return err
	}
	c.leading, c.term, c.numbers = true, term, 0
	c.crowd = crowd{since: c.limits.SwitchesBytes} // it is counted with the first transaction
	c.relay.parcels = nil                          // what is not acknowledged is sent
	c.offset = max(0, c.state.time-now)
	c.clock = now + c.offset
	for _, sw := range c.state.switches {
		sw.lead()
	}
	c.leadLinks()
	c.leadMoves()
	c.leadTally()
	c.refused, c.floor = nil, c.state.floor
	c.due = c.due[:0]
	for name, t := range c.state.timers {
		c.schedule(t.due, name)
	}
	c.begin()
	if c.replayed != nil {
		c.replayed.Lead()
	}
	return nil
}

// Follow ends the leadership, if there is one: everything that is not committed is undone.
func (c *Core) Follow() error {
	if !c.leading {
		return nil
	}
	c.leading, c.compare = false, false
	c.endTally()
	c.batch.forgetTables(0)
	c.counters.Reverted += uint64(c.batch.inputs)
	c.revertReplayed(c.oldest().replayed)
	if err := c.state.revert(c.batch.undo); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	for i := len(c.inflight) - 1; i >= 0; i-- {
		c.counters.Reverted += uint64(c.inflight[i].inputs)
		if err := c.state.revert(c.inflight[i].undo); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	c.batch, c.inflight, c.free = batch{}, nil, nil
	c.immediate, c.ordered = bestEffortCommands{}, bestEffortCommands{}
	c.committed, c.releases, c.duplicates, c.acked, c.stalled, c.emitted = nil, nil, nil, nil, nil, nil
	c.answers, c.reply, c.arrivals, c.ended, c.handing = nil, nil, nil, nil, nil
	c.followLinks()
	return nil
}

// Leading returns the term that this ledger leads in.
func (c *Core) Leading() (term uint64, ok bool) { return c.term, c.leading }

// Room reports whether an input can be executed now. If not, calls of Immediate, Cut and Commit make room.
func (c *Core) Room() bool {
	return c.leading && c.batch.inputs < c.limits.BatchInputs &&
		c.batch.size()+len(c.batch.bestEffort.buf)+c.batch.replies < c.limits.BatchBytes &&
		len(c.immediate.buf) < c.limits.BatchBytes && !(c.replayed != nil && c.replayed.Full())
}

// Quiet reports whether nothing is executed and uncommitted, so that Snapshot is possible. What switches and other
// groups have acknowledged does not count: it changes the state when it is committed, and more may come at any time.
func (c *Core) Quiet() bool { return !c.leading || !c.Executed() && len(c.inflight) == 0 }

// Executed reports whether something is executed that is in no entry yet.
func (c *Core) Executed() bool { return !c.batch.empty() }

// begin starts the next batch.
func (c *Core) begin() {
	c.numbers++
	var b batch
	if n := len(c.free); n > 0 {
		b, c.free = c.free[n-1], c.free[:n-1]
	}
	c.batch = batch{number: c.numbers, stamp: c.newStamp(), undo: b.undo[:0], old: b.old, tables: b.tables[:0],
		touched: b.touched[:0], dones: b.dones[:0], sends: b.sends[:0], receives: b.receives[:0], taken: b.taken[:0],
		arrived: b.arrived[:0], departed: b.departed[:0], forgotten: b.forgotten[:0], answers: b.answers[:0],
		observed: b.observed[:0], bestEffort: b.bestEffort, skipping: b.skipping[:0], replayed: c.replayedPosition()}
	c.deltas.reset()
}

// oldest returns the oldest batch that is not committed.
func (c *Core) oldest() *batch {
	if len(c.inflight) > 0 {
		return &c.inflight[0]
	}
	return &c.batch
}

// open writes the header of the batch before the first operation.
func (c *Core) open() {
	if len(c.batch.buf) == 0 {
		c.batch.time = max(c.clock, c.state.time)
		c.batch.buf = Header{Term: c.term, Batch: c.batch.number, Time: c.batch.time}.append(c.batch.buf)
	}
}

// beginTransaction begins a transaction; the caller adds its input.
func (c *Core) beginTransaction() *batch {
	c.open()
	c.transaction++
	c.batch.inputs++
	return &c.batch
}

// fromSwitch makes the present input one of a switch, and returns it for what else it has. It is changed where it is:
// to copy an Input takes longer than all else that is done with it here.
func (c *Core) fromSwitch(kind InputKind, id openflow.DatapathID) *Input {
	in := &c.input
	*in = Input{}
	in.Kind, in.Switch = kind, id
	in.from.Switch, in.at.Switch = id, id
	return in
}
