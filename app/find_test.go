package app_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// script is a message that says what its handler does, for the cells of one actor.
type script struct {
	Switch app.Switch // the actor; 0: none
	Key    string     // likewise, if it is ""
	Ops    []op
}

func (s script) String() string {
	text := fmt.Sprintf("at %d%s:", s.Switch, s.Key)
	for _, o := range s.Ops {
		text += fmt.Sprintf(" %c %d %d", o.Kind, o.Name, o.Value)
		if o.Then != nil {
			text += fmt.Sprintf(" (%s)", o.Then)
		}
	}
	return text
}

// op is one of the things that a handler does.
type op struct {
	Kind  byte // one of kinds
	Name  uint32
	Value uint64
	Then  *script // what a timer or an emitted message has
}

// kinds are: add to a cell, send a command, set a timer, emit a message, send if a cell has an odd value, fail if a
// cell has none, and fail.
const kinds = "asteodf"

// tables are what the scripts use.
type tables struct {
	together app.Table[uint32, uint64]
	switches app.Map[app.Switch, uint32, uint64]
	keys     app.Map[string, uint32, uint64]
}

// uses reports whether an operation uses cells.
func (o op) uses() bool { return o.Kind == 'a' || o.Kind == 'o' || o.Kind == 'd' }

// cells is the map function that one would write by hand.
func (t *tables) cells(s script) app.Cells {
	i := slices.IndexFunc(s.Ops, op.uses)
	switch fails := slices.IndexFunc(s.Ops, func(o op) bool { return o.Kind == 'f' }); {
	case i < 0 || fails >= 0 && fails < i:
		return app.Need()
	case s.Switch != 0:
		return app.Need(t.switches.Cell(s.Switch))
	case s.Key != "":
		return app.Need(t.keys.Cell(s.Key))
	}
	return app.Need(t.together.Cell(0), t.together.Cell(1), t.together.Cell(2))
}

func (t *tables) get(tx *app.Tx, s script, name uint32) (v uint64) {
	switch {
	case s.Switch != 0:
		v, _ = t.switches.Get(tx, s.Switch, name)
	case s.Key != "":
		v, _ = t.keys.Get(tx, s.Key, name)
	default:
		v, _ = t.together.Get(tx, name)
	}
	return v
}

func (t *tables) put(tx *app.Tx, s script, name uint32, v uint64) {
	switch {
	case s.Switch != 0:
		t.switches.Put(tx, s.Switch, name, v)
	case s.Key != "":
		t.keys.Put(tx, s.Key, name, v)
	default:
		t.together.Put(tx, name, v)
	}
}

// run is the handler.
func (t *tables) run(tx *app.Tx, s script) error {
	send := func(v uint64) {
		tx.PacketOut(app.Switch(1+v%4), of13.PacketOut{BufferID: of13.NoBuffer,
			Data: binary.BigEndian.AppendUint64(nil, v)})
	}
	for _, o := range s.Ops {
		switch o.Kind {
		case 'a':
			t.put(tx, s, o.Name, t.get(tx, s, o.Name)+o.Value)
		case 's':
			send(o.Value)
		case 'o':
			if v := t.get(tx, s, o.Name); v%2 == 1 {
				send(v)
			}
		case 'd':
			if t.get(tx, s, o.Name) == 0 {
				panic("nothing is there")
			}
		case 't':
			data, err := cbor.Marshal(o.Then)
			if err != nil {
				return err
			}
			if err := tx.SetTimer(fmt.Sprint(o.Name), time.Duration(o.Value), data); err != nil {
				return err
			}
		case 'e':
			if err := app.Emit(tx, *o.Then); err != nil {
				return err
			}
		case 'f':
			return tx.Try(func() error { panic("fails") })
		}
	}
	return nil
}

