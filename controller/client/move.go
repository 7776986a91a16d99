package client

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
)

// change asks for something of any controller, or of the one that this names, and returns when it is done.
func change[Q any, M proto.Message](ctx context.Context, c *Client, wanted any,
	method func(peer, context.Context, *Q) (M, error), answer any) error {
	q := new(Q)
	mirror.Copy(q, wanted)
	return leader(ctx, c, patience, func(a peer, ctx context.Context) (M, error) { return method(a, ctx, q) }, answer)
}

// Move moves an actor to a group, and returns when it lives there.
func (c *Client) Move(ctx context.Context, m controller.Move) (moved controller.Moved, err error) {
	err = change[api.Move](ctx, c, m, peer.Move, &moved)
	return moved, err
}

// Resume resumes a suspended actor, and returns when that is committed.
func (c *Client) Resume(ctx context.Context, r controller.Resume) (resumed controller.Resumed, err error) {
	err = change[api.Resume](ctx, c, r, peer.Resume, &resumed)
	return resumed, err
}

// Forget forgets a switch that is gone for good, and returns when that is committed.
func (c *Client) Forget(ctx context.Context, f controller.Forget) (forgotten controller.Forget, err error) {
	err = change[api.Forget](ctx, c, f, peer.Forget, &forgotten)
	return forgotten, err
}

// Pin pins an actor to its group, or releases it, and returns when the directory says so.
func (c *Client) Pin(ctx context.Context, p controller.Pin) (pinned controller.Pinned, err error) {
	err = change[api.Pin](ctx, c, p, peer.Pin, &pinned)
	return pinned, err
}
