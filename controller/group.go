package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"github.com/holdfast-sdn/holdfast/internal/watchdog"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/ryu"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// GroupConfig is what a controller needs to know of one group.
type GroupConfig struct {
	Consensus    consensus.GroupConfig
	Applications []ledger.Application
	Host         *ryu.Config // of replayed applications; nil if there are none
	Identity     string      // of those applications, as ryu.Probe gives it
}

// group is the part of a controller in one group: a Core, and the loop that owns it.
type group struct {
	cfg      GroupConfig
	name     string            // of the controller
	names    map[uint64]string // of the members
	log      *slog.Logger
	audit    Auditor
	core     *Core // only the loop touches it
	node     *consensus.Node
	observe  func(consensus.Update, *Core) error // the loop passes each update to it, after core
	inbox    *inbox
	taken    []item                // from the inbox: not handled yet
	taking   []southbound.Delivery // by take: the core does not have these yet
	ask      chan func()
	heard    chan func() // results of hosts, see later
	payloads *payloads   // of other controllers, and of the other groups of this one
	router   *router
	// makes a request of the directory, which may be lost
	askDirectory func(request []byte)
	answer       func(controller uint64, answers []byte)
	reassign     func(reassignment)
	files        *filer // of replayed applications; nil if they have none

	self           *atomic.Pointer[group] // which of the groups that have the node gets its payloads
	watchdog       *watchdog.Watchdog
	handlerTimeout time.Duration
	hung           chan struct{} // capacity 1: a call of an application does not return
	goroutine      string        // of the loop
	hanging        *atomic.Int64 // goroutines of this controller that were given up

	led        leadership
	background sync.WaitGroup // goroutines that work for the loop; run waits for them
	encoded    chan encoded   // capacity 1: the state that was being encoded
	encoding   bool           // used by the loop only: a snapshot is being encoded
	stop       chan struct{}  // closed to end the loop
	ended      chan struct{}  // closed when the loop has ended
	released   chan struct{}  // closed when no session and no request waits for the loop any more
	done       chan struct{}  // closed when everything has ended
	err        error          // why the loop ended; read after ended
	retired    bool           // used by Controller.run only: it ended because the replica has left the group
}

func (g *group) number() uint64 { return g.cfg.Consensus.Group }

// startGroup starts the replica of a group and its loop.
func (c *Controller) startGroup(cfg GroupConfig, observe func(consensus.Update, *Core) error) error {
	g, err := c.newGroup(cfg, observe)
	if err != nil {
		return err
	}
	g.self = new(atomic.Pointer[group])
	g.self.Store(g)
	replica := cfg.Consensus
	replica.Payload = func(from uint64, b []byte) {
		if !c.calls.Take(b) {
			g.self.Load().payloads.put(from, b)
		}
	}
	if g.node, err = c.host.Start(replica); err != nil {
		return fmt.Errorf("start the consensus of controller %s: %w", c.cfg.Name, err)
	}
	c.runGroup(g)
	return nil
}

// newGroup makes a group without a node.
func (c *Controller) newGroup(cfg GroupConfig, observe func(consensus.Update, *Core) error) (*group, error) {
	of := c.cfg
	g := &group{
		cfg: cfg, name: of.Name, names: of.Names, log: of.Logger, audit: of.Audit, observe: observe,
		payloads: &payloads{wake: make(chan struct{}, 1)}, router: &c.router, askDirectory: c.askDirectory,
		answer: c.answerCalls, reassign: c.reassigned.put,
		inbox: newInbox(), ask: make(chan func()), heard: make(chan func()),
		encoded: make(chan encoded, 1), stop: make(chan struct{}), ended: make(chan struct{}),
		released: make(chan struct{}), done: make(chan struct{}), hung: make(chan struct{}, 1),
		hanging: &c.hanging, handlerTimeout: cmp.Or(of.HandlerTimeout, watchdog.DefaultBudget),
	}
	g.watchdog = watchdog.New(g.handlerTimeout, func() { g.hung <- struct{}{} })
	if cfg.Consensus.Group != 0 {
		g.log = of.Logger.With("group", cfg.Consensus.Group)
		g.names = maps.Clone(of.Names)
		members := c.membersOf(g.number())
		maps.DeleteFunc(g.names, func(id uint64, _ string) bool { return !slices.Contains(members, id) })
	}
	var runner replay.Runner
	if cfg.Host != nil {
		runner = newHosts(g, *cfg.Host)
		if len(cfg.Host.Files) > 0 {
			g.files = newFiler(cfg.Host.Files, g.offerFiles, g.log, g.ended)
		}
	}
	var directory ledger.Directory
	if len(of.Groups) > 1 {
		directory = c.lives
	}
	began := time.Now()
	var err error
	g.core, err = NewCore(CoreConfig{Name: of.Name, ID: of.Consensus.ID, Names: g.names,
		Applications: cfg.Applications, Limits: of.Limits, SwitchTimeout: of.SwitchTimeout,
		SwitchExpiry:  of.SwitchExpiry,
		SnapshotEvery: of.SnapshotEvery, Hosts: runner, Afresh: cfg.Host != nil && cfg.Host.Alone,
		Identity: cfg.Identity, Logger: g.log,
		Group: cfg.Consensus.Group, Directory: directory, Shards: c.assigned.shards, Pinned: c.assigned.pinned,
		Here: g.router.leads, There: g.relays, Live: c.liveGroups,
		Elapsed: func() time.Duration { return time.Since(began) }, Guard: g.watchdog.Guard(), Tell: c.journal.add,
		Tracer: of.Tracer},
		outside{g})
	if err == nil {
		g.follow(c.cfg.Served)
	}
	return g, err
}

