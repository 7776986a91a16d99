// Package platform is one controller: it joins the consensus group, the ledger, the
// applications and the switches' sessions in one loop. The loop's goroutine owns the
// ledger; sessions, the network and the API speak to it through channels.
//
// It is where actors, the directory and placement will live; the rules of exactly-once
// are in ledger, the protocols in consensus and southbound.
package platform

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/platform/audit"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Config makes a Controller.
type Config struct {
	Name          string
	Consensus     consensus.Config
	Names         map[uint64]string // of the members, for status
	Applications  []ledger.Application
	Limits        ledger.Limits
	Southbound    southbound.Config
	OpenFlow      net.Listener  // agents and switches connect here
	API           net.Listener  // holdfast status asks here; nil for none
	SwitchTimeout time.Duration // without any connection, a switch is reported down
	SnapshotEvery int           // entries from one snapshot to the next, at most; 0 is 200,000
	Audit         *audit.File   // what the ledger holds, record by record; nil for none
	Logger        *slog.Logger  // must be set
}

// Controller is a running controller.
type Controller struct {
	cfg          Config
	log          *slog.Logger
	core         *ledger.Core
	node         *consensus.Node
	switches     chan error // what ended the service of switches
	stopSwitches context.CancelFunc
	inbox        chan item
	ask          chan func()
	stop         chan struct{} // closed by Close
	done         chan struct{} // closed when the loop has ended
	err          error         // why the loop ended; read after done

	// The loop's own.
	role     consensus.Role
	applied  uint64      // index of the last committed entry
	snapshot uint64      // index of the last snapshot
	size     int         // bytes of that snapshot
	logged   int         // bytes of entries since
	draining bool        // no input is executed until a snapshot can begin
	encoding uint64      // index of the snapshot that is being made in the background; 0 is none
	encoded  chan []byte // capacity 1: that snapshot
	waiting  []*delivery
	sessions map[openflow.DatapathID]*attached
	absent   map[openflow.DatapathID]time.Time // since when a switch has no session
	suspects []suspect
	held     map[openflow.DatapathID]*attached // see pressure
}

// inboxSize bounds what sessions have for the loop. A session that finds it full waits, and
// so does its switch.
const inboxSize = 1024

// tickInterval is how often timers and absent switches are looked at.
const tickInterval = 5 * time.Millisecond

