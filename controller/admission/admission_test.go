package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// record is the application at a leader and a follower.
type record struct {
	t                *testing.T
	leader, follower *ledger.Core
}

func newRecord(t *testing.T) *record {
	r := &record{t: t}
	for _, c := range []**ledger.Core{&r.leader, &r.follower} {
		var err error
		if *c, err = ledger.New([]ledger.Application{new(Application)}, ledger.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.leader.Lead(1, 1000); err != nil {
		t.Fatal(err)
	}
	return r
}

// ask has the leader execute a message, and returns the holder in the reply once that is committed at both.
func (r *record) ask(message []byte) (string, error) {
	r.t.Helper()
	if err := r.leader.Call(ledger.Call{Actor: Actor, Message: message}); err != nil {
		r.t.Fatal(err)
	}
	for entry, ok := r.leader.Cut(); ok; entry, ok = r.leader.Cut() {
		for _, c := range []*ledger.Core{r.leader, r.follower} {
			if err := c.Commit(entry); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	list := r.leader.Answers()
	if len(list) != 1 {
		r.t.Fatalf("answers %+v", list)
	}
	if list[0].Failed {
		return "", fmt.Errorf("%s", list[0].Message)
	}
	holder, _, err := Holder(list[0].Message)
	return holder, err
}

// holds checks what a message is answered with, and what the follower says of the switch then; "" is nobody.
func (r *record) holds(message []byte, want string, id openflow.DatapathID, after string) {
	r.t.Helper()
	if holder, err := r.ask(message); err != nil || holder != want {
		r.t.Errorf("answered is %q, %v, not %q", holder, err, want)
	}
	reply, ok := r.follower.Read(Actor, Claim(id, "who asks"))
	holder, known, err := Holder(reply)
	if !ok || err != nil || holder != after || known != (after != "") {
		r.t.Errorf("the follower says %q, %v, %v, not %q", holder, known, err, after)
	}
}

// The first who claims a switch holds it, until that is forgotten.
func TestFirstHolds(t *testing.T) {
	r := newRecord(t)
	r.holds(Claim(1, "agent a"), "agent a", 1, "agent a")
	r.holds(Claim(1, "agent b"), "agent a", 1, "agent a")
	r.holds(Claim(2, "agent b"), "agent b", 2, "agent b")
	r.holds(Forget(1), "agent a", 1, "")
	r.holds(Forget(1), "", 1, "")
	r.holds(Claim(1, "agent b"), "agent b", 1, "agent b")
	rows, err := r.follower.Rows(Name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	list, err := Of(func(yield func(ledger.Row) bool) {
		for _, row := range rows {
			if !yield(row) {
				return
			}
		}
	})
	if want := []Holding{{1, "agent b"}, {2, "agent b"}}; err != nil || fmt.Sprint(list) != fmt.Sprint(want) {
		t.Errorf("remembered is %v, %v, not %v", list, err, want)
	}
}

// Who claims one switch after the other ends at the bound, and leaves room for others. What is forgotten gives room.
func TestHolderIsBounded(t *testing.T) {
	r := newRecord(t)
	for id := range openflow.DatapathID(MaxOfHolder) {
		if _, err := r.ask(Claim(id+1, "switch thief")); err != nil {
			t.Fatal(err)
		}
	}
	const next = MaxOfHolder + 1
	if _, err := r.ask(Claim(next, "switch thief")); err == nil || !strings.Contains(err.Error(), "the most that") {
		t.Errorf("one more: %v", err)
	}
	r.holds(Claim(next, "switch s"), "switch s", next, "switch s")
	r.holds(Forget(7), "switch thief", 7, "")
	r.holds(Claim(next+1, "switch thief"), "switch thief", next+1, "switch thief")
}

// FuzzMessage has controllers and clients of an actor send any message: it is executed or refused, and a reply to what
// is executed can be read.
func FuzzMessage(f *testing.F) {
	f.Add(Claim(1, "agent a"))
	f.Add(Forget(1))
	f.Add([]byte{held})
	f.Add([]byte{refused, 'x'})
	f.Fuzz(func(t *testing.T, message []byte) {
		_, _, _ = Holder(message)
		k, id, holder, err := parse(message)
		if err == nil && string(encode(k, id, holder)) != string(message) {
			t.Errorf("%x is %d %d %q, and that is another message", message, k, id, holder)
		}
		r := newRecord(t)
		if _, failed := r.ask(message); (failed == nil) != (err == nil) {
			t.Errorf("parsed: %v, executed: %v", err, failed)
		}
	})
}
