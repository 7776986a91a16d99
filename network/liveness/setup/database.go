package setup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/ovsdb"
)

const (
	callTimeout = 10 * time.Second
	retryEvery  = 5 * time.Second // what a database has refused
)

// database keeps BFD set up at the ports of the switches that one database describes.
type database struct {
	cancel     context.CancelFunc
	incidents  *incident.Log
	client     *ovsdb.Client // nil if err is not
	err        error         // where it listens makes no sense
	multiplier int
	news       chan struct{} // capacity 1: ends are others

	mu    sync.Mutex // guards the fields below
	ends  []end
	ports map[app.PortOf]port // of ends
}

// port is what is known of an end.
type port struct {
	found   bool
	name    string
	status  ovsdb.BFDStatus
	problem error // why BFD is not as it should be
	failure *failure
}

// failure is the last time that BFD went down at a port.
type failure struct {
	at         time.Time // zero: before anybody here looked
	diagnostic string
}

// want says what is to be.
func (d *database) want(ends []end) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Equal(ends, d.ends) {
		return
	}
	d.ends = ends
	select {
	case d.news <- struct{}{}:
	default: // it is known that there is news
	}
}

// run keeps what is as it should be until ctx ends.
func (d *database) run(ctx context.Context) {
	var connection sync.WaitGroup
	connection.Go(func() { d.client.Run(ctx) })
	defer connection.Wait()
	for {
		var again <-chan time.Time
		if !d.settle(ctx) {
			again = time.After(retryEvery)
		}
		select {
		case <-d.news:
		case <-d.client.Changed():
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// settle changes what is not as it should be, and reports whether that is all. Without a connection nothing is, and it is called again
// when there is one.
func (d *database) settle(ctx context.Context) (done bool) {
	view, err := d.client.View()
	if err != nil {
		return true
	}
	d.mu.Lock()
	ends, before := d.ends, d.ports
	d.mu.Unlock()
	done = true
	after := make(map[app.PortOf]port, len(ends))
	for _, e := range ends {
		i, found := view.Port(uint64(e.at.Switch), uint32(e.at.Port))
		p := d.follow(e.at, before[e.at], i, found)
		if p.problem = d.set(ctx, e, i, found); p.problem != nil && found && !errors.Is(p.problem, ovsdb.ErrForeign) {
			done = false
		}
		after[e.at] = p
	}
	d.mu.Lock()
	d.ports = after
	d.mu.Unlock()
	return done
}

// set sets BFD up at an end, or removes it, unless it is as it should be.
func (d *database) set(ctx context.Context, e end, i ovsdb.Interface, found bool) error {
	if !found {
		return fmt.Errorf("the database has no port %d at a bridge with datapath id %s", e.at.Port, e.at.Switch)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if e.interval == 0 {
		if !i.Ours {
			return nil
		}
		return d.client.ClearBFD(ctx, i)
	}
	b := ovsdb.BFD{MinTx: e.interval, MinRx: e.interval, Multiplier: d.multiplier}
	if done, err := i.Check(b); done || err != nil {
		return err
	}
	return d.client.SetBFD(ctx, i, b)
}

// follow notes what has become of the BFD of a port.
func (d *database) follow(at app.PortOf, was port, i ovsdb.Interface, found bool) port {
	now := port{found: found, name: i.Name, status: i.BFD, failure: was.failure}
	up := func(s ovsdb.BFDStatus) bool { return s.State == "up" }
	switch {
	case i.BFD.State == "": // no BFD, or no more
	case !was.found && i.BFD.Flaps > 1: // it has come up before, and gone down
		now.failure = &failure{diagnostic: i.BFD.Diagnostic}
	case up(was.status) && (!up(i.BFD) || i.BFD.Flaps > was.status.Flaps+1): // two changes are one failure that is over
		now.failure = &failure{time.Now(), i.BFD.Diagnostic}
		d.incidents.Warn(fmt.Sprintf("bfd %s/%d", at.Switch, at.Port), "BFD is down", "switch", at.Switch, "port", at.Port, "name", i.Name, "diagnostic", i.BFD.Diagnostic)
	}
	return now
}

// look returns what is known of a port, or why nothing is.
func (d *database) look(at app.PortOf) (port, error) {
	if d.err != nil {
		return port{}, d.err
	}
	if _, err := d.client.View(); err != nil {
		return port{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ports[at], nil
}
