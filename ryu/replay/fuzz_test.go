package replay

import (
	"bytes"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/message"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// entries returns entries with every kind of record of replayed applications. The last one is a snapshot with
// chunks.
func entries(t testing.TB) [][]byte {
	c := newReplica(t, ledger.Limits{}, "v1")
	var entries [][]byte
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	commit := func() {
		entry, _ := c.Cut()
		must(c.Commit(entry))
		entries = append(entries, entry)
	}
	must(c.Lead(1, 1000))
	c.log.Begin(7)
	must(c.Event(1, 1, 1, switchUp()))
	c.log.Request((&wire.HTTPRequest{Method: "GET", Headers: []wire.Header{{Name: "A", Value: "b"}},
		Body: []byte("x")}).Append(nil))
	commit()
	must(c.log.Result(&wire.Result{Number: 1, Wake: 5000, Digest: 9}))
	must(c.log.Result(&wire.Result{Number: 2, Wake: 5000, Commands: []wire.Command{command(1, 0xabc, "c")},
		Failures: []wire.Failure{{Traceback: "no"}}}))
	c.log.Skip(3)
	must(c.Event(1, 1, 2, answer(message.Replayed, 1)))
	commit()
	c.Tick(6000)
	commit()
	for seq := uint64(3); len(c.log.history.chunks) == 0; seq++ {
		must(c.Event(1, 1, seq, packetIn(string(make([]byte, 40_000)))))
		commit()
	}
	c.log.Trim(1, []byte("state"))
	return append(entries[:3], snapshot(t, c))
}

// FuzzEntry decodes arbitrary bytes as an entry and as a snapshot: the result is an error, never a panic. A state
// that was restored is equal after another snapshot and restore.
func FuzzEntry(f *testing.F) {
	for _, entry := range entries(f) {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c := newReplica(t, ledger.Limits{}, "v1")
		if c.Restore(data) == nil {
			first := snapshot(t, c)
			if err := c.Restore(first); err != nil {
				t.Fatal(err)
			}
			if second := snapshot(t, c); !bytes.Equal(first, second) {
				t.Errorf("restored twice:\n %s\n %s", dump(first), dump(second))
			}
		}
		_ = c.Commit(data)
		n, _ := c.log.Checkpoint()
		var err error
		for more := 1; more > 0; n += uint64(more) {
			if _, more, err = c.log.Inputs(n+1, 1000, 1<<20); err != nil {
				break
			}
		}
		_ = c.Lead(1, 0)
	})
}

// FuzzRecord: a record that is decoded is encoded to the same bytes, and arbitrary bytes give an error.
func FuzzRecord(f *testing.F) {
	for _, r := range []Record{{Kind: Begin, Seed: 7, Identity: []byte("v1")}, {Kind: Request, Request: []byte("r")},
		{Kind: Result, Number: 300, Digest: 9}, {Kind: Skip, Number: 3}, {Kind: Asked, asked: []byte{2}},
		{Kind: Files, Files: []byte("f")}, {Kind: Stir}} {
		f.Add(r.append(nil))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			return
		}
		again, err := ParseRecord(r.append(nil))
		if err != nil || !bytes.Equal(again.append(nil), r.append(nil)) {
			t.Errorf("%+v is %+v, %v", r, again, err)
		}
	})
}

// The seeds of the fuzzer contain every kind of record and part. No prefix of a snapshot is accepted.
func TestEntries(t *testing.T) {
	records, parts := map[RecordKind]bool{}, map[byte]bool{}
	list := entries(t)
	for _, entry := range list {
		if _, err := ledger.Walk(entry, func(r *ledger.Record) error {
			switch r.Op {
			case ledger.OpTransaction, ledger.OpRecord:
				records[RecordKind(r.Bytes[0])] = true
			case ledger.OpPart:
				parts[r.Bytes[0]] = true
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(records) != int(Asked) || len(parts) != partSkipped {
		t.Errorf("records %v, parts %v", records, parts)
	}
	c := newReplica(t, ledger.Limits{}, "")
	snap := list[len(list)-1]
	if err := c.Restore(snap); err != nil {
		t.Fatal(err)
	}
	for n := range snap {
		if err := c.Restore(snap[:n]); err == nil && c.log.Hosting().Inputs != c.log.Committed().Input {
			t.Errorf("the first %d bytes are restored to %+v, and %+v", n, c.log.Hosting(), c.log.Committed())
		}
	}
}
