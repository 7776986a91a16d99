package tally

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// exact counts the same as a Tally, without bounds.
type exact struct {
	counts    map[int]Counts
	exchanged map[[2]int]Exchanged // of the first with the second
	effects   map[[2]Type]uint64
	inputs    map[Type]uint64
	local     uint64
}

func newExact() *exact {
	return &exact{map[int]Counts{}, map[[2]int]Exchanged{}, map[[2]Type]uint64{}, map[Type]uint64{}, 0}
}

func (e *exact) add(id int, c Counts) {
	sum := e.counts[id]
	sum.add(c)
	e.counts[id] = sum
}

func (e *exact) exchange(from, to int, sent, received uint64) {
	a, b := e.exchanged[[2]int{from, to}], e.exchanged[[2]int{to, from}]
	a.Sent += sent
	b.Received += received
	e.exchanged[[2]int{from, to}], e.exchanged[[2]int{to, from}] = a, b
}

// message is one that a transaction has sent from an actor to another one, as some method of Tally records it.
type message struct {
	kind     kind
	from, to int // to may be 0: nobody
	typ, in  Type
	remote   bool
	near     Near // of the other end, if the message is between it and an actor for which nearTo is that
}

// nearTo is the actor that a Near names at a switch.
func nearTo(sw int, n Near) int { return 1000*int(n) + sw }

func (e *exact) count(m message, failed bool) {
	one := func(on bool) uint64 {
		if on {
			return 1
		}
		return 0
	}
	switch m.kind {
	case event:
		e.add(m.from, Counts{Outputs: 1})
	case input:
		e.add(m.to, Counts{Inputs: 1, Failures: one(failed)})
		e.inputs[m.typ]++
		if m.from != m.to {
			e.exchange(m.from, m.to, one(!m.remote), 1)
			e.local += one(!m.remote)
		}
	case output:
		e.add(m.from, Counts{Outputs: 1})
		e.effects[[2]Type{m.in, m.typ}]++
		if m.to != 0 {
			e.exchange(m.from, m.to, 1, one(!m.remote))
			e.local += one(!m.remote)
			if !m.remote {
				e.add(m.to, Counts{Inputs: 1})
			}
		}
	case forwarded:
		e.exchange(m.from, m.to, 1, 0)
	case accepted:
		e.add(m.to, Counts{Inputs: 1})
		e.exchange(m.from, m.to, 0, 1)
	case late:
		e.add(m.to, Counts{Late: 1})
	case dropped:
		e.add(m.to, Counts{Dropped: 1})
	}
}

const testApp = "app"

func (m message) record(t *Tally[int]) {
	from := t.Actor(m.from, testApp)
	var to *Actor[int]
	if m.to != 0 {
		to = t.Actor(m.to, testApp)
	}
	switch m.kind {
	case event:
		t.Event(from)
	case input:
		if m.near == 0 {
			t.Input(to, from, 0, m.typ, m.remote)
		} else if !t.InputAgain(from, m.near, m.typ) {
			t.Input(to, from, m.near, m.typ, false)
		} else if a := t.last.ends[t.same-1].to; a != to {
			panic(fmt.Sprintf("near %d of %d is %d", m.near, m.from, a.id))
		}
	case output:
		if m.near == 0 || !t.OutputAgain(to, m.near, m.typ, m.in) {
			t.Output(from, to, m.near, m.typ, m.in, m.remote)
		}
	case forwarded:
		t.Forwarded(from, to)
	case accepted:
		t.Accepted(to, from)
	case late, dropped:
		t.Refused(to, m.kind == dropped)
	}
}

func drawMessage(t *rapid.T, actors int) message {
	id := rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(1, actors))
	kinds := []kind{event, input, input, output, output, forwarded, accepted, late, dropped}
	m := message{kind: rapid.SampledFrom(kinds).Draw(t, "kind"),
		from: id.Draw(t, "from"), to: id.Draw(t, "to"), typ: Type(rapid.IntRange(1, 5).Draw(t, "type")),
		in: Type(rapid.IntRange(1, 3).Draw(t, "in")), remote: rapid.Bool().Draw(t, "remote")}
	if m.from == m.to && m.kind != input {
		m.to = m.from%actors + 1
	}
	if m.kind == output && rapid.Bool().Draw(t, "emitted") {
		m.to, m.remote = 0, false
	}
	return m
}

