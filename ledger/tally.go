package ledger

import (
	"math/bits"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/tally"
)

// The leader counts what actors do; see package tally. Of the transactions that events of a busy switch begin it counts
// a sample. The counts are not replicated: those of a new leader begin at zero.

// typeOfInput plus an InputKind is the type of an input that is neither a message of OpenFlow, which has its own type,
// nor emitted, which has a name.
const typeOfInput tally.Type = 1 << 8

// TypeOfMove is the type of the items that bring an actor to this group.
const TypeOfMove = typeOfInput

// KindOfType is the inverse of the types that inputs have in a Report; 0 for any other type.
func KindOfType(t tally.Type) InputKind {
	if k := t - typeOfInput; t > typeOfInput && k <= tally.Type(Called) {
		return InputKind(k)
	}
	return 0
}

// latest is the actor of an application that was counted last: often the next one too.
type latest struct {
	at    Shard
	actor *tally.Actor[Actor]
}

// counted is what a Tx knows of the tally. entered is set always, what follows only if the transaction is counted.
type counted struct {
	entered bool                // an actor handles the input
	actor   *tally.Actor[Actor] // on whose behalf it goes on; nil before Enter
	in      tally.Type          // of the input, if there is an actor
	remote  bool                // the actor lives in another group
	timed   int                 // for how many inputs the time of this one stands; 0: it is not timed
	began   time.Duration       // if timed
}

// exception is what is counted of a transaction also if that is not in the sample: an actor fails, or does not handle
// the input now.
type exception struct {
	actor   *tally.Actor[Actor]
	failed  bool
	in      tally.Type // if failed
	dropped bool
}

// Instrument makes the ledger count what actors do while it leads. elapsed returns the time since any fixed moment; it
// is called for a sample of the inputs. It must be called before any other method.
func (c *Core) Instrument(elapsed func() time.Duration) { c.elapsed = elapsed }

// leadTally begins the counts of a leadership.
func (c *Core) leadTally() {
	if c.elapsed == nil {
		return
	}
	c.tally, c.lately, c.ledAt = tally.New[Actor](), make([]latest, len(c.apps)), c.clock
	c.setSecond()
	c.Count(!c.uncounted)
}

// endTally ends them with the leadership.
func (c *Core) endTally() { c.tally, c.paused, c.sample, c.exceptions = nil, nil, nil, nil }

// countAll makes the next transaction one that is counted, and stands for itself.
func (c *Core) countAll() { c.sample, c.standsFor = c.tally, 1 }

// choose says whether the present transaction, which an event of a switch begins, is in the sample.
func (c *Core) choose(sw *switchState) {
	if s := &sw.master.sampling; s.Skip(c.second) {
		c.sample, c.standsFor = nil, 0
	} else {
		c.sample, c.standsFor = c.tally, c.tally.Next(s, c.second)
	}
}

// setSecond counts the seconds of the leadership, from 1.
func (c *Core) setSecond() { c.second = uint32((c.clock-c.ledAt)/int64(time.Second)) + 1 }

// Count makes an instrumented ledger stop counting what actors do, or go on, also when it leads again. What was counted
// before is kept, and reported once it goes on.
func (c *Core) Count(on bool) {
	c.uncounted = !on
	if on == (c.tally == nil) {
		c.tally, c.paused = c.paused, c.tally
	}
	c.countAll()
}

// tallied returns the counts of an actor; nil if nothing is counted.
func (c *Core) tallied(a Actor) *tally.Actor[Actor] {
	if c.tally == nil {
		return nil
	}
	return c.tally.Actor(a, a.App)
}

// switchTally returns the counts of a switch; nil if nothing is counted. They are kept with it.
func (c *Core) switchTally(sw *switchState) *tally.Actor[Actor] {
	if a := sw.master.tally; a != nil && !a.Gone() {
		return a
	}
	return c.lookUpSwitch(sw)
}

// lookUpSwitch looks up the counts of a switch, and keeps them. Like lookUp it is not inlined, so that the code that
// runs for each message stays small.
//
//go:noinline
func (c *Core) lookUpSwitch(sw *switchState) *tally.Actor[Actor] {
	sw.master.tally = c.tallied(theSwitch(sw.id))
	return sw.master.tally
}

// typeOf returns the type of an input.
func (c *Core) typeOf(in *Input) tally.Type {
	switch in.Kind {
	case Message:
		return tally.Type(message.Type(in.Message))
	case Emitted:
		return c.tally.Named(in.Name)
	}
	return typeOfInput + tally.Type(in.Kind)
}

