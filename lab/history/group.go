package history

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Group records and checks the log of one group, and the states that its replicas derive from it.
type Group struct {
	h      *History
	name   string // for messages; "" if it is the only one
	log    sharedLog
	shadow *shadow
	replay *replay
	number uint64
	lives  ledger.Directory // according to all that is committed; nil if it is the only group
	// by application; nil if it has one actor
	sharders map[string]ledger.Sharder

	// Of the transaction that is looked at.
	arrival   *arrival     // nil if it has received no commands
	departing ledger.Actor // zero if none departs
	forgotten ledger.Actor // the switch that is forgotten; zero if none is
}

// Replica is a controller at the end of a run.
type Replica struct {
	Applied  uint64 // index of its last entry
	Snapshot []byte
	Host     *Program // nil is none
}

// GroupConfig is what the replicas of a group have.
type GroupConfig struct {
	Applications []ledger.Application
	// Follows: entries are applied, and not executed again, because what the applications do depends on more than the
	// log. Else they are deterministic.
	Follows  bool
	Identity string // if it is not empty, their hosts run a Program
	Limits   ledger.Limits
	// of one of several groups: its number, and where actors live according to all that is committed
	Number    uint64
	Directory ledger.Directory
}

// Group adds a group.
func (h *History) Group(cfg GroupConfig) *Group {
	g := &Group{h: h, log: newSharedLog(), number: cfg.Number, lives: cfg.Directory,
		sharders: map[string]ledger.Sharder{}}
	for _, a := range cfg.Applications {
		if s, is := a.(ledger.Sharder); is {
			g.sharders[a.Name()] = s
		}
	}
	if cfg.Directory != nil {
		g.name = fmt.Sprintf("group %d", cfg.Number)
	}
	h.groups = append(h.groups, g)
	var err error
	if g.shadow, err = newShadow(cfg.Identity != "", ledger.DeafOf(cfg.Applications)); err == nil {
		g.replay, err = newReplay(cfg, h, g.shadow.model)
	}
	g.report(err)
	return g
}

// report ends the checks at the first error.
func (g *Group) report(err error) {
	if err != nil && g.name != "" {
		err = fmt.Errorf("%s: %w", g.name, err)
	}
	g.h.report(err)
}

// Leading: a controller became leader.
func (g *Group) Leading(node, term uint64) {
	if !g.h.failed {
		g.report(g.log.lead(node, term))
	}
}

// Committed: a committed entry was delivered to a controller.
func (g *Group) Committed(node, index, term uint64, data []byte) {
	if g.h.failed {
		return
	}
	fresh, err := g.log.deliver(node, index, term, data)
	if err == nil && fresh {
		err = g.learn(len(g.log.entries) - 1)
	}
	g.report(err)
}

// learn checks an entry that is delivered for the first time.
func (g *Group) learn(position int) error {
	e := &g.log.entries[position]
	if err := g.shadow.begin(&g.log, position); err != nil {
		return err
	}
	g.replay.begin(position, e.term)
	_, err := ledger.Walk(e.data, func(r *ledger.Record) error {
		if err := g.record(e, r); err != nil {
			return err
		}
		g.shadow.model.apply(r)
		return g.replay.foresee(r)
	})
	if err == nil {
		err = g.complete()
	}
	if err == nil {
		err = g.replay.entry(e)
	}
	if err == nil {
		err = g.shadow.core.Commit(e.data)
	}
	var v violation
	if errors.As(err, &v) {
		err = v // without the position within the entry
	}
	if err != nil {
		err = fmt.Errorf("entry %d of term %d: %w", e.index, e.term, err)
	}
	return err
}

// complete checks a transaction of which all operations are known.
func (g *Group) complete() error {
	err := cmp.Or(g.arrival.complete(), g.gone(), g.nothingLeft())
	g.arrival = nil
	return err
}

// record checks one operation.
func (g *Group) record(e *entry, r *ledger.Record) error {
	if isInput(r.Op) {
		if err := g.complete(); err != nil {
			return err
		}
	}
	if err := g.logOwner(r); err != nil {
		return err
	}
	switch r.Op {
	case ledger.OpEvent:
		g.h.events++
		g.replay.hears(r.Bytes)
		return g.h.ofAny(r.Switch).logEvent(r.Epoch, r.Seq, fingerprintOf(r.Bytes))
	case ledger.OpSeen:
		g.h.events++
		msg, err := g.logSeen(r)
		g.replay.hears(msg)
		return err
	case ledger.OpCommand:
		g.h.commands++
		return cmp.Or(g.arrival.queue(r), g.h.ofAny(r.Switch).logCommand(r.Seq, e.index, fingerprintOf(r.Bytes)))
	case ledger.OpSend:
		return g.logSend(r)
	case ledger.OpReceive:
		return g.logReceive(r)
	case ledger.OpTaken:
		return g.logTaken(r)
	case ledger.OpDone:
		return g.h.ofAny(r.Switch).logDone(r.Epoch, r.Seq)
	case ledger.OpUnreachable, ledger.OpReachable:
		return g.h.ofAny(r.Switch).logReach(r.Epoch)
	case ledger.OpCloseEpoch:
		return g.h.ofAny(r.Switch).logClose(r.Epoch)
	case ledger.OpForget:
		return g.logForget(r)
	}
	return nil
}

// logSeen checks an event of which the log has the digest, and returns its message. A stock switch has none, since the
// standbys need the messages.
func (g *Group) logSeen(r *ledger.Record) ([]byte, error) {
	if g.h.isDirect(r.Switch) {
		return nil, violated("switch %s, epoch %d: event %d is logged by its digest, and it has no agent", r.Switch,
			r.Epoch, r.Seq)
	}
	return g.h.of(r.Switch).logSeen(r.Epoch, r.Seq, digested{r.Type, r.Digest})
}

// Restored: a controller installed a snapshot.
func (g *Group) Restored(node, index uint64, state []byte) {
	if g.h.failed {
		return
	}
	position, err := g.log.restore(node, index)
	if err == nil {
		err = g.shadow.compare(&g.log, position, state)
	}
	if err != nil {
		err = fmt.Errorf("snapshot at entry %d, which controller %d takes over: %w", index, node, err)
	}
	g.report(err)
}

// Kept: a controller made a snapshot.
func (g *Group) Kept(node, index uint64, state []byte) {
	if g.h.failed {
		return
	}
	position, err := g.log.position(index)
	if err == nil {
		err = g.shadow.compare(&g.log, position, state)
	}
	if err != nil {
		err = fmt.Errorf("snapshot at entry %d, which controller %d keeps: %w", index, node, err)
	}
	g.report(err)
}

// Finish checks the state of the replicas at the end.
func (g *Group) Finish(replicas map[uint64]Replica) {
	if g.h.failed {
		return
	}
	want, err := g.shadow.core.Snapshot()
	if err == nil {
		err = g.shadow.model.check(want)
	}
	if err != nil {
		g.report(err)
		return
	}
	for _, node := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[node]
		if last := g.log.last(); r.Applied != last {
			g.report(violated("controller %d ends at entry %d; the log ends at %d", node, r.Applied, last))
		}
		if !bytes.Equal(r.Snapshot, want) {
			g.report(violated("the final state of controller %d is not that of its log: %s", node,
				firstDifference(r.Snapshot, want)))
		}
		if r.Host != nil && r.Host.sum != g.replay.host.sum {
			g.report(violated("the host of controller %d ends in another state than a single one, after input %d", node,
				r.Host.Number))
		}
	}
	g.report(g.replay.finish(want))
}
