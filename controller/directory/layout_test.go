package directory

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Controllers come and go, and the groups follow them or lag behind. Every controller is the home of a group, and every
// group has a home and its replicas; no replica comes back; and none is forgotten while it may be a member.
func TestLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		next := uint64(rapid.IntRange(1, 5).Draw(t, "controllers") + 1)
		var ids []uint64
		for id := uint64(1); id < next; id++ {
			ids = append(ids, id)
		}
		replication := rapid.SampledFrom([]uint64{0, 3, 5}).Draw(t, "replication")
		l := Layout{}.Place(ids, replication)
		if !l.Settled() || l.Actors != next-1 || len(l.Groups) != len(ids) {
			t.Fatalf("it begins as %+v", l)
		}
		gone := map[[2]uint64]bool{} // replicas that are no longer wanted, of groups
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			before := l
			if i := rapid.IntRange(0, len(l.Groups)).Draw(t, "reaches"); i < len(l.Groups) {
				l.Groups = slices.Clone(l.Groups)
				l.Groups[i] = l.Groups[i].reached(l.Groups[i].Want)
				if g := l.Groups[i].reached([]uint64{99}); !reflect.DeepEqual(g, l.Groups[i]) {
					t.Fatalf("a late report changes %+v to %+v", l.Groups[i], g)
				}
				continue
			}
			switch {
			case rapid.Bool().Draw(t, "comes"):
				ids = append(slices.Clone(ids), next)
				next++
			case len(ids) > 1:
				i := rapid.IntRange(0, len(ids)-1).Draw(t, "leaves")
				ids = slices.Delete(slices.Clone(ids), i, i+1)
			default:
				replication = rapid.SampledFrom([]uint64{0, 3, 5}).Draw(t, "other replication")
			}
			l = l.Place(ids, replication)
			if again := l.Place(ids, replication); !reflect.DeepEqual(again, l) {
				t.Fatalf("the same request changes %+v to %+v", l, again)
			}
			checkLayout(t, before, l, ids, gone)
		}
	})
}

func checkLayout(t *rapid.T, before, l Layout, ids []uint64, gone map[[2]uint64]bool) {
	homes := map[uint64]int{}
	for i, g := range l.Groups {
		homes[g.Home]++
		n := len(ids)
		if l.Replication > 0 {
			n = min(n, int(l.Replication))
		}
		if len(g.Want) != n || g.At(g.Home) == 0 || !slices.Contains(ids, g.Home) {
			t.Fatalf("group %d is %+v, of controllers %v", i+1, g, ids)
		}
		if i >= len(before.Groups) {
			continue
		}
		old := before.Groups[i]
		for _, r := range g.Want {
			if gone[[2]uint64{uint64(i), r}] {
				t.Fatalf("group %d: replica %#x is back: %+v after %+v", i+1, r, g, old)
			}
		}
		for _, r := range merge(old.Have, old.Want) {
			newest := max(g.MayHave(wire.ControllerOf(r)), at(g.Have, wire.ControllerOf(r)))
			if len(old.Have) > 0 && newest < r {
				t.Fatalf("group %d: replica %#x is forgotten: %+v after %+v", i+1, r, g, old)
			}
			if !slices.Contains(g.Want, r) {
				gone[[2]uint64{uint64(i), r}] = true
			}
		}
	}
	for _, id := range ids {
		if homes[id] == 0 {
			t.Fatalf("controller %d is no home: %+v", id, l)
		}
	}
	if l.Actors != before.Actors || len(l.Groups) < len(before.Groups) {
		t.Fatalf("%+v after %+v", l, before)
	}
}

