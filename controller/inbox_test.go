package controller

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/southbound"
)

// While a loop hangs, nobody waits for its inbox: the sessions of an agent have one reader, and may be in many groups.
// Items stay in order. What switches say to have done counts as one item if nothing else comes between.
func TestInboxNeverWaits(t *testing.T) {
	const n = 5000
	q, sessions := newInbox(), make([]southbound.Session, n)
	one := new(southbound.Session)
	for i := range sessions {
		s := &sessions[i]
		for _, it := range []item{{kind: attach, session: s}, {kind: events, list: []southbound.Delivery{{Session: s}}},
			{kind: commandsDone, session: one, epoch: 1, seq: uint64(i)}} {
			if !q.put(it) {
				t.Fatal("it takes nothing")
			}
		}
	}
	for seq := range uint64(n) {
		q.put(item{kind: commandsDone, session: one, epoch: 2, seq: seq})
		q.put(item{kind: commandsDone, session: one, epoch: 2, seq: seq + 1})
	}
	<-q.wake
	list := slices.Clone(q.take())
	if len(list) != 3*n+1 || len(q.take()) > 0 {
		t.Fatalf("%d items", len(list))
	}
	for i := range sessions {
		s := &sessions[i]
		if x := list[3*i:]; x[0].session != s || x[1].list[0].Session != s || x[2].seq != uint64(i) || x[2].epoch != 1 {
			t.Fatalf("switch %d: %+v", i, x[:3])
		}
	}
	if last := list[3*n]; last.epoch != 2 || last.seq != n {
		t.Errorf("%+v", last)
	}
	q.put(item{kind: detach, session: one})
	if rest := q.close(); !slices.ContainsFunc(rest, func(it item) bool { return it.kind == detach }) || len(rest) != 1 {
		t.Errorf("%+v is left", rest)
	}
	if q.put(item{kind: detach, session: one}) {
		t.Error("it takes something when it is closed")
	}
}
