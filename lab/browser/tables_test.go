package browser

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
)

func (n network) ListTables(context.Context, *emptypb.Empty) (*api.TableList, error) {
	return &api.TableList{Controller: "c1", Tables: []*api.TableSummary{{Application: "suite", Table: "hosts", Cells: 4,
		Rows: 250, Bytes: 5000}}, Namespaces: []*api.StoreNamespace{{Namespace: "flows/16", Buckets: 16, Revision: 99,
		Tables: []*api.StoreTable{{Table: "rules", Columns: []string{"match", "blob"}, Rows: 2, Bytes: 70,
			NewestVersion: 41}}}}}, nil
}

// rows have keys 000 to 249.
func (n network) ListRows(_ context.Context, q *api.ListRowsRequest) (*api.Tables, error) {
	t := &api.Tables{Application: q.Application, Controller: "c1"}
	for i := range 250 {
		key := fmt.Sprintf("%03d", i)
		if !strings.HasPrefix(key, q.KeyPrefix) || key <= q.PageToken {
			continue
		}
		if len(t.Rows) == int(q.PageSize) {
			t.NextPageToken = t.Rows[len(t.Rows)-1].Cell.S
			break
		}
		t.Rows = append(t.Rows, &api.Row{Table: q.Table, Cell: &api.Key{S: key}, Field: &api.Key{A: 42, B: 7},
			Value: []byte("value of " + key)})
	}
	return t, nil
}

func (n network) ListStoreRows(_ context.Context, q *api.ListStoreRowsRequest) (*api.StoreRows, error) {
	return &api.StoreRows{Controller: "c1", Columns: []string{"match", "blob"}, Rows: []*api.StoreRow{{
		Key: q.Namespace + "." + q.Table, Version: 41, Columns: []*api.StoreValue{{Name: "match", Value: []byte("ip <b>")},
			{Name: "blob", Value: []byte{0, 255}}}}, {Key: "z", Version: 3}}}, nil
}

// TestTables: the list of tables leads to their rows, which come in pages and by the beginning of their keys. Each has
// a URL.
func TestTables(t *testing.T) {
	t.Parallel()
	page := open(t, 2, "light", "")
	const rows = `[...document.querySelectorAll("tbody tr")].map(r => r.textContent)`
	check(t, page.Eval(`location.hash = "#/tables"`, nil))
	check(t, page.Until(`document.querySelector("main a[href$='app%2Fsuite%2Fhosts']") !== null`))
	check(t, page.Eval(`document.querySelector("main a[href$='app%2Fsuite%2Fhosts']").click()`, nil))
	check(t, page.Until(rows+`[99] === "0992a/7value of 099"`))
	const next = `document.querySelector(".pages button:last-child")`
	check(t, page.Eval(next+`.click()`, nil))
	check(t, page.Until(rows+`[0]?.startsWith("100")`))
	check(t, page.Eval(next+`.click()`, nil))
	check(t, page.Until(rows+`.length === 50 && `+next+`.disabled`))
	check(t, page.Eval(`location.hash = "#/tables/app%2Fsuite%2Fhosts?q=24"`, nil))
	check(t, page.Until(rows+`.length === 10 && `+rows+`[0].startsWith("240") && document.querySelector(".pages") === null`))
	check(t, page.Eval(`location.hash = "#/tables/store%2Fflows%2F16%2Frules"`, nil))
	check(t, page.Until(rows+`.join() === "flows/16.rules41ip <b>00 ff,z3nonenone"`))
	for _, problem := range page.Problems() {
		t.Errorf("the console says %s", problem)
	}
}
