package replay

import (
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// A host that has ended by itself is built anew by replay. One that ends at the same input again would do so anywhere:
// the leader has all of them leave it out. That does not help if it is in the log what the input did, or if the input
// is nothing but a Timer: then, after some more attempts and when no other controller has taken the leadership, the
// applications begin anew, since else nothing would ever go on.
const (
	leaveOutAfter = 2  // deaths
	beginAfter    = 10 // about half a minute
)

// death is where hosts ended by themselves.
type death struct {
	input, times uint64
	skipping     bool // this leader has it left out, and that is not committed
}

// careful is how many inputs from a death on are handed over one by one: the host names the first without a result, and
// the one to blame may be any that it had.
const careful = framesOut * frameInputs

// survived forgets a death that a later host has passed.
func (d *death) survived(executed, last uint64) {
	if d.times > 0 && executed >= d.input && (executed == last || executed >= d.input+careful) {
		*d = death{}
	}
}

// leftOut says that some input is. The next one may be as bad.
func (d *death) leftOut() { d.times, d.skipping = min(d.times, 1), false }

// frameSize is how many inputs the next frame may have.
func (c *Core) frameSize() int {
	d := &c.death
	switch next := c.given + 1; {
	case d.times == 0 || next >= d.input+careful:
		return frameInputs
	case next < d.input:
		return int(min(frameInputs, d.input-next))
	}
	return 1
}

// Ended takes why a host has ended by itself.
func (c *Core) Ended(now time.Time, life uint64, e End) {
	if life == c.proof.life && life != 0 {
		c.proof.life = 0
		c.disproven(fmt.Sprintf("a host that began with it has ended: %v: %s", e, e.Detail))
	}
	if life != c.life || life == 0 {
		return
	}
	c.log.Error("the host of applications has ended; it is built anew by replay", "reason", e.Reason, "input", e.Input,
		"detail", e.Detail)
	c.status.Restarts++
	c.status.LastEnd = e.String()
	c.again = now.Add(min(backoffMost, backoffFirst<<min(c.failures, 10)))
	c.failures++
	d := &c.death
	switch {
	case e.Checkpoint:
		c.noCheckpoint(c.executed, fmt.Sprintf("the host has ended: %v: %s", e, e.Detail))
	case e.Input == d.input && e.Input > 0:
		d.times++
	case e.Input > 0:
		*d = death{input: e.Input, times: 1}
	}
	c.forget()
	if c.leading && !(d.times >= leaveOutAfter && c.avoidable(d.input)) {
		c.runner.HandOver() // to one whose host lives
	}
}

// avoidable reports whether hosts can do without an input: there is something in it, and nobody has done what it asks
// for.
func (c *Core) avoidable(input uint64) bool {
	data, n, err := c.replayed.Inputs(input, 1, 0)
	if err != nil || n == 0 || input <= c.replayed.Hosting().Results {
		return false
	}
	in, _, err := wire.ParseInput(data)
	return err == nil && in.Kind != wire.Timer
}

// leaveOut has all controllers do without the input that no host survives.
func (c *Core) leaveOut() {
	if d := &c.death; !c.beginning && !d.skipping && d.times >= leaveOutAfter && c.avoidable(d.input) {
		c.log.Error("no host survives this input: all controllers leave it out", "input", d.input)
		c.replayed.Skip(d.input)
		d.skipping = true
	}
}
