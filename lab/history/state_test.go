package history

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// after makes a follower that has the first n entries of a run.
func after(t testing.TB, tp tape, n int) *ledger.Core {
	t.Helper()
	core, err := ledger.New(nil, ledger.Limits{})
	for i := 0; err == nil && i < n; i++ {
		err = core.Commit(tp[tp.find("committed", 2*i)].data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return core
}

func stateAfter(t testing.TB, tp tape, n int) []byte {
	t.Helper()
	state, err := after(t, tp, n).Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// altered has another value in a table.
func altered(state []byte) []byte {
	state = bytes.Clone(state)
	state[bytes.LastIndex(state, []byte("seven"))+1] = 'i'
	return state
}

// takenOver is a run whose end a third controller has by a snapshot.
func takenOver(tp tape, index uint64, state []byte) []string {
	tp = inserted(call{what: "restored", node: 2, seq: index, data: state}, "finish", 0)(tp)
	return tp.play(echoers, ledger.Limits{})
}

func TestSnapshotsHoldTheState(t *testing.T) {
	tp := plainRun(t)
	for _, tc := range []struct {
		index uint64
		n     int // entries up to that
	}{{2, 1}, {8, 7}, {9, 7}, {13, 11}, {16, 14}} {
		if found := takenOver(plainRun(t), tc.index, stateAfter(t, tp, tc.n)); len(found) > 0 {
			t.Errorf("at %d: %q", tc.index, found)
		}
		encode, err := after(t, tp, tc.n).Freeze()
		if err != nil {
			t.Fatal(err)
		}
		state, _ := encode()
		if found := takenOver(plainRun(t), tc.index, state); len(found) > 0 {
			t.Errorf("in any order, at %d: %q", tc.index, found)
		}
	}
	for _, tc := range []struct {
		name  string
		index uint64
		state []byte
		want  string
	}{
		{"of another entry", 13, stateAfter(t, tp, 10),
			"snapshot at entry 13, which controller 2 takes over: it is not the state of the log: it has commands of " +
				"switch 0000000000000001: done up to"},
		{"of the last but one", 16, stateAfter(t, tp, 13), "it is not the state of the log: it has commands of switch"},
		{"a value differs", 13, altered(stateAfter(t, tp, 11)),
			`it has row echoer/seen at 1, 2: "siven", not row echoer/seen at 1, 2: "seven"`},
		{"a torn one", 13, stateAfter(t, tp, 11)[:40], "ends within a field"},
		{"of the future", 17, stateAfter(t, tp, 14), "snapshot at entry 17, which controller 2 takes over: no " +
			"controller was handed an entry after 16"},
	} {
		found := takenOver(plainRun(t), tc.index, tc.state)
		if len(found) != 1 || !bytes.Contains([]byte(found[0]), []byte(tc.want)) {
			t.Errorf("%s: found %q\nwanted %s", tc.name, found, tc.want)
		}
	}
}

func TestReplicasAreEqual(t *testing.T) {
	last := stateAfter(t, plainRun(t), 14)
	other := altered(last)
	testCorruptions(t, []corruption{
		{"one differs", changed("finish", 0, func(c *call) { c.replicas[1] = Replica{Applied: 16, Snapshot: other} }),
			`the final state of controller 1 is not that of its log: operation 6 is put of "siven" in echoer/seen`},
		{"time differs", changed("finish", 0, func(c *call) {
			at := HeaderLen(last)
			c.replicas[0] = Replica{Applied: 16, Snapshot: append(header(ledger.Header{Time: 5}), last[at:]...)}
		}), "the final state of controller 0 is not that of its log: the headers differ: 06 00 00 00 05"},
	})
}

// Over more entries than are between two points.
func TestSnapshotsOfALongRun(t *testing.T) {
	b := newBed(t, ledger.Limits{})
	b.up(1, 10)
	states := map[uint64][]byte{}
	for i := range 3 * pointEvery / 2 {
		b.say(1, fmt.Sprint(i))
		b.commitAll()
		if i%97 == 0 {
			state, err := b.cores[1-b.leader].Snapshot()
			b.must(err)
			states[b.index] = state
		}
	}
	var found complaints
	g := of(&found, echoers(), ledger.Limits{})
	for _, c := range b.finish() {
		c.on(g)
	}
	for index, state := range states {
		g.Restored(7, index, state)
		g.Restored(7, index, state)
		g.Committed(7, index+1, 1, b.tape[b.tape.find("committed", int(2*(index-1)))].data)
	}
	if len(found) > 0 {
		t.Errorf("%q", found)
	}
	if g.Restored(7, 2, states[b.index]); len(found) == 0 {
		t.Error("anything passes")
	}
}
