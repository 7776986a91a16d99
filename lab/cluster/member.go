package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// founders are the controllers with which the cluster begins.
func (c *Cluster) founders() []*Controller { return c.controllers[:c.cfg.Controllers-c.cfg.Later] }

func (c *Cluster) dataDir() string { return filepath.Join(c.cfg.Dir, "data") }

// found begins the folders of the founders, who know only each other.
func (c *Cluster) found(ctx context.Context) error {
	file := c.fileOf
	if c.cfg.Later > 0 {
		founders := filepath.Join(c.cfg.Dir, "founders.yaml")
		if err := os.WriteFile(founders, c.text(c.founders(), direct), 0o600); err != nil {
			return err
		}
		file = func(string) string { return founders }
	}
	errs := make([]error, len(c.founders()))
	var founding sync.WaitGroup // at once: until the processes listen, others may take their ports
	for i, n := range c.founders() {
		founding.Go(func() { _, errs[i] = c.command(ctx, "init", "--config", file(n.Name), "--name", n.Name) })
	}
	founding.Wait()
	return errors.Join(errs...)
}

// Command runs a subcommand of holdfast for this cluster, and returns what it prints on its standard output.
func (c *Cluster) Command(ctx context.Context, args ...string) (string, error) {
	return c.command(ctx, append(args, "--config", c.ClusterFile())...)
}

func (c *Cluster) command(ctx context.Context, args ...string) (string, error) {
	if c.cfg.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Patience)
		defer cancel()
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.cfg.Binary, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("holdfast %v: %w: %s", args, err, errs.Bytes())
	}
	return string(out), nil
}

// AuditLog is the file in which a controller records who asks it for changes.
func (c *Cluster) AuditLog(n *Controller) string {
	return filepath.Join(c.dataDir(), n.Name+"-audit.log")
}

// Lose removes the folder of a controller that does not run.
func (c *Cluster) Lose(n *Controller) error { return os.RemoveAll(filepath.Join(c.dataDir(), n.Name)) }

// Rename gives a controller another id in the cluster file, for its next start.
func (c *Cluster) Rename(n *Controller, id uint64) error {
	n.id = id
	return c.writeClusterFiles()
}

// Join starts a controller that does not run, with --join.
func (n *Controller) Join() error {
	n.args = append(n.args[:len(n.args):len(n.args)], "--join")
	return n.start()
}
