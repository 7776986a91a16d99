package agent

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

const dialTimeout = 2 * time.Second // including a TLS handshake

// link is what makes the connection of one switch to one controller, again and again.
type link struct {
	*Controller
	d         *device
	address   string
	announced bool // the log was told that it is connected; guarded by the device's mu
}

// keepConnected keeps the device connected to the controller until ctx ends. A loss is logged once, however many
// attempts follow.
func (l *link) keepConnected(ctx context.Context) {
	d := l.d
	stop := context.AfterFunc(ctx, d.wakeAll)
	defer stop()
	for told := ""; l.waitToDial(ctx); {
		err := l.run(ctx)
		announced, rest, over := l.ended(err)
		if ctx.Err() != nil {
			return
		}
		switch text := reasonText(err); {
		case !announced && text == told:
		case l.Elsewhere():
			d.log.Info("this controller does not serve the switch, others do", "controller", l.address)
			d.warnUnserved()
			told = text
		default:
			d.log.Warn("controller lost", "controller", l.address, "error", text)
			told = text
		}
		if over != nil {
			d.log.Error("the events of the switch are discarded", "controller", l.address, "error", over)
		}
		_ = pause.For(ctx, rest) // the loop ends with ctx
	}
}

// ended says that a connection has ended, or was not made; see Controller.End. announced is whether the log was told
// that it had been made.
func (l *link) ended(err error) (announced bool, pause time.Duration, over error) {
	d := l.d
	d.mu.Lock()
	defer d.unlock()
	d.look()
	pause, over = l.End(err)
	d.traces.forget(d.session.Oldest())
	d.changed.Broadcast()
	announced, l.announced = l.announced, false
	return announced, pause, over
}

// waitToDial waits until the controller is to be dialled. It returns false when ctx ends.
func (l *link) waitToDial(ctx context.Context) bool {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	for !l.Dial() && ctx.Err() == nil {
		l.d.changed.Wait()
	}
	return ctx.Err() == nil
}

// run opens a stream, serves it until it ends, and returns why it ended.
func (l *link) run(ctx context.Context) error {
	d := l.d
	s := &lane{d: d, l: l, over: make(chan struct{})}
	if err := d.a.trunks.open(ctx, l.address, s); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.end(ctx.Err()) })
	defer stop()
	<-s.over
	d.mu.Lock()
	defer d.mu.Unlock()
	return s.err
}

// announce logs a connection that lasts. The caller holds the device's mu.
func (l *link) announce() {
	if l.Lasts() && !l.announced {
		l.announced = true
		l.d.log.Info("connected to controller", "controller", l.address)
	}
}

// warnFenced logs, once while it lasts, that no controller is accepted as master. The caller holds the device's mu.
func (d *device) warnFenced() {
	if d.session.core.orphaned != 2*followAfter { // before that, the agent may still follow the leader
		return
	}
	for _, l := range d.links {
		if p := l.peer; p != nil && p.refused > 0 {
			d.log.Warn("the leader is fenced: this agent has had a master with a later term; if the controllers are "+
				"a new cluster, the clock was wrong when they, or those before them, were started; if no others will "+
				"return, restart the agent: that also discards the events that it keeps",
				"controller", l.address, "term", experimenter.Term(p.refused),
				"later term", experimenter.Term(d.session.core.generation))
		}
	}
}

// warnUnserved logs that none of the controllers serves the switch. It is called when one has said so.
func (d *device) warnUnserved() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.ContainsFunc(d.links, func(l *link) bool { return !l.Elsewhere() }) {
		d.log.Warn("none of the controllers that this agent knows serves the switch: give the agent the cluster " +
			"file, or " +
			"the addresses of all controllers")
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