// sender returns the counts of the actor on whose behalf the transaction goes on. After that counted.in is set.
func (tx *Tx) sender() *tally.Actor[Actor] {
	if tx.counted.actor == nil { // the Application does not call Enter
		tx.counted.actor, tx.counted.in = tx.tallied(), tx.c.typeOf(&tx.c.input)
	}
	return tx.counted.actor
}

// tallied returns the counts of the present actor. Those of the actors at a switch are kept with it, because events of
// many switches take turns.
func (tx *Tx) tallied() *tally.Actor[Actor] {
	if at, sw := &tx.at, tx.c.state.last; sw != nil && sw.id == at.Switch && at.Key.A|at.Key.B == 0 && at.Key.S == "" {
		if app, list := tx.index, sw.master.tallies; app < len(list) && list[app] != nil && !list[app].Gone() {
			return list[app]
		}
	}
	return tx.lookUp()
}

// lookUp is tallied if the actor is not at the switch that was looked up last.
//
//go:noinline
func (tx *Tx) lookUp() *tally.Actor[Actor] {
	c, app := tx.c, tx.index
	if tx.at.Switch != 0 && tx.at.Key == (Key{}) {
		if sw := c.state.find(tx.at.Switch); sw != nil {
			m := &sw.master
			if m.tallies == nil {
				m.tallies = make([]*tally.Actor[Actor], len(c.apps))
			}
			a := m.tallies[app]
			if a == nil || a.Gone() {
				a = c.tallied(tx.Actor())
				m.tallies[app] = a
			}
			return a
		}
	}
	l := &c.lately[app]
	if l.actor == nil || l.at != tx.at || l.actor.Gone() {
		*l = latest{tx.at, c.tallied(tx.Actor())}
	}
	return l.actor
}

// handles counts that an actor handles the present input, once for all its handlers.
func (tx *Tx) handles() {
	c, k := tx.c, &tx.counted
	a := tx.tallied()
	if k.actor == a {
		return
	}
	tx.endTimed()
	k.actor, k.in = a, c.typeOf(&c.input)
	c.sample.Input(a, c.input.source, k.in, c.input.crossed)
	if k.timed = c.sample.Timed(a, c.standsFor); k.timed > 0 {
		k.began = c.elapsed()
	}
}

// endTimed ends the time that handles began.
func (tx *Tx) endTimed() {
	if k := &tx.counted; k.timed > 0 {
		tx.c.sample.Busy(k.actor, tx.c.elapsed()-k.began, k.timed)
		k.timed = 0
	}
}

// Refused counts that the actor does not handle the present input now, because it has handled too many: the input is
// dropped, or comes again.
func (tx *Tx) Refused(dropped bool) {
	if tx.c.tally != nil {
		tx.c.exceptions = append(tx.c.exceptions, exception{actor: tx.tallied(), dropped: dropped})
	}
}

// countFailure counts that the actor of the transaction has failed on the present input.
func (tx *Tx) countFailure() {
	if c := tx.c; c.tally != nil && tx.counted.entered {
		c.exceptions = append(c.exceptions, exception{actor: tx.tallied(), failed: true, in: c.typeOf(&c.input)})
	}
}

func (c *Core) markTally() int {
	if c.sample == nil {
		return 0
	}
	return c.sample.Mark()
}

// undoTally undoes what was counted since a mark, but for the input, because a handler has failed.
func (c *Core) undoTally(mark int) {
	if c.sample != nil {
		c.sample.KeepInput(mark)
	}
}

// abortTally undoes what was counted in a transaction.
func (c *Core) abortTally() {
	if c.sample != nil {
		c.sample.Abort()
	}
	c.countAll()
}

// commitTally counts what was recorded in a transaction.
func (c *Core) commitTally() {
	if len(c.exceptions) > 0 {
		c.countExceptions()
	}
	if c.sample != nil {
		c.sample.Commit(c.standsFor)
	}
}

func (c *Core) countExceptions() {
	for _, x := range c.exceptions {
		if x.failed {
			c.tally.Failed(x.actor, x.in)
		} else {
			c.tally.Refused(x.actor, x.dropped)
		}
	}
	clear(c.exceptions)
	c.exceptions = c.exceptions[:0]
}

// countCommand counts a command to a switch of this group.
func (tx *Tx) countCommand(sw *switchState, msg []byte) {
	c, k := tx.c, &tx.counted
	switch {
	case c.sample == nil:
	case k.remote:
		c.sample.Accepted(c.switchTally(sw), k.actor)
	default:
		a := tx.sender()
		c.sample.Output(a, c.switchTally(sw), tally.Type(message.Type(msg)), k.in, false)
	}
}

