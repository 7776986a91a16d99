package ledger

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
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

// degrader is a script whose handler of packets runs without a majority.
type degrader struct{ *script }

func (degrader) Degraded(typ uint8) bool { return typ == of13.TypePacketIn }

// What a handler writes without a majority is forgotten at once, too: a minority may last for days.
func TestOldValuesWithoutMajority(t *testing.T) {
	a := degrader{&script{name: "a", do: func(tx *Tx, in *Input) error {
		tx.Put(tx.Table("t"), Key{A: 1}, Key{}, binary.AppendUvarint(nil, in.Seq))
		return nil
	}}}
	p := newPair(t, Limits{}, a)
	p.up(1)
	p.commit()
	p.must(p.leader.Follow())
	for seq := uint64(2); seq < 10; seq++ {
		if !p.leader.Degrade(2000, 1, 1, seq, packetIn("p")) {
			t.Fatal("the handler did not run")
		}
	}
	if n := p.leader.free[0].old.n; n > 0 {
		t.Errorf("%d old values are kept", n)
	}
}
