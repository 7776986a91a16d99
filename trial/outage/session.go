package outage

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// session is what an Open vSwitch says of a BFD session.
type session struct {
	forwarding bool
	tx, rx     time.Duration // intervals in use
	detection  time.Duration // when it goes down, if nothing comes any more
}

// parseSessions reads what the command bfd/show prints, by interface. What it does not know it leaves out.
func parseSessions(text string) map[string]session {
	sessions := map[string]session{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if inner, ok := strings.CutPrefix(line, "---- "); ok {
			name = strings.TrimSuffix(inner, " ----")
			continue
		}
		key, value, _ := strings.Cut(line, ": ")
		s := sessions[name]
		switch key {
		case "Forwarding":
			s.forwarding = value == "true"
		case "TX Interval":
			s.tx = millis(strings.TrimPrefix(value, "Approx "))
		case "RX Interval":
			s.rx = millis(strings.TrimPrefix(value, "Approx "))
		case "Detect Time":
			s.detection = millis(strings.TrimPrefix(value, "now "))
		}
		sessions[name] = s
	}
	delete(sessions, "")
	return sessions
}

// millis reads a number of milliseconds, such as 15ms, +8ms or -1000ms.
func millis(s string) time.Duration {
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "ms"), 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(n) * time.Millisecond
}

// agreed says that a session is up and runs at its interval, both ways: before, a cut would be noticed late.
func (n *network) agreed(s session, interval time.Duration) bool {
	return s.forwarding && s.tx == interval && s.rx == interval && s.detection <= time.Duration(n.cfg.Multiplier)*interval
}

// interval returns the interval of BFD at an end of a link.
func (n *network) interval(e paths.End) time.Duration {
	if n.quick[e] || n.cfg.Elsewhere == 0 {
		return n.cfg.Interval
	}
	return n.cfg.Elsewhere
}

// settle waits until all sessions have agreed.
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
func (n *network) await(ctx context.Context, link paths.Link, good func(session, time.Duration) bool) error {
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
	return context.WithTimeoutCause(ctx, settleLimit, fmt.Errorf("not in %v; with a BFD interval of %v and a multiplier of %d this machine may be too busy: take larger ones",
		settleLimit, n.cfg.Interval, n.cfg.Multiplier))
}

// awaitSwitch waits until the sessions at some ports of one switch are as they should be, all at once.
func (n *network) awaitSwitch(ctx context.Context, ends []paths.End, good func(session, time.Duration) bool) error {
	for {
		text, err := n.nodes[ends[0].Switch].ctl.call("bfd/show")
		if err != nil {
			return err
		}
		all := parseSessions(text)
		if !slices.ContainsFunc(ends, func(e paths.End) bool { return !good(all[device(e.Port)], n.interval(e)) }) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// device is what netlab calls the interface at a port.
func device(p of13.Port) string { return fmt.Sprintf("p%d", p) }

// downs returns when each end of a link took it for dead, as the logs of the switches say.
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
			all[e] = downs[device(e.Port)]
		}
	}
	return all, nil
}
