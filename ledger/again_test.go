package ledger

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
)

// A counter that is written in each transaction is in the entry once, with its last value.
func TestRowWrittenAgain(t *testing.T) {
	row := Key{A: 7}
	count := &script{name: "count", do: func(tx *Tx, in *Input) error {
		n := uint64(100) // of one length, until 128
		if b, ok := tx.Get(tx.Table("t"), row, row); ok {
			n, _ = binary.Uvarint(b)
		}
		tx.Put(tx.Table("t"), row, row, binary.AppendUvarint(nil, n+1))
		if in.Seq == 5 {
			return errors.New("no")
		}
		return nil
	}}
	p := newPair(t, Limits{}, count)
	p.up(1)
	p.commit()
	seq := uint64(1)
	events := func(n int) {
		for range n {
			seq++
			p.event(1, 1, seq, packetIn(""))
		}
		p.commit()
	}
	events(11)
	puts, last := 0, uint64(0)
	_, err := Walk(p.entries[1], func(r *Record) error {
		if r.Op == OpPut {
			puts++
			last, _ = binary.Uvarint(r.Bytes)
		}
		return nil
	})
	p.must(err)
	// The one that failed is undone. It ends what is known of the entry, so there is one put before and one after it.
	if puts != 2 || last != 111 {
		t.Errorf("%d puts, the last of %d, want 2 of 111", puts, last)
	}
	events(3)
	events(3) // nothing is known of the entry before
}

// The entry has a deletion between what was written before it and after it.
func TestDeletedRowWrittenAgain(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, _ *Input) error {
		for v := range byte(4) {
			if tx.Put(tx.Table("t"), Key{}, Key{}, []byte{v}); v == 1 {
				tx.Delete(tx.Table("t"), Key{}, Key{})
			}
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
}

// A call that does nothing but write a row again is in the log, like others that write.
func TestCallWritesAgain(t *testing.T) {
	n := byte(0)
	count := &script{name: "count", do: func(tx *Tx, _ *Input) error {
		n++
		tx.Put(tx.Table("t"), Key{}, Key{}, []byte{n})
		return tx.Reply(nil)
	}}
	p := newPair(t, Limits{}, count)
	for id := range uint64(4) {
		p.must(p.leader.Call(Call{Actor: Actor{App: "count"}, Name: "add", Caller: 7, ID: id}))
	}
	p.commit()
	if got, want := ops(t, p.entries[0]), []Op{OpCall, OpTable, OpPut, OpCall, OpPut, OpCall, OpCall}; !slices.Equal(got,
		want) {
		t.Errorf("operations %v, want %v", got, want)
	}
}

// What can be undone is bounded although the entry does not grow.
func TestRowWrittenAgainWithoutEnd(t *testing.T) {
	a := &script{name: "a", do: func(tx *Tx, in *Input) error {
		for v := 0; v < 1<<20 && in.Seq > 1; v++ {
			tx.Put(tx.Table("t"), Key{}, Key{}, []byte{byte(v)})
		}
		return nil
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.event(1, 1, 2, packetIn(""))
	if list := p.leader.Failures(); len(list) != 1 || !strings.Contains(list[0].Err.Error(), "the entry of this") {
		t.Errorf("failures %v, want one because of the entry", list)
	}
	p.event(1, 1, 3, packetIn("")) // the room is there again, and not more
	if list := p.leader.Failures(); len(list) != 1 || !p.leader.Room() {
		t.Errorf("failures %v", list)
	}
	p.commit()
}

// Rows that are written, deleted, dropped and undone at random within few entries are the same at a follower, which has
// nothing but the entries.
func TestRowsWrittenAgainAtRandom(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		key := func() Key { return Key{A: rnd.Uint64N(3), S: []string{"", "", "text"}[rnd.IntN(3)]} }
		value := func() []byte {
			b := make([]byte, 1+rnd.IntN(2))
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return b
		}
		change := func(tx *Tx) {
			table := tx.Table([]string{"t", "u"}[rnd.IntN(2)])
			switch rnd.IntN(40) {
			case 0:
				tx.Delete(table, key(), key())
			case 1:
				tx.c.drop(part{table: table, cells: []Key{key()}})
			case 2:
				tx.c.drop(part{table: table, whole: true})
			default:
				tx.Put(table, key(), key(), value())
			}
		}
		a := &script{name: "a", do: func(tx *Tx, _ *Input) error {
			for range rnd.IntN(6) {
				change(tx)
			}
			if rnd.IntN(12) == 0 {
				m := tx.Mark()
				change(tx)
				change(tx)
				if err := tx.Rewind(m); err != nil {
					return err
				}
				change(tx)
			}
			if rnd.IntN(12) == 0 {
				return errors.New("no")
			}
			return nil
		}}
		p := newPair(t, Limits{}, a)
		p.up(1)
		for seq := range uint64(60) {
			if p.event(1, 1, seq+2, packetIn("")); rnd.IntN(20) == 0 {
				p.commit()
			}
		}
		p.commit()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// What replaces the cells of a table ends what is known of its rows in the entry.
func TestReplacedTableForgetsPuts(t *testing.T) {
	b := &batch{stamp: 1, undo: make([]undo, 1)}
	table, row := newTable(TableName{"a", "t"}), Key{A: 1}
	for name, end := range map[string]func(){
		"replace": func() { table.replace(new(cells.Table), func(undo) {}) },
		"drop":    func() { table.drop(row, func(undo) {}) },
	} {
		b.buf = append(b.buf[:0], "x"...)
		if b.notePut(table, row, row, 1); !b.putAgain(table, row, row, []byte("y")) {
			t.Fatalf("%s: it is not known before", name)
		}
		if end(); b.putAgain(table, row, row, []byte("z")) {
			t.Errorf("%s: it is known afterwards", name)
		}
	}
}
