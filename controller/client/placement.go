package client

import (
	"context"
	"net/http"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Placement asks what the optimizer of the cluster has decided.
func (c *Client) Placement(ctx context.Context) (p controller.Placement, err error) {
	err = c.Leader(ctx, http.MethodGet, "/v1/placement", nil, &p)
	return p, err
}
