// Package controller is one controller: it connects the consensus group, the ledger, the applications and the sessions
// of switches in one loop. Core is the logic of the loop, and pure. Controller is the goroutine that owns it; sessions,
// the network and the API communicate with it through channels.
//
// It does not contain the rules of exactly-once delivery, which are in ledger, nor the protocols, which are in
// consensus and southbound.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Config makes a Controller.
type Config struct {
	Name          string
	Consensus     consensus.HostConfig
	Group         consensus.GroupConfig // the only group of the cluster
	Names         map[uint64]string     // of the members, for status
	Applications  []ledger.Application
	Limits        ledger.Limits
	Southbound    southbound.Config
	REST          net.Listener      // of replayed applications; nil for none
	RESTPeers     map[uint64]string // addresses of the other members' REST interfaces, by id
	OpenFlow      net.Listener      // agents and switches connect here
	API           net.Listener      // for holdfast status; nil for none
	SwitchTimeout time.Duration     // without any connection, a switch is reported down
	SnapshotEvery int               // entries from one snapshot to the next, at most; 0 is 200,000
	Host          *ryu.Config       // of replayed applications; nil if there are none
	Identity      string            // of those applications, as ryu.Probe gives it
	Duty          *Duty             // of the leader; nil for none
	Audit         Auditor           // what the ledger holds; nil for none
	Logger        *slog.Logger      // must be set
}

// Controller is a running controller: a Core, and the I/O around it.
type Controller struct {
	cfg          Config
	log          *slog.Logger
	core         *Core // only the loop touches it
	host         *consensus.Host
	node         *consensus.Node
	switches     chan error // the error that ended the service of switches
	stopSwitches context.CancelFunc
	inbox        chan item
	ask          chan func()
	heard        chan func()    // results of hosts, see later
	payloads     *payloads      // of other controllers
	background   sync.WaitGroup // goroutines that work for the loop; run waits for them
	encoded      chan []byte    // capacity 1: the snapshot that was being encoded
	encoding     bool           // used by the loop only: a snapshot is being encoded
	leads        chan bool      // capacity 1, see tellDuty
	tended       chan struct{}  // closed when the duty has ended
	stop         chan struct{}  // closed by Close
	done         chan struct{}  // closed when the loop has ended
	err          error          // why the loop ended; read after done
}

// Auditor receives every committed entry, in the order of the log, before its outputs are released. It is closed when
// the controller ends. Its error ends the controller.
type Auditor interface {
	Append(index uint64, entry []byte) error
	Close() error
}

// inboxSize bounds the queue from sessions to the loop. A session that finds it full waits, and does not read from its
// switch.
const inboxSize = 1024

// TickInterval is how often timers and absent switches are checked.
const TickInterval = 5 * time.Millisecond

