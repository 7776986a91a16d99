package directory

import (
	"cmp"
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// group is a system group of one leader and one follower.
type group struct {
	t                rapid.TB
	leader, follower *ledger.Core
	view             View // of the follower
	term             uint64
}

func newGroup(t rapid.TB, homes int) *group {
	g := &group{t: t}
	for _, c := range []**ledger.Core{&g.leader, &g.follower} {
		var err error
		if *c, err = ledger.New([]ledger.Application{new(Application)}, ledger.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	g.lead()
	if homes == 0 {
		return g
	}
	if homes == 0 {
		return g
	}
	var controllers []uint64
	for id := range uint64(homes) {
		controllers = append(controllers, id+1)
	}
	g.request(Place{Controllers: controllers})
	g.commit()
	return g
}

func (g *group) must(err error) {
	if err != nil {
		g.t.Fatal(err)
	}
}

// lead begins a term: what was not committed is undone.
func (g *group) lead() {
	g.term++
	g.must(g.leader.Lead(g.term, 1000))
}

func (g *group) request(r interface{ Append([]byte) []byte }) {
	if !g.leader.Request(Name, r.Append(nil)) {
		g.t.Fatal("the leader does not take a request")
	}
}

func (g *group) ask(id openflow.DatapathID, groups ...uint64) {
	g.request(Assign{Actors: []ledger.Actor{{Shard: ledger.AtSwitch(id)}}, Groups: groups})
}

// commit commits what was asked, and reports whether the view has changed.
func (g *group) commit() (changed bool) {
	for {
		entry, ok := g.leader.Cut()
		if !ok {
			return changed
		}
		g.must(errors.Join(g.leader.Commit(entry), g.follower.Commit(entry)))
		c, laidOut, err := g.view.Commit(entry)
		g.must(err)
		changed = changed || laidOut || len(c) > 0
	}
}

// The shards of an application are its keys and all switches, and nothing of another application.
func TestShards(t *testing.T) {
	g := newGroup(t, 1)
	key := ledger.Shard{Key: ledger.Key{S: "k"}}
	other := ledger.Shard{Key: ledger.Key{A: 3, B: 8}}
	g.request(Assign{[]ledger.Actor{{App: "a", Shard: key}, {App: "b", Shard: other}}, []uint64{1}, 0})
	g.ask(7, 1)
	g.commit()
	for app, want := range map[string][]ledger.Shard{"a": {ledger.AtSwitch(7), key}, "b": {ledger.AtSwitch(7), other},
		"c": {ledger.AtSwitch(7)}} {
		got := g.view.Shards(app)
		slices.SortFunc(got, func(a, b ledger.Shard) int { return cmp.Compare(b.Switch, a.Switch) })
		if !slices.Equal(got, want) {
			t.Errorf("shards of %s: %v, want %v", app, got, want)
		}
	}
}

// The first committed assignment of a switch stands, whatever is asked, repeated or undone later; every replica has it,
// also from a snapshot; and no home gets a switch while it has over a quarter more than another one.
func TestAssignments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		homes := rapid.IntRange(1, 5).Draw(t, "homes")
		g := newGroup(t, homes)
		known := map[openflow.DatapathID]ledger.Assignment{}
		loads := make([]uint64, homes)
		var all []uint64
		for i := range homes {
			all = append(all, uint64(i)+1)
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			var asked []openflow.DatapathID
			for range rapid.IntRange(1, 4).Draw(t, "requests") {
				id := openflow.DatapathID(rapid.Uint64Range(0, 30).Draw(t, "switch"))
				g.ask(id, rapid.Permutation(all).Draw(t, "groups")...)
				asked = append(asked, id)
			}
			if rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
				g.lead()
				continue
			}
			before := maps.Clone(known)
			changed := g.commit()
			for _, id := range asked {
				row, ok := g.view.OfSwitch(id)
				if !ok || row.Version != 1 || row.Group < 1 || row.Group > uint64(homes) {
					t.Fatalf("switch %s: row %+v, %v", id, row, ok)
				}
				if old, again := known[id]; again && old != row {
					t.Fatalf("switch %s: row %+v after %+v", id, row, old)
				} else if !again {
					loads[row.Group-1]++
				}
				known[id] = row
			}
			if changed != (len(known) > len(before)) {
				t.Fatalf("changed %v, rows %v after %v", changed, known, before)
			}
			least, most := loads[0], loads[0]
			for _, n := range loads {
				least, most = min(least, n), max(most, n)
			}
			if most > least+least/4+1 {
				t.Fatalf("switches of the groups: %v", loads)
			}
		}
		snapshot, err := g.leader.Snapshot()
		g.must(err)
		g.must(g.follower.Restore(snapshot))
		rows, err := g.follower.Rows(Name, 1<<20)
		g.must(err)
		var restored View
		g.must(restored.Restore(rows))
		rowsOf := map[ledger.Actor]ledger.Assignment{}
		for id, row := range known {
			rowsOf[ledger.Actor{Shard: ledger.AtSwitch(id)}] = row
		}
		if !maps.Equal(restored.rows, rowsOf) || !maps.Equal(g.view.rows, rowsOf) ||
			!reflect.DeepEqual(restored.layout, g.view.layout) {
			t.Fatalf("rows %v from the snapshot, %v from the log, want %v", restored.rows, g.view.rows, known)
		}
	})
}

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		groups []uint64
		loads  []uint64 // of groups 1, 2, …
		want   uint64
	}{
		{[]uint64{1}, []uint64{7}, 1},
		{[]uint64{2, 1, 3}, []uint64{0, 0, 0}, 2},
		{[]uint64{2, 1, 3}, []uint64{0, 1, 0}, 1},
		{[]uint64{2, 3, 1}, []uint64{0, 1, 0}, 3},
		{[]uint64{2, 1, 3}, []uint64{3, 3, 3}, 2},
		{[]uint64{2, 1, 3}, []uint64{4, 4, 3}, 3},
		{[]uint64{2, 1, 3}, []uint64{4, 5, 4}, 2},
		{[]uint64{2, 1, 3}, []uint64{4, 6, 4}, 1},
		{[]uint64{2, 3}, []uint64{0, 6, 5}, 2}, // group 1 is not at the controller
		{[]uint64{2, 3}, []uint64{0, 7, 5}, 3},
		{[]uint64{3, 1, 2}, []uint64{4, 9, 4}, 3},
		{[]uint64{1, 2, 3}, []uint64{100, 100, 80}, 1},
		{[]uint64{1, 2, 3}, []uint64{101, 100, 80}, 3},
	} {
		loads := map[uint64]uint64{}
		for i, n := range c.loads {
			loads[uint64(i)+1] = n
		}
		if got := choose(c.groups, loads); got != c.want {
			t.Errorf("groups %v of %v: %d, want %d", c.groups, c.loads, got, c.want)
		}
	}
}

