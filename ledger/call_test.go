package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// answering puts what it is called with, except for reads, and answers with the name of the call.
func answering(name string) *script {
	return &script{name: name, do: func(tx *Tx, in *Input) error {
		if err := tx.Reply([]byte("reply to " + in.Name)); err != nil || in.Name == "read" {
			return err
		}
		tx.Put(tx.Table("t"), Key{S: string(in.Message)}, Key{}, []byte("x"))
		switch string(in.Message) {
		case "poison":
			return errors.New("refused")
		case "panic":
			panic("broken")
		case "large":
			return tx.Reply(make([]byte, maxReply+1))
		}
		return nil
	}}
}

// A call is executed by the application that it names, and answered after commit. What a failed one did is undone. One
// that changes nothing is not logged, but its answer waits for an entry.
func TestCall(t *testing.T) {
	other, a := &script{name: "other"}, answering("a")
	p := newPair(t, Limits{}, other, a)
	call := func(id uint64, name, message string) {
		t.Helper()
		p.must(p.leader.Call(Call{Actor: Actor{App: "a"}, Name: name, Message: []byte(message), Caller: 7, ID: id}))
	}
	call(1, "put", "k")
	call(2, "put", "poison")
	call(3, "read", "k")
	call(4, "put", "panic")
	call(5, "put", "large")
	if list := p.leader.Answers(); len(list) > 0 {
		t.Errorf("answered before commit: %+v", list)
	}
	p.commit()
	for i, want := range []string{"reply to put", "refused", "reply to read", "panic: broken", "a reply of 1048577"} {
		list := p.leader.answers
		if i >= len(list) {
			t.Fatalf("%d answers", len(list))
		}
		if got := list[i]; got.Caller != 7 || got.ID != uint64(i+1) || !strings.HasPrefix(string(got.Message), want) ||
			got.Failed != (want != "reply to put" && want != "reply to read") {
			t.Errorf("answer %d: %+v %q, want %q", i, got, got.Message, want)
		}
	}
	if len(p.leader.Answers()) != 5 || len(p.leader.Answers()) != 0 {
		t.Error("answers are not returned once")
	}
	if len(other.told) > 0 || len(p.leader.Failures()) != 3 {
		t.Errorf("another application was told %v", other.told)
	}
	want := []Op{OpCall, OpTable, OpPut, OpCall, OpFailure, OpCall, OpFailure, OpCall, OpFailure}
	if got := ops(t, p.entries[0]); !slices.Equal(got, want) {
		t.Errorf("operations %v, want %v", got, want)
	}
	call(6, "read", "k")
	p.commit()
	if got := ops(t, p.entries[1]); len(got) > 0 || len(p.leader.Answers()) != 1 {
		t.Errorf("a read makes an entry with %v", got)
	}
	call(7, "put", "lost")
	p.must(p.leader.Follow())
	p.must(p.leader.Lead(2, p.now))
	call(8, "put", "next")
	p.commit()
	if list := p.leader.Answers(); len(list) != 1 || list[0].ID != 8 {
		t.Errorf("answers after a change of the leader: %+v", list)
	}
	if rows, err := p.follower.Rows("a", 1<<20); err != nil || len(rows) != 2 {
		t.Errorf("rows %+v (%v)", rows, err)
	}
}

// A call of an actor that does not live here changes nothing, nor does one without room for what it would send.
func TestCallElsewhere(t *testing.T) {
	a := answering("a")
	p := newPair(t, Limits{}, a)
	if err := p.follower.Call(Call{Actor: Actor{App: "a"}}); !errors.Is(err, errNotLeading) {
		t.Errorf("at a follower: %v", err)
	}
	if err := p.leader.Call(Call{Actor: Actor{App: "b"}}); !errors.Is(err, ErrElsewhere) {
		t.Errorf("an unknown application: %v", err)
	}
	full := &script{name: "full", do: func(tx *Tx, in *Input) error {
		if in.Kind == Called {
			return tx.Emit("m", nil)
		}
		return nil
	}}
	taker := &script{name: "taker", do: func(tx *Tx, in *Input) error {
		if in.Kind == Emitted {
			tx.Enter(Shard{})
		}
		return nil
	}}
	c := mustNew(t, Limits{OutboxItems: 1}, full, taker)
	c.Join(1, func(a Actor) (Assignment, bool) {
		return Assignment{Group: map[string]uint64{"full": 1, "taker": 2}[a.App], Version: 1}, true
	})
	p.must(c.Lead(1, 1000))
	if err := c.Call(Call{Actor: Actor{App: "taker"}}); !errors.Is(err, ErrElsewhere) {
		t.Errorf("an actor of another group: %v", err)
	}
	p.must(c.Call(Call{Actor: Actor{App: "full"}}))
	if err := c.Call(Call{Actor: Actor{App: "full"}}); !errors.Is(err, ErrFull) {
		t.Errorf("with a full outbox: %v", err)
	}
	entry, _ := c.Cut()
	p.must(c.Commit(entry))
	if n := len(c.Answers()); n != 1 || !slices.Equal(ops(t, entry), []Op{OpCall, OpSend}) {
		t.Errorf("%d answers, operations %v", n, ops(t, entry))
	}
}