// Start runs a controller until Close, or until it fails: see Done and Err. If Start returns an error, the caller must
// close the listeners and the audit file.
func Start(cfg Config) (*Controller, error) {
	c := &Controller{
		cfg: cfg, log: cfg.Logger,
		payloads: &payloads{wake: make(chan struct{}, 1)},
		inbox:    make(chan item, inboxSize), ask: make(chan func()), heard: make(chan func()),
		encoded: make(chan []byte, 1),
		leads:   make(chan bool, 1), tended: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if c.cfg.Audit == nil {
		c.cfg.Audit = (*audit.File)(nil) // does nothing
	}
	var runner replay.Runner
	if cfg.Host != nil {
		runner = newHosts(c, *cfg.Host)
	}
	var err error
	c.core, err = NewCore(CoreConfig{Name: cfg.Name, ID: cfg.Consensus.ID, Names: cfg.Names,
		Applications: cfg.Applications, Limits: cfg.Limits,
		SwitchTimeout: cfg.SwitchTimeout, SnapshotEvery: cfg.SnapshotEvery, Hosts: runner, Identity: cfg.Identity,
		Logger: cfg.Logger},
		outside{c})
	if err != nil {
		return nil, err
	}
	if err := c.join(); err != nil {
		return nil, fmt.Errorf("start consensus of controller %s: %w", cfg.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.switches, c.stopSwitches = make(chan error, 1), cancel
	// ends with stopSwitches
	go func() { c.switches <- southbound.Serve(ctx, cfg.OpenFlow, cfg.Southbound, handler{c}) }()
	var api *web
	if cfg.API != nil {
		api = c.serveAPI(cfg.API)
	}
	var rest *rest
	if cfg.REST != nil {
		rest = c.serveREST(cfg.REST)
	}
	go c.tend() // ends with run
	go c.run(api, rest)
	return c, nil
}

// join starts the consensus.
func (c *Controller) join() (err error) {
	if c.host, err = consensus.NewHost(c.cfg.Consensus); err != nil {
		return err
	}
	group := c.cfg.Group
	group.Payload = c.payloads.put
	if c.node, err = c.host.Start(group); err != nil {
		return errors.Join(err, c.host.Close())
	}
	return nil
}

// Done is closed when the controller has ended.
func (c *Controller) Done() <-chan struct{} { return c.done }

// Err returns why the controller failed; nil after Close. Valid once Done is closed.
func (c *Controller) Err() error { return c.err }

// Close stops the controller and waits for it. A leader first transfers the leadership to the follower that has most of
// the log, so that there is no election timeout.
func (c *Controller) Close() error {
	if err := c.handOver(context.Background()); err != nil && !errors.Is(err, errNoSuccessor) {
		c.log.Warn("leadership not transferred; the others will elect a leader", "err", err)
	}
	close(c.stop)
	<-c.done
	return c.err
}

// handOverTimeout bounds how long a stopping leader waits for its successor.
const handOverTimeout = 500 * time.Millisecond

var errNoSuccessor = errors.New("no other voter is reachable to take over the leadership; start one first")

// handOver transfers the leadership, if this controller has it, to the follower that has most of the log and accepts
// it.
func (c *Controller) handOver(ctx context.Context) error {
	if _, ok := c.node.Status().Successor(); !ok {
		return errNoSuccessor // unused if this controller does not lead
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := c.node.HandOver(ctx); err != nil {
		return fmt.Errorf("transfer the leadership: %w", err)
	}
	s := c.node.Status()
	c.log.Info("leadership transferred", "to", c.memberName(s, s.Leader))
	return nil
}

// run is the goroutine that owns the controller. It ends with Close or an error, and then stops the node, the server
// and the API.
func (c *Controller) run(api *web, rest *rest) {
	defer close(c.done)
	c.err = c.loop()
	c.endDuty()
	c.core.Stop()
	c.stopSwitches()
	idle := make(chan struct{})
	go func() { c.background.Wait(); close(idle) }() // ends with the hosts, which core has stopped
	for ended := false; !ended || idle != nil; {     // sessions and hosts may wait for the loop
		select {
		case it := <-c.inbox:
			it.reject()
		case <-c.heard:
		case <-idle:
			idle = nil
		case err := <-c.switches:
			c.err, ended = errors.Join(c.err, err), true
		}
	}
	if c.encoding {
		<-c.encoded
	}
	if api != nil {
		c.err = errors.Join(c.err, api.close())
	}
	if rest != nil {
		c.err = errors.Join(c.err, rest.close())
	}
	for _, end := range []func() error{c.node.Close, c.host.Close} {
		if err := end(); !errors.Is(c.err, err) { // otherwise it is the error that ended the loop
			c.err = errors.Join(c.err, err)
		}
	}
	c.err = errors.Join(c.err, c.cfg.Audit.Close())
}

// loop is the control path of this controller. Each turn handles everything that waits, executes inputs while there is
// room, proposes one entry, and releases what was committed.
func (c *Controller) loop() error {
	ticker := time.NewTicker(TickInterval)
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
		case <-c.payloads.wake: // drain handles them
		case f := <-c.ask:
			f()
		case f := <-c.heard:
			f()
		case state := <-c.encoded:
			c.encoding = false
			if err := c.core.Encoded(state); err != nil {
				return err
			}
		case now := <-ticker.C:
			if err := c.core.Tick(now); err != nil {
				return err
			}
		case err := <-c.switches:
			c.switches <- err
			return fmt.Errorf("controller %s: serve switches at %s: %w", c.cfg.Name, c.cfg.OpenFlow.Addr(), err)
		}
		if err := c.drain(); err != nil {
			return err
		}
		if err := c.core.Turn(time.Now()); err != nil {
			return err
		}
	}
}

// drain handles everything else that waits, committed entries first. It does not block.
func (c *Controller) drain() error {
	for _, p := range c.payloads.take() {
		c.core.Payload(time.Now(), p.from, p.bytes)
	}
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

// update handles an update of the consensus; ok is false when that has stopped.
func (c *Controller) update(u consensus.Update, ok bool) error {
	if !ok {
		return fmt.Errorf("controller %s: consensus ended: %w", c.cfg.Name, c.node.Err())
	}
	err := c.core.Update(time.Now(), u)
	if u.Role != nil && err == nil {
		c.tellDuty(u.Role.Leading)
	}
	return err
}

// outside implements Outside.
type outside struct{ c *Controller }

func (o outside) Propose(term uint64, entry []byte) error { return o.c.node.Propose(term, entry) }

func (o outside) Compact(index uint64, state []byte) error { return o.c.node.Compact(index, state) }

func (o outside) SendPayload(member uint64, payload []byte) bool {
	return o.c.node.SendPayload(member, payload)
}

func (o outside) DeferElection(on bool) { o.c.node.DeferElection(on) }

func (o outside) Audit(index uint64, entry []byte) error { return o.c.cfg.Audit.Append(index, entry) }

// Encode runs in a goroutine of its own, while the loop continues.
func (o outside) Encode(encode func() []byte) {
	o.c.encoding = true
	go func() { o.c.encoded <- encode() }() // run waits for it
}

// later makes the loop run f, unless the loop has ended. It waits until the loop takes f.
func (c *Controller) later(f func()) {
	select {
	case c.heard <- f:
	case <-c.done:
	}
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
