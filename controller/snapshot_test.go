package controller

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Before a snapshot, a leader lets the entries in flight commit, and executes nothing meanwhile. It continues while
// the snapshot is encoded.
func TestDrainsBeforeASnapshot(t *testing.T) {
	s := newStand(t, CoreConfig{SnapshotEvery: 3})
	s.lead(3)
	one := s.up(1, 5)
	next := uint64(2)
	event := func() {
		one.events(5, next, packetIn)
		next++
		s.turn()
		s.pass(longestHold) // it does not wait for the commit of the previous one
	}
	event()
	event()
	event() // entries 2 to 4 are in flight
	s.ok(s.deliver(s.proposed[:2]...))
	s.proposed = s.proposed[2:]
	s.turn() // 3 entries: a snapshot is due, and the fourth is in flight
	s.trace = nil
	event()
	s.said()
	s.pass(time.Minute)
	s.said()
	if s.encode != nil {
		t.Fatal("it did not wait for the entry that is on its way")
	}
	s.commit()
	s.said("1: ack 5/4", "1: commands 5/3-3 in 3") // of the entry that was in flight; the event waits for the next turn
	if s.encode == nil {
		t.Fatal("no snapshot was begun")
	}
	s.turn()
	s.said("1: taken")
	for range 4 { // more than SnapshotEvery, but a snapshot is being encoded
		s.commit()
		event()
	}
	s.commit()
	s.ok(s.core.Encoded(s.encode()))
	if !slices.Equal(s.compacts, []uint64{4}) {
		t.Errorf("snapshots at %d, want one at 4", s.compacts)
	}
	other := newStand(t, CoreConfig{})
	s.ok(other.core.Update(s.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: 4, State: s.kept}}))
	if got := other.core.Ledger().Switches(); len(got) != 1 || got[0].Events != 4 || got[0].Commands != 3 {
		t.Errorf("the snapshot holds %+v: want what entry 4 left", got)
	}
	other.index = 4
	other.ok(other.deliver(s.entries[4:]...))
	equal(t, s, other)
	// The next snapshot is due at once.
	s.encode = nil
	s.turn()
	if s.encode == nil {
		t.Error("no second snapshot though one is due")
	}
}

// equal compares the states of two controllers.
func equal(t *testing.T, a, b *stand) {
	t.Helper()
	x, err := a.core.Ledger().Snapshot()
	y, err2 := b.core.Ledger().Snapshot()
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		t.Errorf("states differ: %x and %x", x, y)
	}
}

// A leader that loses its term while it drains becomes a follower, and executes again when it leads again.
func TestDrainingEndsWithTheTerm(t *testing.T) {
	s := newStand(t, CoreConfig{SnapshotEvery: 2})
	s.lead(3)
	one := s.up(1, 5)
	one.events(5, 2, packetIn)
	s.turn()
	one.events(5, 3, packetIn)
	s.commit()
	one.events(5, 4, packetIn)
	s.trace = nil
	s.turn()
	s.said()
	s.follow(4)
	s.said("1: taken")
	if s.encode == nil {
		t.Error("a follower waits for nothing, and began no snapshot")
	}
	s.lead(5)
	s.trace = nil
	one.events(5, 3, packetIn)
	s.turn()
	s.said("1: taken")
}

