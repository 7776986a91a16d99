package history

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// In these histories, actor mover lives in group 1 and moves to group 2. It has a row and a timer, receives from switch
// 1, and sends to actor peer of group 2.
var (
	mover = ledger.Actor{App: "mover"}
	peer  = ledger.Actor{App: "peer"}

	fromSwitch = ledger.Link{From: ledger.Actor{Shard: ledger.AtSwitch(1)}, To: mover}
	toPeer     = ledger.Link{From: mover, To: peer}
	toMover    = ledger.Link{From: peer, To: mover}

	second = ledger.Assignment{Group: 2, Version: 2}
)

// groupLink is the stream on which actors move from group to group.
func groupLink(from, to uint64) ledger.Link {
	group := func(n uint64) ledger.Actor { return ledger.Actor{Shard: ledger.Shard{Key: ledger.Key{A: n, B: 1}}} }
	return ledger.Link{From: group(from), To: group(to)}
}

// moving is a history of three groups, as their logs have it.
type moving struct {
	found  complaints
	groups []*Group // group n is at n-1
	lives  map[ledger.Actor]ledger.Assignment
}

func newMoving() *moving {
	m := &moving{lives: map[ledger.Actor]ledger.Assignment{mover: {Group: 1, Version: 1}, peer: {Group: 2, Version: 1},
		fromSwitch.From: {Group: 1, Version: 1}}}
	h := New(m.found.add)
	for n := range uint64(3) {
		m.groups = append(m.groups, h.Group(GroupConfig{Applications: echoers(), Number: n + 1,
			Directory: func(a ledger.Actor) (ledger.Assignment, bool) { at, known := m.lives[a]; return at, known }}))
	}
	return m
}

// logs lets the log of a group have a transaction.
func (m *moving) logs(group int, records ...ledger.Record) {
	g := m.groups[group-1]
	for i := range records {
		if g.h.failed {
			return
		}
		g.report(g.record(&entry{}, &records[i]))
		g.shadow.model.apply(&records[i])
	}
	g.report(g.complete())
}

func put(a ledger.Actor, field uint64, value string) ledger.Record {
	return ledger.Record{Op: ledger.OpPut, Table: ledger.TableName{App: a.App, Name: "t"}, Cell: ledger.Key{A: 1},
		Field: ledger.Key{A: field}, Bytes: []byte(value)}
}

func drop(a ledger.Actor) ledger.Record {
	return ledger.Record{Op: ledger.OpDrop, Table: ledger.TableName{App: a.App, Name: "t"}, Cell: ledger.Key{A: 1}}
}

func timer(op ledger.Op, a ledger.Actor) ledger.Record {
	return ledger.Record{Op: op, Actor: a, Name: "alarm", Time: 5}
}

func send(k ledger.Link, item []byte) ledger.Record {
	return ledger.Record{Op: ledger.OpSend, Link: k, Bytes: item}
}

func receive(k ledger.Link, seq uint64, item []byte) ledger.Record {
	return ledger.Record{Op: ledger.OpReceive, Link: k, Seq: seq, Bytes: item}
}

func leave(to uint64) ledger.Record {
	return ledger.Record{Op: ledger.OpLeave, Actor: mover, Assignment: ledger.Assignment{Group: to}}
}

func depart(next ledger.Assignment) ledger.Record {
	return ledger.Record{Op: ledger.OpDepart, Actor: mover, Assignment: next}
}

// pieceOf makes an item with a part of the actor.
func pieceOf(flags byte, next ledger.Assignment, ops ...[]byte) []byte {
	return pieceOfActor(mover, flags, next, ops...)
}

func pieceOfActor(a ledger.Actor, flags byte, next ledger.Assignment, ops ...[]byte) []byte {
	b := a.Append([]byte{itemPiece, flags})
	b = binary.AppendUvarint(binary.AppendUvarint(b, next.Group), next.Version)
	for _, op := range ops {
		b = append(b, op...)
	}
	return sized(nil, b)
}

