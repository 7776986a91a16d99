package ledger

import (
	"testing"
	"time"
)

// writer writes what its input says, in two tables, and sets a timer.
func writer() *script {
	return &script{name: "writer", do: func(tx *Tx, in *Input) error {
		if in.Kind != Message {
			return nil
		}
		for _, name := range []string{"one", "two"} {
			tx.Put(tx.Table(name), Key{A: in.Seq}, Key{}, []byte(name))
		}
		return tx.SetTimer("later", time.Hour, nil)
	}}
}

func digestOf(t *testing.T, c *Core) uint64 {
	t.Helper()
	frozen, err := c.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	_, sum := frozen()
	return sum
}

// A follower has the same digest as the leader when it comes to the entry that asks for it, and no other entry does.
func TestCompare(t *testing.T) {
	p := newPair(t, Limits{}, writer())
	p.up(1)
	p.event(1, 1, 2, packetIn("a"))
	p.commit()
	mine, err := p.leader.Compare()
	p.must(err)
	p.event(1, 1, 3, packetIn("b"))
	if _, err := p.leader.Compare(); err == nil {
		t.Error("a leader is compared that has something uncommitted")
	}
	before := digestOf(t, p.follower)
	if _, sum := mine(); sum != before {
		t.Errorf("the leader had %x, the follower has %x", sum, before)
	}
	n := len(p.entries)
	p.commit()
	p.event(1, 1, 4, packetIn("c"))
	p.commit()
	marked := 0
	for _, entry := range p.entries[n:] {
		if Compares(entry) {
			marked++
		}
	}
	if marked != 1 || !Compares(p.entries[n]) {
		t.Errorf("%d entries ask for a digest, want the first one", marked)
	}
	if a, b := digestOf(t, p.leader), digestOf(t, p.follower); a != b || a == before {
		t.Errorf("the leader has %x, the follower %x, and both had %x", a, b, before)
	}
}

// Whatever differs in a state, the digest differs.
func TestCompareNotices(t *testing.T) {
	for name, change := range map[string]func(*state){
		"a row is missing":   func(s *state) { s.table(TableName{"writer", "one"}).cells.Delete(Key{A: 2}, Key{}) },
		"a row has changed":  func(s *state) { s.table(TableName{"writer", "one"}).cells.Put(Key{A: 2}, Key{}, []byte("x")) },
		"a cell has changed": func(s *state) { s.table(TableName{"writer", "one"}).cells.Put(Key{A: 9}, Key{}, nil) },
		"rows are exchanged": func(s *state) {
			s.table(TableName{"writer", "one"}).cells.Put(Key{A: 2}, Key{}, []byte("two"))
			s.table(TableName{"writer", "two"}).cells.Put(Key{A: 2}, Key{}, []byte("one"))
		},
		"a timer is missing": func(s *state) { clear(s.timers) },
		"a switch":           func(s *state) { s.sw(1).events++ },
		"a command": func(s *state) {
			s.sw(1).command(packetIn("never sent"))
		},
		"a switch is forgotten": func(s *state) { s.floor++ },
		"an actor is suspended": func(s *state) { s.suspend(Actor{App: "writer"}, suspension{since: 1, reason: "r"}) },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, Limits{}, writer())
			p.up(1)
			p.event(1, 1, 2, packetIn("a"))
			p.commit()
			before := digestOf(t, p.follower)
			frozen, err := p.follower.Freeze()
			p.must(err)
			change(p.follower.state)
			if after := digestOf(t, p.follower); after == before {
				t.Error("the digest is the same")
			}
			if _, was := frozen(); was != before {
				t.Errorf("what was frozen before has digest %x, want %x", was, before)
			}
		})
	}
}