// A follower takes snapshots by itself. A snapshot that the leader's snapshot has overtaken is dropped.
func TestSnapshotsOfAFollower(t *testing.T) {
	leader := newStand(t, CoreConfig{})
	leader.lead(3)
	for id := range openflow.DatapathID(6) {
		leader.up(id+1, 5)
	}
	state, err := leader.core.Ledger().Snapshot()
	leader.ok(err)

	s := newStand(t, CoreConfig{SnapshotEvery: 2})
	s.ok(s.deliver(leader.entries[:2]...))
	s.turn()
	s.ok(s.core.Encoded(s.encode()))
	s.encode = nil
	s.ok(s.deliver(leader.entries[2]))
	s.turn()
	if s.encode != nil || !slices.Equal(s.compacts, []uint64{2}) {
		t.Errorf("snapshots at %d, and one more at 3 %t; want one at 2", s.compacts, s.encode != nil)
	}
	s.ok(s.deliver(leader.entries[3]))
	s.turn()
	s.ok(s.core.Update(s.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: 6, State: state}}))
	s.index = 6
	s.ok(s.core.Encoded(s.encode()))
	if !slices.Equal(s.compacts, []uint64{2}) {
		t.Errorf("snapshots at %d: that at 4 was overtaken", s.compacts)
	}
	equal(t, s, leader)
	if st := s.core.Status(); st.Applied != 6 || st.Snapshot != 6 {
		t.Errorf("applied %d, snapshot at %d; want 6 and 6", st.Applied, st.Snapshot)
	}
}

func TestCompactFails(t *testing.T) {
	for _, tc := range []struct {
		err     error
		isError bool
	}{{consensus.ErrCompacting, false}, {errors.New("bad disk"), true}} {
		s := newStand(t, CoreConfig{SnapshotEvery: 1})
		s.lead(3)
		s.up(1, 5)
		s.compactErr = tc.err
		if err := s.core.Encoded(s.encode()); errors.Is(err, tc.err) != tc.isError || err != nil && !tc.isError {
			t.Errorf("compact says %v: %v", tc.err, err)
		}
	}
}

// What switches acknowledge does not put a snapshot off: it is logged afterwards. Else the leader would execute nothing
// for as long as acknowledgements come.
func TestDrainsDespiteAcknowledgements(t *testing.T) {
	s := newStand(t, CoreConfig{SnapshotEvery: 3})
	s.lead(3)
	one := s.up(1, 5)
	one.events(5, 2, packetIn)
	s.turn()
	s.commit()
	for seq := uint64(3); seq < 5; seq++ { // both are in flight
		one.events(5, seq, packetIn)
		s.turn()
		s.pass(longestHold)
	}
	deliver := func() {
		s.ok(s.deliver(s.proposed[0]))
		s.proposed = s.proposed[1:]
		s.turn()
	}
	deliver() // a snapshot is due
	s.core.CommandsDone(one, 5, 1)
	s.pass(TickInterval)
	s.core.CommandsDone(one, 5, 2)
	deliver()
	if s.encode == nil || len(s.proposed) > 0 {
		t.Fatal("no snapshot was begun")
	}
	s.pass(TickInterval)
	s.commit()
	if done := s.core.Ledger().Switches()[0].Done; done != 2 {
		t.Errorf("%d commands are done, want 2", done)
	}
}

// Large entries make a snapshot due before SnapshotEvery. With a large state, the bound grows.
func TestSnapshotByBytes(t *testing.T) {
	s := newStand(t, CoreConfig{})
	s.lead(3)
	one := s.up(1, 5)
	one.st.Peer = southbound.Bundles // so that its events are logged with their bytes
	large := (&of13.PacketIn{BufferID: of13.NoBuffer, Data: make([]byte, 60_000)}).Append(nil, 0)
	next := uint64(2)
	logged := func(bytes int) {
		t.Helper()
		for ; bytes > 0 && s.encode == nil; bytes -= 10 * len(large) {
			one.events(5, next, slices.Repeat([][]byte{large}, 10)...)
			next += 10
			s.turn()
			s.commit()
		}
		s.core.CommandsDone(one, 5, one.sent)
	}
	if logged(snapshotBytes - 1<<20); s.encode != nil {
		t.Error("a snapshot before there is enough of the log")
	}
	if logged(2 << 20); s.encode == nil {
		t.Fatal("no snapshot though there is enough of the log")
	}
	s.encode = nil
	s.ok(s.core.Encoded(make([]byte, snapshotBytes/2), 0)) // the next is due at 4 times as much
	if logged(snapshotBytes + 1<<20); s.encode != nil {
		t.Error("a snapshot before there are 4 times the bytes of the last")
	}
	if logged(snapshotBytes); s.encode == nil {
		t.Error("no snapshot though there are 4 times the bytes of the last")
	}
}