// What nobody should ask is a failure of the application, and changes nothing.
func TestRefusedRequests(t *testing.T) {
	g := newGroup(t, 3)
	one := []ledger.Actor{{Shard: ledger.AtSwitch(1)}}
	elsewhere := Moved{one[0], ledger.Assignment{Group: 4, Version: 2}}.Append(nil)
	for i, request := range [][]byte{nil, {9}, {requestAssign}, {requestMoved, 1, 2}, Assign{Actors: one}.Append(nil),
		Assign{one, []uint64{0}, 0}.Append(nil), Assign{one, []uint64{1, 4}, 0}.Append(nil),
		append(Assign{one, []uint64{1}, 0}.Append(nil), 0x80), elsewhere, append(elsewhere, 0), Place{}.Append(nil),
		append(Place{Controllers: []uint64{1}}.Append(nil), 1), {requestReached, 1, 2, 3}} {
		g.leader.Request(Name, request)
		if f := g.leader.Failures(); len(f) != 1 {
			t.Errorf("request %d: failures %v", i, f)
		}
	}
	if g.commit() {
		t.Error("rows were changed")
	}
}

// A full directory assigns no further switch.
func TestFull(t *testing.T) {
	g := newGroup(t, 2)
	for id := range openflow.DatapathID(MaxSwitches + 1) {
		if g.ask(id, 1); id%1000 == 999 {
			g.commit()
		}
	}
	g.commit()
	if f := g.leader.Failures(); len(f) != 1 || len(g.view.rows) != MaxSwitches {
		t.Errorf("%d switches, failures %v", len(g.view.rows), f)
	}
}

