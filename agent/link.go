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

const (
	dialTimeout  = 2 * time.Second // with the handshake of TLS, if there is one
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 200 * time.Millisecond
	refusedPause = time.Second // after a REFUSE, which does not go away by asking faster
)

// errStale ends the connections of a switch whose epoch the controllers do not accept.
var errStale = errors.New("the controllers know a newer epoch of the switch: it begins anew above that")

// errLostLog does the same, see Core.Yield.
var errLostLog = errors.New("the controllers have lost their logs, or are of a site that was begun anew: it begins " +
	"anew with them")

// link is one controller connection of one switch.
type link struct {
	*outlet
	*Peer
	d         *device
	address   string
	announced bool // its connection is in the log
}

// keepConnected dials the controller for the device, again and again, until ctx ends. The
// log tells a loss once, however many attempts follow.
func (d *device) keepConnected(ctx context.Context, address string) {
	stop := context.AfterFunc(ctx, func() { d.mu.Lock(); d.changed.Broadcast(); d.mu.Unlock() })
	defer stop()
	pause, told := backoffFirst, ""
	for d.waitForEpoch(ctx) {
		l := &link{d: d, address: address}
		patient, late := context.WithTimeout(ctx, dialTimeout)
		conn, err := d.a.cfg.Dial(patient, address)
		late()
		if err == nil {
			l.outlet = newOutlet(conn)
			err = l.run(ctx)
			if l.announced { // it lasted
				pause = backoffFirst
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
			pause = backoffFirst
		case refusal && no.Reason == experimenter.ReasonLostLog && d.beginAnew(errLostLog,
			func() bool { return d.core.Yield(l.Peer) }):
			d.log.Error(errLostLog.Error())
			pause = backoffFirst
		case refusal:
			pause = refusedPause
		}
		sleep(ctx, pause)
		pause = min(2*pause, backoffMost)
	}
}

// waitForEpoch waits until there is something to attach with. It returns false when ctx ends.
func (d *device) waitForEpoch(ctx context.Context) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for !d.core.Attachable() && ctx.Err() == nil {
		d.changed.Wait()
	}
	return ctx.Err() == nil
}

// beginAnew closes the switch's connection, so that it returns with an epoch above the one that is over, if
// over says that it is the newest.
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

// run serves the connection until it ends, and says why it did.
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
	if l.cause != nil && !errors.As(err, &no) { // a writer that was busy fails because of the refusal
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

// takeIn puts what the controller says into the core. A master is held up while the switch
// does not take its commands.
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

// announce tells the log about a connection that lasts; the device's mu is held.
func (l *link) announce() {
	if l.Ready() && !l.announced {
		l.announced = true
		l.d.log.Info("connected to controller", "controller", l.address)
	}
}

// warnOutdone tells the log, once while it lasts, that nobody is accepted as master; the device's mu is held.
func (d *device) warnOutdone() {
	if d.core.orphaned != yieldAfter {
		return
	}
	for p, l := range d.links {
		if p.refused.by > 0 {
			d.log.Warn("the leader is not accepted: this agent has had a master with a later term, so these "+
				"controllers have lost their logs, or their site was begun anew; "+
				"if the leader finds so too the switch begins anew with it; if not, and no other controllers are "+
				"to come back, restart the agent, which also forgets the events that it holds",
				"controller", l.address, "term", p.refused.term, "later term", p.refused.by)
		}
	}
}

// reasonText leaves out port numbers, which differ between attempts.
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
