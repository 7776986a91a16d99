package setup

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/pace"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// end is a port, and how often BFD should send there.
type end struct {
	at       app.PortOf
	interval time.Duration // 0: no BFD of ours
	peer     app.PortOf    // the other end of the link; none if there is no link any more
	up       bool          // the link is up according to topology
	// The pace of the link is known. Until then an interval of an earlier leader stays.
	paced bool
}

// plan returns the desired state of each database. Ends of switches whose address is needed and not known are left out.
func (c *Config) plan(v *liveness.View, addresses map[app.Switch]string, p *pace.Pace) map[string][]end {
	plan := map[string][]end{}
	add := func(e end) {
		if remote, ok := c.remote(e.at.Switch, addresses); ok {
			plan[remote] = append(plan[remote], e)
		}
	}
	for _, l := range v.Links {
		interval := c.interval(l, p)
		paced := p.Began(pace.Link{A: l.A, B: l.B})
		add(end{l.A, interval, l.B, l.Up, paced})
		add(end{l.B, interval, l.A, l.Up, paced})
	}
	for _, at := range v.Former {
		add(end{at: at})
	}
	return plan
}

// interval returns how often BFD should send over a link at present. 0 means no BFD.
func (c *Config) interval(l liveness.Link, p *pace.Pace) time.Duration {
	if !c.Enabled {
		return 0
	}
	return p.Interval(pace.Link{A: l.A, B: l.B}, c.least(l))
}

// least returns the shortest interval for the round-trip time of a link, in whole steps, so that not every measurement
// changes it.
func (c *Config) least(l liveness.Link) time.Duration {
	const step = 5 * time.Millisecond
	interval := bfd.Interval(l.RTT, c.Floor)
	if interval == c.Floor {
		return interval
	}
	return (interval + step - 1) / step * step
}

// remote returns the address of a switch's database, if it is known.
func (c *Config) remote(id app.Switch, addresses map[app.Switch]string) (remote string, ok bool) {
	const place = "{address}"
	remote = strings.ReplaceAll(c.Database, "{dpid}", id.String())
	if !strings.Contains(remote, place) {
		return remote, true
	}
	host, _, err := net.SplitHostPort(addresses[id])
	if err != nil {
		return "", false
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return strings.ReplaceAll(remote, place, host), true
}

// readiness says whether BFD can run at the other end of a link: configured at one end only, it would report the link
// as down for ever.
type readiness uint8

const (
	unknown readiness = iota // its database is not connected, or does not have the port
	ready
	refused // the operator or another program has turned it off
)

// step is what has to be done at an end.
type step uint8

const (
	leave step = iota
	setUp
	remove
)

var (
	errAlone   = errors.New("BFD cannot be set up at the other end: alone it would report the link as down")
	errRefused = errors.New("another program has turned BFD off at the other end")
)

// state is the state of BFD at an end.
type state struct {
	ours, done bool
	foreign    error         // not nil: somebody else configured it
	down       time.Duration // how long it has been configured and not up
	peer       readiness
}

// next decides what to do at an end, and why BFD is not as it should be.
func next(e end, s state) (step, error) {
	switch {
	case e.interval == 0 && s.ours:
		return remove, nil
	case e.interval == 0:
		return leave, nil
	case s.foreign != nil:
		return leave, s.foreign
	case s.peer == refused && s.ours:
		return remove, errRefused
	case s.peer == refused:
		return leave, errRefused
	case s.peer == unknown && !s.ours:
		return leave, errAlone
	case s.peer == unknown && e.up && s.down > orphanAfter: // probes pass, so the current peer has no BFD
		return remove, errAlone
	case s.done, s.ours && !e.paced:
		return leave, nil
	}
	return setUp, nil
}

// readinessOf returns the readiness of an interface where BFD should be as in b.
func readinessOf(i ovsdb.Interface, found bool, b ovsdb.BFD) readiness {
	_, err := i.Check(b)
	switch {
	case !found:
		return unknown
	case err == nil || i.BFD.State != "": // BFD configured by others will do
		return ready
	}
	return refused
}
