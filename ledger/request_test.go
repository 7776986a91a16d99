package ledger

import (
	"errors"
	"slices"
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