// drawNear is drawMessage for one between a switch and an actor at it.
func drawNear(t *rapid.T) message {
	sw, near := rapid.IntRange(1, 3).Draw(t, "switch"), Near(rapid.IntRange(1, 2).Draw(t, "near"))
	m := message{kind: input, from: sw, to: nearTo(sw, near), near: near, typ: Type(rapid.IntRange(1, 2).Draw(t, "type"))}
	if rapid.Bool().Draw(t, "command") {
		m.kind, m.from, m.to, m.in = output, m.to, m.from, Type(rapid.IntRange(1, 2).Draw(t, "in"))
	}
	return m
}

// call is what a handler does in a transaction.
type call struct {
	event bool // before the input
	input message
	sends []message
	fails bool
	kept  int // of sends: the others are taken back, with Rewind
}

func drawCall(t *rapid.T, actors int) call {
	c := call{input: message{kind: input, from: rapid.IntRange(1, actors).Draw(t, "source"),
		to: rapid.IntRange(1, 4).Draw(t, "actor"), typ: 1, remote: rapid.Bool().Draw(t, "remote")},
		fails: rapid.IntRange(0, 2).Draw(t, "fails") == 0}
	if rapid.Bool().Draw(t, "of a switch") {
		for c.input = drawNear(t); c.input.kind != input; c.input = drawNear(t) {
		}
		c.event = rapid.Bool().Draw(t, "event")
	}
	for range rapid.IntRange(0, 10).Draw(t, "messages") {
		m := drawMessage(t, actors)
		if rapid.Bool().Draw(t, "to a switch") {
			m = drawNear(t)
		}
		if m.kind != input || !c.fails { // the last input is the one that fails
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				c.sends = append(c.sends, m)
			}
		}
	}
	c.kept = len(c.sends)
	if rapid.IntRange(0, 3).Draw(t, "takes back") == 0 {
		c.kept = rapid.IntRange(0, len(c.sends)).Draw(t, "kept")
	}
	return c
}

func (c *call) record(tl *Tally[int]) {
	if c.event {
		message{kind: event, from: c.input.from}.record(tl)
	}
	begin := tl.Mark()
	c.input.record(tl)
	mark := tl.Mark()
	for i, m := range c.sends {
		if i == c.kept {
			mark = tl.Mark()
		}
		m.record(tl)
	}
	if c.kept < len(c.sends) {
		tl.Rewind(mark)
	}
	if c.fails {
		tl.Failed(begin)
	}
}

func (c *call) count(e *exact) {
	if c.event {
		e.count(message{kind: event, from: c.input.from}, false)
	}
	e.count(c.input, c.fails)
	if !c.fails {
		for _, m := range c.sends[:c.kept] {
			e.count(m, false)
		}
	}
}

// TestCounts: transactions that are finished are counted, those that are undone are not, and of a handler that fails
// only the input is. Many of the transactions are like the last one, or begin like it. What a Tally has in detail is
// exact unless the actor, or the peer, has once been among the others; sums are exact always.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const actors = 3 * MaxPeers
		tl, want := New[int](), newExact()
		var calls []call
		for range rapid.IntRange(1, 40).Draw(t, "transactions") {
			calls = calls[:rapid.IntRange(0, len(calls)).Draw(t, "as before")]
			for range rapid.IntRange(0, 3).Draw(t, "others") {
				calls = append(calls, drawCall(t, actors))
			}
			for range rapid.IntRange(1, 3).Draw(t, "times") {
				for i := range calls {
					calls[i].record(tl)
				}
				if rapid.IntRange(0, 4).Draw(t, "undone") == 0 {
					tl.Abort()
					continue
				}
				for i := range calls {
					calls[i].count(want)
				}
				tl.Commit()
			}
		}
		check(t, tl, want)
		r := tl.Report(func(int) bool { return true })
		if len(r.Actors) != len(want.actors()) || r.Others.Counts != (Counts{}) {
			t.Fatalf("%d actors in detail and %+v besides, of %d", len(r.Actors), r.Others.Counts, len(want.actors()))
		}
	})
}

