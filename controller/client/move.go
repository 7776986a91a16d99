package client

import (
	"context"
	"net/http"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Move moves an actor to a group, and returns when it lives there. Any controller can do that.
func (c *Client) Move(ctx context.Context, m controller.Move) (moved controller.Moved, err error) {
	err = c.Leader(ctx, http.MethodPost, "/v1/move", m, &moved)
	return moved, err
}

// Resume resumes a suspended actor, and returns when that is committed. Any controller can do that.
func (c *Client) Resume(ctx context.Context, r controller.Resume) (resumed controller.Resumed, err error) {
	err = c.Leader(ctx, http.MethodPost, "/v1/resume", r, &resumed)
	return resumed, err
}

// Forget forgets a switch that is gone for good, and returns when that is committed. Any controller can do that.
func (c *Client) Forget(ctx context.Context, f controller.Forget) (forgotten controller.Forget, err error) {
	err = c.Leader(ctx, http.MethodPost, "/v1/forget", f, &forgotten)
	return forgotten, err
}

// Pin pins an actor to its group, or releases it, and returns when the directory says so. Any controller can do that.
func (c *Client) Pin(ctx context.Context, p controller.Pin) (pinned controller.Pinned, err error) {
	err = c.Leader(ctx, http.MethodPost, "/v1/pin", p, &pinned)
	return pinned, err
}
