package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// What an actor has in cells and timers moves with it, and it gets the next event where it lives.
func TestMove(t *testing.T) {
	s := newPairs(t)
	s.handlers(func(tx *Tx, in *Input) {
		if in.Kind == Timer {
			tx.Send(1, simCommand("timer"))
			return
		}
		seen := tx.Table("seen")
		n := len(slices.Collect(keysOf(tx, seen)))
		tx.Put(seen, Key{A: 1}, Key{A: uint64(n)}, []byte{byte(n)})
		tx.CancelTimer("t")
		if err := tx.SetTimer("t", 1, nil); err != nil {
			t.Error(err)
		}
		tx.Send(1, simCommand(fmt.Sprint("seen ", n)))
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	if rows, _ := s.groups[1].leader.Rows("a", 1<<20); len(rows) != 0 {
		t.Errorf("group 1 still has %v", rows)
	}
	s.groups[2].leader.Tick(5000)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	if got := s.queued(1); !slices.Equal(got, []string{"seen 0", "timer", "seen 1"}) {
		t.Errorf("commands %q", got)
	}
	if s.rows[ofApp] != (Assignment{2, 2}) {
		t.Errorf("the directory has %v", s.rows[ofApp])
	}
}

// An actor with so many cells and fields that they are not put in order at once moves as it is in the end, though
// events change it all the time.
func TestMoveOfMuch(t *testing.T) {
	s := newPairsOf(t, func(app *script) Application { return movable{app} })
	want := map[[2]Key]string{}
	s.handlers(func(tx *Tx, in *Input) {
		table := tx.Table("t")
		put := func(cell, field uint64, value string) {
			tx.Put(table, Key{A: cell}, Key{A: field}, []byte(value))
			want[[2]Key{{A: cell}, {A: field}}] = value
		}
		remove := func(cell, field uint64) {
			tx.Delete(table, Key{A: cell}, Key{A: field})
			delete(want, [2]Key{{A: cell}, {A: field}})
		}
		const many = 3 * maxGathered
		if in.Kind == SwitchUp {
			for i := range uint64(many) {
				put(1, i, "field")
				put(2+i, 0, "cell")
			}
			tx.Put(tx.Table("u"), Key{A: 1}, Key{}, []byte("of the table that comes after"))
			return
		}
		n := uint64(in.Message[8])
		put(1, n*7%many, "changed")
		put(1, many+n, "new")
		remove(1, n*11)
		put(2+n*13, 1, "another")
		remove(2+n*17, 0)
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	events := uint64(0)
	for ; s.rows[ofApp].Group != 2; events++ {
		if events < 200 {
			s.groups[1].event(1, 1, events+2, packetIn(string([]byte{byte(events)})))
		}
		s.step()
	}
	if events < 50 {
		t.Errorf("it has moved within %d events", events)
	}
	s.run()
	rows, err := s.groups[2].leader.Rows("a", 1<<30)
	s.groups[2].must(err)
	got := map[[2]Key]string{}
	for _, r := range rows {
		if r.Table == "t" {
			got[[2]Key{r.Cell, r.Field}] = string(r.Value)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d rows have arrived, want %d, or others", len(got), len(want))
	}
}

func keysOf(tx *Tx, t *Table) func(yield func(Key) bool) {
	return func(yield func(Key) bool) {
		for k := range tx.Fields(t, Key{A: 1}) {
			if !yield(k) {
				return
			}
		}
	}
}

// A command that is sent without a stream does not overtake one that is on a stream.
func TestCommandsInOrderAfterMove(t *testing.T) {
	s := newPairs(t)
	n := 0
	s.handlers(func(tx *Tx, in *Input) {
		if in.Kind == Message {
			n++
			tx.Send(2, simCommand(fmt.Sprint(n)))
		}
	})
	s.groups[1].up(1)
	s.groups[2].up(2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.groups[1].commit()
	s.groups[1].leader.Frames(func(uint64, []byte) {}) // it is lost
	s.lost = func(from, to uint64) bool { return from == to }
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[2].event(2, 1, 2, packetIn("p"))
	s.run()
	if got := s.queued(2); len(got) > 0 {
		t.Fatalf("commands %q", got)
	}
	s.lost = nil
	s.groups[2].leader.Resend(2)
	s.run()
	if got := s.queued(2); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("commands %q", got)
	}
}

// What reaches the new group before the actor is not lost, and comes again at once when the actor is there.
func TestSentAgainOnArrival(t *testing.T) {
	s := newPairs(t)
	got := 0
	s.handlers(func(_ *Tx, in *Input) {
		if in.Kind == Message {
			got++
		}
	})
	s.groups[1].up(1)
	s.run()
	for range 2 { // so that the actor has a stream from the switch
		s.move(ofApp, 1, 2)
		s.run()
		s.groups[1].event(1, 1, uint64(got+2), packetIn("p"))
		s.run()
		s.move(ofApp, 2, 1)
		s.run()
	}
	s.move(ofApp, 1, 2)
	var pieces [][]byte
	s.lost = func(from, _ uint64) bool { return s.groups[1].leader.state.moves.at[ofApp].Group == 2 && from == 1 }
	p := s.groups[1]
	for p.leader.state.moves.at[ofApp].Group != 2 {
		p.leader.Moves()
		p.commit()
		keep := p.leader.state.moves.at[ofApp].Group == 2
		p.leader.Frames(func(to uint64, frame []byte) {
			if keep {
				pieces = append(pieces, bytes.Clone(frame))
				return
			}
			s.carry(to, frame)
		})
		s.groups[2].commit()
		s.groups[2].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	}
	s.lost = nil
	p.event(1, 1, uint64(got+2), packetIn("p"))
	p.commit()
	p.leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) }) // before the actor
	if got != 2 || len(pieces) == 0 {
		t.Fatalf("the actor got %d packets, %d frames wait", got, len(pieces))
	}
	for _, f := range pieces {
		s.carry(2, f)
	}
	s.run()
	if got != 3 {
		t.Errorf("the actor got %d packets", got)
	}
}

// An acknowledgement that arrives just before the actor departs is not logged for a stream that is gone.
func TestAcknowledgedBeforeDeparture(t *testing.T) {
	s := newPairs(t)
	s.handlers(func(tx *Tx, in *Input) {
		if in.Kind == Message {
			tx.Send(2, simCommand("c"))
		}
	})
	s.groups[1].up(1)
	s.groups[2].up(2)
	s.run()
	s.move(ofApp, 1, 2)
	s.groups[1].leader.Moves()
	s.groups[1].commit()
	s.groups[1].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.groups[1].commit()
	s.groups[1].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	s.groups[2].commit()
	s.groups[2].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) }) // both acknowledgements
	s.groups[1].leader.Moves()                                                      // in the batch that would log them
	s.run()
	if got := s.queued(2); !slices.Equal(got, []string{"c"}) || s.rows[ofApp].Group != 2 {
		t.Errorf("commands %q, the actor is at %v", got, s.rows[ofApp])
	}
}

