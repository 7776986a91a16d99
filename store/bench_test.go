package store

import (
	"fmt"
	"testing"
)

// BenchmarkUpdate is an update in batches of 256: what the leader does to execute and commit it, a follower to apply
// it, and a client to encode it.
func BenchmarkUpdate(b *testing.B) {
	const batch = 256
	r := newReplicas(b)
	r.must("n", Op{Kind: CreateTable, Table: "t"})
	session := r.must("n", Op{Kind: OpenSession})[0].Session
	transactions := make([][]Op, batch)
	q := Request{Namespace: "n", Session: session}
	value := make([]byte, 32)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		if n%batch != 0 {
			continue
		}
		for i := range transactions {
			transactions[i] = []Op{{Kind: Put, Table: "t", Key: fmt.Sprintf("row%06d", (n+i)%10_000),
				Columns: Value(value)}}
		}
		q.Seq, q.Acked, q.Transactions = q.Seq+1, q.Seq, transactions
		if out := r.call(q.Append(nil)); out.Error != nil || out.Outcomes[0].Error != nil {
			b.Fatal(out)
		}
	}
}
