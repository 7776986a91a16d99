package southbound

import (
	"hash/maphash"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// Bounds of held, as an agent's.
const (
	maxHeld      = 1 << 16
	maxHeldBytes = 32 << 20
)

// held has the events of one connection of a stock switch that are not in the log, as far as is
// known: what an agent would hold. A switch sends its packet-ins, flow-removed and
// port-status to all controllers, in one order: these are shared. What else it sends is for one
// controller, and private.
//
// A standby matches what comes on its connection with what comes into the log, one by one. That
// needs a common point to start at: a mark, which the master has the switch send to all, and which
// stands in the log like any event. Until a mark has come both ways, and again when the two do
// not fit (a switch drops packet-ins for a controller that reads slowly), it is not in step: then the
// log may lack events that this connection never had. Only a PORT_STATUS may be missing in the log: of what a PORT_MOD
// did, an Open vSwitch tells all but the controller that sent it.
type held struct {
	inStep bool
	// sums of shared events that are in the log and have not come; only while held is empty of shared ones
	ahead []uint64

	buf   []byte // of the events held, behind head
	head  int
	list  []heldEvent // behind start
	start int

	// While not in step.
	mark  uint64   // sum of the newest mark in the log; 0 if there was none
	since []uint64 // sums of the shared events in the log behind it
	lacks int      // marks in the log since one came
}

type heldEvent struct {
	sum    uint64 // 0: private
	length int
	status bool // a PORT_STATUS
}

// anything is the sum of an event of which only the number is known.
const anything uint64 = 1

var sumSeed = maphash.MakeSeed()

// shared reports whether a switch sends such messages to every controller.
func shared(typ uint8) bool {
	return typ == of13.TypePacketIn || typ == of13.TypeFlowRemoved || typ == of13.TypePortStatus
}

// sum identifies a shared event, or a mark, by what does not depend on the connection: not by
// xid and buffer id.
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

func isMark(msg []byte) bool {
	t, ours := experimenter.Is(msg)
	return ours && t == experimenter.TypeSyncMarker
}

func (h *held) len() int   { return len(h.list) - h.start }
func (h *held) bytes() int { return len(h.buf) - h.head }

// full reports that no more is to be read from the switch. Out of step nothing is to be kept for sure:
// then received makes room.
func (h *held) full() bool { return h.inStep && h.crowded() }

func (h *held) crowded() bool { return h.len() >= maxHeld || h.bytes() >= maxHeldBytes }

// flooded reports that it holds twice as much: the switch is read since it owes an answer, and sends events instead.
func (h *held) flooded() bool { return h.len() >= 2*maxHeld || h.bytes() >= 2*maxHeldBytes }

func (h *held) push(msg []byte, sum uint64) {
	h.buf = append(h.buf, msg...)
	h.list = append(h.list, heldEvent{sum, len(msg), msg[1] == of13.TypePortStatus})
}

// pop forgets the n oldest events.
func (h *held) pop(n int) {
	for range n {
		h.head += h.list[h.start].length
		h.start++
	}
	if h.start == len(h.list) {
		h.buf, h.head, h.list, h.start = h.buf[:0], 0, h.list[:0], 0
		if cap(h.buf) > keepOut {
			h.buf = nil
		}
	} else if h.start > 1024 && h.start > len(h.list)/2 {
		h.buf, h.head = append(h.buf[:0], h.buf[h.head:]...), 0
		h.list, h.start = append(h.list[:0], h.list[h.start:]...), 0
	}
}

func (h *held) clear() { h.pop(h.len()) }

// received takes an event from the switch, and holds it unless it is in the log already.
func (h *held) received(msg []byte, private bool) {
	if !h.inStep && h.crowded() {
		h.clear()
	}
	if private {
		h.push(msg, 0)
		return
	}
	s := sum(msg)
	if h.inStep && len(h.ahead) > 0 {
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
	if isMark(msg) {
		h.lacks = 0
	}
	if !h.inStep && s == h.mark { // the log had it first
		h.clear()
		h.inStep, h.ahead, h.since = true, h.since, nil
	}
}

// logged takes a shared event that has come into the log by another controller.
func (h *held) logged(msg []byte) {
	s := sum(msg)
	h.match(s)
	if h.inStep {
		return
	}
	if !isMark(msg) {
		h.behind(s)
		return
	}
	h.mark, h.since = s, h.since[:0]
	h.lacks++
	for i, e := range h.list[h.start:] {
		if e.sum == s {
			h.pop(i + 1)
			h.inStep, h.lacks = true, 0
			return
		}
	}
}

// skipped takes n shared events that are in the log by their number only.
func (h *held) skipped(n int) {
	for range n {
		h.match(anything)
		if !h.inStep {
			h.behind(anything)
		}
	}
}

// behind notes an event that stands in the log behind its newest mark.
func (h *held) behind(s uint64) {
	if h.mark != 0 {
		h.since = append(h.since, s)
	}
	if len(h.since) > maxHeld {
		h.mark, h.since = 0, nil
	}
}

func (h *held) match(s uint64) {
	if !h.inStep {
		return
	}
	for h.len() > 0 && h.list[h.start].status && !fits(s, h.list[h.start].sum) {
		h.pop(1) // the master never had it
	}
	switch {
	case h.len() > 0 && fits(s, h.list[h.start].sum):
		h.pop(1)
	case h.len() == 0 && len(h.ahead) < maxHeld:
		h.ahead = append(h.ahead, s)
	default:
		h.lost()
	}
}

func fits(a, b uint64) bool { return a == b || a == anything || b == anything }

// lost says that it is not known any more what of the events is in the log.
func (h *held) lost() { h.inStep, h.ahead, h.mark, h.since = false, nil, 0, nil }

// join appends the shared events of another.
func (h *held) join(o *held) {
	at := o.head
	for _, e := range o.list[o.start:] {
		if e.sum != 0 {
			h.push(o.buf[at:at+e.length], e.sum)
		}
		at += e.length
	}
}

// share forgets the private events: this controller is master no more, and nobody will answer for
// what the switch told it alone.
func (h *held) share() {
	old := *h
	h.buf, h.head, h.list, h.start = nil, 0, nil, 0
	h.join(&old)
}

// appendTo appends the bytes of at most most events from index i on, as many as fit size but at least one, and
// returns how many these are.
func (h *held) appendTo(dst []byte, i, most, size int) ([]byte, int) {
	at := h.head
	for _, e := range h.list[h.start : h.start+i] {
		at += e.length
	}
	n, from := 0, at
	for _, e := range h.list[h.start+i:] {
		if n == most || n > 0 && at+e.length-from > size {
			break
		}
		at += e.length
		n++
	}
	return append(dst, h.buf[from:at]...), n
}
