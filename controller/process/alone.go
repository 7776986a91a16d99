package process

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/ryu"
)

// Alone runs a controller that is a cluster of its own, in a folder that is removed when it ends, until ctx does or it
// fails. configure makes its configuration with the logger that it gets, and returns what it opened even if it fails.
// Alone closes that in any case. It logs nothing before the replayed applications are loaded. If they cannot be loaded
// it fails, and the error, a *ryu.LoadError, says everything.
func Alone(ctx context.Context, log *slog.Logger,
	configure func(*slog.Logger) (controller.Config, error)) (err error) {
	held, pass := holdLog(log)
	cfg, err := configure(held)
	if err != nil {
		return errors.Join(err, closeUnused(cfg))
	}
	// The log is a file without fsync, since in memory it would be several times the applications' history.
	if cfg.Consensus.Dir, err = os.MkdirTemp("", "holdfast-run-"); err != nil {
		return errors.Join(fmt.Errorf("folder for the log: %w", err), closeUnused(cfg))
	}
	defer os.RemoveAll(cfg.Consensus.Dir)
	c, err := controller.Start(cfg)
	if err != nil {
		return errors.Join(err, closeUnused(cfg))
	}
	cfg.Logger.Info("listening for switches", "openflow", cfg.OpenFlow.Addr())
	if cfg.REST != nil {
		cfg.Logger.Info("listening for requests to applications", "rest", cfg.REST.Addr())
	}
	if err := awaitLoaded(ctx, c); err != nil {
		return errors.Join(err, c.Close())
	}
	pass()
	select {
	case <-ctx.Done():
		return c.Close()
	case <-c.Done():
		return c.Err()
	}
}

// awaitLoaded waits until the replayed applications run, ctx or the controller ends, or they cannot be loaded: then it
// returns a *ryu.LoadError.
func awaitLoaded(ctx context.Context, c *controller.Controller) error {
	for ctx.Err() == nil {
		s, err := c.Status(ctx)
		switch {
		case err != nil || s.Replayed.State == "running":
			return nil
		case s.Replayed.Failure != "":
			return &ryu.LoadError{Why: "the application cannot be loaded: " + s.Replayed.Failure,
				Detail: s.Replayed.Detail}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
