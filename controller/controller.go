// Package controller is one controller: for each group it connects the consensus, the ledger, the applications and the
// sessions of the group's switches in one loop. Core is the logic of a loop, and pure. A Controller has a goroutine for
// each group, which owns its Core; sessions, the network and the API communicate with it through channels.
//
// It does not contain the rules of exactly-once delivery, which are in ledger, nor the protocols, which are in
// consensus and southbound.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/controller/audit"
	"github.com/holdfast-sdn/holdfast/controller/directory"
	"github.com/holdfast-sdn/holdfast/internal/access"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/internal/incident"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/internal/watchdog"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Config makes a Controller.
type Config struct {
	Name      string
	Consensus consensus.HostConfig
	// Groups are those with which the cluster begins, by number. With several, switches are in those after the first,
	// of which only Open needs to make the applications. What the log says about members takes precedence.
	Groups []GroupConfig
	// Open makes the configuration of a home group that this controller gets, but for Consensus, if there are several.
	// actors is Layout.Actors. It is also called, for the only group too, when a group begins anew because a handler
	// hangs; nil: then the controller ends, and the Groups are complete and stay as they are.
	Open          func(group, actors uint64) (GroupConfig, error)
	Replication   uint64            // with which the cluster begins, see directory.Layout
	Names         map[uint64]string // of the members, for status
	Limits        ledger.Limits
	Southbound    southbound.Config
	REST          net.Listener      // of applications; nil for none
	RESTPeers     map[uint64]string // addresses of the other members' REST interfaces, by id
	Served        Served            // by REST, besides replayed applications
	OpenFlow      net.Listener      // agents and switches connect here
	API           net.Listener      // for holdfast status; nil for none
	SwitchTimeout time.Duration     // without any connection, a switch is reported down
	SwitchExpiry  time.Duration     // a switch that is down for so long is forgotten; 0: none is
	// HandlerTimeout is the time in which a handler has to return; else its actor is suspended. 0: five seconds.
	HandlerTimeout time.Duration
	SnapshotEvery  int              // entries from one snapshot to the next, at most; 0 is 200,000
	Duty           *Duty            // of the leader of the first group; nil for none
	Network        *Network         // what the API says of the network; nil for nothing
	Store          *Store           // what the API says of the store; nil for nothing
	Optimizer      *OptimizerConfig // nil: no actor moves by itself
	Audit          Auditor          // what the ledgers hold; nil for none
	Guard          *access.Guard    // of API and REST; nil: everybody may do everything
	FirstUse       FirstUse         // nil: the log does not remember who speaks for switches
	Tracer         *trace.Tracer    // nil: no event is followed
	Logger         *slog.Logger     // must be set

	Peers []Peer // the controllers of the cluster file
	// DialAPI connects to the API of another controller, or to its REST interface. nil: plain TCP.
	DialAPI func(ctx context.Context, address string) (net.Conn, error)
}

// Served are applications with handlers over HTTP.
type Served []ledger.Application

// Controller is a running controller: its groups, and the I/O around them.
type Controller struct {
	cfg          Config
	log          *slog.Logger
	host         *consensus.Host
	groups       groupTable
	logged       map[uint64]uint64 // used by run only: replicas that have a log and were not started, by group
	ends         chan *group       // groups whose loop has ended
	router       router
	assigned     *assignments // the switches and actors of several groups
	calls        *Calls       // of clients here
	seats        seats        // of sessions, if there are several groups
	reassigned   reassignments
	optimizing   optimizing
	incidents    *incident.Log      // of switches that are not served
	switches     chan error         // the error that ended the service of switches
	stopSwitches context.CancelFunc // ends homes and ending too
	ending       context.Context    // of the streams of the API
	journal      *journal
	leads        chan bool     // capacity 1, see tellDuty
	tended       chan struct{} // closed when the duty has ended
	homes        sync.WaitGroup
	hanging      atomic.Int64  // loops of groups that were given up and have not ended
	rebuilt      atomic.Int64  // how often groups began anew, because they differed from other replicas
	stop         chan struct{} // closed by Close
	done         chan struct{} // closed when everything has ended
	err          error         // why it ended; read after done
}

