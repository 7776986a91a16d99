package client

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Placement asks what the optimizer of the cluster has decided.
func (c *Client) Placement(ctx context.Context) (p controller.Placement, err error) {
	err = leader(ctx, c, readPatience, plain(peer.GetPlacement), &p)
	return p, err
}

// Links asks the leader how links are watched, and copies that to a structure with the fields of api.LinkReport.
func (c *Client) Links(ctx context.Context, report any) error {
	return leader(ctx, c, readPatience, plain(peer.ListLinks), report)
}

// plain is a method whose request says nothing.
func plain[M any](method func(peer, context.Context, *emptypb.Empty) (M, error)) func(peer, context.Context) (M,
	error) {
	return func(a peer, ctx context.Context) (M, error) { return method(a, ctx, &emptypb.Empty{}) }
}
