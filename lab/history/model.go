package history

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// model is the replicated state of a group as its log says it, except that of the hosted application. A snapshot must
// have exactly this. It shares no code with the ledger, whose snapshots would otherwise be compared with what the same
// encoder makes of the same state.
type model struct {
	time     int64
	switches map[openflow.DatapathID]switchModel
	rows     map[rowName]string
	timers   map[timerName]alarm
	senders  map[ledger.Link]outboxModel
	inboxes  map[ledger.Link]inboxModel

	at       map[ledger.Actor]ledger.Assignment // of actors that have moved from here or to here
	leaving  map[ledger.Actor]uint64            // to which group
	arriving map[origin][]string                // the pieces that are here of actors that are not

	suspended map[ledger.Actor]suspension
	floor     uint64 // the highest epoch of the switches that were forgotten

	deaf map[string]bool // applications that handle no SwitchUp; it is configuration

	// Of the transaction.
	arrives asker       // commands that it has received from another group, and not queued
	departs switchModel // that departs
}

// suspension is why an actor is suspended.
type suspension struct {
	since  int64
	early  bool
	reason string
}

// switchModel is the state of a switch.
type switchModel struct {
	epoch, events           uint64
	live, reachable, closed bool
	past                    []epochEnd
	hello                   string
	queue                   outboxModel
	asks                    []asker
	allEvents, allCommands  uint64 // of all epochs
}

type epochEnd struct{ epoch, events uint64 }

// asker says that another group has sent commands of a switch: from the first on, so many.
type asker struct {
	first, count uint64
	from         ledger.Actor
	token        uint64 // of the first, at the sender
}

// origin is an actor that arrives from a group.
type origin struct {
	actor ledger.Actor
	from  uint64
}

type rowName struct {
	table       ledger.TableName
	cell, field ledger.Key
}

type timerName struct {
	of   ledger.Actor
	name string
}

type alarm struct {
	due  int64
	data string
}

// outboxModel is items that the receiver has not acknowledged.
type outboxModel struct {
	acked    uint64
	items    []string
	commands uint64 // in all items ever; only of a stream to another group
}

// inboxModel is how far a stream from another group is received, and what its receiver knows of a switch that sends it.
type inboxModel struct {
	received, epoch uint64
	live            bool
	hello           string
}

// What the ledger keeps of epochs that have ended, and of who has asked.
const (
	pastEpochs = 8
	mostAsks   = 1024
)

func newModel() *model {
	return &model{switches: map[openflow.DatapathID]switchModel{}, rows: map[rowName]string{},
		timers: map[timerName]alarm{}, senders: map[ledger.Link]outboxModel{},
		inboxes: map[ledger.Link]inboxModel{}, at: map[ledger.Actor]ledger.Assignment{},
		leaving: map[ledger.Actor]uint64{}, arriving: map[origin][]string{}, suspended: map[ledger.Actor]suspension{}}
}

func (m *model) clone() *model {
	c := &model{time: m.time, floor: m.floor, deaf: m.deaf, suspended: maps.Clone(m.suspended),
		at: maps.Clone(m.at), leaving: maps.Clone(m.leaving), arriving: maps.Clone(m.arriving),
		switches: maps.Clone(m.switches), rows: maps.Clone(m.rows),
		timers: maps.Clone(m.timers), senders: maps.Clone(m.senders), inboxes: maps.Clone(m.inboxes)}
	for id, sw := range c.switches {
		sw.past, sw.asks, sw.queue.items = slices.Clone(sw.past), slices.Clone(sw.asks), slices.Clone(sw.queue.items)
		c.switches[id] = sw
	}
	for k, o := range c.senders {
		o.items = slices.Clone(o.items)
		c.senders[k] = o
	}
	return c
}

// commit applies an entry.
func (m *model) commit(e *entry) error {
	m.begin(e)
	_, err := ledger.Walk(e.data, func(r *ledger.Record) error { m.apply(r); return nil })
	return err
}

// begin is before the operations of an entry.
func (m *model) begin(e *entry) { m.time = max(m.time, e.header.Time) }

