package vswitch

import (
	"sync/atomic"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxHops is how many switches a frame may pass in a network in memory, so that a loop without a spanning tree ends.
const maxHops = 64

// Endpoint is an end of a link: a port of a Runner, or a Host.
type Endpoint interface {
	attach(send func(transit))
	deliver(t transit)
	carrier(up bool)
}

// Port returns a port as an end of a link. The switch has, or will have, a port of this number.
func (r *Runner) Port(no of13.Port) Endpoint { return runnerPort{r, no} }

type runnerPort struct {
	r  *Runner
	no of13.Port
}

func (p runnerPort) attach(send func(transit)) { p.r.attach(p.no, send) }
func (p runnerPort) deliver(t transit)         { p.r.receive(p.no, t) }
func (p runnerPort) carrier(up bool)           { p.r.SetPortLive(p.no, up) }

// Link joins two ends in memory, both ways. Frames wait in the queues of the ends, which are bounded and drop further
// frames. Safe for concurrent use.
type Link struct {
	ends   [2]Endpoint
	down   atomic.Bool
	silent atomic.Bool
	lost   atomic.Uint64
	looped atomic.Uint64
}

// Connect joins two ends that have no link yet.
func Connect(a, b Endpoint) *Link {
	l := &Link{ends: [2]Endpoint{a, b}}
	a.attach(func(t transit) { l.carry(b, t) })
	b.attach(func(t transit) { l.carry(a, t) })
	return l
}

func (l *Link) carry(to Endpoint, t transit) {
	switch {
	case l.down.Load() || l.silent.Load():
		l.lost.Add(1)
	case t.hops > maxHops:
		l.looped.Add(1)
	default:
		to.deliver(t)
	}
}

// SetUp cuts or restores the link so that both ends notice: the ports lose or gain their carrier.
func (l *Link) SetUp(up bool) {
	l.down.Store(!up)
	for _, e := range l.ends {
		e.carrier(up)
	}
}

// SetSilent makes the link lose all frames while its ports stay up, or ends that.
func (l *Link) SetSilent(silent bool) { l.silent.Store(silent) }

// Lost counts the frames that were sent while the link was cut.
func (l *Link) Lost() uint64 { return l.lost.Load() }

// Looped counts the frames that were dropped because they had passed too many switches.
func (l *Link) Looped() uint64 { return l.looped.Load() }
