package setup

import (
	"errors"
	"net"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

// end is a port, and how often BFD is to send there.
type end struct {
	at       app.PortOf
	interval time.Duration // 0: no BFD of ours
	peer     app.PortOf    // the other end of the link; none if there is no link any more
	up       bool          // by what topology says of the link
}

// plan says what is to be at which database. Ends of switches whose address is needed and not known are not in it.
func (c *Config) plan(v *liveness.View, addresses map[app.Switch]string) map[string][]end {
	plan := map[string][]end{}
	add := func(e end) {
		if remote, ok := c.remote(e.at.Switch, addresses); ok {
			plan[remote] = append(plan[remote], e)
		}
	}
	for _, l := range v.Links {
		interval := c.interval(l)
		add(end{l.A, interval, l.B, l.Up})
		add(end{l.B, interval, l.A, l.Up})
	}
	for _, at := range v.Former {
		add(end{at: at})
	}
	return plan
}

// interval returns how often BFD is to send over a link, in whole steps, so that not every measurement changes it. 0 is
// no BFD.
func (c *Config) interval(l liveness.Link) time.Duration {
	const step = 5 * time.Millisecond
	if !c.Enabled {
		return 0
	}
	interval := bfd.Interval(l.RTT, c.Floor)
	if interval == c.Floor {
		return interval
	}
	return (interval + step - 1) / step * step
}

// remote returns where the database of a switch listens, if that is known.
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

// readiness says whether BFD can run at the other end of a link: at one end alone it would take the link for dead for
// ever.
type readiness uint8

const (
	unknown readiness = iota // its database is not there, or does not have the port
	ready
	refused // somebody else has turned it off
)

// step is what is to be done at an end.
type step uint8

const (
	leave step = iota
	setUp
	remove
)

var (
	errAlone   = errors.New("BFD cannot be set up at the other end, and here alone it would take the link for dead")
	errRefused = errors.New("somebody else has turned BFD off at the other end")
)

// state is that of BFD at an end.
type state struct {
	ours, done bool
	foreign    error         // whose it is else
	down       time.Duration // how long it has been there and not up
	peer       readiness
}

// next decides what is to be done at an end, and says why BFD is not to be as it should.
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
	case s.peer == unknown && e.up && s.down > orphanAfter: // probes pass: what is there now knows no BFD
		return remove, errAlone
	case s.done:
		return leave, nil
	}
	return setUp, nil
}

// readinessOf says what the other end has to know of an interface where BFD is to be as in b.
func readinessOf(i ovsdb.Interface, found bool, b ovsdb.BFD) readiness {
	_, err := i.Check(b)
	switch {
	case !found:
		return unknown
	case err == nil || i.BFD.State != "": // theirs will do
		return ready
	}
	return refused
}