// An actor without a switch goes to the first group. It is counted, and its newest assignment stands.
func TestMoves(t *testing.T) {
	g := newGroup(t, 3)
	own, keyed := ledger.Actor{App: "a"}, ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: "k", B: 1}}}
	request := func(r interface{ Append([]byte) []byte }) {
		t.Helper()
		if g.leader.Request(Name, r.Append(nil)); len(g.leader.Failures()) > 0 {
			t.Fatalf("%+v fails", r)
		}
		g.commit()
	}
	want := func(a ledger.Actor, group, version uint64) {
		t.Helper()
		if row, _ := g.view.Of(a); row != (ledger.Assignment{Group: group, Version: version}) {
			t.Errorf("%v: %+v, want group %d, version %d", a, row, group, version)
		}
	}
	request(Assign{[]ledger.Actor{keyed, own, keyed}, []uint64{2, 1}, 0})
	want(keyed, 2, 1)
	request(Assign{[]ledger.Actor{keyed}, []uint64{3}, 0})
	want(keyed, 2, 1)
	request(Moved{keyed, ledger.Assignment{Group: 1, Version: 3}})
	request(Moved{keyed, ledger.Assignment{Group: 3, Version: 2}}) // late
	request(Moved{keyed, ledger.Assignment{Group: 2, Version: 3}})
	want(keyed, 1, 3)
	want(own, 2, 1)
	never := ledger.Actor{App: "b"}
	request(Moved{never, ledger.Assignment{Group: 3, Version: 2}}) // it lived where its name says
	want(never, 3, 2)
	sw := ledger.Actor{Shard: ledger.AtSwitch(7)}
	request(Assign{[]ledger.Actor{sw}, []uint64{1}, 0})
	request(Moved{sw, ledger.Assignment{Group: 3, Version: 2}})
	want(sw, 3, 2)
	claimed := ledger.Actor{Shard: ledger.AtSwitch(8)}
	request(Assign{[]ledger.Actor{claimed, {App: "c", Shard: keyed.Shard}}, []uint64{2}, 41})
	want(claimed, 2, 42) // it has been in another cluster
	want(ledger.Actor{App: "c", Shard: keyed.Shard}, 2, 1)
	request(Assign{[]ledger.Actor{claimed}, []uint64{2}, 99})
	want(claimed, 2, 42)
	rows, err := g.leader.Rows(Name, 1<<20)
	g.must(err)
	for _, r := range rows {
		if r.Table == countTable && r.Cell == actorsCell && r.Value[0] != 4 {
			t.Errorf("%d actors are counted, want 4", r.Value[0])
		}
		if loads := map[uint64]byte{1: 0, 2: 1, 3: 1}; r.Table == groupTable && r.Value[0] != loads[r.Cell.A] {
			t.Errorf("group %d has %d switches", r.Cell.A, r.Value[0])
		}
	}
}

// almostFull is a directory that counts almost as many bytes of keys as are possible, once it is told so.
type almostFull struct{ Application }

func (d *almostFull) Handle(tx *ledger.Tx, in *ledger.Input) error {
	if string(in.Message) != "fill" {
		return d.Application.Handle(tx, in)
	}
	tx.Put(tx.Table(countTable), bytesCell, ledger.Key{}, binary.AppendUvarint(nil, MaxActorBytes-10))
	return nil
}

