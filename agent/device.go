package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/address"
	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// device does the I/O for the session of one switch. Each connection has a reader, which passes what arrives to the
// session, and a writer. Who has called the session writes what it has made due (unlock), and leaves to the writer what
// a connection does not take at once. So events are buffered in the core and nowhere else.
type device struct {
	a   *Agent
	id  openflow.DatapathID
	log *slog.Logger

	cancel context.CancelFunc // ends its goroutines
	// Guarded by the agent's mu.
	conns int       // connections of the switch that use it: more than one while one replaces another
	since time.Time // when the last of them left

	turn int // of the agent's ticks that are for this device

	mu      sync.Mutex // guards the fields below; never held during I/O
	changed *sync.Cond // wakes readers that wait for room, and diallers that wait, see Controller.Dial
	session *Session
	links   []*link
	due     []writable // have something to write
	traces  traces
}

func newDevice(a *Agent, id openflow.DatapathID) *device {
	d := &device{a: a, id: id, log: a.log.With("switch", id), traces: traces{to: a.cfg.Tracer},
		session: NewSession(a.cfg.BufferEvents, a.cfg.BufferBytes, a.cfg.CommandBytes, len(a.cfg.Controllers))}
	d.changed = sync.NewCond(&d.mu)
	for i, c := range d.session.Controllers() {
		d.links = append(d.links, &link{Controller: c, d: d, address: a.cfg.Controllers[i]})
	}
	return d
}

// wakeAll lets all that wait look again: ctx has ended.
func (d *device) wakeAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed.Broadcast()
}

// serve runs one connection of the switch, from the end of the handshake until it is lost. The error says why the
// switch cannot be served at all.
func (d *device) serve(ctx context.Context, conn net.Conn, in *ofconn.Reader, hs *handshake.Handshake,
	rest []byte) error {
	o := newOutlet(d, conn, address.Peer(conn).String())
	sw, epoch, err := d.up(o, hs)
	if err != nil {
		return err
	}
	d.a.incidents.Info("up "+d.id.String(), "switch up", "switch", d.id, "remote", o.remote, "epoch", epoch,
		"version", hs.Version)
	stop := context.AfterFunc(ctx, d.wakeAll)
	defer stop()
	var writer sync.WaitGroup
	writer.Go(func() { d.write(o) })
	err = d.read(ctx, o, in, rest)
	d.down(ctx, o, sw, err)
	writer.Wait()
	return nil
}

// up opens an epoch.
func (d *device) up(o *outlet, hs *handshake.Handshake) (*Switch, uint64, error) {
	d.mu.Lock()
	defer d.unlock()
	sw, err := d.session.Up(o, uint64(max(0, d.a.cfg.Now().UnixNano())), hs)
	if err != nil {
		return nil, 0, err
	}
	o.ch = sw
	d.look()
	d.changed.Broadcast()
	return sw, d.session.Epoch(), nil
}

// down closes the epoch, and tells the log. An agent that is stopping says nothing, since the switch is not down.
func (d *device) down(ctx context.Context, o *outlet, sw *Switch, err error) {
	d.mu.Lock()
	defer d.unlock()
	if ctx.Err() != nil {
		return
	}
	switch {
	case o.cause != nil:
		err = o.cause
	case err == io.EOF:
		err = fmt.Errorf("it closed the connection: %w", err)
	}
	reason := reasonOf(err)
	sw.End(reason)
	d.look()
	d.changed.Broadcast()
	d.a.incidents.Warn("down "+d.id.String(), "switch down", "switch", d.id, "remote", o.remote, "reason", reason,
		"error", err, "events held", d.session.Held())
}

func reasonOf(err error) experimenter.Reason {
	var network net.Error
	switch {
	case errors.Is(err, ofconn.ErrSilent):
		return experimenter.ReasonSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, &network),
		errors.Is(err, errNotReading), errors.Is(err, errStale), errors.Is(err, ErrLostLog):
		return experimenter.ReasonConnectionLost
	}
	return experimenter.ReasonGarbage
}

// read passes what arrives to the session until the connection ends.
func (d *device) read(ctx context.Context, o *outlet, in *ofconn.Reader, batch []byte) error {
	defer o.conn.Close()
	defer d.end(o)
	for {
		if err := d.takeIn(ctx, o, batch); err != nil {
			return err
		}
		var err error
		if batch, err = in.Next(); err != nil {
			return err
		}
	}
}

// takeIn passes a batch to the session, and waits for room as long as it must: nothing that was read is lost.
func (d *device) takeIn(ctx context.Context, o *outlet, batch []byte) error {
	d.mu.Lock()
	defer d.unlock()
	for {
		if len(batch) > 0 {
			rest, err := o.ch.Input(batch)
			d.look()
			if len(rest) < len(batch) {
				d.changed.Broadcast()
			}
			if err != nil {
				return err
			}
			batch = rest
		}
		switch {
		case o.cause != nil:
			return o.cause
		case ctx.Err() != nil:
			return ctx.Err()
		case len(batch) == 0 && !o.ch.Full():
			return nil
		case len(batch) > 0:
			held := d.session.Status()
			d.a.incidents.Warn("full "+d.id.String(), "event buffer is full: the switch is not read until the "+
				"controllers acknowledge events",
				"switch", d.id, "events", held.Held, "bytes", held.HeldBytes, "controllers", held.Controllers)
		}
		d.leave()
		d.changed.Wait()
	}
}

// beat is called heartbeat.Ticks times in each interval of heartbeats.
func (d *device) beat(crowd func() int) {
	d.mu.Lock()
	defer d.unlock()
	d.session.Beat(crowd)
}

// tick is called each Config.EchoInterval.
func (d *device) tick() {
	d.mu.Lock()
	defer d.unlock()
	rested := d.session.Tick()
	for _, l := range d.links {
		l.announce()
	}
	d.warnFenced()
	if rested {
		d.changed.Broadcast() // its dialler
	}
}

func (d *device) status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.session.Status()
	s.Switch = d.id
	return s
}
