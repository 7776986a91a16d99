package controller

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Store reads the consistent data store.
type Store struct {
	Application string
	// Contents returns a slice of structures with the fields of api.StoreNamespace.
	Contents func(iter.Seq[ledger.Row]) (any, error)
	// Page returns a structure with the fields of api.StoreRows, and whether there are rows behind. It is for rows
	// whose keys begin with the prefix of the request and are behind after.
	Page func(rows iter.Seq[ledger.Row], q *api.ListStoreRowsRequest, after string, most int) (page any, more bool,
		err error)
}

// listTables returns which tables there are. It reads one application after the other, to bound its memory.
func (c *Controller) listTables(ctx context.Context) (*api.TableList, error) {
	list := &api.TableList{Controller: c.cfg.Name}
	for _, app := range slices.Sorted(slices.Values(c.applications())) {
		t, err := c.Tables(ctx, app)
		if err != nil {
			list.Problems = append(list.Problems, &api.TableProblem{Application: app, Error: err.Error()})
			continue
		}
		if t.Stale != nil && list.Stale == nil {
			list.Stale = mirrored[api.Stale](t.Stale)
		}
		list.Tables = append(list.Tables, summarize(app, t.Rows)...)
		s := c.cfg.Store
		if s == nil || s.Application != app {
			continue
		}
		contents, err := s.Contents(slices.Values(t.Rows))
		if err != nil {
			list.Problems = append(list.Problems, &api.TableProblem{Application: app, Error: err.Error()})
			continue
		}
		mirror.Copy(&list.Namespaces, contents)
	}
	return list, nil
}

// summarize counts rows, which are in order.
func summarize(app string, rows []ledger.Row) (list []*api.TableSummary) {
	var last *api.TableSummary
	for i, r := range rows {
		if r.Table == ledger.SecretTable {
			continue
		}
		first := last == nil || last.Table != r.Table
		if first {
			last = &api.TableSummary{Application: app, Table: r.Table}
			list = append(list, last)
		}
		if first || rows[i-1].Cell != r.Cell {
			last.Cells++
		}
		last.Rows++
		last.Bytes += int64(len(r.Cell.S) + len(r.Field.S) + len(r.Value))
	}
	return list
}

// pages is a table of which a client reads pages, so that all of them are of one moment.
type pages struct {
	Tables
	until time.Time
}

// pagesKept is how long a table is kept for the next page.
const pagesKept = 30 * time.Second

// page calls read with the tables of an application, without ledger.SecretTable. It handles one request at a time, to
// bound the memory, until the answer is encoded (see unread), and keeps the tables for the next page if there is more.
func (a *apiServer) page(ctx context.Context, app, token string, read func(*Tables) (more bool, err error)) error {
	var kept *pages
	select {
	case kept = <-a.rows:
	case <-ctx.Done():
		return problem(ctx.Err())
	}
	end := func() { a.rows <- kept }
	if of, is := ctx.Value(unreadKey{}).(*unreadAnswer); is {
		of.turn = end
	} else {
		defer end()
	}
	if token == "" || kept == nil || kept.Application != app || time.Now().After(kept.until) {
		kept = nil
		t, err := a.c.Tables(ctx, app)
		if err != nil {
			return problem(err)
		}
		t.Rows = slices.DeleteFunc(t.Rows, func(r ledger.Row) bool { return r.Table == ledger.SecretTable })
		kept = &pages{Tables: t}
	}
	more, err := read(&kept.Tables)
	if err != nil {
		return problem(err)
	}
	if more {
		kept.until = time.Now().Add(pagesKept)
	} else {
		kept = nil
	}
	return nil
}

// ListRows implements api.ClusterHandler.
func (a *apiServer) ListRows(ctx context.Context, q *api.ListRowsRequest) (m *api.Tables, err error) {
	err = a.page(ctx, q.Application, q.PageToken, func(t *Tables) (more bool, err error) {
		page := *t
		if page.Rows, more, err = rowsOf(t.Rows, q); err != nil {
			return false, err
		}
		m = mirrored[api.Tables](page)
		if more {
			m.NextPageToken = rowToken(page.Rows[len(page.Rows)-1])
		}
		return more, nil
	})
	return m, err
}

