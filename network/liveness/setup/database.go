package setup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

const (
	callTimeout = 10 * time.Second
	lookAgain   = 5 * time.Second // for ports that a database has refused, or that wait for the other end
	// orphanAfter is how long BFD may be down on a link that carries probes, while the state of the other end is
	// unknown.
	orphanAfter = 30 * time.Second
)

// database keeps BFD set up at the ports of the switches that one database describes.
type database struct {
	cancel     context.CancelFunc
	incidents  *incident.Log
	client     *ovsdb.Client // nil if err is not
	err        error         // why its address is not valid
	multiplier int
	peers      peers
	news       chan struct{} // capacity 1: there is work

	mu    sync.Mutex // guards the fields below
	ends  []end
	ports map[app.PortOf]port // of ends
}

// peers are the other ends of links, which may be in other databases.
type peers interface {
	readiness(at app.PortOf) readiness
	wake(at app.PortOf) // the readiness of its peer has changed
}

// port is what is known of an end.
type port struct {
	found   bool
	name    string
	ours    bool // its BFD was set up by us
	carrier bool
	every   time.Duration // the interval that is configured; 0: none
	status  ovsdb.BFDStatus
	down    time.Time // since when BFD is configured and not up; zero: it is not so
	ready   readiness
	problem error // why BFD is not as it should be
	failure *failure
}

// failure is the last time that BFD went down at a port.
type failure struct {
	at         time.Time // zero: before this controller followed the port
	diagnostic string
}

// want sets the desired state.
func (d *database) want(ends []end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(ends, d.ends) {
		return
	}
	d.ends = ends
	d.nudge()
}

// nudge wakes run.
func (d *database) nudge() {
	select {
	case d.news <- struct{}{}:
	default: // it has been woken already
	}
}

// run keeps the database in the desired state until ctx ends.
func (d *database) run(ctx context.Context) {
	var connection sync.WaitGroup
	connection.Go(func() { d.client.Run(ctx) })
	defer connection.Wait()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		d.settle(ctx)
		select {
		case <-d.news:
		case <-d.client.Changed():
		case <-again.C:
		case <-ctx.Done():
			return
		}
	}
}

// settle changes what differs from the desired state, if there is a connection.
func (d *database) settle(ctx context.Context) {
	view, err := d.client.View()
	if err != nil {
		return
	}
	d.mu.Lock()
	ends, before := d.ends, d.ports
	d.mu.Unlock()
	after, interfaces := make(map[app.PortOf]port, len(ends)), make([]ovsdb.Interface, len(ends))
	for n, e := range ends {
		i, found := view.Port(uint64(e.at.Switch), uint32(e.at.Port))
		p := d.follow(e.at, before[e.at], i, found)
		p.ready = readinessOf(i, found, d.wanted(e))
		after[e.at], interfaces[n] = p, i
	}
	d.note(after)
	for n, e := range ends {
		p := after[e.at]
		if before[e.at].ready != p.ready {
			d.peers.wake(e.peer)
		}
		p.problem = d.set(ctx, e, p, interfaces[n])
		after[e.at] = p
	}
	d.note(after)
}

func (d *database) note(ports map[app.PortOf]port) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ports = maps.Clone(ports)
}

func (d *database) wanted(e end) ovsdb.BFD {
	return ovsdb.BFD{MinTx: e.interval, MinRx: e.interval, Multiplier: d.multiplier}
}

// set configures or removes BFD at an end, unless it is as desired.
func (d *database) set(ctx context.Context, e end, p port, i ovsdb.Interface) error {
	switch {
	case !p.found && e.interval == 0: // there is no BFD to remove
		return nil
	case !p.found:
		return fmt.Errorf("the database has no port %d at a bridge with datapath id %s", e.at.Port, e.at.Switch)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b := d.wanted(e)
	now := state{ours: i.Ours, peer: d.peers.readiness(e.peer)}
	now.done, now.foreign = i.Check(b)
	if !p.down.IsZero() {
		now.down = time.Since(p.down)
	}
	what, why := next(e, now)
	var err error
	switch what {
	case setUp:
		err = d.client.SetBFD(ctx, i, b)
	case remove:
		err = d.client.ClearBFD(ctx, i)
	}
	return errors.Join(why, err)
}

// follow records the state of BFD at a port.
func (d *database) follow(at app.PortOf, was port, i ovsdb.Interface, found bool) port {
	now := port{found: found, name: i.Name, ours: i.Ours, carrier: i.LinkUp, every: i.Interval(), status: i.BFD,
		failure: was.failure}
	up := func(s ovsdb.BFDStatus) bool { return s.State == "up" }
	if now.down = was.down; i.BFD.State == "" || up(i.BFD) {
		now.down = time.Time{}
	} else if now.down.IsZero() {
		now.down = time.Now()
	}
	switch {
	case i.BFD.State == "": // no BFD, or no longer
	case !was.found && i.BFD.Flaps > 1: // it had come up before, and gone down
		now.failure = &failure{diagnostic: i.BFD.Diagnostic}
	case up(was.status) && (!up(i.BFD) || i.BFD.Flaps > was.status.Flaps+1): // two changes are one failure that is over
		now.failure = &failure{time.Now(), i.BFD.Diagnostic}
		d.incidents.Warn(fmt.Sprintf("bfd %s/%d", at.Switch, at.Port), "BFD is down", "switch", at.Switch, "port",
			at.Port, "name", i.Name, "diagnostic", i.BFD.Diagnostic)
	}
	return now
}

// look returns the state of a port, or why there is none.
func (d *database) look(at app.PortOf) (port, error) {
	if d.err != nil {
		return port{}, d.err
	}
	if _, err := d.client.View(); err != nil {
		return port{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, read := d.ports[at]
	if !read {
		return port{}, errReading
	}
	return p, nil
}