// apply applies an operation of an entry. That it is possible is checked elsewhere.
func (m *model) apply(r *ledger.Record) {
	if isInput(r.Op) {
		m.arrives = asker{}
	}
	switch r.Op {
	case ledger.OpPut:
		m.rows[rowName{r.Table, r.Cell, r.Field}] = string(r.Bytes)
	case ledger.OpDelete:
		delete(m.rows, rowName{r.Table, r.Cell, r.Field})
	case ledger.OpSetTimer:
		m.timers[nameOf(r)] = alarm{r.Time, string(r.Bytes)}
	case ledger.OpTimer, ledger.OpCancelTimer:
		delete(m.timers, nameOf(r))
	case ledger.OpSend:
		o := m.senders[r.Link]
		o.items = append(o.items, string(r.Bytes))
		o.commands += parseItem(r.Bytes).count
		m.senders[r.Link] = o
	case ledger.OpTaken:
		o := m.senders[r.Link]
		o.ack(r.Seq)
		m.senders[r.Link] = o
	case ledger.OpReceive:
		it, i := parseItem(r.Bytes), m.inboxes[r.Link]
		i.receive(r.Link, &it)
		m.inboxes[r.Link] = i
		m.arrives = asker{count: it.count, from: r.Link.From, token: it.token}
		if it.piece != nil {
			m.arrive(originOf(r, it.piece), it.piece)
		}
	case ledger.OpForget:
		delete(m.switches, r.Switch)
		m.floor = max(m.floor, r.Epoch)
		maps.DeleteFunc(m.suspended, func(a ledger.Actor, _ suspension) bool { return a.Switch == r.Switch })
	case ledger.OpSuspend:
		m.suspend(r.Actor, suspension{r.Time, r.Early, r.Name})
	case ledger.OpLeave, ledger.OpDepart, ledger.OpDrop, ledger.OpClear, ledger.OpIncoming:
		m.move(r)
	case ledger.OpEvent, ledger.OpSeen, ledger.OpSkipped, ledger.OpUnreachable, ledger.OpReachable,
		ledger.OpCloseEpoch, ledger.OpCommand, ledger.OpDone:
		sw := m.switches[r.Switch]
		sw.apply(r, &m.arrives)
		m.switches[r.Switch] = sw
	}
}

func (m *model) suspend(a ledger.Actor, why suspension) {
	if delete(m.suspended, a); why.reason != "" {
		m.suspended[a] = why
	}
}

func nameOf(r *ledger.Record) timerName { return timerName{r.Actor, r.Name} }

func (s *switchModel) apply(r *ledger.Record, arrives *asker) {
	switch r.Op {
	case ledger.OpEvent:
		if r.Epoch > s.epoch && r.Seq == 1 {
			s.begin(r.Epoch, string(r.Bytes))
		}
		s.reach(r.Seq)
		if t, _ := experimenter.Is(r.Bytes); t == experimenter.TypeSwitchDown {
			s.end(false)
		}
	case ledger.OpSeen, ledger.OpSkipped:
		s.reach(r.Seq)
	case ledger.OpUnreachable, ledger.OpReachable:
		s.reachable = r.Op == ledger.OpReachable
	case ledger.OpCloseEpoch:
		s.end(true)
	case ledger.OpCommand:
		if arrives.count > 0 {
			arrives.first = r.Seq
			s.asks = append(s.asks[max(0, len(s.asks)-mostAsks+1):], *arrives)
			*arrives = asker{}
		}
		s.queue.items = append(s.queue.items, string(r.Bytes))
		s.allCommands++
	case ledger.OpDone:
		if s.epoch == r.Epoch {
			s.queue.ack(r.Seq)
		}
	}
}

// reach moves the watermark of events.
func (s *switchModel) reach(seq uint64) {
	s.allEvents += seq - s.events
	s.events = seq
}

func (s *switchModel) begin(epoch uint64, hello string) {
	past := s.past
	if s.epoch != 0 {
		past = append(past[max(0, len(past)-pastEpochs+1):], epochEnd{s.epoch, s.events})
	}
	*s = switchModel{epoch: epoch, live: true, reachable: true, hello: hello, past: past, allEvents: s.allEvents,
		allCommands: s.allCommands}
}

// end ends the epoch: the commands are void. closed: the ledger has ended it.
func (s *switchModel) end(closed bool) {
	if closed { // an epoch that was closed gives back all that it held
		s.hello = ""
	}
	*s = switchModel{epoch: s.epoch, events: s.events, closed: closed, hello: s.hello, past: s.past,
		queue:     outboxModel{acked: s.queue.acked + uint64(len(s.queue.items))},
		allEvents: s.allEvents, allCommands: s.allCommands}
}

