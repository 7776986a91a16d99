package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow"
)

// pairs is two groups, 1 and 2, each with a leader and a follower. A switch lives in the group that is its number, and
// the application "a" in group 1 until it moves.
type pairs struct {
	t      *testing.T
	groups [3]*pair // by number
	app    [3]*script
	rows   map[Actor]Assignment
	behind uint64                     // the group whose directory knows nothing
	lost   func(from, to uint64) bool // whether a frame is lost; nil: none is
}

func newPairs(t *testing.T) *pairs {
	return newPairsOf(t, func(s *script) Application { return s })
}

// newPairsOf is newPairs with applications that are made of the scripts.
func newPairsOf(t *testing.T, of func(*script) Application) *pairs {
	s := &pairs{t: t, rows: map[Actor]Assignment{}}
	for g := uint64(1); g <= 2; g++ {
		s.app[g] = &script{name: "a"}
		p := &pair{t: t, leader: mustNew(t, Limits{}, of(s.app[g])),
			follower: mustNew(t, Limits{}, of(s.app[g])), now: 1000}
		directory := func(a Actor) (Assignment, bool) {
			if s.behind == g {
				return Assignment{}, false
			}
			return s.directory(a)
		}
		for _, c := range []*Core{p.leader, p.follower} {
			c.Join(g, directory)
		}
		p.must(p.leader.Lead(1, p.now))
		s.groups[g] = p
	}
	return s
}

func (s *pairs) directory(a Actor) (Assignment, bool) {
	if at, known := s.rows[a.mover()]; known || a.Key != (Key{}) {
		return at, known
	}
	return Assignment{max(uint64(a.Switch), 1), 1}, true
}

// run commits and carries everything until nothing is left to do. Nothing waits for time to pass.
func (s *pairs) run() {
	s.t.Helper()
	for s.step() {
	}
}

// step lets each group have a turn. It reports whether anything was done.
func (s *pairs) step() (more bool) {
	s.t.Helper()
	for g := uint64(1); g <= 2; g++ {
		p := s.groups[g]
		p.leader.Moves()
		before := len(p.entries)
		p.commit()
		more = more || len(p.entries) > before
		p.leader.Frames(func(to uint64, frame []byte) {
			if s.lost == nil || !s.lost(g, to) {
				s.carry(to, frame)
				more = true
			}
		})
		for _, a := range p.leader.Unpublished() {
			s.rows[a], _ = p.leader.Assignment(a)
			for _, other := range s.groups[1:] {
				other.leader.Relocated(a)
			}
			more = true
		}
	}
	return more
}

func (s *pairs) carry(to uint64, frame []byte) {
	for f := NewFrame(bytes.Clone(frame)); ; s.groups[to].commit() {
		finished, err := s.groups[to].leader.Execute(f)
		s.groups[to].must(err)
		if finished {
			return
		}
	}
}

func (s *pairs) move(a Actor, from, to uint64) {
	s.t.Helper()
	s.groups[from].must(s.groups[from].leader.Move(a, to))
}

// queued returns the texts of the commands of a switch that are not complete.
func (s *pairs) queued(id openflow.DatapathID) (list []string) {
	at, _ := s.directory(theSwitch(id))
	for rest := s.groups[at.Group].leader.state.switches[id].queue.All(); len(rest) > 0; {
		msg, after, _ := openflow.Next(rest)
		list, rest = append(list, string(msg[openflow.HeaderLen:])), after
	}
	return list
}

var ofApp = Actor{App: "a"}

// handlers makes the application enter its own shard, and then do something.
func (s *pairs) handlers(do func(tx *Tx, in *Input)) {
	for _, app := range s.app[1:] {
		app.do = func(tx *Tx, in *Input) error {
			if tx.Enter(Shard{}) {
				do(tx, in)
			}
			return nil
		}
	}
}

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

// What an actor has learned of a switch without a stream, it knows in another group: its commands are not void.
func TestKnowledgeMoves(t *testing.T) {
	s := newPairs(t)
	void := 0
	s.handlers(func(tx *Tx, in *Input) {
		switch in.Kind {
		case SwitchUp:
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Timer:
			tx.Send(1, simCommand("timer"))
			if up := slices.Collect(tx.Switches()); !slices.Equal(up, []openflow.DatapathID{1}) {
				t.Errorf("switches %v are up", up)
			}
		case Discarded:
			void++
		}
	})
	s.groups[1].up(1)
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p")) // it hears of epoch 1 on a stream
	s.run()
	s.move(ofApp, 2, 1)
	s.run()
	s.groups[1].event(1, 2, 1, switchUp()) // and of epoch 2 without one
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[2].leader.Tick(2_000_000)
	s.run()
	if got := s.queued(1); !slices.Equal(got, []string{"timer"}) || void != 0 {
		t.Errorf("commands %q, %d void", got, void)
	}
}

// deaf is an application that says that it handles nothing but messages of switches, and timers.
type deaf struct{ *script }

func (deaf) Explain() []Mapping { return []Mapping{{Kind: Message}} }

func (d deaf) Handle(tx *Tx, in *Input) error {
	if in.Kind == SwitchUp || in.Kind == SwitchDown {
		return nil
	}
	return d.script.Handle(tx, in)
}

// An actor that is not told of new epochs can send to a switch that has begun one, although the actor has moved: the
// commands of the old epoch are void, and those after them are not.
func TestDeafActorMoves(t *testing.T) {
	s := newPairsOf(t, func(app *script) Application { return deaf{app} })
	void := 0
	s.handlers(func(tx *Tx, in *Input) {
		switch in.Kind {
		case Message:
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Timer:
			tx.Send(1, simCommand("timer"))
			if err := tx.SetTimer("t", 1_000_000, nil); err != nil {
				t.Error(err)
			}
		case Discarded:
			void++
		}
	})
	s.groups[1].up(1)
	s.groups[2].up(2)
	s.run()
	s.groups[1].event(1, 1, 2, packetIn("p"))
	s.run()
	s.move(ofApp, 1, 2)
	s.run()
	s.groups[1].event(1, 2, 1, switchUp()) // the actor is not told
	s.run()
	for now := range int64(3) {
		s.groups[2].leader.Tick(2_000_000 * (now + 1))
		s.run()
	}
	if got := s.queued(1); !slices.Equal(got, []string{"timer", "timer"}) || void != 1 {
		t.Errorf("commands %q, %d void; want one void, and two that are executed", got, void)
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
