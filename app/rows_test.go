package app

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/ledger"
)

func TestRead(t *testing.T) {
	type row struct{ A, B int }
	a := New("a")
	numbers, rows := NewTable[string, uint64](a, "numbers"), NewMap[uint32, PortOf, row](a, "rows")
	port := PortOf{7, 3}
	list := []ledger.Row{
		{Table: "rows", Cell: toKey(uint32(5)), Field: toKey(port), Value: rows.append(nil, &row{1, 2})},
		{Table: "numbers", Cell: toKey("x"), Value: numbers.append(nil, new(uint64(300)))},
		{Table: "others", Value: []byte("whatever")},
		{Table: "numbers", Cell: toKey("y"), Value: numbers.append(nil, new(uint64(4)))},
	}
	gotNumbers, gotRows := map[string]uint64{}, map[PortOf]row{}
	readers := []Reader{numbers.Each(func(k string, v uint64) { gotNumbers[k] = v }),
		rows.Each(func(cell uint32, p PortOf, v row) {
			if cell != 5 {
				t.Errorf("cell %d", cell)
			}
			gotRows[p] = v
		})}
	if err := Read(slices.Values(list), readers...); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(gotNumbers, map[string]uint64{"x": 300, "y": 4}) ||
		!maps.Equal(gotRows, map[PortOf]row{port: {1, 2}}) {
		t.Errorf("read %v and %v", gotNumbers, gotRows)
	}
	list[1].Value = nil
	if err := Read(slices.Values(list), readers...); err == nil || !strings.Contains(err.Error(), "table numbers") {
		t.Errorf("a row that is no number: %v", err)
	}
}
