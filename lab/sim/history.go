package sim

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// reporter is told what is wrong; the world is one.
type reporter interface {
	fail(format string, args ...any)
}

// history is what is seen of a run from outside, and checks it as it comes. The first violation is
// reported, and nothing after it: what follows from a violation says little.
//
// Of messages it keeps fingerprints until they are matched, and of events the messages too, which the log may have
// by their digests only. Of the log it keeps everything.
type history struct {
	r        reporter
	failed   bool
	switches map[openflow.DatapathID]*switchHistory // behind agents
	stock    map[openflow.DatapathID]*stockHistory
	log      sharedLog
	shadow   *shadow
	replay   *replay
	events   uint64 // in the log
	commands uint64
}

// replica is a controller at the end of a run.
type replica struct {
	applied  uint64 // index of its last entry
	snapshot []byte
	host     *program // nil is none
}

// newHistory makes the history of a run whose controllers run such applications, which are
// deterministic, within such limits.
func newHistory(r reporter, apps func() []ledger.Application, limits ledger.Limits) *history {
	h := &history{r: r, switches: map[openflow.DatapathID]*switchHistory{},
		stock: map[openflow.DatapathID]*stockHistory{}, log: newSharedLog()}
	var err error
	if h.shadow, err = newShadow(); err == nil {
		h.replay, err = newReplay(apps(), limits, h.isStock)
	}
	if err != nil {
		h.report(err)
	}
	return h
}

// isStock reports whether a switch has no agent.
func (h *history) isStock(id openflow.DatapathID) bool { return h.stock[id] != nil }

// violation is what a check found.
type violation string

func (v violation) Error() string { return string(v) }

