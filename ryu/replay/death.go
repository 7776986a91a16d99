package replay

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/ryu/wire"
)

// A host that has ended by itself is rebuilt by replay. If it ends at the same input again, it would do so at every
// controller, so the leader makes all of them skip the input. That is not possible if the effects of the input are
// already logged, or if the input is only a Timer. Then, after more attempts and if no other controller accepts the
// leadership, the applications restart with an empty state, because they could not continue otherwise.
//
// A host that ends before it has loaded the applications says nothing about inputs. It is started again after a pause
// that grows to a minute.
const (
	leaveOutAfter = 2  // deaths
	beginAfter    = 10 // about half a minute
)

// maxLeaks bounds how often the memory of hosts is doubled since one has exceeded it. If a host needs more again after
// a replay, that is no leak.
const maxLeaks = 3

// death is the last input at which a host ended by itself.
type death struct {
	input, times uint64
	leaks        int  // how many of the doublings of memory are due to it
	skipping     bool // this leader has skipped it, and that is not committed
}

// careful is how many inputs after a death are passed one by one. The host reports the first input without a result,
// and the cause may be any that it had received.
const careful = framesOut * frameInputs

// survived resets the record once a later host has executed that input.
func (d *death) survived(executed, last uint64) {
	if d.times > 0 && executed >= d.input && (executed == last || executed >= d.input+careful) {
		*d = death{}
	}
}

// leftOut records that an input was skipped. The next one may be as bad. It returns how many doublings of memory were
// due to the input: hosts do without them again.
func (d *death) leftOut() (leaks int) {
	leaks = d.leaks
	d.times, d.leaks, d.skipping = min(d.times, 1), 0, false
	return leaks
}

// frameSize returns how many inputs the next frame may contain.
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

// Ended handles the end of a host by itself.
func (c *Core) Ended(now time.Time, life uint64, e End) {
	leaked := e.Reason == "leaked" && c.leaks < maxLeaks
	if leaked {
		c.leaks++
	}
	if life == c.proof.life && life != 0 {
		c.proof.life = 0
		c.disproven(fmt.Sprintf("a host that began with it has ended: %v: %s", e, e.Detail))
	}
	if life != c.life || life == 0 {
		return
	}
	c.status.Restarts++
	c.status.LastEnd = e.String()
	pause := min(backoffMost, backoffFirst<<min(c.failures, 10))
	if !c.ready {
		pause = min(loadMost, backoffFirst<<min(c.failures, 10))
		c.notLoaded(e, pause)
	} else {
		c.lost = c.afresh
		c.log.Error("the host of applications has ended; another one is started", "reason", e.Reason, "input", e.Input,
			"detail", e.Detail)
	}
	c.again = now.Add(pause)
	c.failures++
	d := &c.death
	switch {
	case e.Checkpoint:
		c.noCheckpoint(c.executed, fmt.Sprintf("the host has ended: %v: %s", e, e.Detail))
	case e.Input == d.input && e.Input > 0:
		d.times++
	case e.Input > 0:
		*d = death{input: e.Input, times: 1, leaks: d.leaks} // the first death names an earlier one
	}
	if leaked && e.Input > 0 {
		d.leaks++
	}
	c.forget()
	if c.leading && !(d.times >= leaveOutAfter && c.avoidable(d.input)) {
		c.runner.HandOver() // to a controller whose host is alive
	}
}

// unloaded is why no host could load the applications here since one last did.
type unloaded struct {
	times  uint64 // lives in a row that never were ready
	why    string // one line; "" if they can be loaded, as far as known
	detail string // traceback, or the last output
}

// notLoaded records that a host has ended before it had loaded the applications. The log has the details once.
func (c *Core) notLoaded(e End, pause time.Duration) {
	u := &c.unloaded
	why, detail, _ := strings.Cut(strings.TrimSpace(e.Detail), "\n")
	if e.Reason != "fatal" && e.Reason != "not started" { // then the first line of its output says little
		why, detail = "the host has "+e.Reason, e.Detail
	}
	u.times++
	u.detail = detail
	if why == u.why {
		c.log.Warn("the applications still cannot be loaded", "attempts", u.times, "next attempt in", pause)
		return
	}
	u.why = why
	c.log.Error("the applications cannot be loaded; trying again, at longer and longer intervals", "why", why,
		"next attempt in", pause, "detail", detail)
}

// avoidable reports whether an input can be skipped: it is not only a Timer, and its result is not logged.
func (c *Core) avoidable(input uint64) bool {
	data, n, err := c.replayed.Inputs(input, 1, 0)
	if err != nil || n == 0 || input <= c.replayed.Hosting().Results {
		return false
	}
	in, _, err := wire.ParseInput(data)
	return err == nil && in.Kind != wire.Timer
}

// leaveOut makes all controllers skip the input that no host survives.
func (c *Core) leaveOut() {
	if d := &c.death; !c.beginning && !d.skipping && d.times >= leaveOutAfter && c.avoidable(d.input) {
		c.log.Error("no host survives this input: all controllers skip it", "input", d.input)
		c.replayed.Skip(d.input)
		d.skipping = true
	}
}