// Auditor receives every committed entry of each group, in the order of the log, before its outputs are released. It is
// called by several goroutines, and closed when the controller ends. Its error ends the controller.
type Auditor interface {
	Append(group, index uint64, entry []byte) error
	Close() error
}

// patience times the handler timeout is for how long the loop of a leader may make no turn. A handler that hangs is
// found earlier, so that its actor is suspended before another controller leads.
const patience = 2

// TickInterval is how often a Core looks what time moves on, while anything waits for that, and QuietInterval how often
// it does otherwise. An idle process that wakes rarely costs almost nothing.
const (
	TickInterval  = 5 * time.Millisecond
	QuietInterval = 50 * time.Millisecond
)

// Start runs a controller until Close, or until it fails: see Done and Err. If Start returns an error, the caller must
// close the listeners and the audit file.
func Start(cfg Config) (*Controller, error) {
	c := &Controller{cfg: cfg, log: cfg.Logger, assigned: newAssignments(), calls: NewCalls(rand.Uint64()),
		leads: make(chan bool, 1), tended: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
		ends:       make(chan *group),
		reassigned: reassignments{wake: make(chan struct{}, 1)}}
	c.cfg.Consensus.Several = c.several()
	c.cfg.Consensus.Patience = patience * cmp.Or(cfg.HandlerTimeout, watchdog.DefaultBudget)
	c.journal = newJournal(cfg.Name)
	c.router.elsewhere, c.router.lost = c.sendElsewhere, c.calls.Lost
	c.incidents = incident.NewEvery(time.Minute, cfg.Logger)
	if c.cfg.Audit == nil {
		c.cfg.Audit = (*audit.File)(nil) // does nothing
	}
	if err := c.join(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.switches, c.stopSwitches, c.ending = make(chan error, 1), cancel, ctx
	// ends with stopSwitches
	go func() { c.switches <- southbound.Serve(ctx, cfg.OpenFlow, c.southbound(), handler{c}) }()
	var serves *apiServer
	if cfg.API != nil {
		serves = c.serveAPI(cfg.API)
		c.homes.Go(func() { serves.sample(ctx) })
		c.homes.Go(func() { serves.wake(ctx) })
	}
	var rest *rest
	if cfg.REST != nil {
		rest = c.serveREST(cfg.REST)
	}
	go c.tend() // ends with run
	c.homes.Go(func() { c.tendHomes(ctx) })
	c.homes.Go(func() { c.reassign(ctx) })
	if c.cfg.Optimizer != nil && c.several() {
		c.homes.Go(func() { c.optimize(ctx) })
	}
	go c.run(serves, rest)
	return c, nil
}

// join starts the system group, or the only one. The others follow when the directory is known: see place.
func (c *Controller) join() (err error) {
	if c.host, err = consensus.NewHost(c.cfg.Consensus); err != nil {
		return fmt.Errorf("start the consensus of controller %s: %w", c.cfg.Name, err)
	}
	c.logged = c.host.Idle()
	delete(c.logged, 0)
	if err := c.startGroup(c.cfg.Groups[0], c.heardSystem); err != nil {
		return errors.Join(err, c.host.Close())
	}
	return nil
}

// heardSystem takes each update of the system group, after its core.
func (c *Controller) heardSystem(u consensus.Update, core *Core) error {
	if u.Role != nil {
		c.tellDuty(u.Role.Leading)
	}
	if !c.several() {
		return nil
	}
	moved, all, err := c.assigned.update(u, core)
	if err != nil {
		return err
	}
	if crash.Compiled && slices.ContainsFunc(moved, c.assigned.moved) {
		crash.At(crash.MovePublished)
	}
	if len(moved) > 0 || all {
		c.router.tell(RelocatedPayload(moved, all))
	}
	if core.role.Leading {
		c.tellMoves(moved)
	}
	if u.Role != nil && u.Role.Leading && len(c.assigned.layout().Groups) == 0 {
		c.beginGroups(core)
	}
	return nil
}

// maxToldMoves bounds the moves of one turn of the system group that are events.
const maxToldMoves = 64

// tellMoves makes events of actors that have a group, or another one.
func (c *Controller) tellMoves(moved []ledger.Actor) {
	for _, a := range moved[:min(len(moved), maxToldMoves)] {
		if at, known := c.lives(a); known {
			c.journal.add(&api.Event{Kind: api.EventKind_EVENT_KIND_MOVED, Actor: a.String(), Group: uint32(at.Group),
				Text: fmt.Sprintf("%v lives in group %d", a, at.Group)})
		}
	}
}

// beginGroups asks for the first layout of a new cluster, which is that of the replicas that it was founded with.
func (c *Controller) beginGroups(core *Core) {
	first := directory.Place{Replication: c.cfg.Replication}
	for id := range c.system().node.Status().Members {
		first.Controllers = append(first.Controllers, wire.ControllerOf(id))
	}
	slices.Sort(first.Controllers)
	core.Ask(directory.Name, first.Append(nil))
}

// system returns the group that knows the members.
func (c *Controller) system() *group { return c.groups.all()[0] }

// hosting returns the group in which the replayed applications live, if there are any.
func (c *Controller) hosting() *group {
	for _, g := range c.groups.all() {
		if g.cfg.Host != nil {
			return g
		}
	}
	return c.system()
}

// Done is closed when the controller has ended.
func (c *Controller) Done() <-chan struct{} { return c.done }

// Err returns why the controller failed; nil after Close. Valid once Done is closed.
func (c *Controller) Err() error { return c.err }

// Close stops the controller and waits for it. It first transfers the leadership of each group that it leads to the
// follower that has most of the log, so that there is no election timeout.
func (c *Controller) Close() error {
	var wait sync.WaitGroup
	for _, g := range c.groups.all() {
		wait.Go(func() {
			if err := g.handOver(context.Background()); err != nil && !errors.Is(err, errNoSuccessor) {
				g.log.Warn("leadership not transferred; the others will elect a leader", "err", err)
			}
		})
	}
	wait.Wait()
	close(c.stop)
	<-c.done
	return c.err
}

// handOverTimeout bounds how long a stopping leader waits for its successor.
const handOverTimeout = 500 * time.Millisecond

var errNoSuccessor = errors.New("no other voter is reachable to take over the leadership; start one first")

// run is the goroutine that owns the controller. It ends with Close, or when the service of switches or a group fails,
// and then stops the groups, the service and the API.
func (c *Controller) run(serves *apiServer, rest *rest) {
	defer close(c.done)
	c.err = c.wait()
	for _, g := range c.groups.all() {
		close(g.stop)
	}
	for _, g := range c.groups.all() {
		<-g.ended
	}
	c.endDuty()
	c.stopSwitches()
	c.homes.Wait()
	c.err = errors.Join(c.err, <-c.switches)
	for _, g := range c.groups.all() {
		close(g.released)
	}
	if serves != nil {
		c.err = errors.Join(c.err, serves.close())
	}
	if rest != nil {
		c.err = errors.Join(c.err, rest.close())
	}
	for _, g := range c.groups.all() {
		// a fault of the log ends all groups, and is told once
		if err := g.close(); !errors.Is(c.err, g.node.Err()) {
			c.err = errors.Join(c.err, err)
		}
	}
	if err := c.host.Close(); !errors.Is(c.err, err) { // otherwise it is the error that ended a loop
		c.err = errors.Join(c.err, err)
	}
	c.err = errors.Join(c.err, c.cfg.Audit.Close())
}

// wait returns when the controller is to end: nil after Close, or an error of the service of switches. If a group has
// failed it returns nil, since close tells the error. Until then it keeps the replicas that the directory says.
func (c *Controller) wait() error {
	for {
		_, news := c.assigned.watch() // before place, so that nothing is missed
		if err := c.place(); err != nil {
			return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
		}
		select {
		case <-c.stop:
			return nil
		case g := <-c.ends:
			if g.retired {
				continue
			}
			if renews(g.err) {
				if err := c.renew(g, g.err); err != nil {
					return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
				}
				continue
			}
			if g.number() == 0 || !errors.Is(g.err, consensus.ErrRemoved) {
				return nil
			}
			if err := c.retire(g); err != nil {
				return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
			}
		case err := <-c.switches:
			c.switches <- nil
			return fmt.Errorf("controller %s: serve switches at %s: %w", c.cfg.Name, c.cfg.OpenFlow.Addr(), err)
		case <-news:
		}
	}
}