// runGroup starts the loop of a group, which replaces another one that had the same node.
func (c *Controller) runGroup(g *group) {
	g.self.Store(g)
	c.router.add(g)
	c.groups.add(g)
	c.startDetached(g)
	go g.run()
	go func() { // ends with the group, or with the controller
		<-g.ended
		select {
		case c.ends <- g:
		case <-c.done:
		}
	}()
}

// run is the goroutine that owns the group. It ends with end, or when its consensus fails, and has then stopped the
// node.
func (g *group) run() {
	defer close(g.done)
	if g.files != nil {
		g.background.Go(g.files.run)
	}
	g.err = g.supervise()
	close(g.ended)
	g.rejectAll()
	g.core.Stop()
	idle := make(chan struct{})
	go func() { g.background.Wait(); close(idle) }()              // ends with the hosts, which core has stopped
	for released := g.released; released != nil || idle != nil; { // who calls later may wait
		select {
		case <-g.heard:
		case <-idle:
			idle = nil
		case <-released:
			released = nil
		}
	}
	if g.encoding {
		<-g.encoded
	}
}

// rejectAll closes the inbox, and rejects what the core does not have.
func (g *group) rejectAll() {
	taking := item{kind: events, list: g.taking} // empty, unless the loop did not return
	for _, it := range slices.Concat([]item{taking}, g.taken, g.inbox.close()) {
		it.reject()
	}
	g.taking, g.taken = nil, nil
}

// close ends the node, after run.
func (g *group) close() error {
	<-g.done
	if err := g.node.Close(); !errors.Is(g.err, err) { // otherwise it is the error that ended the loop
		g.err = errors.Join(g.err, err)
	}
	return g.err
}

// loop is the control path of this group at this controller. Each turn handles everything that waits, executes inputs
// while there is room, proposes one entry, and releases what was committed.
func (g *group) loop() error {
	tick := time.NewTimer(0)
	defer tick.Stop()
	var next time.Time // when tick fires; zero: it has fired
	for {
		select {
		case <-g.stop:
			return nil
		case <-g.node.News(): // as the next
		case <-g.inbox.wake: // drain handles what is in it, as the next
			if len(g.core.sessions) > 1 {
				runtime.Gosched() // others that have read something put it there first: then one entry has it all
			}
		case <-g.payloads.wake:
		case f := <-g.ask:
			f()
		case f := <-g.heard:
			f()
		case e := <-g.encoded:
			g.encoding = false
			if err := g.core.Encoded(e.state, e.digest); err != nil {
				return err
			}
		case now := <-tick.C:
			next = time.Time{}
			if err := g.core.Tick(now); err != nil {
				return err
			}
		}
		if err := g.drain(); err != nil {
			return err
		}
		if err := g.core.Turn(time.Now()); err != nil {
			return err
		}
		// A tick that comes too early does no harm, so the timer is set once for many turns.
		if at := g.core.NextTick(); next.IsZero() || at.Before(next) {
			next = at
			tick.Reset(time.Until(at))
		}
	}
}

