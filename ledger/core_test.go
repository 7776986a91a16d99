package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestEventErrors(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	p.event(1, 5, 1, switchUp())
	p.event(1, 5, 2, packetIn("x"))
	p.event(1, 7, 1, switchUp())
	p.event(1, 7, 2, switchDown())
	p.commit()
	before := snapshot(t, p.leader)
	for _, tc := range []struct {
		name       string
		id         openflow.DatapathID
		epoch, seq uint64
		msg        []byte
		want       error  // expected error, or
		text       string // its text; neither for a duplicate
	}{
		{"duplicate", 1, 7, 1, switchUp(), nil, ""},
		{"duplicate of the last", 1, 7, 2, switchDown(), nil, ""},
		{"duplicate of an earlier epoch", 1, 5, 2, packetIn("x"), nil, ""},
		{"earlier epoch, never seen event", 1, 5, 3, packetIn("x"), ErrStaleEpoch, ""},
		{"earlier epoch, never seen", 1, 6, 1, switchUp(), ErrStaleEpoch, ""},
		{"after its end", 1, 7, 3, packetIn("x"), ErrStaleEpoch, ""},
		{"new epoch from the middle", 1, 9, 2, packetIn("x"), ErrGap, ""},
		{"unknown switch from the middle", 2, 1, 2, packetIn("x"), ErrGap, ""},
		{"epoch without SWITCH_UP", 1, 9, 1, packetIn("x"), nil, "not with SWITCH_UP"},
		{"epoch that begins with its end", 1, 9, 1, switchDown(), nil, "not with SWITCH_UP"},
	} {
		err := p.leader.Event(tc.id, tc.epoch, tc.seq, tc.msg)
		switch {
		case tc.text != "":
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("%s: %v", tc.name, err)
			}
		case !errors.Is(err, tc.want):
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if got := p.commit(); len(got) != 1 || got[0].Epoch != 7 || got[0].Acked != 2 || got[0].Count != 0 {
		t.Errorf("duplicates are acknowledged with %+v", got)
	}
	if len(p.entries) != 1 || !bytes.Equal(before, snapshot(t, p.leader)) {
		t.Error("events that were not taken changed the ledger")
	}
	if err := p.follower.Event(1, 9, 1, switchUp()); err == nil {
		t.Error("a follower took an event")
	}
	p.follower.Unreachable(1)
	p.follower.Reachable(1, 7)
	p.commit()
}

// TestEpochAhead: a peer cannot use up the epochs of a switch. What is refused leaves nothing behind.
func TestEpochAhead(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	ahead := func(id openflow.DatapathID, epoch uint64) {
		t.Helper()
		if err := p.leader.Event(id, epoch, 1, switchUp()); !errors.Is(err, ErrEpochAhead) {
			t.Errorf("switch %s, epoch %d: %v", id, epoch, err)
		}
	}
	for id := range openflow.DatapathID(100) {
		ahead(id, 1<<63+1)
		ahead(id, math.MaxUint64)
	}
	if n := len(p.leader.state.switches); n > 0 {
		t.Errorf("%d switches are remembered, of which nothing is known", n)
	}
	p.event(1, 1<<63, 1, switchUp())
	p.event(1, 1<<63+1, 1, switchUp()) // as after a refusal, however high the epoch is
	ahead(1, 1<<63+2+1<<20)
	p.event(1, 1<<63+1, 2, packetIn("x"))
	p.commit()
}

func TestGapWithinEpoch(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	p.up(1)
	if err := p.leader.Event(1, 1, 3, packetIn("x")); !errors.Is(err, ErrGap) {
		t.Errorf("gap: %v", err)
	}
	p.event(1, 1, 2, packetIn("x"))
	p.commit()
}

func TestSwitchLife(t *testing.T) {
	a := &script{name: "a"}
	p := newPair(t, Limits{}, a)
	up, down, msg := "switch up of switch "+sw1, "switch down of switch "+sw1, "message of switch "+sw1
	p.up(1)
	wantTold(t, a, up)
	p.event(1, 1, 2, switchDown())
	wantTold(t, a, down)
	p.event(1, 2, 1, switchUp())
	p.event(1, 3, 1, switchUp()) // the agent has restarted
	wantTold(t, a, up, down, up)
	p.leader.Unreachable(1)
	p.leader.Unreachable(1)
	wantTold(t, a, down)
	p.leader.Reachable(1, 2) // an old epoch says nothing about this one
	wantTold(t, a)
	p.leader.Reachable(1, 3)
	p.leader.Reachable(1, 3)
	wantTold(t, a, up)
	p.leader.Unreachable(1)
	p.event(1, 3, 2, packetIn("x")) // an event shows that the switch is reachable
	wantTold(t, a, down, up, msg)
	p.leader.Unreachable(1)
	p.event(1, 3, 3, switchDown())
	wantTold(t, a, down)
	p.leader.Unreachable(1)
	p.leader.Unreachable(99)
	wantTold(t, a)
	p.event(1, 4, 1, switchUp())
	wantTold(t, a, up)
	p.commit()
	if st := p.follower.Switches(); len(st) != 1 || st[0].Epoch != 4 || !st[0].Live || !st[0].Reachable ||
		st[0].Events != 1 || st[0].TotalEvents != 7 {
		t.Errorf("status %+v", st)
	}
}

func TestFailedApplication(t *testing.T) {
	spoil := func(tx *Tx) {
		tx.Put(tx.Table("poison"), Key{A: 1}, Key{}, []byte("poison"))
		tx.Put(tx.Table("good"), Key{A: 1}, Key{}, []byte("poison"))
		tx.Delete(tx.Table("good"), Key{A: 2}, Key{})
		tx.Send(1, simCommand("poison"))
		tx.CancelTimer("keep")
		for i := range 100 { // so many that the heap of timers is rebuilt
			_ = tx.SetTimer("poison", time.Duration(i), nil)
		}
		_ = tx.Emit("poison", nil)
	}
	for name, fail := range map[string]func(*Tx) error{
		"error":         func(tx *Tx) error { spoil(tx); return errors.New("no") },
		"panic":         func(tx *Tx) error { spoil(tx); panic("no") },
		"encoder":       func(tx *Tx) error { spoil(tx); tx.Send(1, panics{}); return nil },
		"wrong length":  func(tx *Tx) error { spoil(tx); tx.Send(1, wrongLength(9)); return nil },
		"short command": func(tx *Tx) error { spoil(tx); tx.Send(1, wrongLength(7)); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bad := &script{name: "bad"}
			good := &script{name: "good", do: func(tx *Tx, in *Input) error {
				tx.Put(tx.Table("good"), Key{A: 3}, Key{}, []byte(in.Name))
				tx.Send(1, simCommand("good"))
				return nil
			}}
			p := newPair(t, Limits{}, bad, good)
			bad.do = func(tx *Tx, in *Input) error {
				tx.Put(tx.Table("good"), Key{A: 1}, Key{}, []byte("one"))
				tx.Put(tx.Table("good"), Key{A: 2}, Key{}, []byte("two"))
				return tx.SetTimer("keep", 10, []byte("data"))
			}
			p.up(1)
			p.commit()
			want := snapshot(t, p.leader)
			bad.do = func(tx *Tx, in *Input) error { return fail(tx) }
			good.do = nil
			p.leader.Unreachable(1)
			p.leader.Reachable(1, 1)
			p.commit()
			if got := snapshot(t, p.leader); !bytes.Equal(got, want) {
				t.Errorf("a failed application left something:\n got %s\nwant %s", dump(got), dump(want))
			}
			if got := ops(t, p.entries[1]); !slices.Equal(got, []Op{OpUnreachable, OpFailure, OpReachable, OpFailure}) {
				t.Errorf("operations %v", got)
			}
			f := p.leader.Failures()
			if len(f) != 2 || f[0].App != "bad" || f[0].Err == nil || f[0].Input.Kind != SwitchDown ||
				(name != "error") != (f[0].Stack != nil) {
				t.Errorf("failures %+v", f)
			}
			if len(p.leader.Failures()) != 0 {
				t.Error("failures are reported twice")
			}
			// The timer that the failed transaction cancelled still exists, and fires.
			bad.do, bad.told = nil, nil
			p.leader.Tick(p.now + 1000)
			wantTold(t, bad, "timer keep of switch "+sw1)
			p.commit()
		})
	}
}