// rowsOf returns the rows, which are in order, of a page, and whether there are more.
func rowsOf(rows []ledger.Row, q *api.ListRowsRequest) (page []ledger.Row, more bool, err error) {
	most := int(q.PageSize)
	if most < 0 {
		return nil, false, fmt.Errorf("page_size %d: use 1 or more rows, or 0 for all", most)
	}
	if q.PageToken != "" {
		after, err := parseToken(q.PageToken)
		if err != nil {
			return nil, false, err
		}
		i, found := slices.BinarySearchFunc(rows, after, ledger.Row.Compare)
		if found {
			i++
		}
		rows = rows[i:]
	}
	if q.Table == "" && q.KeyPrefix == "" {
		if most > 0 && most < len(rows) {
			return rows[:most], true, nil
		}
		return rows, false, nil
	}
	page = []ledger.Row{}
	for _, r := range rows {
		if q.Table != "" && r.Table != q.Table || !strings.HasPrefix(r.Cell.String(), q.KeyPrefix) &&
			!strings.HasPrefix(r.Field.String(), q.KeyPrefix) {
			continue
		}
		if most > 0 && len(page) == most {
			return page, true, nil
		}
		page = append(page, r)
	}
	return page, false, nil
}

// Bounds of the pages of ListStoreRows, in rows.
const (
	storePage    = 100
	maxStorePage = 1000
)

// ListStoreRows implements api.ClusterHandler.
func (a *apiServer) ListStoreRows(ctx context.Context, q *api.ListStoreRowsRequest) (m *api.StoreRows, err error) {
	s, most := a.c.cfg.Store, int(q.PageSize)
	switch {
	case s == nil:
		return nil, problem(&noApplication{name: "store", runs: a.c.applications()})
	case most < 0 || most > maxStorePage:
		return nil, problem(fmt.Errorf("page_size %d: use 1 to %d rows, or 0 for %d", most, maxStorePage, storePage))
	case most == 0:
		most = storePage
	}
	after, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if err != nil {
		return nil, problem(errToken)
	}
	err = a.page(ctx, s.Application, q.PageToken, func(t *Tables) (bool, error) {
		page, more, err := s.Page(slices.Values(t.Rows), q, string(after), most)
		if err != nil {
			return false, err
		}
		m = mirrored[api.StoreRows](page)
		mirror.Copy(m, struct {
			Controller string `json:"controller"`
			Stale      *Stale `json:"stale"`
		}{t.Controller, t.Stale})
		if more {
			m.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(m.Rows[len(m.Rows)-1].Key))
		}
		return more, nil
	})
	return m, err
}

// rowToken names the last row of a page.
func rowToken(r ledger.Row) string {
	var parts []string
	for _, s := range []string{r.Table, r.Cell.S, r.Field.S} {
		parts = append(parts, base64.RawURLEncoding.EncodeToString([]byte(s)))
	}
	return fmt.Sprintf("%s.%d.%d.%d.%d", strings.Join(parts, "."), r.Cell.A, r.Cell.B, r.Field.A, r.Field.B)
}

var errToken = errors.New("the page_token is none of this API: pass next_page_token of the page before")

func parseToken(token string) (r ledger.Row, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 7 {
		return r, errToken
	}
	var text [3]string
	for i := range text {
		b, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			return r, errToken
		}
		text[i] = string(b)
	}
	r.Table, r.Cell.S, r.Field.S = text[0], text[1], text[2]
	if n, _ := fmt.Sscanf(strings.Join(parts[3:], " "), "%d %d %d %d", &r.Cell.A, &r.Cell.B, &r.Field.A,
		&r.Field.B); n != 4 {
		return r, errToken
	}
	return r, nil
}