func violated(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// report ends the checks at the first error.
func (h *history) report(err error) {
	if err != nil && !h.failed {
		h.failed = true
		h.r.fail("%s", err.Error())
	}
}

// counts returns how many events and commands are in the log, and how many terms had a leader.
func (h *history) counts() (events, commands, terms uint64) {
	return h.events, h.commands, uint64(len(h.log.leaders))
}

// stockCounts returns how many epochs stock switches had, and how many events came into none.
func (h *history) stockCounts() (epochs, lost uint64) {
	for _, s := range h.stock {
		epochs += uint64(len(s.epochs))
		lost += s.lost
	}
	return epochs, lost
}

// opened: the agent began an epoch, whose SWITCH_UP is its first event.
func (h *history) opened(id openflow.DatapathID, epoch uint64) {
	if !h.failed {
		h.report(h.of(id).open(epoch))
	}
}

// read: the agent took a message from the switch.
func (h *history) read(id openflow.DatapathID, epoch uint64, msg []byte) {
	if !h.failed {
		h.report(h.of(id).read(epoch, toldBy(msg)))
	}
}

// closed: the agent said SWITCH_DOWN, the last event of the epoch.
func (h *history) closed(id openflow.DatapathID, epoch uint64, reason string) {
	if !h.failed {
		down := fingerprint{special: experimenter.TypeSwitchDown, hash: hashString(reason)}
		h.report(h.of(id).close(epoch, down))
	}
}

// lost: the agent died or forgot. What is not logged of this epoch and those before may be missing.
func (h *history) lost(id openflow.DatapathID, epoch uint64) {
	if !h.failed {
		h.of(id).lose(epoch)
	}
}

// refused: the agent was told that an epoch is over, and forgot it and those before; or the session of a stock
// switch was.
func (h *history) refused(id openflow.DatapathID, epoch uint64) {
	if !h.failed {
		h.report(h.ofAny(id).refuse(epoch))
	}
}

// booted: a stock switch starts. It may drop what a controller does not read.
func (h *history) booted(id openflow.DatapathID, drops bool) {
	if h.stock[id] == nil {
		h.stock[id] = &stockHistory{id: id, drops: drops}
	}
	if !h.failed {
		h.report(h.stock[id].boot())
	}
}

// emitted: a stock switch told all its controllers.
func (h *history) emitted(id openflow.DatapathID, msg []byte) {
	if !h.failed && toAll(msg[1]) {
		h.stock[id].tell(msg)
	}
}

// obeyed: a stock switch executed what changes it or sends a packet.
func (h *history) obeyed(id openflow.DatapathID, msg []byte) {
	if !h.failed {
		h.report(h.stock[id].obey(msg))
	}
}

// executed: the switch got a command.
func (h *history) executed(id openflow.DatapathID, epoch uint64, msg []byte) {
	if !h.failed {
		h.report(h.of(id).execute(epoch, fingerprintOf(msg)))
	}
}

// acked: the agent was told that events up to seq are logged.
func (h *history) acked(id openflow.DatapathID, epoch, seq uint64) {
	if !h.failed {
		h.report(h.of(id).acknowledge(epoch, seq))
	}
}

// leading: a controller was told that it leads.
func (h *history) leading(node, term uint64) {
	if !h.failed {
		h.report(h.log.lead(node, term))
	}
}

// committed: a controller was handed a committed entry.
func (h *history) committed(node, index, term uint64, data []byte) {
	if h.failed {
		return
	}
	fresh, err := h.log.deliver(node, index, term, data)
	if err == nil && fresh {
		err = h.learn(len(h.log.entries) - 1)
	}
	h.report(err)
}

// learn checks an entry that nobody was handed before.
func (h *history) learn(position int) error {
	e := &h.log.entries[position]
	h.replay.begin(position, e.term)
	_, err := ledger.Walk(e.data, func(r *ledger.Record) error {
		if err := h.record(e, r); err != nil {
			return err
		}
		return h.replay.foresee(r)
	})
	if err == nil {
		err = h.replay.entry(e)
	}
	if err == nil {
		err = h.shadow.commit(&h.log, position)
	}
	var v violation
	if errors.As(err, &v) {
		err = v // without where in the entry Walk was
	}
	if err != nil {
		err = fmt.Errorf("entry %d of term %d: %w", e.index, e.term, err)
	}
	return err
}

// record checks one operation.
func (h *history) record(e *entry, r *ledger.Record) error {
	switch r.Op {
	case ledger.OpEvent:
		h.events++
		h.replay.hears(r.Bytes)
		return h.ofAny(r.Switch).logEvent(r.Epoch, r.Seq, fingerprintOf(r.Bytes))
	case ledger.OpSeen:
		h.events++
		msg, err := h.logSeen(r)
		h.replay.hears(msg)
		return err
	case ledger.OpCommand:
		h.commands++
		return h.ofAny(r.Switch).logCommand(r.Seq, e.index, fingerprintOf(r.Bytes))
	case ledger.OpDone:
		return h.ofAny(r.Switch).logDone(r.Epoch, r.Seq)
	case ledger.OpUnreachable, ledger.OpReachable:
		return h.ofAny(r.Switch).logReach(r.Epoch)
	case ledger.OpCloseEpoch:
		return h.ofAny(r.Switch).logClose(r.Epoch)
	}
	return nil
}

// logSeen checks an event that the log has by its digest, and returns its message. A stock switch has none, since
// the standbys look for the messages.
func (h *history) logSeen(r *ledger.Record) ([]byte, error) {
	if h.isStock(r.Switch) {
		return nil, violated("switch %s, epoch %d: event %d is logged by its digest, and it has no agent", r.Switch,
			r.Epoch, r.Seq)
	}
	return h.of(r.Switch).logSeen(r.Epoch, r.Seq, digested{r.Type, r.Digest})
}

// restored: a controller took over a snapshot.
func (h *history) restored(node, index uint64, state []byte) {
	if h.failed {
		return
	}
	position, err := h.log.restore(node, index)
	if err == nil {
		err = h.shadow.compare(&h.log, position, state)
	}
	if err != nil {
		err = fmt.Errorf("snapshot at entry %d, which controller %d takes over: %w", index, node, err)
	}
	h.report(err)
}

// finish checks what must hold when all is done: what the replicas have, and in which epoch each
// switch that is up lives.
func (h *history) finish(replicas map[uint64]replica, live map[openflow.DatapathID]uint64) {
	if h.failed {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		h.report(h.of(id).lives(live[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(h.switches)) {
		h.report(h.switches[id].finish())
	}
	for _, id := range slices.Sorted(maps.Keys(h.stock)) {
		h.report(h.stock[id].finish())
	}
	want, err := h.shadow.core.Snapshot()
	if err != nil {
		h.report(err)
		return
	}
	for _, node := range slices.Sorted(maps.Keys(replicas)) {
		r := replicas[node]
		if last := h.log.last(); r.applied != last {
			h.report(violated("controller %d ends at entry %d; the log ends at %d", node, r.applied, last))
		}
		if !bytes.Equal(r.snapshot, want) {
			h.report(violated("the final state of controller %d is not that of its log: %s", node,
				firstDifference(r.snapshot, want)))
		}
		if r.host != nil && r.host.sum != h.replay.host.sum {
			h.report(violated("the host of controller %d ends in another state than a single one, after input %d", node,
				r.host.number))
		}
	}
	h.report(h.replay.finish(want))
}

func (h *history) of(id openflow.DatapathID) *switchHistory {
	s := h.switches[id]
	if s == nil {
		s = &switchHistory{id: id}
		h.switches[id] = s
	}
	return s
}

// ofAny is the history of a switch of either kind.
func (h *history) ofAny(id openflow.DatapathID) interface {
	logEvent(epoch, seq uint64, f fingerprint) error
	logCommand(seq, index uint64, f fingerprint) error
	logDone(epoch, seq uint64) error
	logReach(epoch uint64) error
	logClose(epoch uint64) error
	refuse(epoch uint64) error
} {
	if s := h.stock[id]; s != nil {
		return s
	}
	return h.of(id)
}

// fingerprint tells messages apart. That an agent says SWITCH_UP is all that is known of it.
type fingerprint struct {
	hash    uint64
	xid     uint32
	special experimenter.Type // SWITCH_UP or SWITCH_DOWN; the hash is that of the reason
	length  uint16
	typ     uint8
}

var seed = maphash.MakeSeed()

func hashString(s string) uint64 { return maphash.String(seed, s) }

func fingerprintOf(msg []byte) fingerprint {
	if t, ours := experimenter.Is(msg); ours {
		switch t {
		case experimenter.TypeSwitchUp:
			return fingerprint{special: t}
		case experimenter.TypeSwitchDown:
			reason, _ := experimenter.ParseSwitchDown(msg) // of what is malformed, no agent's
			return fingerprint{special: t, hash: hashString(reason.String())}
		}
	}
	f := fingerprint{hash: maphash.Bytes(seed, msg), length: uint16(len(msg))}
	if len(msg) >= openflow.HeaderLen {
		f.xid, f.typ = openflow.XID(msg), msg[1]
	}
	return f
}

func (f fingerprint) String() string {
	if f.special != 0 {
		return f.special.String()
	}
	return fmt.Sprintf("a message of type %d, xid %#x, %d bytes", f.typ, f.xid, f.length)
}
