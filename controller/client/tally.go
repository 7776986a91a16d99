package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Actors asks what the actors of the cluster have done.
func (c *Client) Actors(ctx context.Context) (controller.Actors, error) {
	return anyone[controller.Actors](ctx, c, "/v1/actors")
}

// Matrix asks how many messages of actors the controllers have exchanged.
func (c *Client) Matrix(ctx context.Context) (controller.Matrix, error) {
	return anyone[controller.Matrix](ctx, c, "/v1/matrix")
}

// Advice asks what limits how far the applications of the cluster scale.
func (c *Client) Advice(ctx context.Context) (controller.Advice, error) {
	return anyone[controller.Advice](ctx, c, "/v1/advice")
}

// Count makes all controllers stop counting what actors do, or go on.
func (c *Client) Count(ctx context.Context, on bool) error {
	counting := controller.Counting{On: on}
	for _, n := range c.cluster.Controllers {
		if err := c.call(ctx, n, http.MethodPost, "/v1/tally", counting, new(controller.Counting)); err != nil {
			return err
		}
	}
	return nil
}

// anyone asks the controllers in turn for something about the whole cluster, until one answers.
func anyone[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	w := c.wait("waiting for an answer of the cluster")
	defer w.end()
	var errs []error
	found := false
	inTurn(ctx, c, w, askNext, func(ctx context.Context, n config.Controller) (t T, err error) {
		err = c.call(ctx, n, http.MethodGet, path, nil, &t)
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