func (e *exact) actors() map[int]bool {
	list := map[int]bool{}
	for id := range e.counts {
		list[id] = true
	}
	for pair, n := range e.exchanged {
		if n != (Exchanged{}) {
			list[pair[0]] = true
		}
	}
	return list
}

// check compares a report with what was counted exactly.
func check(t interface {
	Fatalf(string, ...any)
	Helper()
}, tl *Tally[int], want *exact) {
	t.Helper()
	r := tl.Report(func(int) bool { return true })
	if len(r.Actors) > MaxActors {
		t.Fatalf("%d actors in detail", len(r.Actors))
	}
	all, exchanged := r.Others.Counts, r.Others.Rest
	for _, a := range append(r.Actors, r.Others) {
		if a.ID != 0 {
			all.add(a.Counts)
			exchanged.add(a.Rest)
			if w := want.counts[a.ID]; a.Inputs > w.Inputs || a.Outputs > w.Outputs || a.Failures > w.Failures {
				t.Fatalf("actor %d: %+v, of %+v", a.ID, a.Counts, w)
			}
		}
		if len(a.Peers) > MaxPeers {
			t.Fatalf("actor %d has %d peers in detail", a.ID, len(a.Peers))
		}
		for i, p := range a.Peers {
			exchanged.add(p.Exchanged)
			w := want.exchanged[[2]int{a.ID, p.ID}]
			if a.ID != 0 && (p.Sent > w.Sent || p.Received > w.Received) {
				t.Fatalf("actors %d and %d: %+v, of %+v", a.ID, p.ID, p.Exchanged, w)
			}
			if i > 0 && p.Sent+p.Received > a.Peers[i-1].Sent+a.Peers[i-1].Received {
				t.Fatalf("the peers of actor %d are not in order: %+v", a.ID, a.Peers)
			}
		}
	}
	var sum Counts
	for _, c := range want.counts {
		sum.add(c)
	}
	all.Busy = 0
	var sumExchanged Exchanged
	for _, e := range want.exchanged {
		sumExchanged.add(e)
	}
	if all != sum || exchanged != sumExchanged || r.Local != want.local {
		t.Fatalf("all actors: %+v, %+v and %d local; want %+v, %+v and %d", all, exchanged, r.Local, sum, sumExchanged,
			want.local)
	}
	inputs, effects := map[Type]uint64{}, map[[2]Type]uint64{}
	for _, h := range r.Handlers {
		inputs[h.Type] += h.Inputs
		for _, e := range h.Effects {
			effects[[2]Type{h.Type, e.Type}] += e.Count
		}
	}
	for typ, n := range want.inputs {
		if inputs[typ] != n {
			t.Fatalf("%d inputs of type %d, want %d", inputs[typ], typ, n)
		}
	}
	for pair, n := range want.effects {
		if effects[pair] != n {
			t.Fatalf("%v: %d, want %d", pair, effects[pair], n)
		}
	}
}

// TestManyActors: with many more actors than are counted in detail, sums are exact, the active actors and the active
// peers of an actor are in detail, and a message costs no allocation.
func TestManyActors(t *testing.T) {
	const actors, active = 20 * MaxActors, 8
	const busy = actors + active + 1
	tl, want := New[int](), newExact()
	n := 0
	send := func(m message) {
		m.record(tl)
		tl.Commit()
		want.count(m, false)
	}
	for n = range 40 * MaxActors {
		from := n*7919%actors + 1 + active
		if n%2 == 0 {
			from = n/2%active + 1
		}
		send(message{kind: input, from: from, to: busy, typ: 1})
	}
	check(t, tl, want)
	r := tl.Report(func(int) bool { return true })
	byID := map[int]ActorReport[int]{}
	for _, a := range r.Actors {
		byID[a.ID] = a
	}
	center := byID[busy]
	for id := 1; id <= active; id++ {
		got, sent := Exchanged{}, want.exchanged[[2]int{busy, id}].Received
		for _, p := range center.Peers {
			if p.ID == id {
				got = p.Exchanged
			}
		}
		if got.Received < sent*9/10 {
			t.Errorf("the busy actor has received %d from %d, and reports %d: %+v", sent, id, got.Received, center.Peers)
		}
	}
	if center.Inputs != uint64(n+1) {
		t.Errorf("%d inputs of the busy actor, want %d", center.Inputs, n+1)
	}
	if len(r.Handlers) != 1 || r.Handlers[0].Several || r.Handlers[0].By != busy ||
		r.Handlers[0].Sources != MaxSources {
		t.Errorf("handlers %+v", r.Handlers)
	}
	to := 0
	if got := testing.AllocsPerRun(10000, func() {
		to++
		m := message{kind: input, from: to*7919%actors + 1, to: to*4999%actors + 1, typ: 1}
		m.record(tl)
		message{kind: output, from: m.to, to: m.from, typ: 2, in: 1}.record(tl)
		tl.Commit()
	}); got > 0 {
		t.Errorf("%v allocations for a message among many actors", got)
	}
}

