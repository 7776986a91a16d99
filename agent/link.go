package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

const dialTimeout = 2 * time.Second // including a TLS handshake

// Pauses before an agent dials a controller again. They double from BackoffFirst to BackoffMost.
const (
	BackoffFirst = 5 * time.Millisecond
	BackoffMost  = 200 * time.Millisecond
	RefusedPause = time.Second // after a REFUSE, whose cause lasts
)

// errStale and errLostLog end the connections of a switch whose epoch the controllers do not accept: see Core.Stale and
// Core.Yield.
var (
	errStale   = errors.New("the controllers know a newer epoch of the switch: it begins a new one above that")
	errLostLog = errors.New("the controllers have lost their logs, or are a new cluster: the switch begins a new " +
		"epoch with them")
)

// link is one controller connection of one switch.
type link struct {
	*outlet
	*Peer
	d         *device
	address   string
	wasReady  bool // at the last tick
	announced bool // the log was told that it is connected
}

// keepConnected keeps the device connected to the controller until ctx ends. A loss is logged once, however many
// attempts follow.
func (d *device) keepConnected(ctx context.Context, address string) {
	stop := context.AfterFunc(ctx, func() { d.mu.Lock(); d.changed.Broadcast(); d.mu.Unlock() })
	defer stop()
	pause, told := BackoffFirst, ""
	for d.waitForEpoch(ctx) {
		l := &link{d: d, address: address}
		patient, late := context.WithTimeout(ctx, dialTimeout)
		conn, err := d.a.cfg.Dial(patient, address)
		late()
		if err == nil {
			l.outlet = newOutlet(conn)
			err = l.run(ctx)
			if l.announced { // it lasted
				pause = BackoffFirst
			}
		}
		if ctx.Err() != nil {
			return
		}
		if text := reasonText(err); l.announced || text != told {
			d.log.Warn("controller lost", "controller", address, "error", text)
			told = text
		}
		var no *Refused
		switch refusal := errors.As(err, &no); {
		case refusal && no.Reason == experimenter.ReasonStaleEpoch:
			d.beginAnew(errStale, func() bool { return d.core.Stale(no.Epoch) })
			pause = BackoffFirst
		case refusal && no.Reason == experimenter.ReasonLostLog && d.beginAnew(errLostLog,
			func() bool { return d.core.Yield(l.Peer) }):
			d.log.Error(errLostLog.Error())
			pause = BackoffFirst
		case refusal:
			pause = RefusedPause
		}
		sleep(ctx, pause)
		pause = min(2*pause, BackoffMost)
	}
}

// waitForEpoch waits until there is an epoch to attach with. It returns false when ctx ends.
func (d *device) waitForEpoch(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.core.Attachable() && ctx.Err() == nil {
		d.changed.Wait()
	}
	return ctx.Err() == nil
}

// beginAnew asks over, which is Core.Stale or Core.Yield, whether all epochs are over. If so, it closes the connections
// of the switch and of all controllers, so that the switch returns with a new epoch.
func (d *device) beginAnew(cause error, over func() bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !over() {
		return false
	}
	for _, l := range d.links {
		l.fail(cause)
	}
	if d.sw != nil {
		d.sw.fail(cause)
	}
	d.changed.Broadcast()
	return true
}

// run serves the connection until it ends, and returns why it ended.
func (l *link) run(ctx context.Context) error {
	d := l.d
	stop := context.AfterFunc(ctx, func() { l.conn.Close() })
	defer stop()
	d.mu.Lock()
	if !d.core.Attachable() {
		d.mu.Unlock()
		l.conn.Close()
		return errStale
	}
	p := d.core.Connect()
	l.Peer = p
	d.links[p] = l
	l.signal()
	d.mu.Unlock()

	var writer sync.WaitGroup
	writer.Go(func() { d.write(l.outlet, func(dst []byte) []byte { return d.core.Take(p, dst) }) })
	err := l.read(ctx)
	close(l.done)
	l.conn.Close()
	writer.Wait()

	d.mu.Lock()
	defer d.mu.Unlock()
	d.core.Disconnect(p)
	delete(d.links, p)
	var no *Refused
	if l.cause != nil && !errors.As(err, &no) { // after a REFUSE a busy writer fails too, because of it
		err = l.cause
	}
	return err
}

func (l *link) read(ctx context.Context) error {
	in := ofconn.NewReader(ofconn.NewWatched(l.conn, l.d.a.cfg.SilentAfter))
	for {
		batch, err := in.Next()
		if err != nil {
			return err
		}
		if err := l.takeIn(ctx, batch); err != nil {
			return err
		}
	}
}

// takeIn passes a batch to the core. A master is not read while too many of its commands wait for the switch.
func (l *link) takeIn(ctx context.Context, batch []byte) error {
	d, p := l.d, l.Peer
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.core.Master() == p && d.core.QueuedCommands() >= d.a.cfg.CommandBytes && l.cause == nil && ctx.Err() == nil {
		d.changed.Wait()
	}
	err := d.core.FromController(p, batch)
	if d.core.Pending(p) {
		l.signal()
	}
	d.wakeMaster()
	d.wakeSwitch()
	d.changed.Broadcast()
	return err
}

// announce logs a connection that was ready for a whole tick: a controller may refuse one after its HELLO. The caller
// holds the device's mu.
func (l *link) announce() {
	lasts := l.wasReady
	l.wasReady = l.Ready()
	if lasts && !l.announced {
		l.announced = true
		l.d.log.Info("connected to controller", "controller", l.address)
	}
}

// warnFenced logs, once while it lasts, that no controller is accepted as master. The caller holds the device's mu.
func (d *device) warnFenced() {
	if d.core.orphaned != yieldAfter {
		return
	}
	for p, l := range d.links {
		if p.refused.by > 0 {
			d.log.Warn("the leader is fenced: this agent has had a master with a later term, so these controllers "+
				"have lost their logs, or are a new cluster; if the leader can prove that, the switch begins a new "+
				"epoch with it; if not, and no other controllers will return, restart the agent: that also discards "+
				"the events that it keeps",
				"controller", l.address, "term", p.refused.term, "later term", p.refused.by)
		}
	}
}

// reasonText leaves out port numbers, which differ from attempt to attempt.
func reasonText(err error) string {
	if errors.Is(err, io.EOF) {
		return "it closed the connection"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}