// A cluster of one group becomes one of several: group 1 keeps what it has, and the others begin.
func TestRegrouped(t *testing.T) {
	state, err := Regrouped([]uint64{3, 1, 2, 5, 4}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Regrouped([]uint64{1, 2, 3, 4, 5}, 3); err != nil || !bytes.Equal(state, again) {
		t.Errorf("another state in another order: %v", err)
	}
	g := newGroup(t, 0)
	if err := errors.Join(g.leader.Restore(state), g.follower.Restore(state)); err != nil {
		t.Fatal(err)
	}
	rows, err := g.follower.Rows(Name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.view.Restore(rows); err != nil {
		t.Fatal(err)
	}
	l := g.view.Layout()
	if !l.Adopts || l.Actors != 1 || len(l.Groups) != 5 || len(l.Groups[0].Want) != 3 ||
		!slices.Equal(l.Groups[0].Have, []uint64{1, 2, 3, 4, 5}) || len(l.Groups[1].Have) != 0 {
		t.Errorf("layout %+v", l)
	}
	for i, home := range []uint64{1, 2, 3, 4, 5} {
		if l.Groups[i].Home != home {
			t.Errorf("layout %+v", l)
		}
	}
	g.lead()
	g.ask(7, 1)
	g.commit()
	at := func(id openflow.DatapathID) ledger.Actor { return ledger.Actor{Shard: ledger.AtSwitch(id)} }
	keyed := ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: "k"}}}
	g.request(Adopt{[]ledger.Actor{at(7), at(8)}})
	g.request(Adopt{[]ledger.Actor{at(8), at(9), keyed}})
	g.commit()
	want := ledger.Assignment{Group: 1, Version: FirstVersion}
	if len(g.view.rows) != 4 || g.view.rows[at(7)] != want || g.view.rows[keyed] != want {
		t.Errorf("rows %v", g.view.rows)
	}
	g.must(g.leader.Lead(g.term+1, time.Date(2020, 2, 1, 7, 0, 0, 0, time.UTC).UnixNano()))
	late := ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: "late"}}}
	g.request(Adopt{[]ledger.Actor{at(6), at(7), late}})
	g.commit()
	if g.view.rows[at(6)] != (ledger.Assignment{Group: 1, Version: 31}) || g.view.rows[at(7)] != want ||
		g.view.rows[late] != want {
		t.Errorf("adopted 31 days after 2020 has begun: %v", g.view.rows)
	}
	g.ask(10, 1)
	g.request(Adopt{})
	g.request(Adopt{[]ledger.Actor{at(11)}})
	g.ask(12, 1)
	if g.commit(); len(g.view.rows) != 7 || g.view.rows[at(12)].Group != 1 || g.view.Layout().Adopts {
		t.Errorf("rows %v", g.view.rows)
	}
}

// A controller that replaces another one gets its group.
func TestReplacedHome(t *testing.T) {
	l := Layout{}.Place([]uint64{1, 2, 3}, 0)
	l = l.Place([]uint64{1, 2, 3, 4}, 0)
	if len(l.Groups) != 4 || l.Groups[3].Home != 4 || len(l.Groups[3].Have) != 0 {
		t.Errorf("a fourth: %+v", l)
	}
	if l = (Layout{}).Place([]uint64{1, 2, 3}, 0).Place([]uint64{1, 2, 4}, 0); len(l.Groups) != 3 ||
		l.Groups[2].Home != 4 || !slices.Equal(l.Groups[0].Want, []uint64{1, 2, 4}) ||
		!slices.Equal(l.Groups[0].Have, []uint64{1, 2, 3}) {
		t.Errorf("4 for 3: %+v", l)
	}
	if l = (Layout{}).Place([]uint64{1, 2, 3, 4, 5}, 3).Place([]uint64{1, 2, 3}, 3); len(l.Groups) != 5 {
		t.Errorf("three of five: %+v", l)
	}
	if l = l.Place([]uint64{1, 2, 3, 6}, 3); len(l.Groups) != 5 || l.Groups[3].Home != 6 && l.Groups[4].Home != 6 {
		t.Errorf("and another one: %+v", l)
	}
}