// TestGone: who keeps an actor notices that it is no longer in detail.
func TestGone(t *testing.T) {
	tl := New[int]()
	idle := tl.Actor(-1, testApp)
	for id := 1; !idle.Gone(); id++ {
		if id > 20*MaxActors {
			t.Fatal("an idle actor stays in detail")
		}
		a := tl.Actor(id, testApp)
		tl.Event(a)
		tl.Event(a)
		tl.Commit()
	}
	if a := tl.Actor(-1, testApp); a != &tl.others || !a.Gone() {
		t.Error("an actor is in detail at once, although there is no room")
	}
}

// TestUndoneEvent: an event that is undone does not begin the transaction of which its switch remembers how it went on.
func TestUndoneEvent(t *testing.T) {
	tl := New[int]()
	a, b := tl.Actor(1, ""), tl.Actor(2, "")
	mark := tl.Mark()
	tl.Event(a)
	tl.Rewind(mark)
	tl.Event(b)
	tl.Commit()
	tl.Event(a)
	tl.Commit()
	tl.flushAll()
	if a.counts.Outputs != 1 || b.counts.Outputs != 1 {
		t.Errorf("%d and %d events, one of each was not undone", a.counts.Outputs, b.counts.Outputs)
	}
}

// TestNearOther: a number names another actor at each switch, also if the event of one switch begins a transaction in
// which a message of another one is, and if nobody tells the switches apart because they are among the others.
func TestNearOther(t *testing.T) {
	of := func(sw int) message { return message{kind: input, from: sw, to: nearTo(sw, 1), near: 1, typ: 1} }
	for _, order := range [][2]int{{1, 2}, {2, 1}} {
		tl := New[int]()
		for _, sw := range order {
			tl.Event(tl.Actor(1, ""))
			of(sw).record(tl)
			tl.Commit()
		}
		tl.flushAll()
		for _, sw := range order {
			if n := tl.Actor(nearTo(sw, 1), testApp).counts.Inputs; n != 1 {
				t.Errorf("messages of the switches %v: the actor at %d has handled %d", order, sw, n)
			}
		}
		for range 2 {
			tl.Event(&tl.others)
			if tl.InputAgain(&tl.others, 1, 1) {
				t.Error("a message of some switch is recognised")
			}
			tl.Input(tl.Actor(nearTo(1, 1), testApp), &tl.others, 1, 1, false)
			tl.Commit()
		}
	}
}

// TestNearGone: what passes between a switch and an actor at it is not recognised while the actor is not in detail. So
// it soon is.
func TestNearGone(t *testing.T) {
	tl := New[int]()
	for id := range MaxActors {
		a := tl.Actor(-1-id, testApp)
		for range 100 {
			tl.Event(a)
		}
		tl.Commit()
	}
	m := message{kind: input, from: 1, to: nearTo(1, 1), near: 1, typ: 1}
	for tl.Actor(m.to, testApp).Gone() {
		for range 3 { // no multiple of what admits an actor
			tl.Event(tl.Actor(1, ""))
			m.record(tl)
			tl.Commit()
		}
	}
	before := tl.Actor(m.to, testApp)
	tl.flushAll()
	inputs := before.counts.Inputs
	for range 100 {
		tl.Event(tl.Actor(1, ""))
		m.record(tl)
		tl.Commit()
	}
	tl.flushAll()
	if got := before.counts.Inputs - inputs; got != 100 {
		t.Errorf("%d of 100 inputs are in detail", got)
	}
}