// A state that is too large for a snapshot does not end the controller: it goes on, and tries again.
func TestStateTooLarge(t *testing.T) {
	s := newStand(t, CoreConfig{SnapshotEvery: 3})
	s.compactErr = fmt.Errorf("group 1: %w", consensus.ErrTooLarge)
	s.lead(3)
	one := s.up(1, 5)
	for seq := uint64(2); seq < 20 && s.encode == nil; seq++ {
		one.events(5, seq, packetIn)
		s.turn()
		s.commit()
	}
	if s.encode == nil {
		t.Fatal("no snapshot was begun")
	}
	s.ok(s.core.Encoded(s.encode()))
	s.encode, s.compactErr = nil, nil
	events := s.core.Ledger().Switches()[0].Events
	for range 5 {
		events++
		one.events(5, events, packetIn)
		s.turn()
		s.commit()
	}
	if got := s.core.Ledger().Switches()[0].Events; got != events || s.encode == nil {
		t.Errorf("event %d of %d is executed; the next snapshot was begun: %t", got, events, s.encode != nil)
	}
}

// However large the state is, the log that is kept in memory has a bound.
func TestSnapshotDue(t *testing.T) {
	for _, x := range []struct {
		size, logged int
		due          bool
	}{{0, snapshotBytes - 1, false}, {0, snapshotBytes, true}, {10 << 20, 40<<20 - 1, false}, {10 << 20, 40 << 20, true},
		{8 << 30, snapshotMost - 1, false}, {8 << 30, snapshotMost, true}} {
		c := &Core{cfg: CoreConfig{SnapshotEvery: 1000}, size: x.size, logged: x.logged}
		if c.due(1) != x.due {
			t.Errorf("with a snapshot of %d bytes, after %d of log: due %v", x.size, x.logged, !x.due)
		}
	}
}

// One of several replicas stores what it has encoded once a majority has the same digest of it, and not before. If the
// outcome does not come, it stores a state that was not compared.
func TestComparedSnapshot(t *testing.T) {
	for name, tc := range map[string]struct {
		tell     func(index, sum uint64) (peers map[uint64]uint64, at uint64)
		stored   bool
		diverged bool
	}{
		"a majority": {func(at, sum uint64) (map[uint64]uint64, uint64) { return map[uint64]uint64{2: sum}, at }, true, false},
		"of another entry": {func(at, sum uint64) (map[uint64]uint64, uint64) {
			return map[uint64]uint64{2: sum, 3: sum}, at - 1
		}, false, false},
		"it differs": {func(at, sum uint64) (map[uint64]uint64, uint64) {
			return map[uint64]uint64{2: sum + 1, 3: sum + 1}, at
		}, false, true},
		"nobody else is known": {func(at, sum uint64) (map[uint64]uint64, uint64) { return nil, at }, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, CoreConfig{ID: 1, Names: map[uint64]string{1: "a", 2: "b", 3: "c"}, SnapshotEvery: 4})
			s.lead(3)
			one := s.up(1, 5)
			seq := uint64(2)
			event := func() {
				one.events(5, seq, packetIn)
				seq++
				s.turn()
				s.commit()
			}
			for s.encode == nil && seq < 20 {
				event()
			}
			if s.encode == nil {
				t.Fatal("no comparison was begun")
			}
			marked := s.index
			event() // the state goes on
			state, sum := s.encode()
			s.encode = nil
			s.ok(s.core.Encoded(state, sum))
			s.turn()
			if len(s.compacts) > 0 {
				t.Fatal("it stored a snapshot that nobody else had compared")
			}
			peers, at := tc.tell(marked, sum)
			for from, sum := range peers {
				s.digest(from, at, sum)
			}
			if err := s.core.Turn(s.now); Differs(err) != tc.diverged || err != nil && !tc.diverged {
				t.Fatal(err)
			}
			var want []uint64
			if tc.stored {
				want = []uint64{marked - 1}
			}
			if !slices.Equal(s.compacts, want) {
				t.Fatalf("snapshots at %d, want %d", s.compacts, want)
			}
			if tc.stored || tc.diverged {
				return
			}
			for s.encode == nil && seq < 40 {
				event()
			}
			if got := s.index; got < 2*4 {
				t.Errorf("a state was frozen after %d entries, which was not compared", got)
			}
			s.ok(s.core.Encoded(s.encode()))
			if !slices.Equal(s.compacts, []uint64{s.index}) {
				t.Errorf("snapshots at %d, want one at %d, without a comparison", s.compacts, s.index)
			}
		})
	}
}

