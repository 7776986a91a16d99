package feed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/api"
)

// thing is an item with a state and a counter.
func thing(key string, state, count int) Item {
	return Item{Kind: api.Kind_KIND_SWITCH, Key: key, State: state, Counters: [2]int{state, count},
		Change: func() *api.Change {
			return &api.Change{What: &api.Change_Switch{Switch: &api.SwitchInView{Switch: key, Epoch: uint64(state),
				TotalEvents: uint64(count)}}}
		}}
}

// watcher knows what it was told.
type watcher struct {
	*Cursor
	switches map[string][2]uint64
	events   []uint64
}

// read takes what there is for it, at most n messages.
func (w *watcher) read(n int) error {
	for range n {
		m, _, err := w.step()
		if m == nil || err != nil {
			return err
		}
		r := m.Message().(*api.WatchResponse)
		if r.Snapshot {
			w.switches, w.events = map[string][2]uint64{}, nil
		}
		for _, c := range r.Changes {
			switch {
			case c.GetSwitch() != nil:
				w.switches[c.GetSwitch().Switch] = [2]uint64{c.GetSwitch().Epoch, c.GetSwitch().TotalEvents}
			case c.GetRemoved() != nil:
				delete(w.switches, c.GetRemoved().Key)
			case c.GetEvent() != nil:
				w.events = append(w.events, c.GetEvent().Number)
			}
		}
	}
	return nil
}

func watch(t interface{ Fatal(...any) }, f *Feed, id string, revision uint64, of ...api.Kind) *watcher {
	c, err := f.Cursor(of, id, revision)
	if err != nil {
		t.Fatal(err)
	}
	return &watcher{Cursor: c}
}

// waiting returns watchers that have read all that there is.
func waiting(t *testing.T, f *Feed, n int) (list []*watcher) {
	t.Helper()
	for range n {
		w := watch(t, f, "", 0)
		if err := w.read(2); err != nil { // the second time it waits
			t.Fatal(err)
		}
		list = append(list, w)
	}
	return list
}

// Whoever reads all changes knows what there is, whenever he began, and however slowly he read before. Events come in
// order and without a gap.
func TestWatchersKnowAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := New("f")
		watchers := []*watcher{watch(t, f, "", 0)}
		there := map[string][2]int{}
		number := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "sets") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				key := fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))
				if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
					delete(there, key)
				} else {
					there[key] = [2]int{rapid.IntRange(0, 2).Draw(t, "state"), rapid.IntRange(0, 9).Draw(t, "count")}
				}
			}
			var items []Item
			for key, v := range there {
				items = append(items, thing(key, v[0], v[1]))
			}
			var events []*api.Event
			for range rapid.IntRange(0, 2).Draw(t, "events") {
				number++
				events = append(events, &api.Event{Number: number})
			}
			f.Set(items, rapid.Bool().Draw(t, "counters"), events)
			w := watchers[rapid.IntRange(0, len(watchers)-1).Draw(t, "watcher")]
			if err := w.read(rapid.IntRange(0, 3).Draw(t, "messages")); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "another") { // it resumes where another one is
				n := watch(t, f, f.idFor(w.kinds), w.revision)
				n.switches, n.events = maps.Clone(w.switches), w.events[:len(w.events):len(w.events)]
				watchers = append(watchers, n)
			}
		}
		var items []Item
		want := map[string][2]uint64{}
		for key, v := range there {
			items = append(items, thing(key, v[0], v[1]))
			want[key] = [2]uint64{uint64(v[0]), uint64(v[1])}
		}
		f.Set(items, true, nil)
		for _, w := range watchers {
			if err := w.read(maxBatches + 1); err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(w.switches, want) {
				t.Fatalf("a watcher knows %v, and there is %v", w.switches, want)
			}
			for i, n := range w.events {
				if n != uint64(i)+1 || len(w.events) != int(number) {
					t.Fatalf("events %v of %d", w.events, number)
				}
			}
		}
	})
}

