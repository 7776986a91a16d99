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
}

func (e *exact) count(m message, n uint64) {
	counted := func(on bool) uint64 {
		if on {
			return n
		}
		return 0
	}
	switch m.kind {
	case event:
		e.add(m.from, Counts{Outputs: n})
	case input:
		e.add(m.to, Counts{Inputs: n})
		e.inputs[m.typ] += n
		if m.from != m.to {
			e.exchange(m.from, m.to, counted(!m.remote), n)
			e.local += counted(!m.remote)
		}
	case output:
		e.add(m.from, Counts{Outputs: n})
		e.effects[[2]Type{m.in, m.typ}] += n
		if m.to != 0 {
			e.exchange(m.from, m.to, n, counted(!m.remote))
			e.local += counted(!m.remote)
			if !m.remote {
				e.add(m.to, Counts{Inputs: n})
			}
		}
	case forwarded:
		e.exchange(m.from, m.to, n, 0)
	case accepted:
		e.add(m.to, Counts{Inputs: n})
		e.exchange(m.from, m.to, 0, n)
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
		t.Input(to, from, m.typ, m.remote)
	case output:
		t.Output(from, to, m.typ, m.in, m.remote)
	case forwarded:
		t.Forwarded(from, to)
	case accepted:
		t.Accepted(to, from)
	}
}

func drawMessage(t *rapid.T, actors int) message {
	id := rapid.OneOf(rapid.IntRange(1, 4), rapid.IntRange(1, actors))
	kinds := []kind{event, input, input, output, output, forwarded, accepted}
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
	c.event = rapid.Bool().Draw(t, "event")
	for range rapid.IntRange(0, 10).Draw(t, "messages") {
		m := drawMessage(t, actors)
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
		tl.KeepInput(begin)
		tl.Failed(tl.Actor(c.input.to, testApp), c.input.typ) // also if the transaction is undone
	}
}

// count counts what is in a transaction that stands for n.
func (c *call) count(e *exact, n uint64) {
	if c.event {
		e.count(message{kind: event, from: c.input.from}, n)
	}
	e.count(c.input, n)
	if !c.fails {
		for _, m := range c.sends[:c.kept] {
			e.count(m, n)
		}
	}
}

// TestCounts: transactions that are finished are counted as often as they stand for, those that are undone are not, and
// of a handler that fails only the input and the failure is. What a Tally has in detail is exact unless the actor, or
// the peer, has once been among the others; sums are exact always.
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
					if calls[i].fails {
						want.add(calls[i].input.to, Counts{Failures: 1})
					}
				}
				if rapid.IntRange(0, 4).Draw(t, "undone") == 0 {
					tl.Abort()
					continue
				}
				n := rapid.SampledFrom([]int{1, 1, 2, 40}).Draw(t, "stands for")
				for i := range calls {
					calls[i].count(want, uint64(n))
				}
				tl.Commit(n)
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
		tl.Commit(1)
		want.count(m, 1)
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
		tl.Commit(1)
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
		tl.Commit(1)
	}
	if a := tl.Actor(-1, testApp); a != &tl.others || !a.Gone() {
		t.Error("an actor is in detail at once, although there is no room")
	}
}

// TestCentralised: a handler is told from one whose messages several actors handle.
func TestCentralised(t *testing.T) {
	tl := New[int]()
	for sw := 1; sw <= 10; sw++ {
		from, own := tl.Actor(sw, ""), tl.Actor(100+sw, "spread")
		tl.Input(tl.Actor(1000, "central"), from, 10, false)
		tl.Input(own, from, 10, false)
		tl.Input(own, nil, 20, false) // a timer
		tl.Commit(1)
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

// TestBusy: the time of inputs is about right, although few are timed, and also if it follows a pattern, or each input
// stands for several.
func TestBusy(t *testing.T) {
	for _, n := range []int{1, 5} {
		tl := New[int]()
		a, sw := tl.Actor(1, testApp), tl.Actor(2, testApp)
		const inputs = 200_000
		var want time.Duration
		timed := 0
		for i := range inputs / n {
			took := time.Duration(1+i%timedEvery) * time.Microsecond
			want += took * time.Duration(n)
			tl.Event(sw)
			tl.Input(a, sw, 1, false)
			if of := tl.Timed(a, n); of > 0 {
				timed++
				tl.Busy(a, took, of)
			}
			tl.Commit(n)
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
		tl.Output(a, nil, typ, 1, false)
	}
	tl.Commit(1)
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
