package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/handshake"
	"github.com/holdfast-sdn/holdfast/internal/ofconn"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
)

// device does the I/O for the core of one switch. It outlives the switch's connections. Each connection has a reader,
// which passes what arrives to the core, and a writer, which takes from the core what is due. So events are buffered in
// the core and nowhere else.
type device struct {
	a   *Agent
	id  openflow.DatapathID
	log *slog.Logger

	mu      sync.Mutex // guards the fields below; never held during I/O
	changed *sync.Cond // wakes readers that wait for room, and diallers that wait for an epoch
	core    *Core
	sw      *outlet
	links   map[*Peer]*link
}

// outlet is one connection with its writer.
type outlet struct {
	conn  net.Conn
	wake  chan struct{} // capacity 1; tells the writer that there is something to write
	done  chan struct{} // closed when the reader has ended
	cause error         // why this side has closed it; guarded by the device's mu
}

func newOutlet(conn net.Conn) *outlet {
	return &outlet{conn: conn, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

func (o *outlet) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// fail closes the connection from this side. The caller holds the device's mu.
func (o *outlet) fail(cause error) {
	if o.cause == nil {
		o.cause = cause
	}
	o.conn.Close()
}

var errVersion = errors.New("the switch came back with another OpenFlow version")

func newDevice(a *Agent, id openflow.DatapathID) *device {
	d := &device{a: a, id: id, log: a.log.With("switch", id), links: map[*Peer]*link{},
		core: NewCore(a.cfg.BufferEvents, a.cfg.BufferBytes)}
	d.changed = sync.NewCond(&d.mu)
	return d
}

// serve runs one connection of the switch, from the end of the handshake until it is lost. The error says why the
// switch cannot be served at all.
func (d *device) serve(ctx context.Context, conn net.Conn, in *ofconn.Reader, hs *handshake.Handshake,
	rest []byte) error {
	sw := newOutlet(conn)
	epoch, err := d.up(sw, hs)
	if err != nil {
		return err
	}
	d.a.incidents.Info("up "+d.id.String(), "switch up", "switch", d.id, "remote", conn.RemoteAddr(), "epoch", epoch,
		"version", hs.Version)
	stop := context.AfterFunc(ctx, func() { d.mu.Lock(); d.changed.Broadcast(); d.mu.Unlock() })
	defer stop()
	var writer sync.WaitGroup
	writer.Go(func() {
		d.write(sw, func(dst []byte) []byte {
			if d.sw != sw {
				return dst // the core's output is for the next connection
			}
			dst = d.core.TakeSwitch(dst)
			d.wakeMaster()
			return dst
		})
	})
	err = d.readSwitch(ctx, sw, in, rest)
	close(sw.done)
	d.down(ctx, sw, err)
	writer.Wait()
	return nil
}

// up opens an epoch, unless the switch has another connection.
func (d *device) up(sw *outlet, hs *handshake.Handshake) (uint64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.sw != nil && d.sw.cause != nil { // it was closed from this side, and is about to end
		d.changed.Wait()
	}
	if d.sw != nil {
		return 0, fmt.Errorf("its datapath id is in use by %v: give each switch its own", d.sw.conn.RemoteAddr())
	}
	epoch, err := d.core.SwitchUp(uint64(d.a.cfg.Now().UnixNano()), hs.Version, hs.Features, hs.Ports)
	if err != nil {
		return 0, err
	}
	d.sw = sw
	for p, l := range d.links {
		if d.core.Outdated(p) {
			l.fail(errVersion)
		}
	}
	d.wakeAll()
	d.changed.Broadcast()
	return epoch, nil
}

// down closes the epoch, and tells the controllers and the log. An agent that is stopping says nothing, since the
// switch is not down.
func (d *device) down(ctx context.Context, sw *outlet, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	sw.conn.Close()
	d.sw = nil
	if ctx.Err() != nil {
		return
	}
	switch {
	case sw.cause != nil:
		err = sw.cause
	case err == io.EOF:
		err = fmt.Errorf("it closed the connection: %w", err)
	}
	reason := reasonOf(err)
	d.core.SwitchDown(reason)
	d.wakeAll()
	d.changed.Broadcast()
	d.a.incidents.Warn("down "+d.id.String(), "switch down", "switch", d.id, "remote", sw.conn.RemoteAddr(), "reason",
		reason, "error", err,
		"events held", d.core.Held())
}

func reasonOf(err error) experimenter.Reason {
	var network net.Error
	switch {
	case errors.Is(err, ofconn.ErrSilent):
		return experimenter.ReasonSilent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed),
		errors.As(err, &network),
		errors.Is(err, errNotReading), errors.Is(err, errStale), errors.Is(err, errLostLog):
		return experimenter.ReasonConnectionLost
	}
	return experimenter.ReasonGarbage
}

// readSwitch passes what the switch sends to the core until the connection ends.
func (d *device) readSwitch(ctx context.Context, sw *outlet, in *ofconn.Reader, batch []byte) error {
	for {
		if err := d.takeIn(ctx, sw, batch); err != nil {
			return err
		}
		var err error
		if batch, err = in.Next(); err != nil {
			return err
		}
	}
}

// takeIn passes a batch to the core, and waits for room as long as it must: nothing that was read is lost.
func (d *device) takeIn(ctx context.Context, sw *outlet, batch []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		n, err := d.core.FromSwitch(batch)
		if n > 0 {
			d.wakeMaster()
			d.wakeSwitch()
		}
		if err != nil {
			return err
		}
		batch = batch[n:]
		switch {
		case sw.cause != nil:
			return sw.cause
		case ctx.Err() != nil:
			return ctx.Err()
		case len(batch) == 0 && d.core.QueuedCommands() <= d.a.cfg.CommandBytes:
			return nil
		case len(batch) > 0:
			held := d.core.Status()
			d.a.incidents.Warn("full "+d.id.String(), "event buffer is full: the switch is not read until the "+
				"controllers acknowledge events",
				"switch", d.id, "events", held.Held, "bytes", held.HeldBytes, "controllers", len(d.links))
		}
		d.changed.Wait()
	}
}

