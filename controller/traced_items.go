package controller

import (
	"encoding/binary"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// A leader that executes an event which it follows tells the leaders of other groups which items the event has sent to
// them:
//
//	tracedPayload u8 | switch, epoch and sequence of the event, uvarints | items: from actor, to actor, number uvarint
//
// It does so before the items are logged, so it is usually known there before the items come. If it is lost, the trace
// ends where the items leave.

// itemName names an item of a stream.
type itemName struct {
	ledger.Link
	seq uint64
}

// tracedItems are the items of other groups that are followed.
type tracedItems struct {
	expected map[itemName]trace.Event
	order    []itemName   // of expected, oldest first; some may have come
	executed []tracedItem // and not yet logged
}

// tracedItem is an item that is executed.
type tracedItem struct {
	traced
	itemName
}

// tellTraced tells other groups of items that an event has sent to them.
func (c *Core) tellTraced(e trace.Event, items []ledger.Sent) {
	to := map[uint64][]byte{}
	for _, i := range items {
		b := to[i.Group]
		if b == nil {
			b = []byte{tracedPayload}
			for _, n := range []uint64{uint64(e.Switch), e.Epoch, e.Seq} {
				b = binary.AppendUvarint(b, n)
			}
		}
		to[i.Group] = binary.AppendUvarint(i.To.Append(i.From.Append(b)), i.Seq)
	}
	for group, payload := range to {
		c.outside.SendTraced(group, payload)
	}
}

// expect takes what another group has told. What is not as it should be comes from another release, and is ignored.
func (t *traces) expect(b []byte) {
	if t.to == nil {
		return
	}
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			return
		}
		numbers[i], b = n, b[size:]
	}
	e := trace.Event{Switch: openflow.DatapathID(numbers[0]), Epoch: numbers[1], Seq: numbers[2]}
	for len(b) > 0 {
		var name itemName
		var err, err2 error
		name.From, b, err = ledger.ParseActor(b)
		name.To, b, err2 = ledger.ParseActor(b)
		seq, size := binary.Uvarint(b)
		if err != nil || err2 != nil || size <= 0 {
			return
		}
		name.seq, b = seq, b[size:]
		t.items.expect(name, e)
	}
}

// expect adds an item. The oldest one is let go if there are too many.
func (i *tracedItems) expect(name itemName, e trace.Event) {
	if i.expected == nil {
		i.expected = map[itemName]trace.Event{}
	}
	if _, is := i.expected[name]; !is {
		i.order = append(i.order, name)
	}
	i.expected[name] = e
	if len(i.order) > maxTraced {
		delete(i.expected, i.order[0])
		i.order = i.order[1:]
	}
}

// traceItem follows an item of another group that is executed now, if it is because of an event that is followed.
func (c *Core) traceItem(k ledger.Link, seq uint64) (end func()) {
	name := itemName{k, seq}
	e, is := c.traces.items.expected[name]
	if !is {
		return func() {}
	}
	delete(c.traces.items.expected, name)
	of := c.beginTraced(e)
	of.from = k.From.String()
	return func() {
		c.endTraced(&of)
		if i := &c.traces.items; len(i.executed) < maxTraced {
			i.executed = append(i.executed, tracedItem{of, name})
		}
	}
}

// committed handles what was logged.
func (t *traces) committed(in *ledger.Core) {
	if len(t.items.executed) == 0 {
		return
	}
	kept := t.items.executed[:0]
	for _, i := range t.items.executed {
		if in.Received(i.Link) < i.seq {
			kept = append(kept, i)
			continue
		}
		t.tell(i.traced, time.Now())
	}
	t.items.executed = kept
}
