package store

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// What operators see of namespaces, tables and rows, with buckets and without.
func TestContents(t *testing.T) {
	const divided = "n/4"
	r := newReplicas(t)
	keys := slices.Concat(keysOf(4)...)[:3] // of one bucket
	keys = append(keys, keysOf(4)[2][0])
	slices.Sort(keys)
	create := Op{Kind: CreateTable, Table: "t", Definition: &Definition{Columns: []string{"value", "more"}}}
	if _, err := r.one(divided, create); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if _, err := r.one(divided, putRow(key, key+"!")); err != nil {
			t.Fatal(err)
		}
	}
	r.must("plain", create, Op{Kind: CreateTable, Table: "empty"}, putRow("10.0.0.1", "a"), putRow("10.0.0.2", "b"),
		putRow("11.0.0.1", "c"), putRow("10.0.0.1", "d"))
	rows, err := r.follower.Rows(Name, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Contents(slices.Values(rows))
	if err != nil || len(got) != 2 || got[0].Namespace != divided || got[0].Buckets != 4 || got[0].Revision == 0 ||
		len(got[0].Tables) != 1 || got[0].Tables[0].Rows != int64(len(keys)) || got[1].Namespace != "plain" ||
		got[1].Buckets != 0 || len(got[1].Tables) != 2 || got[1].Tables[0].Table != "empty" ||
		got[1].Tables[0].Newest != 0 || got[1].Tables[1].Rows != 3 || got[1].Tables[1].Bytes == 0 ||
		got[1].Tables[1].Newest != got[1].Revision {
		t.Fatalf("got %+v (%v)", got, err)
	}
	read := func(q Range) (text string) {
		p, err := q.Read(slices.Values(rows))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(p.Columns, create.Definition.Columns) {
			t.Errorf("the columns are %v", p.Columns)
		}
		for _, row := range p.Rows {
			text += row.Key + "=" + string(row.Columns[0].Value) + " "
			if len(row.Columns) != 1 || row.Columns[0].Name != "value" || row.Version == 0 {
				t.Errorf("a row is %+v", row)
			}
		}
		if p.More {
			text += "…"
		}
		return text
	}
	ofBuckets := ""
	for _, key := range keys {
		ofBuckets += key + "=" + key + "! "
	}
	for _, c := range []struct {
		q    Range
		want string
	}{
		{Range{Namespace: "plain", Table: "t", Most: 9}, "10.0.0.1=d 10.0.0.2=b 11.0.0.1=c "},
		{Range{Namespace: "plain", Table: "t", Most: 2}, "10.0.0.1=d 10.0.0.2=b …"},
		{Range{Namespace: "plain", Table: "t", Most: 2, After: "10.0.0.2"}, "11.0.0.1=c "},
		{Range{Namespace: "plain", Table: "t", Most: 2, Prefix: "10."}, "10.0.0.1=d 10.0.0.2=b "},
		{Range{Namespace: divided, Table: "t", Most: 9}, ofBuckets},
	} {
		if got := read(c.q); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.q, got, c.want)
		}
	}
	if _, err := (Range{Namespace: "plain", Table: "none", Most: 1}).Read(slices.Values(rows)); err == nil ||
		!strings.Contains(err.Error(), "none") {
		t.Errorf("a table that is not there: %v", err)
	}
	// A bucket can have a table from before it was made again with other columns.
	i := slices.IndexFunc(rows, func(r ledger.Row) bool { return r.Table == tableTable && r.Cell.S != "plain" })
	older, err := decodeTable(rows[i].Cell.S, rows[i].Field.S, rows[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	older.Definition.Columns = []string{"was", "value"}
	rows[i].Value, _ = json.Marshal(older)
	p, err := (Range{Namespace: divided, Table: "t", Most: 9}).Read(slices.Values(rows))
	if err != nil || len(p.Rows) != len(keys) || !slices.Contains(p.Columns, "was") {
		t.Fatalf("with different definitions: %+v, %v", p, err)
	}
	names := map[string]int{}
	for _, row := range p.Rows {
		names[row.Columns[0].Name]++
	}
	if len(names) != 2 {
		t.Errorf("the rows of both definitions have %v", names)
	}
}
