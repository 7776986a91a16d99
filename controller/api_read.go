package controller

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
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