// scripted makes the application, with map functions by hand or without any.
func scripted(name string, byHand bool) *app.App {
	a := app.New(name)
	t := &tables{app.NewTable[uint32, uint64](a, "together"),
		app.NewMap[app.Switch, uint32, uint64](a, "switches"),
		app.NewMap[string, uint32, uint64](a, "keys", app.Sharded)}
	parse := func(b []byte) (s script) {
		_ = cbor.Unmarshal(b, &s) // of a message without content: it does nothing
		return s
	}
	var ofPacket func(app.PacketIn) app.Cells
	var ofTimer func(app.Timer) app.Cells
	var ofScript func(script) app.Cells
	if byHand {
		ofPacket = func(in app.PacketIn) app.Cells { return t.cells(parse(in.Data)) }
		ofTimer = func(in app.Timer) app.Cells { return t.cells(parse(in.Data)) }
		ofScript = t.cells
	}
	app.Handle(a, ofPacket, func(tx *app.Tx, in app.PacketIn) error { return t.run(tx, parse(in.Data)) })
	app.Handle(a, ofTimer, func(tx *app.Tx, in app.Timer) error { return t.run(tx, parse(in.Data)) })
	app.HandleEmitted(a, ofScript, t.run)
	// A second one, which belongs to another actor.
	var ofOther func(script) app.Cells
	if byHand {
		ofOther = func(s script) app.Cells { return t.cells(other(s)) }
	}
	app.HandleEmitted(a, ofOther, func(tx *app.Tx, s script) error { return t.run(tx, other(s)) })
	return a
}

// other is the script for the cells of another actor, without what follows.
func other(s script) script {
	o := script{Key: "other"}
	for _, op := range s.Ops {
		if op.Then == nil {
			o.Ops = append(o.Ops, op)
		}
	}
	return o
}

// drawScript draws a script.
func drawScript(t *rapid.T, depth int) (s script) {
	switch rapid.IntRange(0, 2).Draw(t, "actor") {
	case 0:
		s.Switch = app.Switch(rapid.IntRange(1, 4).Draw(t, "switch"))
	case 1:
		s.Key = rapid.SampledFrom([]string{"a", "bb", "ccc"}).Draw(t, "key")
	}
	for range rapid.IntRange(0, 5).Draw(t, "ops") {
		o := op{Kind: kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")],
			Name: uint32(rapid.IntRange(0, 2).Draw(t, "name")), Value: uint64(rapid.IntRange(1, 40).Draw(t, "value"))}
		if o.Kind == 't' || o.Kind == 'e' {
			if depth == 0 {
				continue
			}
			then := drawScript(t, depth-1)
			o.Then = &then
		}
		if o.Kind == 'f' && rapid.IntRange(0, 3).Draw(t, "fails") > 0 {
			continue
		}
		s.Ops = append(s.Ops, o)
	}
	return s
}

// move is a move after a message; to 0 is none.
type move struct {
	actor ledger.Actor
	to    uint64
}

func drawMove(t *rapid.T) move {
	return move{ledger.Actor{App: rapid.SampledFrom([]string{"one", "another"}).Draw(t, "moves"),
		Shard: ledger.Shard{Key: ledger.Key{S: rapid.SampledFrom([]string{"", "a", "bb", "other"}).Draw(t, "at")}}},
		rapid.Uint64Range(0, 4).Draw(t, "to")}
}

// outcome is what a network has seen of two applications, and what these have.
func outcome(t apptest.Tester, groups uint64, byHand bool, messages [][]byte, moves []move) string {
	n := apptest.NewOf(t, groups, scripted("one", byHand), scripted("another", byHand))
	n.MayFail()
	var lines []string
	note := func(sent []apptest.Sent) {
		var now []string
		for _, s := range sent {
			now = append(now, fmt.Sprintf("%d gets %v", s.Switch, s.Message))
		}
		slices.Sort(now) // those of several groups have no order
		lines = append(lines, strings.Join(now, ", "))
	}
	for id := app.Switch(1); id <= 4; id++ {
		n.SwitchUp(id)
	}
	for i, m := range messages {
		note(n.PacketIn(app.Switch(1+i%4), 1, of13.NoBuffer, string(m)))
		note(n.Advance(10))
		if m := moves[i]; m.to != 0 && groups > 1 {
			note(n.Move(m.actor, 1+m.to%(groups-1)))
		}
	}
	note(n.Advance(time.Second))
	note(n.Advance(time.Second))
	rows := append(n.Rows("one"), n.Rows("another")...)
	slices.SortStableFunc(rows, ledger.Row.Compare)
	for _, r := range rows {
		lines = append(lines, fmt.Sprint(r.Table, " ", r.Cell, " ", r.Field, " ", r.Value))
	}
	return strings.Join(lines, "\n")
}