func (o *outboxModel) ack(seq uint64) {
	if seq <= o.acked {
		return // of an epoch that has ended
	}
	if o.items = o.items[min(seq-o.acked, uint64(len(o.items))):]; len(o.items) == 0 {
		o.items = nil
	}
	o.acked = seq
}

// knowing returns what an application knows when it learns what a switch of its own group is like.
func (m *model) knowing(app string, i inboxModel, sw *switchModel) inboxModel {
	i.epoch, i.live, i.hello = sw.epoch, sw.live && sw.reachable, sw.hello
	if m.deaf[app] {
		i.hello = ""
	}
	return i
}

func (i *inboxModel) receive(k ledger.Link, it *itemFields) {
	i.received++
	if k.From != (ledger.Actor{Shard: ledger.AtSwitch(k.From.Switch)}) || it.count > 0 {
		return
	}
	switch it.kind {
	case ledger.SwitchUp:
		i.epoch, i.live, i.hello = it.epoch, true, it.message
	case ledger.SwitchDown:
		i.epoch, i.live = max(i.epoch, it.epoch), false
	case ledger.Message:
		if it.epoch > i.epoch {
			i.hello = ""
		}
		i.epoch, i.live = it.epoch, true
	case ledger.Forgotten:
		i.epoch, i.live, i.hello = 0, false, ""
	case ledger.Discarded:
		if i.hello == "" {
			i.epoch, i.live = 0, false
		}
	}
}

// check returns an error if a snapshot is not of this state.
func (m *model) check(snapshot []byte) error {
	got, err := parseSnapshot(snapshot)
	if err != nil {
		return err
	}
	m.arrives, m.departs, got.deaf = asker{}, switchModel{}, m.deaf
	if reflect.DeepEqual(m, got) {
		return nil
	}
	return violated("it is not the state of the log: %s", differenceOf(got.lines(), m.lines()))
}

// differenceOf names the first difference of two ordered lists.
func differenceOf(got, want []string) string {
	for i := 0; ; i++ {
		var x, y string
		if i < len(got) {
			x = got[i]
		}
		if i < len(want) {
			y = want[i]
		}
		if x == y && x != "" {
			continue
		}
		short, other := excerpts(x, y)
		switch {
		case x == "" || slices.Contains(want, x):
			return "it lacks " + other
		case y == "" || slices.Contains(got, y):
			return "it has " + short
		}
		return fmt.Sprintf("it has %s, not %s", short, other)
	}
}

// lines describes the state, in order.
func (m *model) lines() []string {
	list := []string{fmt.Sprintf("time %d", m.time), fmt.Sprintf("floor of epochs %d", m.floor)}
	for id, s := range m.switches {
		queue, asks := s.queue, s.asks
		s.queue, s.asks = outboxModel{}, nil
		list = append(list, fmt.Sprintf("switch %s: %+v", id, s))
		list = append(list, queue.lines("commands of switch "+id.String())...)
		for _, a := range asks {
			list = append(list, fmt.Sprintf("commands of switch %s from another group: %+v", id, a))
		}
	}
	for n, value := range m.rows {
		list = append(list, fmt.Sprintf("row %s/%s at %v, %v: %q", n.table.App, n.table.Name, n.cell, n.field, value))
	}
	for n, a := range m.timers {
		list = append(list, fmt.Sprintf("timer %s of %v: %+v", n.name, n.of, a))
	}
	for k, o := range m.senders {
		list = append(list, o.lines("items of stream "+k.String())...)
	}
	for k, i := range m.inboxes {
		list = append(list, fmt.Sprintf("stream %v, received: %+v", k, i))
	}
	for a, at := range m.at {
		list = append(list, fmt.Sprintf("%v has moved: %+v", a, at))
	}
	for a, why := range m.suspended {
		list = append(list, fmt.Sprintf("%v is suspended: %+v", a, why))
	}
	for a, to := range m.leaving {
		list = append(list, fmt.Sprintf("%v leaves, for group %d", a, to))
	}
	for o, pieces := range m.arriving {
		list = append(list, fmt.Sprintf("%v arrives from group %d: %q", o.actor, o.from, pieces))
	}
	slices.Sort(list)
	return list
}

func (o *outboxModel) lines(of string) []string {
	list := []string{fmt.Sprintf("%s: done up to %d; %d commands", of, o.acked, o.commands)}
	for i, item := range o.items {
		list = append(list, fmt.Sprintf("%s: number %d: %q", of, o.acked+uint64(i)+1, item))
	}
	return list
}
