package controller

import (
	"time"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxTraced bounds the events that are executed and not logged, and are followed; others are not. It also bounds the
// commands that are followed for each switch, of which the oldest is let go, and the switches with such commands.
const maxTraced = 1024

// traces follows some events from their execution until the switches have executed their commands. It belongs to the
// loop of a group, and forgets everything when the leadership ends: the next leader writes spans of the same traces.
type traces struct {
	to       *trace.Tracer // nil: nothing is followed
	group    uint64
	executed map[openflow.DatapathID][]traced // and not yet logged, oldest first
	n        int                              // how many of executed
	commands map[openflow.DatapathID][]tracedCommand
	items    tracedItems // of other groups
}

// traced is an event that is executed.
type traced struct {
	trace.Event
	message      string    // its type
	from         string    // of an item: the actor of another group that has sent it
	began, ended time.Time // of its execution
	term         uint64
	stock        bool // no agent writes the first span
	commands     []ledger.Commanded
	turns        []ledger.Turn
	elapsed      time.Duration // when it began, by the clock of turns
}

// tracedCommand is a command that is on its way to its switch.
type tracedCommand struct {
	ledger.Commanded
	because trace.Event
	term    uint64
	sent    time.Time
}

// trace executes an event, and follows it if that is logged. Duplicates are not, and what Unordered handlers do is not.
func (c *Core) trace(e trace.Event, msg []byte, stock bool, execute func() error) error {
	of := c.beginTraced(e)
	of.message, of.stock = of13.TypeName(message.Type(msg)), stock
	err := execute()
	if t := &c.traces; c.endTraced(&of) && err == nil && t.n < maxTraced {
		t.add(of)
	}
	return err
}

// beginTraced begins to note what an event leads to.
func (c *Core) beginTraced(e trace.Event) traced {
	c.ledger.Note(true)
	return traced{Event: e, began: time.Now(), term: c.role.Term, elapsed: c.cfg.Elapsed()}
}

// endTraced ends that, and reports whether an event was executed that will be logged.
func (c *Core) endTraced(of *traced) (logged bool) {
	of.ended = time.Now()
	of.commands, logged = c.ledger.Noted()
	of.turns = c.ledger.Turns()
	c.tellTraced(of.Event, c.ledger.NotedItems())
	c.ledger.Note(false)
	return logged
}

func (t *traces) add(e traced) {
	if t.executed == nil {
		t.executed = map[openflow.DatapathID][]traced{}
	}
	t.executed[e.Switch] = append(t.executed[e.Switch], e)
	t.n++
}

// attributes are those of all spans of a controller.
func (t *traces) attributes(term uint64, more ...trace.Attribute) []trace.Attribute {
	return append([]trace.Attribute{{Name: trace.Group, Value: t.group}, {Name: trace.Term, Value: term}}, more...)
}

// released handles what was logged: the commands leave now.
func (t *traces) released(r ledger.Release) {
	list := t.executed[r.Switch]
	if len(list) == 0 {
		return
	}
	n := 0
	for n < len(list) && (list[n].Epoch < r.Epoch || list[n].Epoch == r.Epoch && list[n].Seq <= r.Acked) {
		t.tell(list[n], time.Now())
		n++
	}
	if t.n -= n; n == len(list) {
		delete(t.executed, r.Switch)
	} else {
		t.executed[r.Switch] = list[n:]
	}
}

// tell writes the spans of an event that is logged now.
func (t *traces) tell(e traced, now time.Time) {
	if e.stock {
		t.to.Put(trace.Span{Event: e.Event, Name: "event", Root: true, Start: e.began, End: now,
			Attributes: t.attributes(e.term)})
	}
	what := trace.Attribute{Name: trace.Message, Text: e.message}
	if e.from != "" {
		what = trace.Attribute{Name: trace.From, Text: e.from}
	}
	t.to.Put(trace.Span{Event: e.Event, Name: "execute", Start: e.began, End: e.ended,
		Attributes: t.attributes(e.term, what, trace.Attribute{Name: "commands", Value: uint64(len(e.commands))})})
	for _, turn := range e.turns {
		more := []trace.Attribute{{Name: trace.Actor, Text: turn.Actor.String()}}
		if turn.Failed {
			more = append(more, trace.Attribute{Name: "failed", Value: 1})
		}
		t.to.Put(trace.Span{Event: e.Event, Name: "handle", Start: e.began.Add(turn.Began - e.elapsed),
			End: e.began.Add(turn.Ended - e.elapsed), Attributes: t.attributes(e.term, more...)})
	}
	t.to.Put(trace.Span{Event: e.Event, Name: "log", Start: e.ended, End: now, Attributes: t.attributes(e.term)})
	for _, cmd := range e.commands {
		if t.commands == nil {
			t.commands = map[openflow.DatapathID][]tracedCommand{}
		}
		list := t.commands[cmd.Switch]
		if list == nil && len(t.commands) >= maxTraced {
			continue
		}
		t.commands[cmd.Switch] = append(list[max(0, len(list)+1-maxTraced):], tracedCommand{cmd, e.Event, e.term, now})
	}
}

// done handles the news that a switch has executed its commands up to seq.
func (t *traces) done(id openflow.DatapathID, epoch, seq uint64) {
	list := t.commands[id]
	if len(list) == 0 {
		return
	}
	kept := list[:0] // the list is in the order in which events were logged, which need not be that of the commands
	for _, cmd := range list {
		switch {
		case cmd.Epoch < epoch:
			continue // its epoch has ended
		case cmd.Epoch > epoch || cmd.Seq > seq:
			kept = append(kept, cmd)
			continue
		}
		t.to.Put(trace.Span{Event: cmd.because, Name: "command", Start: cmd.sent, End: time.Now(),
			Attributes: t.attributes(cmd.term, trace.Attribute{Name: trace.Target, Text: id.String()},
				trace.Attribute{Name: trace.Command, Value: cmd.Seq})})
	}
	if len(kept) == 0 {
		delete(t.commands, id)
	} else {
		t.commands[id] = kept
	}
}

// forget lets go of everything.
func (t *traces) forget() { t.executed, t.commands, t.n, t.items = nil, nil, 0, tracedItems{} }