// Counters alone are told when Set says so; a watcher of other kinds is not told.
func TestCountersWait(t *testing.T) {
	f := New("f")
	all, links := watch(t, f, "", 0), watch(t, f, "", 0, api.Kind_KIND_LINK)
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	f.Set([]Item{thing("a", 1, 2)}, false, nil)
	if err := all.read(2); err != nil || all.switches["a"] != [2]uint64{1, 1} || f.revision != 1 {
		t.Errorf("%v, %v, revision %d", all.switches, err, f.revision)
	}
	f.Set([]Item{thing("a", 1, 2)}, true, nil)
	if err := errors.Join(all.read(2), links.read(2)); err != nil || all.switches["a"] != [2]uint64{1, 2} ||
		len(links.switches) != 0 || links.revision != 2 {
		t.Errorf("%v and %v, %v", all.switches, links.switches, err)
	}
}

// After a rest a watcher is told nothing that may not be so any more.
func TestRest(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	f.Rest()
	w := watch(t, f, "", 0)
	if err := w.read(1); err != nil || w.switches != nil {
		t.Errorf("%v, %v", w.switches, err)
	}
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	if err := w.read(1); err != nil || len(w.switches) != 1 {
		t.Errorf("%v, %v", w.switches, err)
	}
}

// Those who wait for their first snapshot after a rest are not woken as for counters alone.
func TestWakeAfterRest(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	f.Rest()
	for range 8 {
		if err := watch(t, f, "", 0).read(1); err != nil { // it waits
			t.Fatal(err)
		}
	}
	f.Set([]Item{thing("a", 1, 2)}, true, nil)
	if f.Wake(4, 1); len(f.due) != 4 {
		t.Errorf("%d of 8 are still to be woken", len(f.due))
	}
}

// Who resumes after events were missed gets a snapshot, and who has seen that goes on with changes.
func TestMissed(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	before := watch(t, f, "", 0)
	if err := before.read(1); err != nil {
		t.Fatal(err)
	}
	f.Rest()
	early := watch(t, f, f.idFor(before.kinds), before.revision) // before it is known that events were missed
	f.Missed()
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	late := watch(t, f, f.idFor(before.kinds), before.revision)
	for _, w := range []*watcher{early, late} {
		if err := w.read(1); err != nil || len(w.switches) != 1 {
			t.Errorf("resumed with %v (%v), want a snapshot", w.switches, err)
		}
	}
	again := watch(t, f, f.idFor(late.kinds), late.revision)
	f.Set([]Item{thing("a", 2, 1)}, true, nil)
	if m, _, err := again.step(); err != nil || m == nil || m.Message().(*api.WatchResponse).Snapshot {
		t.Errorf("got %v (%v), want the change", m, err)
	}
}

