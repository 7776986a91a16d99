package ledger

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// A request reaches the application that it names and no other. What the application does is replicated, or undone
// with the leadership, or if the application fails.
func TestRequest(t *testing.T) {
	add := func(tx *Tx, in *Input) error {
		if in.Kind != Request {
			return nil
		}
		tx.Put(tx.Table("t"), Key{S: string(in.Message)}, Key{}, []byte("x"))
		if string(in.Message) == "poison" {
			return errors.New("refused")
		}
		return nil
	}
	a, b := &script{name: "a", do: add}, &script{name: "b", do: add}
	p := newPair(t, Limits{}, a, b)
	if p.leader.Request("c", []byte("x")) || p.follower.Request("b", []byte("x")) {
		t.Error("a request to an application that is unknown, or at a follower")
	}
	for _, data := range []string{"one", "poison", "one"} {
		if !p.leader.Request("b", []byte(data)) {
			t.Errorf("request %q was not taken", data)
		}
	}
	p.commit()
	if want := []string{"request", "request", "request"}; len(a.told) > 0 || !slices.Equal(b.told, want) {
		t.Errorf("applications were told %v and %v", a.told, b.told)
	}
	if f := p.leader.Failures(); len(f) != 1 || f[0].Input.String() != "request" {
		t.Errorf("failures %v", f)
	}
	p.leader.Request("b", []byte("two"))
	p.must(p.leader.Follow())
	for _, c := range []*Core{p.leader, p.follower} {
		if rows, err := c.Rows("b", 1<<20); err != nil || len(rows) != 1 || rows[0].Cell.S != "one" {
			t.Errorf("rows %+v (%v)", rows, err)
		}
	}
}

// A request that would make an entry larger than the consensus takes is refused: that would end the controller.
func TestRequestTooLarge(t *testing.T) {
	limits := Limits{BatchBytes: 1000, EntryBytes: 3000}
	p := newPair(t, limits, &script{name: "a"})
	p.up(1)
	p.event(1, 1, 2, packetIn(strings.Repeat("x", limits.BatchBytes-200)))
	request := make([]byte, limits.EntryBytes-limits.BatchBytes)
	if !p.leader.Room() || !p.leader.Request("a", request) || p.leader.Request("a", append(request, 0)) {
		t.Error("a request is refused, or one that is too large is not")
	}
	if p.commit(); len(p.entries[0]) > limits.EntryBytes {
		t.Errorf("an entry of %d bytes", len(p.entries[0]))
	}
}
