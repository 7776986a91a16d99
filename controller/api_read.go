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

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// ListMembers implements api.ClusterHandler.
func (a *apiServer) ListMembers(ctx context.Context, _ *emptypb.Empty) (*api.Members, error) {
	g := a.c.system()
	s := g.node.Status()
	if !s.Leading && s.Leader != 0 {
		return nil, problem(&notLeading{g.memberName(s, s.Leader)})
	}
	m := g.members(s)
	if err := g.inLoop(ctx, func() { m.Stale = g.core.stale() }); err != nil {
		return nil, problem(err)
	}
	return mirrored[api.Members](m), nil
}

// mirrored returns a message with what a structure has.
func mirrored[M any](structure any) *M {
	m := new(M)
	mirror.Copy(m, structure)
	return m
}

// GetPlacement implements api.ClusterHandler: what the optimizer has decided, at the leader of the system group.
func (a *apiServer) GetPlacement(context.Context, *emptypb.Empty) (*api.Placement, error) {
	g := a.c.system()
	switch s := g.node.Status(); {
	case !a.c.several():
		return nil, problem(errOneGroup)
	case !s.Leading:
		return nil, problem(&notLeading{g.memberName(s, s.Leader)})
	}
	p := a.c.optimizing.get()
	p.By = a.c.cfg.Name
	return mirrored[api.Placement](p), nil
}

// ListLinks implements api.ClusterHandler: what the duty of the leader reports.
func (a *apiServer) ListLinks(context.Context, *emptypb.Empty) (*api.LinkReport, error) {
	g := a.c.system()
	switch s := g.node.Status(); {
	case a.c.cfg.Duty == nil:
		return nil, problem(&noApplication{name: "liveness", runs: a.c.applications()})
	case !s.Leading:
		return nil, problem(&notLeading{g.memberName(s, s.Leader)})
	}
	return mirrored[api.LinkReport](a.c.cfg.Duty.Report()), nil
}

// ListEvents implements api.ClusterHandler.
func (a *apiServer) ListEvents(_ context.Context, q *api.ListEventsRequest) (*api.ListEventsResponse, error) {
	return &api.ListEventsResponse{Events: a.c.journal.after(q.After)}, nil
}

// Network reads what an application knows of the network.
type Network struct {
	Application string
	// Read returns a structure with the fields of api.Topology.
	Read func(iter.Seq[ledger.Row]) (any, error)
}

// topology returns the network, as this controller knows it.
func (c *Controller) topology(ctx context.Context) (*api.Topology, error) {
	n := c.cfg.Network
	if n == nil {
		return nil, &noApplication{name: "topology", runs: c.applications()}
	}
	t, err := c.Tables(ctx, n.Application)
	if err != nil {
		return nil, err
	}
	of, err := n.Read(slices.Values(t.Rows))
	if err != nil {
		return nil, err
	}
	out := mirrored[api.Topology](of)
	mirror.Copy(out, t) // who answers, and whether he knows a leader
	return out, nil
}

// pages is a table of which a client reads pages, so that all of them are of one moment.
type pages struct {
	Tables
	until time.Time
}

// pagesKept is how long a table is kept for the next page.
const pagesKept = 30 * time.Second

// ListRows implements api.ClusterHandler. It handles one request at a time, to bound its memory, and leaves out
// ledger.SecretTable.
func (a *apiServer) ListRows(ctx context.Context, q *api.ListRowsRequest) (*api.Tables, error) {
	var kept *pages
	select {
	case kept = <-a.rows:
	case <-ctx.Done():
		return nil, problem(ctx.Err())
	}
	defer func() { a.rows <- kept }()
	first := 0
	if q.PageToken == "" || kept == nil || kept.Application != q.Application || time.Now().After(kept.until) {
		kept = nil
		t, err := a.c.Tables(ctx, q.Application)
		if err != nil {
			return nil, problem(err)
		}
		t.Rows = slices.DeleteFunc(t.Rows, func(r ledger.Row) bool { return r.Table == ledger.SecretTable })
		kept = &pages{Tables: t}
	}
	if q.PageToken != "" {
		after, err := parseToken(q.PageToken)
		if err != nil {
			return nil, problem(err)
		}
		i, found := slices.BinarySearchFunc(kept.Rows, after, ledger.Row.Compare)
		if first = i; found {
			first++
		}
	}
	page := kept.Tables
	page.Rows = page.Rows[first:]
	if n := int(q.PageSize); n < 0 {
		return nil, problem(fmt.Errorf("page_size %d: use 1 or more rows, or 0 for all", n))
	} else if n > 0 && n < len(page.Rows) {
		page.Rows = page.Rows[:n]
	}
	m := mirrored[api.Tables](page)
	if last := first + len(page.Rows); last < len(kept.Rows) {
		m.NextPageToken = rowToken(kept.Rows[last-1])
		kept.until = time.Now().Add(pagesKept)
	} else {
		kept = nil
	}
	return m, nil
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
