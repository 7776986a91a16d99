package ledger

import (
	"encoding/binary"
	"errors"
	"testing"
)

// What failed transactions have written is forgotten at once: a client whose requests are refused again and again must
// not fill the memory.
func TestOldValuesOfFailures(t *testing.T) {
	var old []int
	a := &script{name: "a", do: func(tx *Tx, _ *Input) error {
		old = append(old, tx.c.batch.old.n)
		for i := range uint64(1000) {
			tx.Put(tx.Table("t"), Key{A: 1}, Key{A: i}, binary.AppendUvarint(nil, i))
		}
		return errors.New("no")
	}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	for seq := range uint64(20) {
		p.event(1, 1, seq+2, packetIn(""))
	}
	p.commit()
	if len(old) < 20 {
		t.Fatalf("%d transactions", len(old))
	}
	for i, n := range old {
		if n > 0 {
			t.Fatalf("transaction %d begins with %d old values", i, n)
		}
	}
	var many oldValues
	for range 3 * maxOldBlocks * oldBlock {
		many.add(oldValue{value: []byte("v")})
	}
	if many.reset(); len(many.blocks) > maxOldBlocks || many.blocks[0][0].value != nil {
		t.Errorf("%d blocks are kept, and %q", len(many.blocks), many.blocks[0][0].value)
	}
}