// A move that is called off leaves nothing in the other group, and the actor where it is.
func TestMoveCalledOff(t *testing.T) {
	s := newPairs(t)
	s.handlers(func(tx *Tx, in *Input) { tx.Put(tx.Table("t"), Key{A: in.Seq}, Key{}, []byte("v")) })
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.groups[1].leader.Moves()
	s.groups[1].commit()
	s.groups[1].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	s.groups[2].commit()
	if len(s.groups[2].leader.state.moves.arriving) != 1 {
		t.Fatal("nothing was copied")
	}
	s.move(ofApp, 1, 1)
	s.run()
	if n := len(s.groups[2].leader.state.moves.arriving); n != 0 || len(s.groups[1].leader.state.moves.leaving) != 0 {
		t.Errorf("%d actors arrive, %v leave", n, s.groups[1].leader.state.moves.leaving)
	}
	if rows, _ := s.groups[1].leader.Rows("a", 1<<20); len(rows) != 1 || len(s.rows) != 0 {
		t.Errorf("rows %v, directory %v", rows, s.rows)
	}
}

// A move from one group that was called off, and becomes known late, leaves alone what arrives from another group.
func TestMoveCalledOffElsewhere(t *testing.T) {
	from := func(g uint64) Link { return Link{theGroup(g), theGroup(2)} }
	table := newTable(TableName{"a", "t"})
	table.cells.Put(Key{}, Key{A: 1}, []byte("v"))
	w := pieceWriter{size: 1 << 10}
	w.field(tableField{tableCell{table, Key{}}, Key{A: 1}})
	s := newState()
	for _, piece := range []struct {
		from uint64
		piece
	}{
		{3, piece{actor: ofApp, first: true, ops: w.ops}},
		{1, piece{actor: ofApp, first: true, ops: w.ops}},
		{3, piece{actor: ofApp, first: true}},
		{1, piece{actor: ofApp, last: true, next: Assignment{2, 3}}},
	} {
		if err := s.arrive(from(piece.from), &piece.piece, func(undo) {}); err != nil {
			t.Fatal(err)
		}
	}
	if v, _ := s.table(table.name).cells.Get(Key{}, Key{A: 1}); string(v) != "v" || len(s.moves.arriving) != 0 {
		t.Errorf("%q has arrived; %v", v, s.moves.arriving)
	}
}

// A new leader goes on with a move that has begun.
func TestNewLeaderGoesOn(t *testing.T) {
	s := newPairs(t)
	s.handlers(func(tx *Tx, in *Input) { tx.Put(tx.Table("t"), Key{A: in.Seq}, Key{}, []byte("v")) })
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.groups[1].leader.Moves()
	s.groups[1].commit()
	p := s.groups[1]
	p.must(p.leader.Follow())
	p.leader, p.follower = p.follower, p.leader
	p.must(p.leader.Lead(2, p.now))
	s.run()
	if rows, _ := s.groups[2].leader.Rows("a", 1<<20); len(rows) != 1 || s.rows[ofApp] != (Assignment{2, 2}) {
		t.Errorf("rows %v, directory %v", rows, s.rows)
	}
}