// A handler without a map function has the same outcome as with the one that one would write by hand: what it does
// before it uses a cell, and elsewhere than where the message is, happens once and for the actor of that cell, also
// after that has moved.
func TestFoundIsAsByHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var messages [][]byte
		var moves []move
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			s := drawScript(t, 2)
			t.Logf("%s", s)
			m, err := cbor.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			messages, moves = append(messages, m), append(moves, drawMove(t))
		}
		groups := uint64(rapid.IntRange(1, 4).Draw(t, "groups"))
		want := outcome(t, groups, true, messages, moves)
		if got := outcome(t, groups, false, messages, moves); got != want {
			t.Fatalf("%d groups:\n%s\nby hand:\n%s", groups, got, want)
		}
	})
}

// A handler that recovers from the panic which ends its first run does not escape, and the message is handled once.
func TestFoundAfterRecover(t *testing.T) {
	a := app.New("a")
	keys := app.NewTable[string, uint64](a, "keys", app.Sharded)
	app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
		defer func() { _ = recover() }()
		tx.Send(in.Switch, &of13.BarrierRequest{})
		n, _ := keys.Get(tx, "k")
		keys.Put(tx, "k", n+1)
		return nil
	})
	n := apptest.NewOf(t, 3, a)
	n.SwitchUp(1)
	if sent := n.PacketIn(1, 1, of13.NoBuffer, ""); len(sent) != 1 {
		t.Errorf("sent %v, want one barrier", sent)
	}
	if rows := n.Rows("a"); len(rows) != 1 || rows[0].Value[0] != 1 {
		t.Errorf("rows: %v", rows)
	}
}

// A handler that uses cells of two switches fails with both, and so does one whose first cell is another one each time.
func TestFoundTwice(t *testing.T) {
	chance := 0
	for want, cells := range map[string]func(app.Table[app.Switch, uint64], app.Table[string, uint64], *app.Tx){
		"needs cells of 2 switches (cell switches[1], cell switches[2]), which stay in their groups": func(
			s app.Table[app.Switch, uint64], _ app.Table[string, uint64], tx *app.Tx) {
			s.Put(tx, 1, 1)
			s.Put(tx, 2, 1)
		},
		"must depend on the message only": func(_ app.Table[app.Switch, uint64], k app.Table[string, uint64],
			tx *app.Tx) {
			chance++
			k.Put(tx, fmt.Sprint(chance), 1)
		},
	} {
		for _, groups := range []uint64{2, 3} {
			a := app.New("a")
			switches := app.NewTable[app.Switch, uint64](a, "switches")
			keys := app.NewTable[string, uint64](a, "keys", app.Sharded)
			app.Handle(a, nil, func(tx *app.Tx, in app.PacketIn) error {
				cells(switches, keys, tx)
				return nil
			})
			n := apptest.NewOf(t, groups, a)
			n.SwitchUp(1)
			failures := n.MayFail()
			n.PacketIn(1, 1, of13.NoBuffer, "")
			if got := strings.Join(*failures, "; "); !strings.Contains(got, want) || len(n.Rows("a")) > 0 {
				t.Errorf("%d groups: %q, want %q; rows: %v", groups, got, want, n.Rows("a"))
			}
		}
	}
}
