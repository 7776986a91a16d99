package history

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// In these histories switch 1, which has an agent, lives in group 1 in epoch 9 and moves to group 2, with a timer of an
// application at it. It has executed one of two commands, and no entry says so.
var (
	moverThere  = ledger.Actor{App: "mover", Shard: ledger.AtSwitch(1)}
	hello       = experimenter.SwitchUp{Features: []byte("f")}.Append(nil, openflow.Version13)
	movedSwitch = ledger.Actor{Shard: ledger.AtSwitch(1)}
)

func ofSwitch1(op ledger.Op, seq uint64, msg []byte) ledger.Record {
	return ledger.Record{Op: op, Switch: 1, Epoch: 9, Seq: seq, Bytes: msg}
}

// encodedSwitch is the state of the switch, with these commands behind so many that are done.
func encodedSwitch(events, done uint64, commands ...[]byte) []byte {
	b := binary.BigEndian.AppendUint64([]byte{byte(ledger.OpSwitch)}, 1)
	b = binary.AppendUvarint(binary.BigEndian.AppendUint64(b, 9), events)
	b = sized(append(b, 3, 0), hello) // live and reachable; no past epochs
	b = binary.AppendUvarint(binary.AppendUvarint(b, done), uint64(len(commands)))
	for _, c := range commands {
		b = binary.AppendUvarint(b, uint64(len(c)))
	}
	for _, c := range commands {
		b = append(b, c...)
	}
	b = append(b, 0)                                        // nobody else has asked
	return append(binary.AppendUvarint(b, events), byte(2)) // commands in all
}

func encodedTimerThere() []byte {
	b := sized(moverThere.Append([]byte{byte(ledger.OpSetTimer)}), []byte("alarm"))
	return append(b, 5, 0)
}

// newMovingSwitch is newMoving, with the switch as it is before it departs.
func newMovingSwitch() *moving {
	m := newMoving()
	h := m.groups[0].h
	h.Opened(1, 9)
	h.Read(1, 9, message("event"))
	h.Read(1, 9, message("more"))
	m.logs(1, ofSwitch1(ledger.OpEvent, 1, hello), timer(ledger.OpSetTimer, moverThere),
		ofSwitch1(ledger.OpCommand, 1, message("one")), ofSwitch1(ledger.OpCommand, 2, message("two")))
	m.logs(1, ofSwitch1(ledger.OpEvent, 2, message("event")))
	h.Executed(1, 9, message("one"))
	return m
}

// switchDeparts lets the switch depart as these pieces. Mover stays, and learns of it.
func (m *moving) switchDeparts(ops ...[]byte) (item []byte) {
	item = pieceOfActor(movedSwitch, pieceFirst|pieceLast, second, ops...)
	m.logs(1, ledger.Record{Op: ledger.OpDepart, Actor: movedSwitch, Assignment: second},
		timer(ledger.OpCancelTimer, moverThere), send(groupLink(1, 2), item),
		ledger.Record{Op: ledger.OpIncoming, Link: fromSwitch})
	return item
}

func (m *moving) switchMoves(ops ...[]byte) {
	m.logs(2, receive(groupLink(1, 2), 1, m.switchDeparts(ops...)))
	m.lives[movedSwitch] = second
}