type wrongLength int

func (n wrongLength) Append(dst []byte, _ uint32) []byte {
	return append(dst, []byte{4, 13, 0, 8, 0, 0, 0, 0, 0}[:n]...)
}

func TestEmitted(t *testing.T) {
	a, b := &script{name: "a"}, &script{name: "b"}
	a.do = func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			return errors.Join(tx.Emit("x", []byte("1")), tx.Emit("y", nil))
		}
		return nil
	}
	b.do = func(tx *Tx, in *Input) error {
		if in.Name == "x" && string(in.Message) == "1" {
			return tx.Emit("z", nil)
		}
		if in.Name == "y" {
			_ = tx.Emit("lost", nil)
			return errors.New("no")
		}
		return nil
	}
	p := newPair(t, Limits{}, a, b)
	p.up(1)
	all := []string{"switch up of switch " + sw1, "emitted x", "emitted y", "emitted z"}
	wantTold(t, a, all...)
	wantTold(t, b, all...)
	a.do, b.do = func(tx *Tx, in *Input) error { return tx.Emit("again", nil) }, nil
	p.event(1, 1, 2, packetIn("loop"))
	p.commit()
	if f := p.leader.Failures(); len(f) < 2 || !strings.Contains(f[1].Err.Error(), "1024 messages") {
		t.Errorf("an endless loop of messages ended with %v", f)
	}
	if n := len(b.told); n != maxEmitted+1 {
		t.Errorf("%d messages came through", n)
	}
}

