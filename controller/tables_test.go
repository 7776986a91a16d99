package controller

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Every controller gives what is committed of an application's tables, in Go and by the API.
func TestTables(t *testing.T) {
	s := newTestCluster(t, 0, func() []ledger.Application {
		a := app.New("counts")
		packets, secret := app.NewTable[app.Switch, uint64](a, "packets"),
			app.NewTable[string, string](a, ledger.SecretTable)
		app.Handle(a, func(m app.PacketIn) app.Cells { return app.Need(packets.Cell(m.Switch), secret.Cell("k")) },
			func(tx *app.Tx, m app.PacketIn) error {
				n, _ := packets.Get(tx, m.Switch)
				packets.Put(tx, m.Switch, n+1)
				secret.Put(tx, "k", "v")
				return nil
			})
		return []ledger.Application{a, hubs()[0]}
	})
	s.run(3, 100*time.Millisecond)
	s.down()
	s.quiet()
	var all []Tables
	for _, c := range s.controllers {
		before, err := c.Revision(t.Context(), "counts")
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Tables(t.Context(), "counts")
		if err != nil {
			t.Fatal(err)
		}
		if got.Revision != before || got.Leader == "" || got.Applied == 0 || got.Controller != c.cfg.Name {
			t.Errorf("revision %d before %+v", before, got)
		}
		all = append(all, got)
		if !reflect.DeepEqual(got.Rows, all[0].Rows) || len(got.Rows) != 4 || got.Rows[3].Table != ledger.SecretTable {
			t.Errorf("%s has %v\n%s has %v; want three switches and a secret", got.Controller, got.Rows,
				all[0].Controller, all[0].Rows)
		}
		if empty, err := c.Tables(t.Context(), "hub"); err != nil || len(empty.Rows) > 0 {
			t.Errorf("the hub has %v (%v)", empty.Rows, err)
		}
	}
	id, _ := s.leader()
	serves := newAPI(s.controllers[id])
	var rows []ledger.Row
	for token, first := "", true; first || token != ""; first = false { // in pages, of one moment
		r, err := serves.ListRows(t.Context(), &api.ListRowsRequest{Application: "counts", PageSize: 2, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		var page Tables
		mirror.Copy(&page, r)
		rows, token = append(rows, page.Rows...), r.NextPageToken
		if page.Release == "" || len(page.Rows) > 2 {
			t.Errorf("a page is %+v", page)
		}
	}
	if !reflect.DeepEqual(rows, all[0].Rows[:3]) {
		t.Errorf("the API has %v, want %v", rows, all[0].Rows[:3])
	}
	for prefix, want := range map[string]int{"": 3, "2": 1, "zz": 0} { // of switches 1 to 3
		r, err := serves.ListRows(t.Context(), &api.ListRowsRequest{Application: "counts", Table: "packets",
			KeyPrefix: prefix})
		if err != nil || len(r.Rows) != want {
			t.Errorf("%d rows begin with %q (%v), want %d", len(r.GetRows()), prefix, err, want)
		}
	}
	list, err := s.controllers[id].listTables(t.Context())
	if err != nil || len(list.Tables) != 1 || list.Tables[0].Table != "packets" || list.Tables[0].Cells != 3 ||
		list.Tables[0].Rows != 3 || list.Tables[0].Bytes == 0 || len(list.Problems) > 0 {
		t.Errorf("the tables are %v (%v), want one with three cells, and no secret", list, err)
	}
	for want, q := range map[string]*api.ListRowsRequest{
		"counts, hub":        {Application: "nobody"},
		"next_page_token":    {Application: "hub", PageToken: "x"},
		"use 1 or more rows": {Application: "hub", PageSize: -1},
	} {
		if _, err := serves.ListRows(t.Context(), q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", q, err, want)
		}
	}
}
