package controller

import (
	"errors"
	"fmt"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/ledger"
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

// image is a state that becomes a snapshot.
type image struct {
	index  uint64 // of the last entry in it
	logged int    // bytes of entries from the last snapshot to that one
	marked uint64 // the entry that asked for a comparison; 0: nobody compares it
	bytes  []byte
}

// compact stores the state that was compared, or begins with the next one if enough was committed since the last
// snapshot. So a replica that differs does not store what it has. Without an outcome for long, a state is stored
// nevertheless.
func (c *Core) compact() error {
	now, several := &c.comparison, len(c.present.Controllers) > 1
	switch {
	case c.encoding != nil:
		return nil
	case now.equal && now.state != nil:
		return c.store(now.state)
	case !c.due(1) || several && !c.due(lateFactor) && (!c.role.Leading || now.asked):
		c.draining = false
		return nil
	}
	if !c.ledger.Quiet() {
		c.draining = true
		return nil
	}
	c.draining = false
	if several && !c.due(lateFactor) {
		return c.beginComparison()
	}
	frozen, err := c.ledger.Freeze()
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	now.state = nil // of which nobody has told the outcome
	c.encode(frozen, 0)
	return nil
}

func (c *Core) encode(frozen ledger.Frozen, marked uint64) {
	c.encoding = &image{index: c.applied, logged: c.logged, marked: marked}
	c.outside.Encode(frozen)
}

// Encoded takes the result of Outside.Encode.
func (c *Core) Encoded(state []byte, digest uint64) error {
	i := c.encoding
	c.encoding = nil
	i.bytes = state
	if i.marked == 0 {
		return c.store(i)
	}
	if i.marked == c.comparison.index {
		if i.index > c.snapshot { // otherwise it is the snapshot from which this replica began
			c.comparison.state = i
		}
		c.digested(i.marked, digest)
	}
	return nil
}

// store stores a snapshot.
func (c *Core) store(i *image) error {
	c.comparison.state, c.comparison.equal, c.comparison.asked = nil, false, false
	if i.index <= c.snapshot {
		return nil // the leader has sent a newer one
	}
	c.snapshot, c.size = i.index, len(i.bytes)
	c.logged -= i.logged
	err := c.outside.Compact(i.index, i.bytes)
	if errors.Is(err, consensus.ErrTooLarge) {
		c.log.Error("no snapshot is taken: the log grows, on disk and in memory, and a controller that is far behind "+
			"cannot catch up; find the application whose tables are large, and what fills them", "index", i.index,
			"bytes", len(i.bytes), "error", err)
		return nil
	}
	if err != nil && !errors.Is(err, consensus.ErrCompacting) {
		return fmt.Errorf("controller %s: store snapshot at %d: %w", c.cfg.Name, i.index, err)
	}
	return nil
}

func (c *Core) restore(s *consensus.Snapshot) error {
	c.applied, c.snapshot = s.Index, s.Index
	c.size, c.logged, c.comparison.state = len(s.State), 0, nil
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