func TestSwitchMoves(t *testing.T) {
	whole := [][]byte{encodedSwitch(2, 1, message("two")), encodedTimerThere()}
	for name, c := range map[string]struct {
		happens func(m *moving)
		want    string
	}{
		"it goes on where it has arrived": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(2, ofSwitch1(ledger.OpEvent, 3, message("more")), ofSwitch1(ledger.OpCommand, 3, message("three")))
			m.groups[0].h.Executed(1, 9, message("two"))
			m.logs(2, ofSwitch1(ledger.OpDone, 2, nil))
		}, ""},
		"an event while it is on its way": {func(m *moving) {
			m.switchDeparts(whole...)
			m.logs(1, ofSwitch1(ledger.OpEvent, 3, message("more")))
		}, "switch 0000000000000001 is active, and on its way to group 2"},
		"an event where it was": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(1, ofSwitch1(ledger.OpEvent, 3, message("more")))
		}, "switch 0000000000000001 is active in two groups, this one and group 2"},
		"an event once more": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(2, ofSwitch1(ledger.OpEvent, 2, message("event")))
		}, "event 2 (a message of type 10, xid 0x0, 13 bytes) once more"},
		"a command where it was": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(1, ofSwitch1(ledger.OpCommand, 3, message("three")))
		}, "switch 0000000000000001 is active in two groups, this one and group 2"},
		"a command with a number that was used": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(2, ofSwitch1(ledger.OpCommand, 2, message("three")))
		}, "is logged after 2"},
		"an application at it where it was": {func(m *moving) {
			m.switchMoves(whole...)
			m.logs(1, timer(ledger.OpSetTimer, moverThere))
		}, "switch 0000000000000001 is active in two groups, this one and group 2"},
		"a command is left out that it has not executed": {
			func(m *moving) { m.switchMoves(encodedSwitch(2, 2), whole[1]) },
			"command 2 is logged as done; the switch has executed 1"},
		"a command is lost": {func(m *moving) { m.switchMoves(encodedSwitch(2, 1), whole[1]) },
			"arrives: it lacks commands of switch 0000000000000001: number 2"},
		"another watermark of events": {
			func(m *moving) { m.switchMoves(encodedSwitch(1, 1, message("two")), whole[1]) },
			"arrives: it has switch 0000000000000001: {epoch:9 events:1"},
		"the switch is missing": {func(m *moving) { m.switchMoves(whole[1]) },
			"arrives: it lacks commands of switch 0000000000000001"},
		"the timer is missing": {func(m *moving) { m.switchMoves(whole[0]) },
			"arrives: it lacks timer alarm of application mover at switch 0000000000000001"},
		"the timer is left": {func(m *moving) {
			m.logs(1, ledger.Record{Op: ledger.OpDepart, Actor: movedSwitch, Assignment: second})
		}, "departed from a group that has still something of it: it has timer alarm"},
		"a stream is opened that is not its own": {func(m *moving) {
			m.logs(1, ledger.Record{Op: ledger.OpIncoming, Link: fromSwitch})
		}, "is opened, and its sender does not depart"},
		"the directory is not told": {func(m *moving) { m.switchMoves(whole...); delete(m.lives, movedSwitch) },
			"switch 0000000000000001 lives in group 2 as version 2, and for the directory in group 0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMovingSwitch()
			c.happens(m)
			if text := m.text(); c.want == "" && text != "" || !strings.Contains(text, c.want) {
				t.Errorf("found %q, want %q", text, c.want)
			}
		})
	}
}

// A session has been told everything until the new group logs an event, and what stays knows the epoch.
func TestContinues(t *testing.T) {
	m := newMovingSwitch()
	h := m.groups[0].h
	expect := func(when string, version uint64, want bool) {
		t.Helper()
		if got := h.Continues(1, version); got != want {
			t.Errorf("%s, version %d continues: %t", when, version, got)
		}
	}
	item := m.switchDeparts(encodedSwitch(2, 1, message("two")), encodedTimerThere())
	expect("on its way", 2, true)
	expect("on its way", 1, false)
	m.logs(2, receive(groupLink(1, 2), 1, item))
	expect("arrived", 2, true)
	m.logs(2, ofSwitch1(ledger.OpEvent, 3, message("more")))
	expect("after an event", 2, false)
	if i := m.groups[0].shadow.model.inboxes[fromSwitch]; i.epoch != 9 || !i.live || i.hello != string(hello) {
		t.Errorf("who stays knows of the switch: %+v", i)
	}
	if actors, switches := h.Moves(); actors != 0 || switches != 1 || len(m.found) > 0 {
		t.Errorf("%d moves of actors, %d of switches; %q", actors, switches, m.found)
	}
}
