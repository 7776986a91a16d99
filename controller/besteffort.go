package controller

import (
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// room reports whether the ledger can execute an event now.
func (c *Core) room() bool {
	if c.ledger.Room() {
		return true
	}
	c.releaseImmediate()
	return c.ledger.Room()
}

// releaseImmediate sends the commands that need not wait for a commit.
func (c *Core) releaseImmediate() {
	for _, r := range c.ledger.Immediate() {
		if s := c.sessions[r.Switch]; s != nil && s.master {
			c.sendBestEffort(s, r)
		}
	}
}

// sendBestEffort passes commands without a sequence to the session. They are lost if it ends.
func (c *Core) sendBestEffort(s *attached, r ledger.Release) {
	b := experimenter.Block{Generation: s.generation, Epoch: r.Epoch, Count: uint32(r.BestEffortCount)}
	if err := s.Send(b, r.BestEffort); err != nil {
		s.Close(err)
	}
}