// A replica that still encodes a state when another one is to be compared is left out, and stores the former.
func TestComparedWhileEncoding(t *testing.T) {
	leader := newStand(t, CoreConfig{ID: 1, Names: map[uint64]string{1: "a", 2: "b", 3: "c"}, SnapshotEvery: 2})
	leader.lead(3)
	one := leader.up(1, 5)
	for seq := uint64(2); seq < 12; seq++ {
		one.events(5, seq, packetIn)
		leader.turn()
		leader.commit()
		leader.encode, leader.core.encoding, leader.core.comparison.asked = nil, nil, false
	}
	s := newStand(t, CoreConfig{ID: 2, Names: leader.core.cfg.Names, SnapshotEvery: 2})
	var marked []uint64
	for i, entry := range leader.entries {
		if ledger.Compares(entry) {
			marked = append(marked, uint64(i+1))
		}
		s.ok(s.deliver(entry)) // the stand fails if a second state is encoded
		s.turn()
	}
	if len(marked) < 2 {
		t.Fatalf("entries %d are marked, want several", marked)
	}
	_, sum := s.encode()
	s.ok(s.core.Encoded(nil, sum))
	s.digest(1, marked[0], sum)
	s.turn()
	if !slices.Equal(s.compacts, []uint64{marked[0] - 1}) {
		t.Errorf("snapshots at %d, want one before entry %d", s.compacts, marked[0])
	}
}

// A replica that begins with the snapshot that ends before a marked entry says what it has, and does not keep it.
func TestComparedIsTheSnapshot(t *testing.T) {
	names := map[uint64]string{1: "a", 2: "b", 3: "c"}
	leader := newStand(t, CoreConfig{ID: 1, Names: names, SnapshotEvery: 2})
	leader.lead(3)
	one := leader.up(1, 5)
	for seq := uint64(2); leader.encode == nil && seq < 12; seq++ {
		one.events(5, seq, packetIn)
		leader.turn()
		leader.commit()
	}
	state, sum := leader.encode()
	marked := leader.index

	var told []uint64
	s := newStand(t, CoreConfig{ID: 2, Names: names, SnapshotEvery: 2})
	s.send = func(_ uint64, payload []byte) bool {
		if payload[0] == digestPayload {
			told = append(told, binary.BigEndian.Uint64(payload[9:]))
		}
		return true
	}
	s.ok(s.core.Update(s.now, consensus.Update{Snapshot: &consensus.Snapshot{Index: marked - 1, State: state}}))
	s.index = marked - 1
	s.ok(s.deliver(leader.entries[marked-1]))
	s.ok(s.core.Encoded(s.encode()))
	if !slices.Equal(told, []uint64{sum, sum}) || s.core.comparison.state != nil {
		t.Errorf("it told %x, want %x twice, and keeps %v", told, sum, s.core.comparison.state)
	}
}