// The keys of all actors have a bound in bytes, so that each controller can restore the directory from a snapshot.
func TestBytesOfActors(t *testing.T) {
	g := &group{t: t}
	for _, c := range []**ledger.Core{&g.leader, &g.follower} {
		var err error
		*c, err = ledger.New([]ledger.Application{new(almostFull)}, ledger.Limits{})
		g.must(err)
	}
	g.lead()
	g.request(Place{Controllers: []uint64{1}})
	g.leader.Request(Name, []byte("fill"))
	assign := func(key string) (fails int) {
		a := ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: key}}}
		g.request(Assign{[]ledger.Actor{a}, []uint64{1}, 0})
		fails = len(g.leader.Failures())
		g.commit()
		if _, known := g.view.Of(a); known != (fails == 0) {
			t.Errorf("%d failures, and %v is assigned: %v", fails, a, known)
		}
		return fails
	}
	g.commit()
	if assign("123456") != 0 || assign("abc") != 1 || assign("ab") != 0 {
		t.Error("the bound is another one")
	}
}

// Pins are kept in the log and in snapshots, whoever asks for them how often, and end when they are released.
func TestPins(t *testing.T) {
	g := newGroup(t, 2)
	keyed := ledger.Actor{App: "a", Shard: ledger.Shard{Key: ledger.Key{S: "k"}}}
	pinned := func(a ledger.Actor, want bool) {
		t.Helper()
		rows, err := g.leader.Rows(Name, 1<<20)
		g.must(err)
		var restored View
		g.must(restored.Restore(rows))
		if got := g.view.Pinned(a); got != want || restored.Pinned(a) != want {
			t.Errorf("%v is pinned: %v, and %v in a snapshot; want %v", a, got, restored.Pinned(a), want)
		}
	}
	for _, want := range []bool{true, true, false, false, true} {
		g.request(Pin{keyed, want})
		g.commit()
		pinned(keyed, want)
		pinned(ledger.Actor{App: "a"}, false)
	}
	g.request(Moved{keyed, ledger.Assignment{Group: 2, Version: 7}})
	g.request(Pin{keyed, false})
	g.lead() // not committed
	pinned(keyed, true)
	for i := range uint64(MaxPins) {
		g.request(Pin{ledger.Actor{App: "b", Shard: ledger.Shard{Key: ledger.Key{A: i + 1}}}, true})
	}
	if f := g.leader.Failures(); len(f) != 1 {
		t.Errorf("%d failures, want 1: one actor too many is pinned", len(f))
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(Assign{[]ledger.Actor{{App: "a"}}, []uint64{2, 300}, 7}.Append(nil))
	f.Add(Moved{ledger.Actor{Shard: ledger.AtSwitch(1)}, ledger.Assignment{Group: 1, Version: 2}}.Append(nil))
	f.Add(Place{3, []uint64{1, 2, 300}}.Append(nil))
	f.Add(Reached{3, []uint64{1, 2, 300}}.Append(nil))
	f.Add(Adopt{[]ledger.Actor{{App: "a"}}}.Append(nil))
	f.Add(Pin{ledger.Actor{App: "a"}, true}.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var l Layout
		if err := l.parse(b); err == nil {
			var back Layout
			if err := back.parse(l.append(nil)); err != nil || !reflect.DeepEqual(back, l) {
				t.Errorf("%+v is %+v after another round (%v)", l, back, err)
			}
		}
		if g, err := parseGroup(b); err == nil {
			if back, err := parseGroup(g.append(nil)); err != nil || !reflect.DeepEqual(back, g) {
				t.Errorf("%+v is %+v after another round (%v)", g, back, err)
			}
		}
		if r, err := parse(b); err == nil {
			back, again := parse(r.(interface{ Append([]byte) []byte }).Append(nil))
			if again != nil || !reflect.DeepEqual(back, r) {
				t.Errorf("%+v is %+v after another round (%v)", r, back, again)
			}
		}
		row, err := parseRow(b)
		if back, again := parseRow(appendRow(nil, row)); err == nil && (again != nil || back != row) {
			t.Errorf("%+v is %+v after another round (%v)", row, back, again)
		}
	})
}
