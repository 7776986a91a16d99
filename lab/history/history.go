// Package history records what can be observed of a simulated run from outside, and checks it: what agents and switches
// have sent, what is committed, what switches have executed. It compares that with the guarantees of the platform, and
// with one controller that never fails. See docs/design/simulator.md for the list.
//
// It runs nothing, and knows nothing of connections, processes or faults: lab/sim and lab/shells do, and report the
// events of the run in order. It is not for concurrent use.
package history

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"

	messages "github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// History records and checks a run. Only the first violation is reported, because what follows from it says little.
//
// It has the switches, and a Group for each group of controllers. It keeps fingerprints of messages until they are
// matched, and events with their messages, since the logs may have only their digests. It keeps the whole logs.
type History struct {
	fail     func(format string, args ...any)
	failed   bool
	switches map[openflow.DatapathID]*switchHistory // behind agents
	direct   map[openflow.DatapathID]directHistory  // without agents
	groups   []*Group
	links    map[ledger.Link]*linkHistory
	residence
	events   uint64 // in the logs
	commands uint64
	received uint64 // items of streams between groups
	floor    uint64 // the highest epoch of the switches that were forgotten
	forgets  uint64
	// commands without a sequence that switches behind agents have received
	bestEffort uint64
}

// New makes the history of a run, without groups. fail is called with the first violation.
func New(fail func(format string, args ...any)) *History {
	return &History{fail: fail, switches: map[openflow.DatapathID]*switchHistory{},
		direct: map[openflow.DatapathID]directHistory{}, links: map[ledger.Link]*linkHistory{},
		residence: newResidence()}
}

// Live is the epoch of a switch without an agent: that of its marker or, without bundles, the one that is open in the
// log. 0 is none.
func (h *History) Live(id openflow.DatapathID) uint64 { return h.direct[id].live() }

// Unlogged counts the events of a switch without an agent since the last in the log.
func (h *History) Unlogged(id openflow.DatapathID) int { return h.direct[id].unlogged() }

// isDirect reports whether a switch has no agent.
func (h *History) isDirect(id openflow.DatapathID) bool { return h.direct[id] != nil }

// violation is a failed check.
type violation string

func (v violation) Error() string { return string(v) }

func violated(format string, args ...any) error { return violation(fmt.Sprintf(format, args...)) }

// report ends the checks at the first error.
func (h *History) report(err error) {
	if err != nil && !h.failed {
		h.failed = true
		h.fail("%s", err.Error())
	}
}

// Counts returns how many events and commands are in the logs, and how many terms had a leader.
func (h *History) Counts() (events, commands, terms uint64) {
	for _, g := range h.groups {
		terms += uint64(len(g.log.leaders))
	}
	return h.events, h.commands, terms
}

// Received returns how many items of streams between groups are in the logs of their receivers.
func (h *History) Received() uint64 { return h.received }

// BestEffort returns how many commands without a sequence switches behind agents have received.
func (h *History) BestEffort() uint64 { return h.bestEffort }

// StockCounts returns how many epochs stock switches had, and how many events came into none.
func (h *History) StockCounts() (epochs, lost uint64) {
	for _, d := range h.direct {
		if s, ok := d.(*stockHistory); ok {
			epochs += uint64(len(s.epochs))
			lost += s.lost
		}
	}
	return epochs, lost
}

// Opened: the agent began an epoch. Its first event is SWITCH_UP.
func (h *History) Opened(id openflow.DatapathID, epoch uint64) {
	if !h.failed {
		h.report(h.of(id).begin(epoch))
	}
}

// Read: the agent read a message from the switch.
func (h *History) Read(id openflow.DatapathID, epoch uint64, msg []byte) {
	if !h.failed {
		h.report(h.of(id).read(epoch, toldBy(msg)))
	}
}

// Closed: the agent sent SWITCH_DOWN, the last event of the epoch.
func (h *History) Closed(id openflow.DatapathID, epoch uint64, reason string) {
	if !h.failed {
		down := fingerprint{special: experimenter.TypeSwitchDown, hash: hashString(reason)}
		h.report(h.of(id).close(epoch, down))
	}
}

// Ended: the agent closed the connection of an epoch. SWITCH_DOWN is its last event, with an unknown reason. Ragged:
// the agent closed it before it had read everything, and may have dropped the end of what it had read.
func (h *History) Ended(id openflow.DatapathID, epoch uint64, ragged bool) {
	if !h.failed {
		h.report(h.of(id).end(epoch, ragged))
	}
}

