package client

import (
	"context"
	"errors"
	"fmt"

	"net/http"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Actors asks what the actors of the cluster have done.
func (c *Client) Actors(ctx context.Context) (controller.Actors, error) {
	return anyone[controller.Actors](ctx, c, "/v1/actors")
}

// Matrix asks how many messages of actors the controllers have exchanged.
func (c *Client) Matrix(ctx context.Context) (controller.Matrix, error) {
	return anyone[controller.Matrix](ctx, c, "/v1/matrix")
}

// anyone asks one controller after the other for something about the whole cluster, until one answers.
func anyone[T any](ctx context.Context, c *Client, path string) (answer T, err error) {
	w := c.wait("waiting for an answer of the cluster")
	defer w.end()
	var errs []error
	for _, n := range c.cluster.Controllers {
		w.asks(n.Name)
		err := c.call(ctx, n, http.MethodGet, path, nil, &answer)
		w.said(n.Name, err)
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return answer, fmt.Errorf("no controller has answered: %w", errors.Join(errs...))
}
