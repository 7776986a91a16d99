package outage

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-sdn/holdfast/bfd"
	"github.com/holdfast-sdn/holdfast/internal/appctl"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// agreed says that the session at an end is up and runs at its interval in both directions: earlier, a cut would be
// detected late. The same must hold for the session of its sentry, if there is one.
func (n *network) agreed(e paths.End, s appctl.Session) (bool, error) {
	interval := n.interval(e)
	good := s.Forwarding && s.Tx == interval && s.Rx == interval &&
		s.Detection <= time.Duration(n.multiplier())*interval
	if !good || n.sentries == nil {
		return good, nil
	}
	return n.sentries.alive(e)
}

// interval returns the interval of BFD at an end of a link.
func (n *network) interval(e paths.End) time.Duration {
	switch {
	case n.cfg.Sentry != "":
		return slow
	case n.quick[e] || n.cfg.Elsewhere == 0:
		return n.cfg.Interval
	}
	return n.cfg.Elsewhere
}

// multiplier is that of the BFD of the switches.
func (n *network) multiplier() int {
	if n.cfg.Sentry != "" {
		return bfd.Multiplier
	}
	return n.cfg.Multiplier
}

// condition is the required state of the session at an end of a link.
type condition func(paths.End, appctl.Session) (bool, error)

// settle waits until all sessions are up at their intervals.
func (n *network) settle(ctx context.Context) error {
	ctx, cancel := n.patience(ctx)
	defer cancel()
	for _, v := range n.graph().Switches() {
		var ends []paths.End
		for i := range n.nodes[v].links {
			ends = append(ends, paths.End{Switch: v, Port: of13.Port(i + 1)})
		}
		if err := n.awaitSwitch(ctx, ends, n.agreed); err != nil {
			return fmt.Errorf("wait until the links of switch %v are up: %w", v, err)
		}
	}
	return nil
}

// await waits until the sessions at both ends of a link are as they should be.
func (n *network) await(ctx context.Context, link paths.Link, good condition) error {
	ctx, cancel := n.patience(ctx)
	defer cancel()
	for _, e := range []paths.End{link.From, link.To} {
		if err := n.awaitSwitch(ctx, []paths.End{e}, good); err != nil {
			return err
		}
	}
	return nil
}

// patience bounds a wait.
func (n *network) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, settleLimit,
		fmt.Errorf("not in %v; with a BFD interval of %v and a multiplier of %d this machine may be too busy: take "+
			"larger ones",
			settleLimit, n.cfg.Interval, n.cfg.Multiplier))
}

// awaitSwitch waits until the sessions at some ports of one switch are as they should be, all at once.
func (n *network) awaitSwitch(ctx context.Context, ends []paths.End, good condition) error {
	for {
		text, err := n.nodes[ends[0].Switch].ctl.Call("bfd/show")
		if err != nil {
			return err
		}
		all := appctl.Sessions(text)
		waiting := false
		for _, e := range ends {
			ok, err := good(e, all[device(e.Port)])
			if err != nil {
				return err
			}
			waiting = waiting || !ok
		}
		if !waiting {
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// device is what netlab calls the interface at a port.
func device(p of13.Port) string { return fmt.Sprintf("p%d", p) }

// downs returns when each end of a link reported it as dead, according to the logs of the switches and the sentries.
func (n *network) downs() (map[paths.End][]time.Time, error) {
	// A log is written in the background.
	time.Sleep(300 * time.Millisecond)
	all := map[paths.End][]time.Time{}
	for v, d := range n.nodes {
		log, err := os.Open(n.file(d, "ovs-vswitchd.log"))
		if err != nil {
			return nil, err
		}
		downs, err := parseDowns(log)
		log.Close()
		if err != nil {
			return nil, fmt.Errorf("log of switch %v: %w", v, err)
		}
		for i := range d.links {
			e := paths.End{Switch: v, Port: of13.Port(i + 1)}
			if all[e] = downs[device(e.Port)]; n.sentries != nil {
				all[e] = append(all[e], n.sentries.deaths(e)...)
			}
		}
	}
	return all, nil
}
