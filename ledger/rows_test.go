package ledger

import (
	"bytes"
	"testing"

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