func encodedKey(a uint64) []byte { return append(binary.AppendUvarint(nil, a), 0, 0) }

// encodedPut is a row of the actor, as pieces have it.
func encodedPut(field uint64, value string) []byte {
	b := sized(sized([]byte{byte(ledger.OpTable)}, []byte(mover.App)), []byte("t"))
	b = append(b, byte(ledger.OpPut), 0)
	return sized(append(append(b, encodedKey(1)...), encodedKey(field)...), []byte(value))
}

func encodedTimer() []byte {
	b := sized(mover.Append([]byte{byte(ledger.OpSetTimer)}), []byte("alarm"))
	return append(b, 5, 0) // due, without data
}

// encodedOutgoing is the end of toPeer: some items, of which so many are acknowledged.
func encodedOutgoing(acked uint64, items ...[]byte) []byte {
	b := toPeer.To.Append(toPeer.From.Append([]byte{byte(ledger.OpOutgoing)}))
	b = append(b, 0) // commands
	b = binary.AppendUvarint(binary.AppendUvarint(b, acked), uint64(len(items)))
	for _, item := range items {
		b = binary.AppendUvarint(b, uint64(len(item)))
	}
	for _, item := range items {
		b = append(b, item...)
	}
	return b
}

// encodedIncoming is the end of a stream, with the number of the last item and what is known of the switch.
func encodedIncoming(k ledger.Link, received byte, epoch uint64, live byte) []byte {
	b := append(k.To.Append(k.From.Append([]byte{byte(ledger.OpIncoming)})), received)
	return append(binary.BigEndian.AppendUint64(b, epoch), live, 0)
}

// What the actor has sent, and its pieces: a copy, what follows, and that it is called off.
var (
	moverItem = inputOf(ledger.Message, 5, message("hello"))
	copied    = pieceOf(pieceFirst, ledger.Assignment{}, encodedPut(1, "one"))
	followed  = pieceOf(pieceLast, second, encodedPut(2, "two"), encodedTimer(), encodedOutgoing(0, moverItem),
		encodedIncoming(toMover, 1, 0, 0))
	cancelled = pieceOf(pieceFirst, ledger.Assignment{})
)

// works lets the actor do what makes the state that moves, until its cell is copied.
func (m *moving) works() {
	m.logs(2, send(toMover, moverItem))
	m.logs(1, receive(toMover, 1, moverItem), put(mover, 1, "one"), timer(ledger.OpSetTimer, mover),
		send(toPeer, moverItem))
	m.logs(1, leave(2))
	m.logs(1, leave(2), send(groupLink(1, 2), copied))
	m.logs(1, ledger.Record{Op: ledger.OpCall, Actor: mover, Name: "call"}, put(mover, 2, "two"))
	m.logs(2, receive(groupLink(1, 2), 1, copied))
}

// departs lets the actor depart, with what follows.
func (m *moving) departs(item []byte) {
	m.logs(1, depart(second), drop(mover), timer(ledger.OpCancelTimer, mover), send(groupLink(1, 2), item))
}

// moves lets the actor move to group 2.
func (m *moving) moves() {
	m.works()
	m.departs(followed)
	m.logs(2, receive(groupLink(1, 2), 2, followed))
}

// text is what was found, or what is not finished.
func (m *moving) text() string {
	if len(m.found) > 0 {
		return strings.Join(m.found, " ")
	}
	return m.groups[0].h.Moving()
}

