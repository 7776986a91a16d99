package controller

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// A snapshot is taken after snapshotBytes of log, or after snapshotRatio times the size of the last snapshot if that is
// more, but after snapshotMost at the latest: the log since the last snapshot is in memory.
const (
	snapshotBytes = 16 << 20
	snapshotRatio = 4
	snapshotMost  = 128 << 20
)

// lateFactor times as much is when a snapshot is taken of a state that was not compared.
const lateFactor = 2

// due reports whether so many times as many entries or bytes of log were committed since the last snapshot as are
// between two.
func (c *Core) due(times int) bool {
	return c.applied-c.snapshot >= uint64(times*c.cfg.SnapshotEvery) ||
		c.logged >= times*min(max(snapshotBytes, snapshotRatio*c.size), snapshotMost)
}

// compact begins a snapshot if enough was committed since the last one, after a comparison: so a replica that differs
// does not store what it has. Without an outcome for long, the snapshot is taken nevertheless.
func (c *Core) compact() error {
	now := &c.comparison
	switch {
	case c.encoding != 0:
		return nil
	case now.equal && c.applied > c.snapshot:
	case !c.due(1) || len(c.cfg.Names) > 1 && !c.due(lateFactor) && (!c.role.Leading || now.asked):
		c.draining = false
		return nil
	}
	if !c.ledger.Quiet() {
		c.draining = true
		return nil
	}
	c.draining = false
	if len(c.cfg.Names) > 1 && !now.equal && !c.due(lateFactor) {
		return c.beginComparison()
	}
	now.equal, now.asked = false, false
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
	err := c.outside.Compact(index, state)
	if errors.Is(err, consensus.ErrTooLarge) {
		c.log.Error("no snapshot is taken: the log grows, on disk and in memory, and a controller that is far behind "+
			"cannot catch up; find the application whose tables are large, and what fills them", "index", index,
			"bytes", len(state), "error", err)
		return nil
	}
	if err != nil && !errors.Is(err, consensus.ErrCompacting) {
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
