package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Alone runs a controller that is a cluster of its own, in a folder that is removed when it ends, until ctx does or it
// fails. It fails if the replayed applications cannot be loaded. It closes the listeners of cfg in any case.
func Alone(ctx context.Context, cfg controller.Config) (err error) {
	// The log is a file without fsync, since in memory it would be several times the applications' history.
	if cfg.Consensus.Dir, err = os.MkdirTemp("", "holdfast-run-"); err != nil {
		return errors.Join(fmt.Errorf("folder for the log: %w", err), CloseUnused(cfg))
	}
	defer os.RemoveAll(cfg.Consensus.Dir)
	c, err := controller.Start(cfg)
	if err != nil {
		return errors.Join(err, CloseUnused(cfg))
	}
	cfg.Logger.Info("listening for switches", "openflow", cfg.OpenFlow.Addr())
	if cfg.REST != nil {
		cfg.Logger.Info("listening for requests to applications", "rest", cfg.REST.Addr())
	}
	loaded := make(chan error, 1)
	go func() { loaded <- awaitLoaded(ctx, c) }() // ends with ctx, or the controller
	for {
		select {
		case <-ctx.Done():
			return c.Close()
		case <-c.Done():
			return c.Err()
		case err := <-loaded:
			if err != nil && ctx.Err() == nil {
				return errors.Join(err, c.Close())
			}
		}
	}
}

// awaitLoaded waits until the replayed applications run, and returns an error if they cannot be loaded.
func awaitLoaded(ctx context.Context, c *controller.Controller) error {
	for ctx.Err() == nil {
		s, err := c.Status(ctx)
		switch {
		case err != nil || s.Replayed.State == "running":
			return nil
		case s.Replayed.Restarts > 0:
			return errors.New("the applications cannot be loaded: the log says why")
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
