package setup

import (
	"context"
	"slices"
	"strconv"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/network/liveness"
)

// Duty returns the work of a controller while it leads.
func (s *Setup) Duty() *controller.Duty {
	return &controller.Duty{
		Run:    func(ctx context.Context, c *controller.Controller) { s.Run(ctx, &network{controller: c}) },
		Report: func() any { return s.Report() },
	}
}

// network is the Network of a controller.
type network struct {
	controller *controller.Controller
	revision   uint64
	view       *liveness.View // at that revision; nil: none yet
}

func (n *network) Links(ctx context.Context) (*liveness.View, error) {
	revision, err := n.controller.Revision(ctx, liveness.Name)
	if err != nil || n.view != nil && revision == n.revision {
		return n.view, err
	}
	tables, err := n.controller.Tables(ctx, liveness.Name)
	if err != nil {
		return nil, err
	}
	view, err := liveness.Of(slices.Values(tables.Rows))
	if err != nil {
		return nil, err
	}
	n.revision, n.view = tables.Revision, view
	return view, nil
}

func (n *network) Addresses(ctx context.Context) (map[app.Switch]string, error) {
	status, err := n.controller.Status(ctx)
	if err != nil {
		return nil, err
	}
	addresses := map[app.Switch]string{}
	for _, s := range status.Switches {
		if id, err := strconv.ParseUint(s.Switch, 16, 64); err == nil && s.Remote != "" {
			addresses[app.Switch(id)] = s.Remote
		}
	}
	return addresses, nil
}
