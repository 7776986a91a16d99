package client

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Actors asks what the actors of the cluster have done.
func (c *Client) Actors(ctx context.Context) (controller.Actors, error) {
	return anyone[controller.Actors](ctx, c, plain(peer.ListActors))
}

// Matrix asks how many messages of actors the controllers have exchanged.
func (c *Client) Matrix(ctx context.Context) (controller.Matrix, error) {
	return anyone[controller.Matrix](ctx, c, plain(peer.GetMatrix))
}

// Advice asks what limits how far the applications of the cluster scale.
func (c *Client) Advice(ctx context.Context) (controller.Advice, error) {
	return anyone[controller.Advice](ctx, c, plain(peer.GetAdvice))
}

// Count makes all controllers stop counting what actors do, or go on.
func (c *Client) Count(ctx context.Context, on bool) error {
	for _, n := range c.cluster.Controllers {
		err := call(ctx, c, n, func(a peer, ctx context.Context) (*api.Counting, error) {
			return a.SetCounting(ctx, &api.Counting{On: on})
		}, new(controller.Counting))
		if err != nil {
			return err
		}
	}
	return nil
}

// anyone asks the controllers in turn for something about the whole cluster, until one answers.
func anyone[T any, M proto.Message](ctx context.Context, c *Client,
	method func(peer, context.Context) (M, error)) (answer T, err error) {
	w := c.wait("waiting for an answer of the cluster")
	defer w.end()
	var errs []error
	found := false
	inTurn(ctx, c, w, askNext, func(ctx context.Context, n config.Controller) (t T, err error) {
		err = call(ctx, c, n, method, &t)
		return t, err
	}, func(a said[T]) bool {
		if a.err != nil {
			errs = append(errs, a.err)
			return true
		}
		answer, found = a.what, true
		return false
	})
	if !found {
		return answer, fmt.Errorf("no controller has answered: %w", errors.Join(errs...))
	}
	return answer, nil
}