// TestCentralised: a handler is told from one whose messages several actors handle.
func TestCentralised(t *testing.T) {
	tl := New[int]()
	for sw := 1; sw <= 10; sw++ {
		from, own := tl.Actor(sw, ""), tl.Actor(100+sw, "spread")
		tl.Input(tl.Actor(1000, "central"), from, 0, 10, false)
		tl.Input(own, from, 0, 10, false)
		tl.Input(own, nil, 0, 20, false) // a timer
		tl.Commit()
	}
	got := ""
	for _, h := range tl.Report(func(int) bool { return true }).Handlers {
		got += fmt.Sprintf("%s %d: %d inputs, several %v, %d sources\n", h.App, h.Type, h.Inputs, h.Several, h.Sources)
	}
	want := "central 10: 10 inputs, several false, 10 sources\n" +
		"spread 10: 10 inputs, several true, 0 sources\nspread 20: 10 inputs, several true, 0 sources\n"
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestBusy: the time of inputs is about right, although few are timed, and also if it follows a pattern or most inputs
// are recognised.
func TestBusy(t *testing.T) {
	for _, near := range []Near{0, 1} {
		tl := New[int]()
		a, sw := tl.Actor(1, testApp), tl.Actor(2, testApp)
		const inputs = 200_000
		var want time.Duration
		timed := 0
		for i := range inputs {
			took := time.Duration(1+i%timedEvery) * time.Microsecond
			want += took
			tl.Event(sw)
			of, n := a, 0
			if near != 0 && tl.InputAgain(sw, near, 1) {
				of, n = tl.TimedAgain()
			} else {
				tl.Input(a, sw, near, 1, false)
				n = tl.Timed(a)
			}
			if n > 0 {
				timed++
				tl.Busy(of, took, n)
			}
			tl.Commit()
		}
		if timed > inputs/timedEvery*5/4 {
			t.Errorf("%d of %d inputs were timed", timed, inputs)
		}
		if got := a.counts.Busy; got < want*19/20 || got > want*21/20 {
			t.Errorf("busy for %v, want about %v", got, want)
		}
	}
}

// TestNames: names beyond the bound have no type of their own, and effects beyond theirs are counted together.
func TestNames(t *testing.T) {
	tl := New[int]()
	a := tl.Actor(1, testApp)
	for i := range MaxNames + 10 {
		typ := tl.Named(fmt.Sprint(i))
		if again := tl.Named(fmt.Sprint(i)); again != typ || (typ == Unnamed) != (i >= MaxNames) {
			t.Fatalf("name %d has type %d, then %d", i, typ, again)
		}
		tl.Output(a, nil, 0, typ, 1, false)
	}
	tl.Commit()
	r := tl.Report(func(int) bool { return true })
	if got := r.Name(FirstName + 3); got != "3" || r.Name(Unnamed) != "" || r.Name(FirstName+MaxNames) != "" {
		t.Errorf("type %d is called %q", FirstName+3, got)
	}
	effects := r.Handlers[0].Effects
	if len(effects) != maxEffects || effects[0] != (Effect{Unnamed, MaxNames + 10 - maxEffects + 1}) {
		t.Errorf("%d effects, the first %+v", len(effects), effects[0])
	}
}

// TestCrossings: kinds of messages beyond the bound are counted together, for each group.
func TestCrossings(t *testing.T) {
	tl := New[int]()
	for i := range 2 * maxCrossings {
		tl.Crossed(7, "a", "b", Type(i), 10)
	}
	tl.Crossed(8, "a", "b", 1, 10)
	r := tl.Report(func(int) bool { return true })
	var messages, bytes uint64
	for _, c := range r.Crossings {
		messages, bytes = messages+c.Messages, bytes+c.Bytes
	}
	if len(r.Crossings) > maxCrossings+2 || messages != 2*maxCrossings+1 || bytes != 10*messages {
		t.Errorf("%d kinds, %d messages, %d bytes", len(r.Crossings), messages, bytes)
	}
}
