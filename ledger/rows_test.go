package ledger

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger/cells"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

func TestRevisionsOfApplications(t *testing.T) {
	write := func(name string) *script {
		return &script{name: name, do: func(tx *Tx, in *Input) error {
			if in.Kind == Message && in.Message[1] == of13.TypePacketIn && string(in.Message[8:]) == name {
				tx.Put(tx.Table("t"), Key{S: "k"}, Key{}, []byte{byte(in.Seq)})
			}
			return nil
		}}
	}
	p := newPair(t, Limits{}, write("a"), write("b"))
	p.up(1)
	p.event(1, 1, 2, packetIn("b"))
	p.commit()
	both := []*Core{p.leader, p.follower}
	of := func(app string) (list [2]uint64) {
		for i, c := range both {
			list[i] = c.Revision(app)
		}
		return list
	}
	a, b := of("a"), of("b")
	p.event(1, 1, 3, packetIn("a"))
	if of("a") != a {
		t.Error("a new revision before anything is committed")
	}
	p.commit()
	if now := of("a"); now[0] <= a[0] || now[1] <= a[1] {
		t.Errorf("revisions of an application that wrote %v after %v", now, a)
	}
	if of("b") != b {
		t.Errorf("revisions of an application that wrote nothing %v after %v", of("b"), b)
	}
	p.must(p.follower.Restore(snapshot(t, p.leader)))
	if now := of("b"); now[1] <= b[1] {
		t.Error("a snapshot that was restored is no new revision")
	}
	if rows, err := p.follower.Rows("b", 200); err != nil || len(rows) != 1 || rows[0].Table != "t" ||
		rows[0].Cell.S != "k" || !bytes.Equal(rows[0].Value, []byte{2}) {
		t.Errorf("rows %+v (%v)", rows, err)
	}
	if rows, err := p.follower.Rows("b", 100); err == nil {
		t.Errorf("%d rows in 100 bytes, where one takes more", len(rows))
	}
}

// The memory of a snapshot is within a factor of what is encoded, also if the rows that come first are the largest.
func TestMemoryOfEncodedTable(t *testing.T) {
	for name, sizes := range map[string][2]int{
		"large first": {8 << 10, 4}, "small first": {4, 8 << 10}, "equal": {8, 8},
	} {
		var table cells.Table
		put := func(cell uint64, rows, size int) {
			for i := range uint64(rows) {
				table.Put(Key{A: cell, S: "c"}, Key{A: i + 1}, make([]byte, size))
			}
		}
		put(1, sampled+100, sizes[0])
		put(2, 40*sampled, sizes[1])
		if b, _ := appendTable(nil, TableName{}, 0, table.Rows(), table.Scan()); cap(b) > 5*len(b) {
			t.Errorf("%s: %d bytes in memory of %d", name, len(b), cap(b))
		}
	}
}
