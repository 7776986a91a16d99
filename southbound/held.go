package southbound

import (
	"hash/maphash"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/stream"
)

// Bounds of held, as an agent's.
const (
	maxHeld      = 1 << 16
	maxHeldBytes = 32 << 20
)

// held has the events of one connection of a switch without an agent that are not in the log, as far as is known: what
// an agent would keep. A switch sends its packet-ins, flow-removed and port-status to all controllers, in one order:
// these are shared. What else it sends is for one controller, and private. At the master the numbers of the outbox are
// those of the epoch; at a standby they mean nothing.
//
// A standby matches what comes on its connection with what comes into the log, one by one. That needs a common point to
// start at: a sync marker, which the master has the switch send to all, and which stands in the log like any event.
// Until a sync marker has come both ways, and again when the two do not fit (a switch drops packet-ins for a controller
// that reads slowly), the standby is not in sync: then the log may lack events that this connection never had. Only a
// PORT_STATUS may be missing in the log: an Open vSwitch tells all controllers of the effect of a PORT_MOD but the one
// that sent it.
type held struct {
	stream.Outbox
	inSync bool
	list   []heldEvent // behind start: about each event of the outbox
	start  int
	// sums of shared events that are in the log and have not come; only while no shared event is held
	ahead []uint64

	// While not in sync.
	marker uint64   // sum of the newest sync marker in the log; 0 if there was none
	since  []uint64 // sums of the shared events in the log behind it
	lacks  int      // sync markers in the log since one came
}

type heldEvent struct {
	sum    uint64 // 0: private
	status bool   // a PORT_STATUS
}

// anything is the sum of an event of which only the number is known.
const anything uint64 = 1

var sumSeed = maphash.MakeSeed()

// shared reports whether a switch sends such messages to every controller. The numbers are the same in all versions.
func shared(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}

// sum identifies a shared event, or a sync marker, by what does not depend on the connection: not by xid and buffer id.
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

// full reports that no more is to be read from the switch. Out of sync nothing is to be kept for sure: then received
// makes room.
func (h *held) full() bool { return h.inSync && h.crowded() }

func (h *held) crowded() bool { return h.Full(stream.Bounds{Items: maxHeld, Bytes: maxHeldBytes}) }

// flooded reports that it holds twice as much: the switch is read since it owes an answer, and sends events instead.
func (h *held) flooded() bool {
	return h.Full(stream.Bounds{Items: 2 * maxHeld, Bytes: 2 * maxHeldBytes})
}

func (h *held) push(msg []byte, sum uint64) {
	h.Push(msg)
	h.list = append(h.list, heldEvent{sum, msg[1] == of13.TypePortStatus})
}

// about is what is known of each event held, oldest first.
func (h *held) about() []heldEvent { return h.list[h.start:] }

// pop forgets the n oldest events.
func (h *held) pop(n int) {
	_ = h.Ack(h.Acked() + uint64(n)) // no more than are held
	h.start += n
	if h.start == len(h.list) {
		h.list, h.start = h.list[:0], 0
	} else if h.start > 1024 && h.start > len(h.list)/2 {
		h.list, h.start = append(h.list[:0], h.list[h.start:]...), 0
	}
}

func (h *held) clear() { h.pop(h.Len()) }

// restart numbers the events from after+1 on, and before, if it is not nil, comes first. The private events are
// forgotten: nobody answers any more for what the switch told this controller alone.
func (h *held) restart(after uint64, before []byte) {
	events, list := h.Outbox, h.about()
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

// received takes an event from the switch, and holds it unless it is in the log already.
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
		case msg[1] == of13.TypePortStatus: // the master never had it
			return
		}
		h.lost()
	}
	h.push(msg, s)
	if isSyncMarker(msg) {
		h.lacks = 0
	}
	if !h.inSync && s == h.marker { // the log had it first
		h.clear()
		h.inSync, h.ahead, h.since = true, h.since, nil
	}
}

// logged takes a shared event that has come into the log by another controller.
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

// skipped takes n shared events that are in the log by their number only.
func (h *held) skipped(n int) {
	for range n {
		h.match(anything)
		if !h.inSync {
			h.behind(anything)
		}
	}
}

// behind notes an event that stands in the log behind its newest sync marker.
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
		h.pop(1) // the master never had it
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

// lost says that it is not known any more what of the events is in the log.
func (h *held) lost() { h.inSync, h.ahead, h.marker, h.since = false, nil, 0, nil }
