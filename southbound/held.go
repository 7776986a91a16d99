package southbound

import (
	"hash/maphash"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// Bounds of held, equal to those of an agent's buffer.
const (
	maxHeld      = 1 << 16
	maxHeldBytes = 32 << 20
)

// held keeps the events of one connection of a switch without an agent that are not known to be in the log, as an agent
// would. A switch sends packet-ins, flow-removed and port-status messages to all controllers, in the same order: these
// events are shared. Its other messages go to one controller, and are private. At the master the numbers of the outbox
// are those of the epoch; at a standby they have no meaning.
//
// A standby matches the shared events of its connection with those in the log, one by one. It needs a common starting
// point: a sync marker, which the master makes the switch send to all controllers, and which is logged like any event.
// The standby is in sync once the same sync marker has arrived on both ways. It is out of sync before, and again when
// the two sequences differ (a switch drops packet-ins for a controller that reads slowly). Then the log may lack events
// that this connection never received. Only a PORT_STATUS may be missing in the log, because the master did not receive
// it: Open vSwitch reports the effect of a PORT_MOD to all controllers but the one that sent it.
type held struct {
	stream.Outbox
	pool   *pool // of all sessions
	inSync bool
	list   []heldEvent // from start on: one for each event of the outbox
	start  int
	// sums of shared events that are in the log and have not arrived; only while no shared event is held
	ahead []uint64

	// Used while not in sync.
	marker uint64   // sum of the newest sync marker in the log; 0 if there was none
	since  []uint64 // sums of the shared events in the log after it
	lacks  int      // sync markers in the log since one arrived
}

type heldEvent struct {
	sum    uint64 // 0 if it is private
	status bool   // a PORT_STATUS
}

// anything is the sum of an event of which only the number is known.
const anything uint64 = 1

var sumSeed = maphash.MakeSeed()

// shared reports whether a switch sends messages of this type to every controller. The type numbers are the same in all
// versions.
func shared(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}

// sum identifies a shared event, or a sync marker, by the fields that are equal on all connections: not xid and buffer
// id.
func sum(msg []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(sumSeed)
	h.Write(msg[:4])
	body := msg[openflow.HeaderLen:]
	if msg[1] == of13.TypePacketIn && len(body) >= 4 {
		body = body[4:]
	}
	h.Write(body)
	return h.Sum64() | 2 // neither 0 nor anything
}

func isSyncMarker(msg []byte) bool {
	t, ours := experimenter.Is(msg)
	return ours && t == experimenter.TypeSyncMarker
}

// full reports whether the switch should not be read. Out of sync the held events may be discarded, so received makes
// room.
func (h *held) full() bool { return h.inSync && h.crowded() }

func (h *held) crowded() bool {
	return h.Full(stream.Bounds{Items: maxHeld, Bytes: maxHeldBytes}) || h.pool.crowds(h.Bytes())
}

// flooded reports whether twice the bound is held: the switch must be read because it owes an answer, but sends events
// instead.
func (h *held) flooded() bool {
	return h.Full(stream.Bounds{Items: 2 * maxHeld, Bytes: 2 * maxHeldBytes})
}

func (h *held) push(msg []byte, sum uint64) {
	h.Push(msg)
	h.pool.add(len(msg))
	h.list = append(h.list, heldEvent{sum, msg[1] == of13.TypePortStatus})
}

// about returns the record of each held event, oldest first.
func (h *held) about() []heldEvent { return h.list[h.start:] }

// pop removes the n oldest events.
func (h *held) pop(n int) {
	before := h.Bytes()
	_ = h.Ack(h.Acked() + uint64(n)) // no more than are held
	h.pool.add(h.Bytes() - before)
	h.start += n
	if h.start == len(h.list) {
		h.list, h.start = h.list[:0], 0
	} else if h.start > 1024 && h.start > len(h.list)/2 {
		h.list, h.start = append(h.list[:0], h.list[h.start:]...), 0
	}
}

func (h *held) clear() { h.pop(h.Len()) }

// restart numbers the events from after+1 on. before, if it is not nil, becomes the first. Private events are
// discarded, because their requests were of an earlier mastership.
func (h *held) restart(after uint64, before []byte) {
	events, list := h.Outbox, h.about()
	h.pool.add(-h.Bytes())
	h.Outbox, h.list, h.start = stream.OutboxAfter(after), nil, 0
	if before != nil {
		h.push(before, 0)
	}
	for i, e := range list {
		if e.sum != 0 {
			h.push(events.Item(events.Acked()+1+uint64(i)), e.sum)
		}
	}
}

// received adds an event from the switch, unless it is in the log already.
func (h *held) received(msg []byte, private bool) {
	if !h.inSync && h.crowded() {
		h.clear()
	}
	if private {
		h.push(msg, 0)
		return
	}
	s := sum(msg)
	if h.inSync && len(h.ahead) > 0 {
		switch {
		case fits(h.ahead[0], s):
			h.ahead = h.ahead[1:]
			return
		case msg[1] == of13.TypePortStatus: // the master did not receive it
			return
		}
		h.lost()
	}
	h.push(msg, s)
	if isSyncMarker(msg) {
		h.lacks = 0
	}
	if !h.inSync && s == h.marker { // it was logged first
		h.clear()
		h.inSync, h.ahead, h.since = true, h.since, nil
	}
}

// logged matches a shared event that another controller has logged.
func (h *held) logged(msg []byte) {
	s := sum(msg)
	h.match(s)
	if h.inSync {
		return
	}
	if !isSyncMarker(msg) {
		h.behind(s)
		return
	}
	h.marker, h.since = s, h.since[:0]
	h.lacks++
	for i, e := range h.about() {
		if e.sum == s {
			h.pop(i + 1)
			h.inSync, h.lacks = true, 0
			return
		}
	}
}

// skipped matches n shared events of which the log has only the number.
func (h *held) skipped(n int) {
	for range n {
		h.match(anything)
		if !h.inSync {
			h.behind(anything)
		}
	}
}

// behind records an event that follows the newest sync marker in the log.
func (h *held) behind(s uint64) {
	if h.marker != 0 {
		h.since = append(h.since, s)
	}
	if len(h.since) > maxHeld {
		h.marker, h.since = 0, nil
	}
}

func (h *held) match(s uint64) {
	if !h.inSync {
		return
	}
	for h.Len() > 0 && h.about()[0].status && !fits(s, h.about()[0].sum) {
		h.pop(1) // the master did not receive it
	}
	switch {
	case h.Len() > 0 && fits(s, h.about()[0].sum):
		h.pop(1)
	case h.Len() == 0 && len(h.ahead) < maxHeld:
		h.ahead = append(h.ahead, s)
	default:
		h.lost()
	}
}

func fits(a, b uint64) bool { return a == b || a == anything || b == anything }

// lost ends being in sync: it is unknown which of the events are in the log.
func (h *held) lost() { h.inSync, h.ahead, h.marker, h.since = false, nil, 0, nil }
