package replay

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// proof is a checkpoint (the state of a host after an input) that is being made, and verified before it is used: a
// second host starts from it, executes the inputs that follow, and must give the results in the log. Then the history
// before it is deleted.
type proof struct {
	asked   bool // it was requested from the host
	refused attempt
	number  uint64
	state   []byte
	life    uint64 // of the second host; 0 if there is none
	ready   bool
	given   uint64
	waiting bool // for results
}

// attempt is where the last checkpoint failed.
type attempt struct {
	number uint64 // of the input
	bytes  int    // of the history then
}

// checkpointDue reports whether a checkpoint should be made. It must be made before the history is too large, also
// under permanent load, when the host of a leader may always be somewhat behind.
func (c *Core) checkpointDue(done Committed, base uint64) bool {
	last := attempt{number: base}
	if c.proof.refused.number > base {
		last = c.proof.refused
	}
	if c.executed <= last.number || done.Input > c.executed+lagPatience {
		return false
	}
	return c.executed-last.number >= c.bounds.checkpointEvery ||
		c.replayed.HistoryBytes()-last.bytes >= c.bounds.history/4
}

// prove does the next step.
func (c *Core) prove(done Committed) error {
	p := &c.proof
	base, _ := c.replayed.Checkpoint()
	switch {
	case c.afresh: // the second host would do again what the applications do outside, and nobody replays the history
		if c.ready && c.checkpointDue(done, base) {
			c.replayed.Trim(min(c.executed, done.Result), nil)
		}
	case p.life != 0 && p.number <= base:
		c.dropProof() // a snapshot contains a checkpoint that is as good
	case p.life != 0:
		return c.feedProof(done.Result)
	case c.ready && !p.asked && c.rebuild == "" && !c.distrust && c.checkpointDue(done, base):
		p.asked = true
		c.runner.Checkpoint(c.life)
	}
	return nil
}

// Checkpointed handles the answer of a host to Checkpoint. If state is empty, it cannot be saved, and why is the
// reason.
func (c *Core) Checkpointed(life, number uint64, state []byte, why string) {
	p := &c.proof
	if life != c.life || life == 0 || !p.asked {
		return
	}
	p.asked = false
	if c.beginning {
		return // it is of an ended generation
	}
	if len(state) == 0 {
		c.noCheckpoint(number, why)
		return
	}
	h := c.replayed.Hosting()
	c.lives++
	*p = proof{number: number, state: state, life: c.lives, given: number, refused: p.refused}
	c.runner.Start(p.life, Beginning{Seed: h.Seed, Time: h.Began, Number: number, State: state, Leaks: c.leaks})
}

func (c *Core) noCheckpoint(number uint64, why string) {
	c.refused(number, why)
	c.log.Info("no checkpoint of the applications can be made: they are rebuilt by replay alone", "input",
		number, "why", why)
}

// feedProof passes the logged inputs with results to the second host, one frame at a time.
func (c *Core) feedProof(logged uint64) error {
	p := &c.proof
	if !p.ready || p.waiting || p.given >= logged {
		return nil
	}
	inputs, n, err := c.replayed.Inputs(p.given+1, int(min(frameInputs, logged-p.given)), frameBytes)
	if err != nil || n == 0 {
		return err
	}
	p.given += uint64(n)
	p.waiting = true
	c.runner.Execute(p.life, inputs, n)
	return nil
}

// proven compares the results of the second host with the log.
func (c *Core) proven(results []wire.Result) {
	p := &c.proof
	for i := range results {
		r := &results[i]
		if digest, ok := c.replayed.Digest(r.Number); !ok || digest != r.Digest {
			c.disproven(fmt.Sprintf("a host that began with it gave another result of input %d: %s", r.Number,
				describe(r)))
			return
		}
		p.waiting = r.Number < p.given
		if r.Number >= p.number+c.bounds.proofInputs {
			c.log.Info("a checkpoint of the applications is verified: the history before it is deleted", "input",
				p.number, "bytes", len(p.state))
			c.replayed.Trim(p.number, p.state)
			c.status.NoCheckpoint = ""
			c.dropProof()
			return
		}
	}
}

func (c *Core) disproven(why string) {
	c.log.Warn("a checkpoint of the applications is not trusted: they are rebuilt by replay alone", "input",
		c.proof.number, "why", why)
	c.refused(c.proof.number, why)
	c.dropProof()
}

// refused notes that there is no checkpoint after an input, and why: the next one is tried much later.
func (c *Core) refused(number uint64, why string) {
	c.proof.refused, c.status.NoCheckpoint = attempt{number, c.replayed.HistoryBytes()}, why
}

func (c *Core) dropProof() {
	if c.proof.life != 0 {
		c.runner.Stop(c.proof.life)
	}
	c.proof = proof{refused: c.proof.refused}
}
