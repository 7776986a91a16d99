package controller

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// A snapshot is taken after snapshotBytes of log, or after snapshotRatio times the size of the last snapshot if that is
// more.
const (
	snapshotBytes = 16 << 20
	snapshotRatio = 4
)

// compact begins a snapshot if enough entries or bytes of log were committed since the last.
func (c *Core) compact() error {
	due := c.applied-c.snapshot >= uint64(c.cfg.SnapshotEvery) || c.logged >= max(snapshotBytes, snapshotRatio*c.size)
	if !due || c.encoding != 0 {
		return nil
	}
	if !c.ledger.Quiet() {
		c.draining = true
		return nil
	}
	c.draining = false
	encode, err := c.ledger.Freeze()
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	c.encoding, c.snapshot, c.logged = c.applied, c.applied, 0
	c.outside.Encode(encode)
	return nil
}

// Encoded stores the result of Outside.Encode.
func (c *Core) Encoded(state []byte) error {
	index := c.encoding
	c.encoding = 0
	if index < c.snapshot {
		return nil // the leader sent a newer one meanwhile
	}
	c.size = len(state)
	if err := c.outside.Compact(index, state); err != nil && !errors.Is(err, consensus.ErrCompacting) {
		return fmt.Errorf("controller %s: store snapshot at %d: %w", c.cfg.Name, index, err)
	}
	return nil
}

func (c *Core) restore(s *consensus.Snapshot) error {
	c.applied, c.snapshot = s.Index, s.Index
	c.size, c.logged = len(s.State), 0
	c.log.Info("state restored from a snapshot", "index", s.Index, "bytes", len(s.State))
	if err := c.ledger.Restore(s.State); err != nil {
		return fmt.Errorf("controller %s: snapshot at %d: %w", c.cfg.Name, s.Index, err)
	}
	for _, sw := range c.ledger.Switches() {
		c.follower.Skipped(sw.Switch, sw.Epoch, sw.Events, southbound.Unknown)
	}
	for _, id := range sorted(c.sessions, func(*attached) bool { return true }) {
		c.sessions[id].Skipped(0, 0, southbound.Unknown)
	}
	c.depart()
	c.follower.Applied(c.applied)
	c.leader.Applied(c.applied)
	return nil
}