// An actor does not move that has no business to, and nothing changes.
func TestMoveRefused(t *testing.T) {
	s := newPairs(t)
	c := s.groups[1].leader
	for _, a := range []Actor{{App: "other"}, theSwitch(1), {}, theGroup(2), {App: "a", Shard: AtSwitch(1)},
		{App: "a", Shard: Shard{Key: Key{A: 7}}}} {
		if err := c.Move(a, 2); err == nil {
			t.Errorf("%v moves", a)
		}
	}
	if err := c.Move(ofApp, 1); err != nil || !c.Quiet() {
		t.Errorf("a move to where it lives: %v", err)
	}
}

// An actor that turns out to be too large stays, and what comes after it still moves.
func TestTooLargeToMove(t *testing.T) {
	s := newPairs(t)
	large := func(tx *Tx, _ *Input) error {
		tx.Put(tx.Table("t"), Key{A: 1}, Key{}, make([]byte, maxPiece+1))
		return nil
	}
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.groups[1].leader.Moves() // the first piece
	s.app[1].do = large
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	failures := s.groups[1].leader.Failures()
	if len(failures) != 1 || len(s.rows) != 0 || len(s.groups[1].leader.state.moves.leaving) != 0 {
		t.Errorf("failures %v, directory %v", failures, s.rows)
	}
	s.app[1].do = nil
	ended := func() EndedMove {
		t.Helper()
		list := s.groups[1].leader.EndedMoves()
		if len(list) != 1 || list[0].Actor != ofApp {
			t.Fatalf("moves that have ended: %v", list)
		}
		return list[0]
	}
	if e := ended(); e.To != 2 || !errors.Is(e.Err, ErrImmovable) {
		t.Errorf("it has ended: %v", e)
	}
	s.move(ofApp, 1, 2)
	s.run()
	if e := ended(); !errors.Is(e.Err, ErrImmovable) {
		t.Errorf("the second time it has ended: %v", e)
	}
}

// Who asks for another move of an actor calls off the first one, and that is known.
func TestCalledOff(t *testing.T) {
	s := newPairs(t)
	s.groups[1].up(1)
	s.run()
	c := s.groups[1].leader
	for _, to := range []uint64{2, 3, 3, 1, 1} {
		s.groups[1].must(c.Move(ofApp, to))
	}
	list := c.EndedMoves()
	if len(list) != 2 || list[0].To != 2 || list[1].To != 3 || !errors.Is(list[0].Err, ErrCalledOff) ||
		!errors.Is(list[1].Err, ErrCalledOff) || len(c.EndedMoves()) > 0 {
		t.Errorf("moves that have ended: %v", list)
	}
}

// keyed makes the application enter the shard of a key with each packet, and note its number.
func (s *pairs) keyed(got *[]uint64) Actor {
	key := Shard{Key: Key{S: "k"}}
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if in.Kind == Message && tx.Enter(key) {
				*got = append(*got, in.Seq)
			}
			return nil
		}
	}
	return Actor{"a", key}
}

// What waits for an actor that is assigned is not overtaken in the moment when the directory knows the actor, and the
// group has not heard of that.
func TestAssignedBeforeTheNews(t *testing.T) {
	s := newPairs(t)
	var got []uint64
	a := s.keyed(&got)
	s.groups[1].up(1)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	s.rows[a] = Assignment{1, 1}
	s.groups[1].event(1, 1, 3, packetIn("p"))
	s.groups[1].leader.Relocated(a)
	s.run()
	if !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("the actor gets events %v", got)
	}
}

// An item that came to a group which did not know its receiver comes again, also while other streams go on.
func TestLostBesideOthers(t *testing.T) {
	s := newPairs(t)
	var got []uint64
	a := s.keyed(&got)
	s.rows[a], s.behind = Assignment{2, 1}, 2
	s.groups[1].up(1)
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.groups[1].commit()
	s.groups[1].leader.Frames(func(to uint64, frame []byte) { s.carry(to, frame) })
	s.behind = 0
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if in.exact && in.to.Key.S == "k" {
				got = append(got, in.Seq)
			} else {
				tx.Enter(AtSwitch(2))
			}
			return nil
		}
	}
	s.groups[2].up(2)
	for n := range uint64(30) {
		s.groups[1].leader.Tick(int64(n+1) * 100_000_000)
		s.groups[1].event(1, 1, n+3, packetIn("p"))
		s.run()
	}
	if !slices.Equal(got, []uint64{2}) {
		t.Errorf("the actor gets events %v", got)
	}
}
