package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
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
	mux := &routes{ServeMux: http.NewServeMux()}
	s.controllers[id].serveTables(mux)
	ask := func(app string, want int, answer any) string {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/apps/"+app+"/tables", nil))
		if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil || w.Code != want {
			t.Fatalf("%s is answered %d, want %d (%v): %s", app, w.Code, want, err, w.Body)
		}
		return w.Body.String()
	}
	var got Tables
	ask("counts", http.StatusOK, &got)
	if got.Release == "" || !reflect.DeepEqual(got.Rows, all[0].Rows[:3]) {
		t.Errorf("the API of release %q has %v, want %v", got.Release, got.Rows, all[0].Rows[:3])
	}
	if text := ask("hub", http.StatusOK, &got); !strings.Contains(text, `"rows":[]`) {
		t.Errorf("empty tables are %s", text)
	}
	var no Refusal
	if ask("nobody", http.StatusNotFound, &no); !strings.Contains(no.Error, "counts, hub") {
		t.Errorf("an application that is not there: %q; name those that are", no.Error)
	}
}