func TestAnswersGoToWhoAsked(t *testing.T) {
	a, b := &script{name: "a"}, &script{name: "b"}
	p := newPair(t, Limits{}, a, b)
	p.up(1)
	for i, tc := range []struct {
		typ  uint8
		xid  uint32
		a, b bool
	}{
		{of13.TypeBarrierReply, 1<<24 | 7, true, false},
		{of13.TypeMultipartReply, 2<<24 | 7, false, true},
		{of13.TypeError, 2<<24 | 7, false, true},
		{of13.TypeError, 7, true, true},
		{of13.TypeError, 3 << 24, true, true},
		{of13.TypePacketIn, 2<<24 | 7, true, true},
		{of13.TypePortStatus, 1 << 24, true, true},
		{of13.TypeFlowRemoved, 1 << 24, true, true},
	} {
		a.told, b.told = nil, nil
		p.event(1, 1, uint64(2+i), newMessage(tc.typ, tc.xid, ""))
		if len(a.told) == 1 != tc.a || len(b.told) == 1 != tc.b {
			t.Errorf("type %d, xid %x: a %q, b %q", tc.typ, tc.xid, a.told, b.told)
		}
	}
}

func TestNew(t *testing.T) {
	if _, err := New([]Application{&script{name: "a"}, &script{name: "a"}}, Limits{}); err == nil {
		t.Error("one name twice")
	}
	if _, err := New(make([]Application, 128), Limits{}); err == nil {
		t.Error("128 applications")
	}
	for _, in := range []Input{{}, {Kind: 99}, {Kind: Timer, Name: "x"}} {
		if in.String() == "" {
			t.Error("no name")
		}
	}
}

func TestSendBytes(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if _, err := tx.SendBytes(1, []byte{4, 0, 0, 9, 0, 0, 0, 0}); err == nil ||
			strings.Contains(err.Error(), "%!") {
			t.Errorf("half a message: %v", err)
		}
		if xid, err := tx.SendBytes(2, packetIn("x")); xid != 0 || err != nil {
			t.Errorf("to a switch that is not up: %x %v", xid, err)
		}
		if xid, err := tx.SendBytes(1, packetIn("x")); xid != 1<<24|1 || err != nil {
			t.Errorf("%x %v", xid, err)
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	if r := p.commit(); len(p.leader.Failures()) > 0 || openflow.XID(r[0].Commands) != 1<<24|1 {
		t.Errorf("released %+v", r)
	}
}

func TestFieldsAndSwitches(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		tab := tx.Table("t")
		for i := range 5 {
			tx.Put(tab, Key{A: 1}, Key{A: uint64(5 - i)}, []byte{byte(i)})
		}
		var got []uint64
		for k := range tx.Fields(tab, Key{A: 1}) {
			got = append(got, k.A)
			tx.Delete(tab, Key{A: 1}, Key{A: k.A + 1}) // a deleted row must not be visited any more
			if k.A == 3 {
				break
			}
		}
		if !slices.Equal(got, []uint64{1, 3}) {
			t.Errorf("fields %v", got)
		}
		if ids := slices.Collect(tx.Switches()); fmt.Sprint(ids) != fmt.Sprint([]openflow.DatapathID{in.Switch}) {
			t.Errorf("switches %v", ids)
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, packetIn(""))
	p.commit()
	if f := p.leader.Failures(); len(f) > 0 {
		t.Error(f[0].Err)
	}
}
