package app

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Level is the guarantee for a message, and for the commands that it causes, when the leader dies or changes.
// What handlers write to tables and timers is replicated at every level.
type Level = ledger.Level

// The levels, weakest first. Each includes the guarantees of those before it.
const (
	// Unordered: the message is processed, and its commands are sent, at once. The next leader may process it again.
	Unordered = ledger.Unordered
	// Reliable: the message is logged before the agent discards it. Its commands are sent at once, and again if another
	// controller becomes leader before the message is logged. Commands that were not sent by then are lost.
	Reliable = ledger.Reliable
	// Ordered: commands are sent, at most once, after the message and the outcome of its handler are committed.
	Ordered = ledger.Ordered
	// ExactlyOnce: commands are logged too, and each is executed exactly once. The default.
	ExactlyOnce = ledger.ExactlyOnce
)

// Option changes how a message is handled.
type Option func(*handling)

// handling is what options choose.
type handling struct {
	level    Level
	degraded bool
}

// At gives a type of message a weaker level in this application: PacketIn, PortStatus, FlowRemoved,
// Reply, BarrierReply and Refused may have one. If several handlers take a type, the strongest holds.
// Commands of one level to one switch keep their order; with those of another level they have none.
func At(l Level) Option { return func(h *handling) { h.level = l } }

// levelled are the messages that may have a level, by the name that operators use.
var levelled = map[string]uint8{
	"packet_in": of13.TypePacketIn, "port_status": of13.TypePortStatus, "flow_removed": of13.TypeFlowRemoved,
	"reply": of13.TypeMultipartReply, "barrier_reply": of13.TypeBarrierReply, "refused": openflow.TypeError,
}

// SetLevel is At for operators: message is packet_in, port_status, flow_removed, reply, barrier_reply or refused.
func (a *App) SetLevel(message string, l Level) error {
	typ, ok := levelled[message]
	switch {
	case !ok:
		return fmt.Errorf("no level can be set for %q: only for %q", message, slices.Sorted(maps.Keys(levelled)))
	case len(a.handlers[typ]) == 0:
		return fmt.Errorf("application %s does not handle %s, so that has no level: leave it out", a.name, message)
	}
	a.levels[typ] = l
	return nil
}

// ParseLevel reads the name of a level: unordered, reliable, ordered or exactly_once.
func ParseLevel(name string) (Level, error) {
	for l := Unordered; l <= ExactlyOnce; l++ {
		if l.String() == name {
			return l, nil
		}
	}
	return ExactlyOnce, fmt.Errorf("level %q: use %s, %s, %s or %s", name, Unordered, Reliable, Ordered, ExactlyOnce)
}

// Level implements ledger.Leveler.
func (a *App) Level(typ uint8) (level Level, handles bool) {
	return a.levels[typ], len(a.handlers[typ]) > 0
}

func (a *App) add(typ uint8, how handling, h handler) {
	l := how.level
	if len(a.handlers[typ]) > 0 {
		l = max(l, a.levels[typ])
	}
	a.levels[typ] = l
	a.handlers[typ] = append(a.handlers[typ], h)
	if how.degraded {
		a.degraded[typ] = append(a.degraded[typ], h)
	}
}
