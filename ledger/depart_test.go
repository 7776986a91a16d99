package ledger

import (
	"slices"
	"testing"
	"time"
)

// A table of which the actor has every cell departs and arrives as a whole, in one operation and not in one for each
// cell. Until that is committed the rows are those before, and a leader that is deposed has them again.
func TestWholeTableMoves(t *testing.T) {
	const cells = 100
	s := newPairs(t)
	s.handlers(func(tx *Tx, in *Input) {
		for i := range uint64(cells) {
			tx.Put(tx.Table("t"), Key{A: i}, Key{}, []byte("v"))
		}
		tx.Put(tx.Table("one"), Key{S: "k"}, Key{}, []byte{byte(in.Seq)})
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	p := s.groups[1]
	rows := func(what string, want int) {
		t.Helper()
		if list, err := p.leader.Rows("a", 1<<20); err != nil || len(list) != want {
			t.Fatalf("%s: %d rows (%v), want %d", what, len(list), err, want)
		}
	}
	for n := 0; p.leader.state.moves.at[ofApp].Group != 2; n++ {
		if n > 100 {
			t.Fatal("it does not depart")
		}
		p.commit()
		p.leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
		s.groups[2].commit()
		s.groups[2].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
		p.leader.Moves()
	}
	rows("it departs", cells+1)
	entry, _ := p.leader.Cut()
	ops := map[Op]int{}
	if _, err := Walk(entry, func(r *Record) error { ops[r.Op]++; return nil }); err != nil {
		t.Fatal(err)
	}
	if ops[OpClear] != 2 || ops[OpDrop] != 0 {
		t.Errorf("%d tables are cleared, and %d cells dropped", ops[OpClear], ops[OpDrop])
	}
	p.must(p.leader.Follow())
	rows("the leader is deposed", cells+1)
	p.must(p.leader.Lead(2, p.now))
	s.run()
	rows("it has moved", 0)
	if list, err := s.groups[2].leader.Rows("a", 1<<20); err != nil || len(list) != cells+1 {
		t.Errorf("%d rows have arrived (%v)", len(list), err)
	}
}

// A handover ends when the other group has committed the arrival, and took the time since the departure.
func TestHandover(t *testing.T) {
	s := newPairs(t)
	s.groups[1].up(1)
	s.run()
	from, to := s.groups[1], s.groups[2]
	s.move(ofApp, 1, 2)
	for n := 0; from.leader.state.moves.at[ofApp].Group != 2; n++ {
		if n > 100 {
			t.Fatal("it does not depart")
		}
		from.commit()
		from.leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
		to.commit()
		to.leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
		from.leader.Moves()
	}
	from.now += int64(3 * time.Millisecond)
	from.leader.Tick(from.now)
	if list := from.leader.Handovers(); len(list) > 0 {
		t.Errorf("before it has arrived: %v", list)
	}
	s.run()
	want := []Handover{{Actor: ofApp, To: 2, Took: 3 * time.Millisecond}}
	if list := from.leader.Handovers(); !slices.Equal(list, want) {
		t.Errorf("%v, want %v", list, want)
	}
	if list := append(from.leader.Handovers(), to.leader.Handovers()...); len(list) > 0 {
		t.Errorf("once more: %v", list)
	}
}

// A leader that is deposed while an actor is between two groups knows nothing of its handover any more, also when it
// leads again.
func TestHandoverOfDeposed(t *testing.T) {
	s := newPairs(t)
	s.groups[1].up(1)
	s.run()
	from := s.groups[1]
	s.move(ofApp, 1, 2)
	for n := 0; from.leader.state.moves.at[ofApp].Group != 2; n++ {
		if n > 100 {
			t.Fatal("it does not depart")
		}
		s.step()
	}
	from.must(from.leader.Follow())
	if list := from.leader.Handovers(); len(list) > 0 {
		t.Errorf("at a follower: %v", list)
	}
	from.must(from.leader.Lead(2, from.now))
	s.run()
	if list := from.leader.Handovers(); len(list) > 0 {
		t.Errorf("that began under an earlier leader: %v", list)
	}
}

// A new leader whose directory does not know the actor yet goes on with a move, and waits before the actor departs.
// Else the directory, which knows a version, would ignore the next one for ever.
func TestDepartureWaitsForDirectory(t *testing.T) {
	s := newSwitchPairs(t)
	s.rows[theSwitch(1)] = Assignment{1, 5}
	p := s.groups[1]
	p.up(1)
	p.commit()
	s.move(theSwitch(1), 1, 2)
	p.commit()
	p.must(p.leader.Follow())
	p.leader, p.follower = p.follower, p.leader
	p.must(p.leader.Lead(2, p.now))
	s.behind = 1
	s.run()
	if _, left := p.leader.Left(1); left {
		t.Error("it has departed with a version that follows none")
	}
	s.behind = 0
	s.run()
	if want := (Assignment{2, 6}); s.rows[theSwitch(1)] != want {
		t.Errorf("the directory says %v, want %v", s.rows[theSwitch(1)], want)
	}
}
