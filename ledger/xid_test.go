package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// continued reports for each command whether its xid says that it continues a transaction.
func continued(t *testing.T, commands []byte) (list []bool) {
	t.Helper()
	for len(commands) > 0 {
		msg, rest, err := openflow.Next(commands)
		if err != nil {
			t.Fatal(err)
		}
		list, commands = append(list, Continues(openflow.XID(msg))), rest
	}
	return list
}

// The commands of one transaction to one switch are marked as such, whichever applications send them, and even if
// other applications fail in between.
func TestContinues(t *testing.T) {
	fails := false
	first := &script{name: "first", do: func(tx *Tx, in *Input) error {
		if in.Kind == Message {
			tx.Send(1, simCommand("first"))
		}
		if fails {
			return errors.New("no")
		}
		return nil
	}}
	second := &script{name: "second", do: func(tx *Tx, in *Input) error {
		switch in.Kind {
		case Message:
			tx.Send(2, simCommand("aside"))
			tx.Send(1, simCommand("second"))
			return tx.Emit("again", nil)
		case Emitted:
			tx.Send(1, simCommand("third"))
		}
		return nil
	}}
	p := newPair(t, Limits{}, first, second)
	p.up(1)
	p.up(2)
	p.event(1, 1, 2, packetIn("one"))
	p.event(1, 1, 3, packetIn("two"))
	fails = true
	p.event(1, 1, 4, packetIn("first fails"))
	for _, r := range p.commit() {
		want := []bool{false, true, true, false, true, true, false, true}
		if r.Switch == 2 {
			want = []bool{false, false, false}
		}
		if got := continued(t, r.Commands); !slices.Equal(got, want) {
			t.Errorf("switch %s: commands continue %v, want %v", r.Switch, got, want)
		}
	}
}

// An ERROR is delivered with the command that it answers, as long as that is not done.
func TestErrorComesWithItsCommand(t *testing.T) {
	var xids []uint32
	var got []byte
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			for _, text := range []string{"one", "the second", "three"} {
				xids = append(xids, tx.Send(1, simCommand(text)))
			}
		}
		got = bytes.Clone(in.Command)
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	p.must(p.leader.Done(1, 1, 1))
	p.commit()
	for i, tc := range []struct {
		name string
		xid  uint32
		want []byte
	}{
		{"the second", xids[1], simCommand("the second").Append(nil, xids[1])},
		{"the third", xids[2], simCommand("three").Append(nil, xids[2])},
		{"one that is done", xids[0], nil},
		{"one to come", xids[2] + 1, nil},
		{"another transaction", xids[1] &^ continues, nil},
	} {
		p.event(1, 1, uint64(i+2), newMessage(of13.TypeError, tc.xid, ""))
		if !bytes.Equal(got, tc.want) {
			t.Errorf("the ERROR about %s came with %q, want %q", tc.name, got, tc.want)
		}
	}
}

// The command that is delivered with an ERROR stays valid while the application sends others.
func TestErrorKeepsItsCommand(t *testing.T) {
	body := strings.Repeat("x", 1000)
	var xid uint32
	var before, after []byte
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		if in.Kind == SwitchUp {
			tx.Send(1, simCommand(body))
			tx.Send(1, simCommand(body))
			xid = tx.Send(1, simCommand("refused"+body))
			return nil
		}
		before = bytes.Clone(in.Command)
		for range 20 { // so that the queue moves its bytes
			tx.Send(1, simCommand("another one"+body[:100]))
		}
		after = bytes.Clone(in.Command)
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	p.must(p.leader.Done(1, 1, 2))
	p.commit()
	p.event(1, 1, 2, newMessage(of13.TypeError, xid, ""))
	if want := simCommand("refused"+body).Append(nil, xid); !bytes.Equal(before, want) || !bytes.Equal(after, want) {
		t.Errorf("the ERROR came with %.40q, which became %.40q; want %.40q", before, after, want)
	}
}

// A sync marker is logged like an event, and delivered to no application.
func TestMark(t *testing.T) {
	a := &script{name: "a"}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, experimenter.SyncMarker{Generation: 1, Number: 7}.Append(nil, openflow.Version13))
	p.event(1, 1, 3, packetIn("x"))
	r := p.commit()
	wantTold(t, a, "switch up of switch "+sw1, "message of switch "+sw1)
	if len(r) != 1 || r[0].Acked != 3 {
		t.Errorf("released %+v, want events up to 3 acknowledged", r)
	}
	if s := p.follower.Switches(); len(s) != 1 || s[0].Events != 3 || s[0].TotalEvents != 3 {
		t.Errorf("follower has %+v", s)
	}
}

// Observe reports entries of other leaders only, once and in order.
func TestObserve(t *testing.T) {
	p := newPair(t, Limits{}, &script{name: "a"})
	var led, followed []string
	note := func(list *[]string) func(openflow.DatapathID, uint64, uint64, []byte) {
		return func(id openflow.DatapathID, epoch, seq uint64, msg []byte) {
			*list = append(*list, fmt.Sprint(uint64(id), epoch, seq, msg[1]))
		}
	}
	p.leader.Observe(note(&led))
	p.follower.Observe(note(&followed))
	p.up(1)
	p.event(1, 1, 2, packetIn("x"))
	p.commit()
	p.up(2)
	p.commit()
	p.must(p.follower.Restore(snapshot(t, p.leader)))
	p.follower.Observe(nil)
	p.event(2, 1, 2, packetIn("y"))
	p.commit()
	want := []string{"1 1 1 4", "1 1 2 10", "2 1 1 4"}
	if led != nil || !slices.Equal(followed, want) {
		t.Errorf("the leader observed %v, the follower %v; want nothing, and %v", led, followed, want)
	}
}