func TestMoves(t *testing.T) {
	with := func(ops ...[]byte) []byte { return pieceOf(pieceLast, second, ops...) }
	whole := [][]byte{encodedPut(2, "two"), encodedTimer(), encodedOutgoing(0, moverItem),
		encodedIncoming(toMover, 1, 0, 0)}
	// The rest of the actor, of which one part is another.
	other := func(part int, op []byte) []byte {
		ops := append([][]byte(nil), whole...)
		ops[part] = op
		return with(ops...)
	}
	arrives := func(item []byte) func(m *moving) {
		return func(m *moving) {
			m.works()
			m.departs(item)
			m.logs(2, receive(groupLink(1, 2), 2, item))
		}
	}
	for name, c := range map[string]struct {
		happens func(m *moving)
		want    string
	}{
		"a move": {func(m *moving) { m.moves(); m.lives[mover] = second }, ""},
		"it works where it has arrived": {func(m *moving) {
			m.moves()
			m.lives[mover] = second
			m.logs(2, timer(ledger.OpTimer, mover), put(mover, 1, "later"), send(toPeer, moverItem))
		}, ""},
		"a move that is called off": {func(m *moving) {
			m.works()
			m.logs(1, leave(0), send(groupLink(1, 2), cancelled))
			m.logs(2, receive(groupLink(1, 2), 2, cancelled))
		}, ""},
		"a copy that begins again": {func(m *moving) {
			m.works()
			again := pieceOf(pieceFirst, ledger.Assignment{}, encodedPut(1, "one"), encodedPut(2, "two"))
			last := with(whole[1:]...)
			m.logs(1, leave(2), send(groupLink(1, 2), again))
			m.departs(last)
			m.logs(2, receive(groupLink(1, 2), 2, again))
			m.logs(2, receive(groupLink(1, 2), 3, last))
			m.lives[mover] = second
		}, ""},
		"what the switches of its group are like": {func(m *moving) {
			m.groups[0].shadow.model.switches[1] = switchModel{epoch: 9, live: true, reachable: true}
			arrives(with(append(whole, encodedIncoming(fromSwitch, 0, 9, 1))...))(m)
			m.lives[mover] = second
		}, ""},
		"items that are taken and not forgotten yet": {func(m *moving) {
			m.works()
			m.logs(2, receive(toPeer, 1, moverItem), put(peer, 1, "heard"))
			m.logs(1, ledger.Record{Op: ledger.OpTaken, Link: toPeer, Seq: 1})
			m.departs(followed)
			m.logs(2, receive(groupLink(1, 2), 2, followed))
			m.lives[mover] = second
		}, ""},

		"a row while it is on its way": {func(m *moving) {
			m.works()
			m.departs(followed)
			m.logs(1,
				put(mover, 1, "x"))
		},
			"application mover is active, and on its way to group 2"},
		"a timer while it is on its way": {func(m *moving) {
			m.works()
			m.departs(followed)
			m.logs(2, timer(ledger.OpTimer, mover))
		}, "application mover is active, and on its way to group 2"},
		"a row in the group that it has left": {func(m *moving) { m.moves(); m.logs(1, put(mover, 1, "x")) },
			"application mover is active in two groups, this one and group 2"},
		"an item in a group where it never was": {func(m *moving) { m.moves(); m.logs(3, send(toPeer, moverItem)) },
			"application mover is active in two groups, this one and group 2"},
		"a call where the directory has it not": {func(m *moving) {
			m.logs(3, ledger.Record{Op: ledger.OpCall, Actor: mover, Name: "call"})
		}, "application mover is active, and the directory has it in group 1"},
		"it leaves a group in which it is not": {func(m *moving) {
			m.logs(2, put(peer, 1, "x"))
			m.logs(2, ledger.Record{Op: ledger.OpLeave, Actor: mover, Assignment: ledger.Assignment{Group: 1}})
		}, "application mover is active, and the directory has it in group 1"},

		"it departs without a new version": {func(m *moving) {
			m.works()
			m.logs(1, depart(ledger.Assignment{Group: 2, Version: 1}))
		}, "application mover departs as version 1; it has version 1"},
		"it returns with an old version": {func(m *moving) {
			m.moves()
			m.logs(2, ledger.Record{Op: ledger.OpDepart, Actor: mover,
				Assignment: ledger.Assignment{Group: 1, Version: 2}})
		}, "application mover departs as version 2; it has version 2"},
		"it departs from where it is not": {func(m *moving) {
			m.works()
			m.logs(2, depart(ledger.Assignment{Group: 1, Version: 2}))
		}, "application mover is active in two groups, this one and group 1"},
		"a cell is left": {func(m *moving) {
			m.works()
			m.logs(1, depart(second), timer(ledger.OpCancelTimer, mover), send(groupLink(1, 2), followed))
		}, `departed from a group that has still something of it: it has row mover/t at 1, 1: "one"`},
		"a timer is left": {func(m *moving) {
			m.works()
			m.logs(1, depart(second), drop(mover), send(groupLink(1, 2), followed))
		}, "departed from a group that has still something of it: it has timer alarm of application mover"},

		"it arrives and has not departed": {func(m *moving) {
			m.works()
			m.logs(1, leave(2), send(groupLink(1, 2), followed))
			m.logs(2, receive(groupLink(1, 2), 2, followed))
		}, "application mover arrives as {Group:2 Version:2}, and has not departed to there"},
		"it arrives as another version": {arrives(pieceOf(pieceLast, ledger.Assignment{Group: 2, Version: 3},
			whole...)),
			"application mover arrives as {Group:2 Version:3}, and has not departed to there"},
		"it arrives elsewhere": {func(m *moving) {
			m.works()
			m.logs(1, depart(second), drop(mover), timer(ledger.OpCancelTimer, mover), send(groupLink(1, 3), followed))
			m.logs(3, receive(groupLink(1, 3), 1, followed))
		}, "application mover arrives as {Group:2 Version:2}, and has not departed to there"},
		"it arrives twice": {func(m *moving) {
			m.moves()
			m.logs(1, leave(2), send(groupLink(1, 2), followed))
		}, "application mover is active in two groups, this one and group 2"},
		"a damaged piece": {arrives(with(whole[0][:len(whole[0])-1])),
			"application mover arrives: ends within a field"},

		"a row is missing": {arrives(other(0, nil)),
			`application mover arrives: it lacks row mover/t at 1, 2: "two"`},
		"a row differs": {arrives(other(0, encodedPut(2, "too"))),
			`it has row mover/t at 1, 2: "too", not row mover/t at 1, 2: "two"`},
		"what was copied is missing": {arrives(pieceOf(pieceFirst|pieceLast, second, whole...)),
			`it lacks row mover/t at 1, 1: "one"`},
		"a row too much": {arrives(with(append(whole, encodedPut(3, "x"))...)),
			`it has row mover/t at 1, 3: "x"`},
		"the timer is missing": {arrives(other(1, nil)), "it lacks timer alarm of application mover"},
		"the outbox is missing": {arrives(other(2, nil)),
			"it lacks items of stream application mover to application peer"},
		"an item is missing":         {arrives(other(2, encodedOutgoing(0))), "it lacks items of stream"},
		"more is forgotten than was": {arrives(other(2, encodedOutgoing(1))), "items of stream"},
		"the watermark is missing": {arrives(other(3, nil)),
			"it lacks stream application peer to application mover, received"},
		"another watermark": {arrives(other(3, encodedIncoming(toMover, 2, 0, 0))),
			"it has stream application peer to application mover, received: {received:2"},
		"a switch that is none of its group": {
			arrives(with(append(whole, encodedIncoming(fromSwitch, 0, 9, 1))...)),
			"it has stream switch 0000000000000001 to application mover, received: {received:0 epoch:9 live:true"},
		"another epoch of a switch": {func(m *moving) {
			m.groups[0].shadow.model.switches[1] = switchModel{epoch: 9, live: true, reachable: true}
			arrives(with(append(whole, encodedIncoming(fromSwitch, 0, 8, 1))...))(m)
		}, "received: {received:0 epoch:8 live:true"},

		"it begins to leave, and does not": {func(m *moving) { m.works() },
			"application mover is about to leave group 1 for group 2"},
		"it does not arrive": {func(m *moving) { m.works(); m.departs(followed) },
			"application mover is on its way to group 2"},
		"a copy is left behind": {func(m *moving) { m.works(); m.logs(1, leave(0)) },
			"group 2 has pieces of application mover, which does not arrive from group 1"},
		"the directory is not told": {func(m *moving) { m.moves() },
			"application mover lives in group 2 as version 2, and for the directory in group 1 as version 1"},
		"the directory has another version": {
			func(m *moving) { m.moves(); m.lives[mover] = ledger.Assignment{Group: 2, Version: 1} },
			"application mover lives in group 2 as version 2, and for the directory in group 2 as version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving()
			c.happens(m)
			if text := m.text(); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// Streams go on where an actor has moved, and frames of those who do not know that yet are no violation.
func TestStreamsOfAnActorThatMoves(t *testing.T) {
	frame := func(k ledger.Link, seq uint64, items ...[]byte) []byte {
		b := []byte{1, 2}
		if len(items) > 0 {
			b[1] = frameItems
		}
		b = binary.AppendUvarint(k.To.Append(k.From.Append(b)), seq)
		if len(items) > 0 {
			b = append(b, byte(len(items)))
		}
		for _, item := range items {
			b = append(b, item...)
		}
		return b
	}
	framed := func(group int, f []byte) func(m *moving) { return func(m *moving) { m.groups[group-1].Framed(f) } }
	taken := ledger.Record{Op: ledger.OpTaken, Link: toPeer, Seq: 1}
	for name, c := range map[string]struct {
		then func(m *moving) // when the actor has arrived in group 2
		want string
	}{
		"the new group sends what has come with it":      {framed(2, frame(toPeer, 1, moverItem)), ""},
		"a deposed leader of the old group sends it too": {framed(1, frame(toPeer, 1, moverItem)), ""},
		"another group sends it":                         {framed(3, frame(toPeer, 1, moverItem)), "item 1 leaves"},
		"the new group acknowledges":                     {framed(2, frame(toMover, 1)), ""},
		"the old group acknowledges":                     {framed(1, frame(toMover, 1)), ""},
		"another group acknowledges":                     {framed(3, frame(toMover, 1)), "item 1 is acknowledged"},
		"its items are received and forgotten": {func(m *moving) {
			m.logs(3, put(ledger.Actor{App: "else"}, 1, "x"))
			m.logs(2, receive(toPeer, 1, moverItem))
			m.logs(2, taken)
		}, ""},
		"the old group forgets its items": {func(m *moving) {
			m.logs(2, receive(toPeer, 1, moverItem))
			m.logs(1, taken)
		}, "the items up to 1 are forgotten"},
		"what it has received comes again": {func(m *moving) { m.logs(2, receive(toMover, 1, moverItem)) },
			"item 1 is received after 1"},
		"what is sent to it is received where it was": {func(m *moving) {
			m.logs(2, send(toMover, moverItem))
			m.logs(1, receive(toMover, 2, moverItem))
		}, "application mover is active in two groups, this one and group 2"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving()
			m.moves()
			m.lives[mover] = second
			m.lives[ledger.Actor{App: "else"}] = ledger.Assignment{Group: 3, Version: 1}
			if c.then(m); c.want == "" && m.text() != "" || !strings.Contains(m.text(), c.want) {
				t.Errorf("found %q, want %q", m.text(), c.want)
			}
		})
	}
}

// Moves are counted by their versions, and only those that are finished are of no concern at the end.
func TestMovesAreCounted(t *testing.T) {
	m := newMoving()
	if n, _ := m.groups[0].h.Moves(); n != 0 {
		t.Errorf("%d moves before the first", n)
	}
	m.moves()
	back := ledger.Assignment{Group: 1, Version: 3}
	m.logs(2, ledger.Record{Op: ledger.OpLeave, Actor: mover, Assignment: ledger.Assignment{Group: 1}})
	m.logs(2, depart(back), drop(mover), timer(ledger.OpCancelTimer, mover))
	if n, _ := m.groups[0].h.Moves(); n != 2 || len(m.found) > 0 {
		t.Errorf("%d moves of 2; %q", n, m.found)
	}
	if m.groups[0].h.Finish(map[openflow.DatapathID]uint64{}); len(m.found) != 1 {
		t.Errorf("items that nobody has received: %q", m.found)
	}
}
