package controller

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// Network reads what applications know of the network.
type Network struct {
	Application string
	// Read returns a structure with the fields of api.Topology.
	Read func(iter.Seq[ledger.Row]) (any, error)

	Recovery string // the application that protects the network; "" if none does
	// Protection returns a structure with the fields of api.Protection, from the rows of Recovery.
	Protection func(recovery iter.Seq[ledger.Row]) (any, error)
	// Paths returns a structure with the fields of api.Paths, from the rows of Application and Recovery; the latter are
	// nil if there is none.
	Paths func(network, recovery iter.Seq[ledger.Row], q *api.GetPathsRequest) (any, error)
}

// protection returns how the network is protected, as this controller knows it.
func (c *Controller) protection(ctx context.Context) (*api.Protection, error) {
	n := c.cfg.Network
	if n == nil || n.Recovery == "" {
		return nil, &noApplication{name: "recovery", runs: c.applications()}
	}
	t, err := c.Tables(ctx, n.Recovery)
	if err != nil {
		return nil, err
	}
	of, err := n.Protection(slices.Values(t.Rows))
	if err != nil {
		return nil, err
	}
	out := mirrored[api.Protection](of)
	mirror.Copy(out, t) // who answers, and whether he knows a leader
	return out, nil
}

// GetPaths implements api.ClusterHandler. One question is answered after the other, and all of them take a tenth of the
// time, as what is shared does.
func (a *apiServer) GetPaths(ctx context.Context, q *api.GetPathsRequest) (*api.Paths, error) {
	n := a.c.cfg.Network
	if n == nil {
		return nil, problem(&noApplication{name: "topology", runs: a.c.applications()})
	}
	var rest time.Time
	select {
	case rest = <-a.questions:
	case <-ctx.Done():
		return nil, problem(ctx.Err())
	}
	defer func() { a.questions <- rest }()
	time.Sleep(time.Until(rest)) // at most restMost
	began := time.Now()
	defer func() { rest = restAfter(time.Since(began)) }()
	t, err := a.c.Tables(ctx, n.Application)
	if err != nil {
		return nil, problem(err)
	}
	var protected iter.Seq[ledger.Row]
	if n.Recovery != "" {
		r, err := a.c.Tables(ctx, n.Recovery)
		if err != nil {
			return nil, problem(err)
		}
		protected = slices.Values(r.Rows)
	}
	of, err := n.Paths(slices.Values(t.Rows), protected, q)
	if err != nil {
		return nil, problem(err)
	}
	out := mirrored[api.Paths](of)
	mirror.Copy(out, t) // who answers, and whether he knows a leader
	return out, nil
}
