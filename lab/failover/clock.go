package failover

import (
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// commandClock records when commands arrive at each switch.
type commandClock struct {
	mu    sync.Mutex // guards times
	times map[openflow.DatapathID][]time.Time
}

// beside also observes connections that o observes.
func (c *commandClock) beside(o tap.Observer) tap.Observer { return timed{o, c} }

type timed struct {
	tap.Observer
	clock *commandClock
}

// maxTimes bounds the recorded times of a switch: the oldest are dropped.
const maxTimes = 1 << 20

// ToSwitch implements tap.Observer.
func (o timed) ToSwitch(sw openflow.DatapathID, msg []byte) {
	o.Observer.ToSwitch(sw, msg)
	if oracle.Commands(msg) > 0 {
		o.clock.command(sw, time.Now())
	}
}

func (c *commandClock) command(sw openflow.DatapathID, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	times := c.times[sw]
	if len(times) >= maxTimes {
		times = append(times[:0], times[maxTimes/2:]...)
	}
	if c.times == nil {
		c.times = map[openflow.DatapathID][]time.Time{}
	}
	c.times[sw] = append(times, at)
}

// inFlight is how long after a kill commands that the dead leader had sent may still arrive.
const inFlight = 5 * time.Millisecond

// resumed returns the time from the kill until all these switches got commands again. For each switch that is the end
// of its longest silence which began at most inFlight after the kill and ended before to. It is false if there are no
// switches, or one has no such silence.
func (c *commandClock) resumed(kill, to time.Time, switches []openflow.DatapathID) (last time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, sw := range switches {
		at, found := resumed(c.times[sw], kill, to)
		if !found {
			return 0, false
		}
		last = max(last, at)
	}
	return last, len(switches) > 0
}

func resumed(times []time.Time, kill, to time.Time) (time.Duration, bool) {
	at, found := silence(times, kill, to, inFlight)
	if !found { // on a busy machine they come later
		at, found = silence(times, kill, to, 20*inFlight)
	}
	return at, found
}

func silence(times []time.Time, kill, to time.Time, inFlight time.Duration) (time.Duration, bool) {
	var longest, at time.Duration
	for i := 1; i < len(times); i++ {
		begin, end := times[i-1], times[i]
		if end.Before(kill) || end.After(to) || begin.After(kill.Add(inFlight)) {
			continue
		}
		if d := end.Sub(begin); d > longest {
			longest, at = d, end.Sub(kill)
		}
	}
	return at, longest > 0
}
