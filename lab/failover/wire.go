package failover

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/oracle"
	"github.com/holdfast-sdn/holdfast/lab/tap"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// tally is what an experiment needs of oracle.Tally and oracle.Stock.
type tally interface {
	Counts() (sent, executed int)
	Compare(files []string) (oracle.Result, error)
}

// connect puts the witnesses between the switches and their agents, or their controllers, and connects them.
func (t *experiment) connect(ctx context.Context) error {
	var secure *security
	if t.TLS {
		var err error
		if secure, err = t.secure(); err != nil {
			return err
		}
	}
	for i := range t.Switches {
		var addresses []string
		for _, target := range t.targets(i) {
			l, err := net.Listen("tcp", net.JoinHostPort(t.net.listenAddress(), "0"))
			if err != nil {
				return fmt.Errorf("listen for switch %d: %w", i+1, err)
			}
			addresses = append(addresses, l.Addr().String())
			cfg := tap.Config{Dial: tap.TCP(target.address), Observe: target.observe, NoBundles: t.NoBundles}
			if secure != nil {
				l, cfg.Dial = secure.listener(l), secure.dial(ctx, target.address)
			}
			t.taps = append(t.taps, tap.Start(l, cfg))
		}
		if err := t.net.connect(i, addresses...); err != nil {
			return err
		}
	}
	return nil
}

// target is an address that a switch connects to, and the observer of the connection.
type target struct {
	address string
	observe func() tap.Observer
}

func (t *experiment) targets(i int) (list []target) {
	if t.Stock {
		for n, c := range t.cluster.Controllers() {
			list = append(list, target{c.OpenFlow, func() tap.Observer {
				return t.clock.beside(
					t.stock.Connection(n))
			}})
		}
	} else {
		list = []target{{t.cluster.Agents()[i].Listen, tap.Same(t.clock.beside(t.agents))}}
	}
	if t.blind {
		for i := range list {
			list[i].observe = tap.Same(blind{})
		}
	}
	return list
}

// security gives the witnesses credentials of agents, or controllers, toward the switches, and of switches toward
// those.
type security struct{ asSwitch, asPeer *mtls.Credentials }

func (t *experiment) secure() (*security, error) {
	files, err := t.cluster.Issue(pki.Identity{Role: pki.Switch, Name: "switch"})
	if err != nil {
		return nil, err
	}
	if err := t.net.secure(files); err != nil {
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	asSwitch, err := mtls.Load(files, mtls.Role(pki.Switch), log)
	if err != nil {
		return nil, err
	}
	role := pki.Agent
	if t.Stock {
		role = pki.Controller
	}
	if files, err = t.cluster.Issue(pki.Identity{Role: role, Name: "tap"}); err != nil {
		return nil, err
	}
	asPeer, err := mtls.Load(files, mtls.Role(role), log)
	return &security{asSwitch, asPeer}, err
}

func (s *security) listener(l net.Listener) net.Listener {
	return s.asPeer.Listener(l, mtls.Role(pki.Switch))
}

func (s *security) dial(ctx context.Context, address string) func() (net.Conn, error) {
	return func() (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		return s.asSwitch.Dial(ctx, address, mtls.Role(pki.Agent, pki.Controller))
	}
}

// commandClock records when commands arrive at switches. The switches of one group resume together, so they share a
// lane. With several groups each switch has its own.
type commandClock struct {
	several bool // groups

	mu    sync.Mutex // guards lanes
	lanes map[openflow.DatapathID][]time.Time
}

// beside also observes connections that o observes.
func (c *commandClock) beside(o tap.Observer) tap.Observer { return timed{o, c} }

type timed struct {
	tap.Observer
	clock *commandClock
}

// maxTimes bounds the recorded times of a lane: the oldest are dropped.
const maxTimes = 1 << 20

// ToSwitch implements tap.Observer.
func (o timed) ToSwitch(sw openflow.DatapathID, msg []byte) {
	o.Observer.ToSwitch(sw, msg)
	if oracle.Commands(msg) == 0 {
		return
	}
	c := o.clock
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.several {
		sw = 0
	}
	times := c.lanes[sw]
	if len(times) >= maxTimes {
		times = append(times[:0], times[maxTimes/2:]...)
	}
	if c.lanes == nil {
		c.lanes = map[openflow.DatapathID][]time.Time{}
	}
	c.lanes[sw] = append(times, time.Now())
}

// inFlight is how long after a kill commands that the dead leader had sent may still arrive.
const inFlight = 5 * time.Millisecond

// resumed returns the time from the kill to the command that ended the longest silence of a lane which began at most
// inFlight after it and ended before to; that of the last lane, if there are several. It is false if a lane has none.
func (c *commandClock) resumed(kill, to time.Time) (last time.Duration, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, times := range c.lanes {
		at, found := resumed(times, kill, to)
		if !found {
			return 0, false
		}
		last, ok = max(last, at), true
	}
	return last, ok
}

func resumed(times []time.Time, kill, to time.Time) (time.Duration, bool) {
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