// Lost: the agent died or lost its state. Unlogged events of this epoch and those before may be missing.
func (h *History) Lost(id openflow.DatapathID, epoch uint64) {
	if !h.failed {
		h.of(id).lose(epoch)
	}
}

// Refused: the agent was told that an epoch has ended, and discarded it and those before; or the session of a stock
// switch was told so.
func (h *History) Refused(id openflow.DatapathID, epoch uint64) {
	switch {
	case h.failed:
	case epoch > h.floor:
		h.report(h.ofAny(id).refuse(epoch))
	case !h.isDirect(id): // whatever the log has of it: a new switch begins an epoch above the floor
		h.of(id).lose(epoch)
	}
}

// Direct says what a switch without an agent is like.
type Direct struct {
	Legacy bool // it has no bundles
	Drops  bool // it may drop what a controller does not read
}

// Booted: a switch without an agent starts.
func (h *History) Booted(id openflow.DatapathID, like Direct) {
	if h.direct[id] == nil {
		logged, sent := loggedSwitch{id: id}, broadcast{drops: like.Drops}
		h.direct[id] = &stockHistory{loggedSwitch: logged, broadcast: sent}
		if like.Legacy {
			h.direct[id] = &legacyHistory{loggedSwitch: logged, broadcast: sent}
		}
	}
	if !h.failed {
		h.report(h.direct[id].boot())
	}
}

// Emitted: a switch without an agent sent a message to all its controllers.
func (h *History) Emitted(id openflow.DatapathID, msg []byte) {
	if !h.failed && ToAll(msg[1]) {
		h.direct[id].tell(msg)
	}
}

// Obeyed: a switch without an agent executed a message that changes it or sends a packet.
func (h *History) Obeyed(id openflow.DatapathID, msg []byte) {
	if !h.failed {
		h.report(h.direct[id].obey(msg))
	}
}

// Executed: the switch received a command. One without a sequence is in no log.
func (h *History) Executed(id openflow.DatapathID, epoch uint64, msg []byte) {
	switch {
	case h.failed:
	case messages.BestEffort(openflow.XID(msg)):
		h.bestEffort++
	default:
		h.report(h.of(id).execute(epoch, fingerprintOf(msg)))
	}
}

// Acked: the agent was told that events up to seq are logged.
func (h *History) Acked(id openflow.DatapathID, epoch, seq uint64) {
	if !h.failed {
		h.report(h.of(id).acknowledge(epoch, seq))
	}
}

// Finish checks what must hold at the end for the switches: the epoch of each one that is up and has an agent is in
// live.
func (h *History) Finish(live map[openflow.DatapathID]uint64) {
	if h.failed {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(live)) {
		h.report(h.of(id).lives(live[id]))
	}
	for _, id := range slices.Sorted(maps.Keys(h.switches)) {
		h.report(h.switches[id].finish())
	}
	for _, id := range slices.Sorted(maps.Keys(h.direct)) {
		h.report(h.direct[id].finish())
	}
	h.report(h.finishLinks())
	if moving := h.Moving(); moving != "" {
		h.report(violated("at the end %s", moving))
	}
}

func (h *History) of(id openflow.DatapathID) *switchHistory {
	s := h.switches[id]
	if s == nil {
		s = &switchHistory{loggedSwitch: loggedSwitch{id: id}}
		h.switches[id] = s
	}
	return s
}

// observed is the history of a switch of any kind, as far as the log has it.
type observed interface {
	logEvent(epoch, seq uint64, f fingerprint) error
	logCommand(seq, index uint64, f fingerprint) error
	logDone(epoch, seq uint64) error
	logReach(epoch uint64) error
	logClose(epoch uint64) error
	logForget(epoch uint64) error
	refuse(epoch uint64) error
	newest() *loggedEpoch
	quiet() bool
}

// directHistory is that of a switch without an agent.
type directHistory interface {
	observed
	boot() error
	tell(msg []byte)
	obey(msg []byte) error
	live() uint64
	unlogged() int
	finish() error
}

func (h *History) ofAny(id openflow.DatapathID) observed {
	if s := h.direct[id]; s != nil {
		return s
	}
	return h.of(id)
}

// fingerprint identifies messages. Of an agent's SWITCH_UP only the type is known.
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
			reason, _ := experimenter.ParseSwitchDown(msg) // not of an agent if malformed
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

// Quiet reports whether all commands of the log are executed, as far as they have to be.
func (h *History) Quiet() bool {
	for id := range h.switches {
		if !h.switches[id].quiet() {
			return false
		}
	}
	for id := range h.direct {
		if !h.direct[id].quiet() {
			return false
		}
	}
	return true
}