// Start runs a controller until Close, or until it fails: see Done and Err. On an error the
// listeners and the audit file are still the caller's to close.
func Start(cfg Config) (*Controller, error) {
	core, err := ledger.New(cfg.Applications, cfg.Limits)
	if err != nil {
		return nil, err
	}
	if cfg.SnapshotEvery <= 0 {
		cfg.SnapshotEvery = 200_000
	}
	node, err := consensus.Start(cfg.Consensus)
	if err != nil {
		return nil, fmt.Errorf("start consensus of controller %s: %w", cfg.Name, err)
	}
	c := &Controller{
		cfg: cfg, log: cfg.Logger, core: core, node: node,
		inbox: make(chan item, inboxSize), ask: make(chan func()), encoded: make(chan []byte, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
		sessions: map[openflow.DatapathID]*attached{}, absent: map[openflow.DatapathID]time.Time{}, held: map[openflow.DatapathID]*attached{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.switches, c.stopSwitches = make(chan error, 1), cancel
	go func() { c.switches <- southbound.Serve(ctx, cfg.OpenFlow, cfg.Southbound, handler{c}) }() // ends with stopSwitches
	var api *api
	if cfg.API != nil {
		api = c.serveAPI(cfg.API)
	}
	go c.run(api)
	return c, nil
}

// Done is closed when the controller has ended.
func (c *Controller) Done() <-chan struct{} { return c.done }

// Err tells why it ended by itself; nil after Close. Valid once Done is closed.
func (c *Controller) Err() error { return c.err }

// Close ends the controller and waits for it. A leader first hands over to the follower
// that has most of the log, so that the switches wait for no election.
func (c *Controller) Close() error {
	c.handOver()
	close(c.stop)
	<-c.done
	return c.err
}

// handOverTimeout bounds how long a stopping leader waits for its successor.
const handOverTimeout = 500 * time.Millisecond

func (c *Controller) handOver() {
	var to consensus.Peer
	for _, p := range c.node.Status().Peers { // none unless this one leads
		if p.Active && p.Match >= to.Match {
			to = p
		}
	}
	if to.ID == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
	defer cancel()
	if err := c.node.Transfer(ctx, to.ID); err != nil {
		c.log.Warn("leadership not handed over; the others will elect", "to", c.cfg.Names[to.ID], "err", err)
		return
	}
	c.log.Info("leadership handed over", "to", c.cfg.Names[to.ID])
}

// run is the goroutine that owns everything; it ends with Close or an error, and takes
// the node, the server and the API with it.
func (c *Controller) run(api *api) {
	defer close(c.done)
	c.err = c.loop()
	for _, d := range c.waiting {
		d.finish(errClosing)
	}
	c.stopSwitches()
	for ended := false; !ended; { // sessions may wait for the loop
		select {
		case it := <-c.inbox:
			it.reject()
		case err := <-c.switches:
			c.err, ended = errors.Join(c.err, err), true
		}
	}
	if c.encoding != 0 {
		<-c.encoded
	}
	if api != nil {
		c.err = errors.Join(c.err, api.close())
	}
	c.err = errors.Join(c.err, c.node.Close(), c.cfg.Audit.Close())
}

var errClosing = errors.New("the controller is stopping")

// loop is the one mechanism at work. Each turn takes all that waits, executes what there
// is room for, proposes one entry, and lets out what was committed.
func (c *Controller) loop() error {
	ticker := time.NewTicker(tickInterval)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return nil
		case u, ok := <-c.node.Updates():
			if err := c.update(u, ok); err != nil {
				return err
			}
		case it := <-c.inbox:
			c.take(it)
		case f := <-c.ask:
			f()
		case state := <-c.encoded:
			if err := c.keep(state); err != nil {
				return err
			}
		case now := <-ticker.C:
			if err := c.tick(now); err != nil {
				return err
			}
		case err := <-c.switches:
			c.switches <- err
			return fmt.Errorf("controller %s: serve switches at %s: %w", c.cfg.Name, c.cfg.OpenFlow.Addr(), err)
		}
		if err := c.drain(); err != nil {
			return err
		}
		if err := c.turn(); err != nil {
			return err
		}
	}
}

// drain takes what else is there, commits first, without waiting.
func (c *Controller) drain() error {
	for range inboxSize {
		select {
		case u, ok := <-c.node.Updates():
			if err := c.update(u, ok); err != nil {
				return err
			}
			continue
		default:
		}
		select {
		case it := <-c.inbox:
			c.take(it)
		default:
			return nil
		}
	}
	return nil
}

// turn executes, proposes and releases.
func (c *Controller) turn() error {
	c.execute()
	if entry, ok := c.core.CutTransactions(); ok {
		if err := c.propose(entry); err != nil {
			return err
		}
	}
	c.release(c.core.Releases())
	c.judge()
	for _, f := range c.core.Failures() {
		c.log.Error("application failed; what it did for this input is discarded", "app", f.App, "input", f.Input.String(), "err", f.Err, "stack", string(f.Stack))
	}
	return c.compact()
}

// propose hands an entry to the consensus. If this member leads no more, the node says so with
// a Role as well, and until then nothing is released.
func (c *Controller) propose(entry []byte) error {
	err := c.node.Propose(c.role.Term, entry)
	if err == nil || errors.Is(err, consensus.ErrNotLeader) {
		return nil
	}
	return fmt.Errorf("controller %s: propose an entry in term %d: %w", c.cfg.Name, c.role.Term, err)
}

// update takes what the consensus says; ok is false when it has ended.
func (c *Controller) update(u consensus.Update, ok bool) error {
	switch {
	case !ok:
		return fmt.Errorf("controller %s: consensus ended: %w", c.cfg.Name, c.node.Err())
	case u.Role != nil:
		return c.changeRole(*u.Role)
	case u.Snapshot != nil:
		c.applied, c.snapshot = u.Snapshot.Index, u.Snapshot.Index
		c.size, c.logged = len(u.Snapshot.State), 0
		c.log.Info("state restored from a snapshot", "index", u.Snapshot.Index, "bytes", len(u.Snapshot.State))
		return c.core.Restore(u.Snapshot.State)
	}
	for _, e := range u.Entries {
		before := c.core.Counters().Completions
		if err := c.core.Commit(e.Data); err != nil {
			return fmt.Errorf("controller %s: entry %d: %w", c.cfg.Name, e.Index, err)
		}
		if c.core.Counters().Completions > before && c.role.Leading {
			crash.At(crash.AfterComplete)
		}
		if err := c.cfg.Audit.Append(e.Index, e.Data); err != nil {
			return err
		}
		c.applied = e.Index
		c.logged += len(e.Data)
	}
	return nil
}

func (c *Controller) changeRole(r consensus.Role) error {
	was := c.role
	c.role = r
	clear(c.held) // each leader claims all switches anew
	if !r.Leading {
		if was.Leading {
			c.log.Warn("no longer leader", "term", was.Term)
		}
		if err := c.core.Follow(); err != nil {
			return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
		}
		for _, d := range c.waiting {
			d.finish(nil) // whoever leads now gets them again
		}
		c.waiting, c.draining, c.suspects = c.waiting[:0], false, nil
		return nil
	}
	if err := c.core.Lead(r.Term, time.Now().UnixNano()); err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	c.suspects = nil
	c.log.Info("leader", "term", r.Term, "index", c.applied, "switches", len(c.sessions))
	c.takeOverAll()
	return nil
}

// tick fires timers, reports switches that stayed away, and logs what is complete.
func (c *Controller) tick(now time.Time) error {
	if !c.role.Leading {
		return nil
	}
	if entry, ok := c.core.Cut(); ok {
		if err := c.propose(entry); err != nil {
			return err
		}
	}
	if !c.draining {
		c.core.Tick(now.UnixNano())
		c.resume(now)
		c.reportAbsent(now)
	}
	return nil
}

// snapshotBytes is the least log that is worth a snapshot; a large state waits for a log
// several times as large.
const (
	snapshotBytes = 16 << 20
	snapshotRatio = 4
)

// compact begins a snapshot when enough entries have come since the last. It is encoded by
// a goroutine of its own, while the loop goes on.
func (c *Controller) compact() error {
	due := c.applied-c.snapshot >= uint64(c.cfg.SnapshotEvery) || c.logged >= max(snapshotBytes, snapshotRatio*c.size)
	if !due || c.encoding != 0 {
		return nil
	}
	if !c.core.Quiet() {
		c.draining = true
		return nil
	}
	c.draining = false
	encode, err := c.core.Freeze()
	if err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	c.encoding, c.snapshot, c.logged = c.applied, c.applied, 0
	go func() { c.encoded <- encode() }() // run waits for it
	return nil
}

// keep hands an encoded snapshot to the consensus.
func (c *Controller) keep(state []byte) error {
	index := c.encoding
	c.encoding = 0
	c.core.Thaw()
	if index < c.snapshot {
		return nil // the leader sent a newer one meanwhile
	}
	c.size = len(state)
	if err := c.node.Compact(index, state); err != nil && !errors.Is(err, consensus.ErrCompacting) { // the next one will do
		return fmt.Errorf("controller %s: keep snapshot at %d: %w", c.cfg.Name, index, err)
	}
	return nil
}

// inLoop runs f in the loop's goroutine and waits for it.
func (c *Controller) inLoop(ctx context.Context, f func()) error {
	ready := make(chan struct{})
	select {
	case c.ask <- func() { f(); close(ready) }:
		<-ready
		return nil
	case <-c.done:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
}