// Who resumes with more kinds gets a snapshot, and with fewer only what has changed.
func TestResumeWithOtherKinds(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	links := watch(t, f, "", 0, api.Kind_KIND_LINK)
	m, err := links.Next(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r := m.Message().(*api.WatchResponse)
	more := watch(t, f, r.Feed, r.Revision, api.Kind_KIND_LINK, api.Kind_KIND_SWITCH)
	if err := more.read(1); err != nil || len(more.switches) != 1 {
		t.Errorf("knows %v (%v), want the switch", more.switches, err)
	}
	fewer := watch(t, f, f.idFor(more.kinds), more.revision, api.Kind_KIND_SWITCH)
	if m, _, err := fewer.step(); m != nil || err != nil {
		t.Errorf("got %v (%v), want nothing", m, err)
	}
}

// Who is too slow is told so, and what is kept is bounded.
func TestSlowWatcher(t *testing.T) {
	f := New("f")
	f.Set(nil, true, nil)
	slow := watch(t, f, "", 0)
	if err := slow.read(1); err != nil {
		t.Fatal(err)
	}
	for i := range maxBatches + 1 {
		f.Set([]Item{thing("a", i, 0)}, true, nil)
	}
	if err := slow.read(1); !errors.Is(err, ErrSlow) {
		t.Errorf("got %v, want %v", err, ErrSlow)
	}
	resumed := watch(t, f, f.idFor(slow.kinds), slow.revision)
	if err := resumed.read(1); err != nil || resumed.switches["a"] != [2]uint64{maxBatches, 0} {
		t.Errorf("%v, %v", resumed.switches, err)
	}
	var many []Item
	for i := range maxChanges {
		many = append(many, thing(fmt.Sprint(i), i, 0))
	}
	f.Set(many, true, nil)
	f.Set(many[:1], true, nil)
	if len(f.batches) != 1 || f.changes != len(f.batches[0].changes) {
		t.Errorf("%d batches with %d changes are kept", len(f.batches), f.changes)
	}
	if other := watch(t, f, "g.ffffffff", f.revision); other.revision != 0 {
		t.Error("a watcher of another controller does not begin with a snapshot")
	}
	late := watch(t, f, "", 0)
	f.Set(many[:1], true, []*api.Event{{Number: 1}})
	if again := watch(t, f, "", 0); late.read(1) != nil || again.read(1) != nil || len(late.events) != 1 ||
		len(again.events) != 1 {
		t.Errorf("a snapshot has events %v", late.events)
	}
	if _, err := f.Cursor([]api.Kind{99}, "", 0); err == nil {
		t.Error("a kind that is not known is accepted")
	}
}

// News wakes those who wait, as many at a time as Wake says, and not who has left.
func TestWake(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	watchers := waiting(t, f, 6)
	watchers[5].leave()
	f.Set([]Item{thing("a", 2, 1)}, true, nil)
	<-f.News()
	for _, want := range []struct {
		woken int
		more  bool
	}{{2, true}, {4, true}, {5, false}, {5, false}} {
		more, woken := f.Wake(2, 1), 0
		for _, w := range watchers {
			woken += len(w.woken)
		}
		if more != want.more || woken != want.woken {
			t.Errorf("%d are woken, and there are more: %t; want %v", woken, more, want)
		}
	}
	if err := watchers[0].read(1); err != nil || watchers[0].switches["a"] != [2]uint64{2, 1} {
		t.Errorf("%v, %v", watchers[0].switches, err)
	}
}

// Counters alone wake as many at a time as Wake says for them, until there is other news.
func TestWakeForCounters(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	watchers := waiting(t, f, 8)
	f.Set([]Item{thing("a", 1, 2)}, true, nil)
	for i, want := range []int{1, 2, 5, 8} {
		if i == 2 {
			f.Set([]Item{thing("a", 2, 2)}, true, nil)
		}
		woken := 0
		f.Wake(3, 1)
		for _, w := range watchers {
			woken += len(w.woken)
		}
		if woken != want {
			t.Errorf("%d are woken after %d calls, not %d", woken, i+1, want)
		}
	}
	for _, w := range watchers {
		if err := w.read(3); err != nil { // it waits again
			t.Fatal(err)
		}
		<-w.woken
	}
	f.Set([]Item{thing("a", 2, 3)}, true, nil)
	if f.Wake(3, 1); len(f.due) != len(watchers)-1 {
		t.Errorf("after other news, counters wake %d at a time", len(watchers)-len(f.due))
	}
}

// A watcher without news is told that the controller lives, and all watchers get the same bytes.
func TestNext(t *testing.T) {
	f := New("f")
	f.Set([]Item{thing("a", 1, 1)}, true, nil)
	one, two := watch(t, f, "", 0), watch(t, f, "", 0)
	a, err := one.Next(t.Context(), time.Hour)
	b, err2 := two.Next(t.Context(), time.Hour)
	if err != nil || err2 != nil || a != b {
		t.Errorf("two watchers get two messages (%v, %v)", err, err2)
	}
	m, err := one.Next(t.Context(), time.Millisecond)
	if r, is := m.Message().(*api.WatchResponse); err != nil || !is || r.Revision != 1 || len(r.Changes) > 0 {
		t.Errorf("got %v, %v", m.Message(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := one.Next(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