// write writes what take appends, until the connection is closed or its reader has ended.
func (d *device) write(o *outlet, take func(dst []byte) []byte) {
	var buf []byte
	for {
		select {
		case <-o.wake:
		case <-o.done:
			return
		}
		for {
			d.mu.Lock()
			buf = take(buf[:0])
			d.changed.Broadcast()
			d.mu.Unlock()
			if len(buf) == 0 {
				break
			}
			o.conn.SetWriteDeadline(time.Now().Add(d.a.cfg.WriteTimeout))
			if _, err := o.conn.Write(buf); err != nil {
				if errors.Is(err, os.ErrDeadlineExceeded) {
					err = fmt.Errorf("%w: nothing for %v", errNotReading, d.a.cfg.WriteTimeout)
				}
				d.mu.Lock()
				o.fail(err)
				d.changed.Broadcast()
				d.mu.Unlock()
				return
			}
		}
	}
}

// tick drives the clock of the core.
func (d *device) tick(ctx context.Context) {
	t := time.NewTicker(d.a.cfg.EchoInterval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		d.mu.Lock()
		peers := make([]*Peer, 0, len(d.links))
		for p, l := range d.links {
			peers = append(peers, p)
			l.announce()
		}
		d.core.Tick(peers)
		d.warnFenced()
		d.wakeAll()
		d.mu.Unlock()
	}
}

// The caller of these three holds mu.

func (d *device) wakeMaster() {
	if m := d.core.Master(); m != nil && d.core.Pending(m) {
		d.links[m].signal()
	}
}

func (d *device) wakeSwitch() {
	if d.sw != nil && d.core.QueuedCommands() > 0 {
		d.sw.signal()
	}
}

func (d *device) wakeAll() {
	for p, l := range d.links {
		if d.core.Pending(p) {
			l.signal()
		}
	}
	d.wakeSwitch()
}

func (d *device) status() Status {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.core.Status()
	s.Switch, s.Controllers = d.id, len(d.links)
	if l := d.links[d.core.Master()]; l != nil {
		s.Master = l.address
	}
	return s
}