// drain handles everything else that waits, committed entries first. It does not block.
func (g *group) drain() error {
	for _, p := range g.payloads.take() {
		g.core.Payload(time.Now(), p.from, p.bytes)
	}
	if err := g.updates(); err != nil {
		return err
	}
	if len(g.taken) == 0 {
		g.taken = g.inbox.take()
	} else { // what has come since is not taken, and its signal was perhaps the one that led here
		g.inbox.signal()
	}
	for n := 0; len(g.taken) > 0; n++ {
		if n == inboxSize {
			g.inbox.signal() // the others are handled in the next turn
			break
		}
		it := g.taken[0]
		g.taken = g.taken[1:]
		g.take(it)
		if err := g.updates(); err != nil {
			return err
		}
	}
	return nil
}

// maxUpdates bounds the updates that are handled without looking at anything else. The others are handled in the next
// turn.
const maxUpdates = 1024

// updates handles what the consensus has.
func (g *group) updates() error {
	for range maxUpdates {
		u, ok := g.node.Next()
		if !ok {
			break
		}
		if err := g.update(u); err != nil {
			return err
		}
	}
	if err := g.node.Err(); err != nil {
		return fmt.Errorf("controller %s: consensus ended: %w", g.name, err)
	}
	return nil
}

// update handles an update of the consensus.
func (g *group) update(u consensus.Update) error {
	if u.Role != nil && u.Role.Leader != 0 { // here members are controllers
		role := *u.Role
		role.Leader = wire.ControllerOf(role.Leader)
		u.Role = &role
	}
	if err := g.core.Update(time.Now(), u); err != nil {
		return err
	}
	if u.Role != nil {
		g.router.heard(g, *u.Role)
	}
	return g.observe(u, g.core)
}

// handOver transfers the leadership, if this controller has it, to the follower that has most of the log and accepts
// it.
func (g *group) handOver(ctx context.Context) error {
	if _, ok := g.node.Status().Successor(); !ok {
		return errNoSuccessor // unused if this controller does not lead
	}
	ctx, cancel := context.WithTimeout(ctx, handOverTimeout)
	defer cancel()
	if err := g.node.HandOver(ctx); err != nil {
		return fmt.Errorf("transfer the leadership: %w", err)
	}
	s := g.node.Status()
	g.log.Info("leadership transferred", "to", g.memberName(s, s.Leader))
	return nil
}

// outside implements Outside.
type outside struct{ g *group }

func (o outside) Propose(term uint64, entry []byte, relaying []uint64) error {
	var early []uint64
	for _, group := range relaying {
		if to := o.g.router.group(group); to != nil {
			early = append(early, to.led.leader.Load())
		}
	}
	return o.g.node.Propose(term, entry, early...)
}

func (o outside) Compact(index uint64, state []byte) error { return o.g.node.Compact(index, state) }

func (o outside) SendPayload(member uint64, payload []byte) bool {
	return o.g.node.SendPayload(member, payload)
}

func (o outside) SendFrame(group uint64, frame []byte) { o.g.router.send(group, frame) }

func (o outside) SendTraced(group uint64, payload []byte) { o.g.router.sendPayload(group, payload) }

func (o outside) AskDirectory(request []byte) { o.g.askDirectory(request) }

func (o outside) Answer(controller uint64, answers []byte) { o.g.answer(controller, answers) }

func (o outside) Reassign(s Session, to ledger.Assignment) {
	if local, is := s.(*southbound.Session); is {
		o.g.reassign(reassignment{local, to})
	}
}

func (o outside) Present() consensus.Present { return o.g.node.Present() }

func (o outside) DeferElection(on bool) { o.g.node.DeferElection(on) }

func (o outside) Audit(index uint64, entry []byte) error {
	return o.g.audit.Append(o.g.cfg.Consensus.Group, index, entry)
}

// Encode runs in a goroutine of its own, while the loop continues.
func (o outside) Encode(encode ledger.Frozen) {
	o.g.encoding = true
	go func() { // run waits for it
		state, digest := encode()
		o.g.encoded <- encoded{state, digest}
	}()
}

// encoded is a state and its digest.
type encoded struct {
	state  []byte
	digest uint64
}

// later makes the loop run f, unless the loop has ended. It waits until the loop takes f.
func (g *group) later(f func()) {
	select {
	case g.heard <- f:
	case <-g.done:
	}
}

// inLoop runs f in the loop's goroutine and waits for it. After an error f may still run: it is what does not return.
func (g *group) inLoop(ctx context.Context, f func()) error {
	ready := make(chan struct{})
	select {
	case g.ask <- func() { f(); close(ready) }:
	case <-g.ended:
		return errClosing
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-ready:
		return nil
	case <-g.ended: // after f, or the loop was given up because f does not return
	}
	select {
	case <-ready:
		return nil
	default:
		return errClosing
	}
}