// countAcross counts a command to a switch of another group.
func (tx *Tx) countAcross(to Actor, msg []byte) {
	if c := tx.c; c.sample != nil {
		a := tx.sender()
		c.sample.Output(a, c.tallied(to), tally.Type(message.Type(msg)), tx.counted.in, true)
	}
}

// countEmitted counts an emitted message, and returns who has sent it; nil if the transaction is not counted.
func (tx *Tx) countEmitted(name string) *tally.Actor[Actor] {
	c := tx.c
	if c.sample == nil {
		return nil
	}
	a := tx.sender()
	c.sample.Output(a, nil, c.tally.Named(name), tx.counted.in, false)
	return a
}

// countForwarded counts an input that goes to another group.
func (c *Core) countForwarded(k Link) {
	if c.sample != nil {
		c.sample.Forwarded(c.tallied(k.From), c.tallied(k.To))
	}
}

// countTold counts an input of the replayed application.
func (c *Core) countTold(in *Input) {
	if c.sample == nil {
		return
	}
	var from *tally.Actor[Actor]
	if in.Switch != 0 {
		from = c.tallied(theSwitch(in.Switch))
	}
	c.sample.Input(c.tallied(c.replayedActor()), from, c.typeOf(in), in.exact)
}

// countCrossed counts an item of another group: its messages, with the bytes of the item among them.
func (c *Core) countCrossed(group uint64, k Link, it *item, size int) {
	switch {
	case c.tally == nil:
	case it.piece != nil:
		c.tally.Crossed(group, it.piece.actor.App, it.piece.actor.App, TypeOfMove, size)
	case it.commands != nil:
		for rest := it.commands; len(rest) > 0; {
			msg, after, _ := openflow.Next(rest) // they were checked
			c.tally.Crossed(group, k.From.App, k.To.App, tally.Type(message.Type(msg)), len(msg))
			rest = after
		}
	default:
		c.tally.Crossed(group, k.From.App, k.To.App, c.typeOf(&it.input), size)
	}
}

// Report is what the actors of a group have done while this ledger has led it.
type Report struct {
	tally.Report[Actor]
	For   time.Duration // the time of the leadership
	Bonds map[Actor]Bond

	// The fields below are set by Measure.
	Bytes      map[Actor]int // of the cells of each of Actors
	OtherBytes int           // of all other cells
	// Partial: there are more values than maxSized, and Bytes and OtherBytes are less than there is.
	Partial bool

	tables []sized
}

// sized is a table as it was when the report was made.
type sized struct {
	name  TableName
	of    Sharder // nil if its cells belong to the zero Shard
	cells *cells.Table
}

// Bounds of Measure: the values whose sizes are added up, and how many of them at a time, which takes 160 µs.
const (
	maxSized = 1 << 18
	sizedRun = 1 << 13
)

// Report returns what actors have done. It returns false if this ledger does not lead, or does not count.
func (c *Core) Report() (r Report, ok bool) {
	if c.tally == nil {
		return r, false
	}
	r = Report{Report: c.tally.Report(c.here), For: time.Duration(c.clock - c.ledAt), Bonds: map[Actor]Bond{}}
	for _, a := range r.Actors {
		if b, bonded := c.bond(a.ID); bonded {
			r.Bonds[a.ID] = b
		}
	}
	for name, t := range c.state.tables {
		r.tables = append(r.tables, sized{name, c.sharder(name.App), t.cells.Clone()})
	}
	return r, true
}

// Measure adds up the sizes of cells. It may run in any goroutine, beside the Core, which would otherwise wait for it:
// there may be a quarter of a million values. It calls rest after every few, so that others get the processor.
func (r *Report) Measure(rest func()) {
	sizes := make(map[Actor]*int, len(r.Actors))
	for i := range r.Actors {
		sizes[r.Actors[i].ID] = new(int)
	}
	values := 0
	for _, t := range r.tables {
		sum, of, known := (*int)(nil), Key{}, false
		for at, size := range t.cells.Sizes() {
			if values++; values > maxSized {
				r.Partial = true
				break
			}
			if values%sizedRun == 0 {
				rest()
			}
			if !known || at[0] != of {
				of, known = at[0], true
				if sum = sizes[Actor{t.name.App, shardBy(t.of, t.name, of)}]; sum == nil {
					sum = &r.OtherBytes
				}
			}
			*sum += keySize(at[0]) + keySize(at[1]) + size
		}
	}
	r.tables, r.Bytes = nil, make(map[Actor]int, len(sizes))
	for a, sum := range sizes {
		r.Bytes[a] = *sum
	}
}

// keySize is about the bytes of an encoded key.
func keySize(k Key) int { return (bits.Len64(k.A)+bits.Len64(k.B))/7 + 3 + len(k.S) }
