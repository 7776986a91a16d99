package setup

import (
	"net"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/network/liveness"
)

// end is a port, and how often BFD is to send there.
type end struct {
	at       app.PortOf
	interval time.Duration // 0: no BFD of ours
}

// plan says what is to be at which database. Ends of switches whose address is needed and not known are not in it.
func (c *Config) plan(v *liveness.View, addresses map[app.Switch]string) map[string][]end {
	plan := map[string][]end{}
	add := func(at app.PortOf, interval time.Duration) {
		if remote, ok := c.remote(at.Switch, addresses); ok {
			plan[remote] = append(plan[remote], end{at, interval})
		}
	}
	for _, l := range v.Links {
		interval := c.interval(l)
		add(l.A, interval)
		add(l.B, interval)
	}
	for _, at := range v.Former {
		add(at, 0)
	}
	return plan
}

// interval returns how often BFD is to send over a link, in whole steps, so that not every measurement changes it. 0 is no BFD.
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
