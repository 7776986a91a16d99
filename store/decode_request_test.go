package store

import (
	"reflect"
	"strings"
	"testing"
)

// Requests that are decoded into the same memory, one after the other, are as each would be by itself. What is wrong is
// refused each time.
func TestRequestMemory(t *testing.T) {
	of := func(n int, o ...Op) []byte {
		r := Request{Namespace: "n", Session: 1, Seq: uint64(n)}
		for range n {
			r.Transactions = append(r.Transactions, o)
		}
		return r.Append(nil)
	}
	put := Op{Kind: Put, Table: "t", Key: "k", Columns: columns("a", "1", "b", "2")}
	run := Op{Kind: Run, Component: "c", Columns: columns("a", "", strings.Repeat("z", maxName+1), "3")}
	wrong := Op{Kind: Get, Table: "\xff"}
	var m requestMemory
	for i, b := range [][]byte{of(1, put), of(3, put, run, put), of(0), of(maxKeptOps+1, put), of(2, wrong), of(1, wrong),
		of(1, run), of(MaxOps, run), of(2, run, put)} {
		var got, want Request
		gotErr, wantErr := got.decodeInto(&m, b), want.Decode(b)
		if (gotErr == nil) != (wantErr == nil) || wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("request %d: %+v (%v), want %+v (%v)", i, got, gotErr, want, wantErr)
		}
	}
	if m.forget(); len(m.ops) > maxKeptOps || len(m.columns) > maxKeptColumns {
		t.Errorf("%d ops and %d columns are kept", len(m.ops), len(m.columns))
	}
	for _, c := range m.columns {
		if c.Value != nil {
			t.Fatal("a column of the last request is kept")
		}
	}
}
