package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/controller/proxy"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/internal/watchdog"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

// Core is the logic of a controller, without I/O, clock, goroutine or lock. Its methods report what happened and when;
// it acts on sessions and on Outside, which must not call it back before the method returns. After an error only Stop
// may be called. Equal calls have equal effects.
type Core struct {
	cfg     CoreConfig
	log     *slog.Logger
	outside Outside
	traces  traces
	ledger  *ledger.Core
	began   time.Time // when the first update came; see clock

	role     consensus.Role
	rule     rule
	resent   uint64 // commands that this leader has sent again when it took over its switches
	applied  uint64 // index of the last committed entry
	snapshot uint64 // index of the last snapshot
	size     int    // bytes of that snapshot
	logged   int    // bytes of entries since
	draining bool   // no input is executed until a state can be frozen
	encoding *image // nil if none is being encoded

	comparison comparison
	pace       pace // at the leader

	present  consensus.Present                 // as of the last Tick
	waiting  []delivery                        // oldest first; one of each session at most
	full     []delivery                        // of waiting, while execute runs: the ledger was full for them
	sessions map[openflow.DatapathID]*attached // in use: those here, and as the leader also proxies, see path.go
	local    map[openflow.DatapathID]*attached // those here
	// sessions without an agent, which are told what is logged
	hearing     map[openflow.DatapathID]*attached
	absent      map[openflow.DatapathID]time.Time // since when a switch has no session
	held        map[openflow.DatapathID]*attached // whose events are held up, see pressure
	step        step
	requests    []request         // wait for room, oldest first; see Ask
	moves       []move            // likewise
	askers      map[journey]asker // of this term: who waits for a move
	failedMoves uint64            // that have ended without the actor, since the process began
	calls       []ledger.Call     // likewise
	frames      []*ledger.Frame   // of other groups; likewise
	turns       uint64            // number of the turn
	ticked      time.Time         // time of the last Tick
	refusals    refusals
	hosting     *replay.Core // nil without replayed applications

	follower *proxy.Follower
	leader   *proxy.Leader
	// at the leader: sessions here that are not used yet, because it uses a proxy
	spares   map[openflow.DatapathID]*spare
	claimed  uint64                            // the last term in which this member led
	leads    time.Time                         // since when, at the leader
	claims   map[openflow.DatapathID]path      // of that term, of each switch that was claimed in it
	bygone   uint64                            // of that term: above the paths of switches that were forgotten
	paths    time.Time                         // when paths were last looked at
	left     map[openflow.DatapathID]time.Time // until when no proxy is used, because a session here has just ended
	silences map[openflow.DatapathID]silence   // of this term
	stays    map[openflow.DatapathID]time.Time // until when a switch is not moved because of its path, see MoveProxied
	minority minority
	// leaderless is when this member last noticed that it knows no leader
	leaderless time.Time
	expiry     expiry // at the leader
	// departed are switches that have left the group with the entries of this turn, see reassign
	departed []openflow.DatapathID
}

// Outside is the rest of the controller, as a Core uses it.
type Outside interface {
	// Propose proposes an entry, which is not changed afterwards. The replicas at the controllers that lead the groups
	// in relaying should know soon that it is committed. After consensus.ErrNotLeader a Role that says the same
	// follows.
	Propose(term uint64, entry []byte, relaying []uint64) error
	// Encode runs encode concurrently with the Core, and then calls Core.Encoded with the result. There is one at a
	// time.
	Encode(encode ledger.Frozen)
	// Compact stores a snapshot of the state at index. After consensus.ErrCompacting, the previous snapshot is still
	// being written, and this one is skipped.
	Compact(index uint64, state []byte) error
	// Audit receives every committed entry, in order.
	Audit(index uint64, entry []byte) error
	// SendPayload sends a payload to the Core of another member. It reports false if that is not possible now. A
	// payload may be lost, but those of one sender arrive in order.
	SendPayload(member uint64, payload []byte) bool
	// SendFrame sends a frame to the leader of another group. It may be lost.
	SendFrame(group uint64, frame []byte)
	// SendTraced sends a tracedPayload to the leader of another group. It may be lost.
	SendTraced(group uint64, payload []byte)
	// AskDirectory makes a request of the directory, which may be lost.
	AskDirectory(request []byte)
	// Answer sends answers to the calls of a controller, which waits for them. They may be lost.
	Answer(controller uint64, answers []byte)
	// Reassign passes a session, which this Core has given up, to Core.Reassigned of another group at this controller:
	// its switch has moved there. Without such a group the switch is served elsewhere.
	Reassign(s Session, to ledger.Assignment)
	// DeferElection sets whether this member defers its election.
	DeferElection(on bool)
	// Present returns which controllers have a replica of the group now; nobody if that is not known.
	Present() consensus.Present
}

// CoreConfig makes a Core.
type CoreConfig struct {
	Name          string
	ID            uint64            // of this member, for status
	Names         map[uint64]string // of the controllers that have a replica of the group at first
	Applications  []ledger.Application
	Limits        ledger.Limits
	SwitchTimeout time.Duration    // without any connection, a switch is reported down
	SwitchExpiry  time.Duration    // a switch that is down for so long is forgotten; 0: none is
	SnapshotEvery int              // entries from one snapshot to the next, at most; 0 is 200,000
	Hosts         replay.Runner    // runs hosts of applications of Ryu; nil if there are none
	Afresh        bool             // see replay.Core.BeginAfresh
	Identity      string           // of those applications, see replay.NewLog
	Group         uint64           // its number
	Directory     ledger.Directory // of several groups; nil if everything lives in this one
	// Shards returns what the directory has of an application, see ledger.Core.Enumerate; may be nil.
	Shards func(app string) []ledger.Shard
	// Pinned reports whether an operator has pinned an actor, see ledger.Core.Pinned; may be nil.
	Pinned func(ledger.Actor) bool
	// Here and There are those of ledger.Core.Relay; may be nil.
	Here, There func(group uint64) bool
	// Live returns the groups among which an application chooses for a new actor; see ledger.Placer. nil: it cannot.
	Live   func() []uint64
	Logger *slog.Logger // must be set
	// Elapsed returns the time since any fixed moment, for the times of handlers.
	Elapsed func() time.Duration
	Guard   *watchdog.Guard // of the calls of applications; nil: nobody watches them
	// Tell takes events for the API; nil: nobody does. It must not block.
	Tell   func(*api.Event)
	Tracer *trace.Tracer // nil: nothing is followed
}

// NewCore makes a Core that is a follower with an empty state.
func NewCore(cfg CoreConfig, outside Outside) (*Core, error) {
	l, err := ledger.New(cfg.Applications, cfg.Limits)
	if err != nil {
		return nil, err
	}
	if cfg.Directory != nil {
		l.Join(cfg.Group, cfg.Directory)
		l.Relay(cfg.Here, cfg.There)
		l.Enumerate(cfg.Shards)
		l.Pinned(cfg.Pinned)
	}
	l.Instrument(cfg.Elapsed)
	l.Watch(cfg.Guard)
	if cfg.SnapshotEvery <= 0 {
		cfg.SnapshotEvery = 200_000
	}
	first := slices.Sorted(maps.Keys(cfg.Names))
	c := &Core{
		present: consensus.Present{Controllers: first, Voters: first},
		cfg:     cfg, log: cfg.Logger, outside: outside, ledger: l, traces: traces{to: cfg.Tracer, group: cfg.Group},
		sessions: map[openflow.DatapathID]*attached{}, hearing: map[openflow.DatapathID]*attached{},
		absent: map[openflow.DatapathID]time.Time{}, held: map[openflow.DatapathID]*attached{},
		local:  map[openflow.DatapathID]*attached{},
		spares: map[openflow.DatapathID]*spare{}, claims: map[openflow.DatapathID]path{},
		left: map[openflow.DatapathID]time.Time{}, silences: map[openflow.DatapathID]silence{},
		stays: map[openflow.DatapathID]time.Time{}, askers: map[journey]asker{},
	}
	c.follower = proxy.NewFollower(outside, c.version)
	c.leader = proxy.NewLeader(outside, remotes{c})
	replayed, err := replay.NewLog(l, cfg.Identity)
	if err != nil {
		return nil, err
	}
	if cfg.Hosts != nil {
		c.hosting = replay.New(replayed, cfg.Hosts, cfg.Logger)
		if cfg.Afresh {
			c.hosting.BeginAfresh()
		}
	}
	if cfg.Tracer != nil && cfg.Directory != nil {
		l.OnReceive(c.traceItem)
	}
	l.Observe(c.observe)
	l.ObserveSkipped(c.observeSkipped)
	return c, nil
}

// Ledger is the ledger, to read.
func (c *Core) Ledger() *ledger.Core { return c.ledger }

// Hosting is the controller's side of the replayed applications; nil if there are none.
func (c *Core) Hosting() *replay.Core { return c.hosting }

// Stop ends the calls that sessions wait for, and the host of applications. Nothing may be called after it.
func (c *Core) Stop() {
	c.leader.Stop() // else the sessions at followers, which go on, would end with errClosing
	c.finishWaiting(errClosing)
	c.follower.Stop(errClosing)
	if c.hosting != nil {
		c.hosting.Stop()
	}
}

var errClosing = errors.New("the controller is stopping")

// Update handles an update of the consensus.
func (c *Core) Update(now time.Time, u consensus.Update) error {
	if c.began.IsZero() {
		c.began = now
	}
	c.noticeLeader(now)
	switch {
	case u.Role != nil:
		return c.changeRole(now, *u.Role)
	case u.Snapshot != nil:
		return c.restore(u.Snapshot)
	}
	for _, e := range u.Entries {
		before := c.ledger.Counters().Completions
		if ledger.Compares(e.Data) {
			if err := c.compare(e.Index); err != nil {
				return fmt.Errorf("controller %s: entry %d: %w", c.cfg.Name, e.Index, err)
			}
		}
		if err := c.ledger.Commit(e.Data); err != nil {
			return fmt.Errorf("controller %s: entry %d: %w", c.cfg.Name, e.Index, err)
		}
		if c.role.Leading && c.ledger.InFlight() == 0 {
			c.pace.committed(now, c.ledger.Waiting())
		}
		if err := c.tellSpares(e.Data); err != nil {
			return err
		}
		c.depart()
		c.forgotten()
		if err := passMoves(e.Data); err != nil {
			return err
		}
		if c.ledger.Counters().Completions > before && c.role.Leading {
			crash.At(crash.AfterComplete)
		}
		if err := c.outside.Audit(e.Index, e.Data); err != nil {
			return err
		}
		c.applied = e.Index
		c.logged += len(e.Data)
	}
	c.follower.Applied(c.applied)
	c.leader.Applied(c.applied)
	return nil
}

func (c *Core) changeRole(now time.Time, r consensus.Role) error {
	was := c.role
	c.role, c.pace = r, pace{}
	if !r.Leading {
		c.rule.note(now, r.Leader, c.cfg.ID)
	}
	c.frames, c.comparison.mine, c.comparison.asked = nil, nil, false
	c.traces.forget()
	clear(c.held) // each leader claims all switches again
	c.requests, c.moves = nil, nil
	clear(c.askers)
	c.refuseCalls()
	if was.Leading {
		c.acknowledgeHeld(c.ledger.Releases())
	}
	c.relayIn(r)
	c.leavePaths(r.Term)
	c.noticeLeader(now)
	c.changeMinority(was, r)
	if !r.Leading {
		if was.Leading {
			c.log.Warn("no longer leader", "term", was.Term)
		}
		if r.Leader != 0 && r.Leader != was.Leader && r.Leader != c.cfg.ID {
			c.log.Info("follower", "leader", c.nameOf(r.Leader), "term", r.Term)
		}
		if err := c.ledger.Follow(); err != nil {
			return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
		}
		c.finishWaiting(nil) // they are sent again to the new leader
		c.draining = false
		if c.hosting != nil {
			c.hosting.Follow()
		}
		c.follower.Follow(now, r.Leader, r.Term)
		c.standBy()
		return nil
	}
	if err := c.ledger.Lead(r.Term, c.clock(now)); err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	if c.hosting != nil {
		c.hosting.Lead()
	}
	c.log.Info("leader", "term", r.Term, "index", c.applied, "switches", len(c.sessions))
	c.follower.Follow(now, 0, r.Term)
	c.claimed, c.leads = r.Term, now
	clear(c.claims)
	c.bygone = 0
	c.expiry = expiry{looked: now}
	c.resent = 0
	c.takeOverAll(now)
	c.tellLeader(now)
	return nil
}

// rule is who led before this member, for the event of a failover.
type rule struct {
	leader uint64    // the last other one that was known; 0: none
	ended  time.Time // since when there has been none; zero: there is one
}

// note notes a change of the leader. This member is named before it leads.
func (o *rule) note(now time.Time, leader, own uint64) {
	switch {
	case leader != 0 && leader != own:
		*o = rule{leader: leader}
	case o.ended.IsZero():
		o.ended = now
	}
}

// tellLeader makes an event of this leader.
func (c *Core) tellLeader(now time.Time) {
	was := c.rule
	c.rule = rule{leader: c.cfg.ID}
	if c.cfg.Tell == nil {
		return
	}
	f := &api.Failover{From: c.nameOf(was.leader), Term: c.role.Term, Switches: int32(len(c.sessions)),
		Commands: c.resent}
	if !was.ended.IsZero() {
		f.LeaderlessMs = inMs(now.Sub(was.ended))
	}
	c.cfg.Tell(&api.Event{Kind: api.EventKind_EVENT_KIND_LEADER, Group: uint32(c.cfg.Group), Failover: f,
		Text: fmt.Sprintf("%s leads group %d in term %d", c.cfg.Name, c.cfg.Group, c.role.Term)})
}

// tellFailure makes an event of an application that has failed.
func (c *Core) tellFailure(f *ledger.Failure) {
	log := c.log
	if e := (trace.Event{Switch: f.Input.Switch, Epoch: f.Input.Epoch, Seq: f.Input.Seq}); e.Seq > 0 {
		log = log.With(c.cfg.Tracer.Names(e)...)
	}
	log.Error("application failed; what it did for this input is discarded", "app", f.App, "input",
		f.Input.String(), "err", f.Err, "stack", string(f.Stack))
	if c.cfg.Tell != nil {
		c.cfg.Tell(&api.Event{Kind: api.EventKind_EVENT_KIND_FAILED, Group: uint32(c.cfg.Group), App: f.App,
			Input: f.Input.String(), Text: f.Err.Error(), Traceback: string(f.Stack)})
	}
}

// clock is the time base of ledger time, in ns since 1970: the wall clock when this Core began, plus the monotonic time
// since then. So setting the wall clock does not affect timers.
func (c *Core) clock(now time.Time) int64 { return c.began.Add(now.Sub(c.began)).UnixNano() }

// Turn executes due timers and waiting inputs while there is room, proposes one entry unless inputs wait for others,
// and releases what was committed. It is called after each of the other methods, or after several of them.
func (c *Core) Turn(now time.Time) error {
	if err := c.comparison.err; err != nil {
		return err
	}
	if !c.draining {
		c.ledger.Tick(c.clock(now)) // before events, which may use all the room in every turn
	}
	if c.hosting != nil {
		if err := c.hosting.Turn(now, c.draining); err != nil {
			return fmt.Errorf("controller %s: replayed applications: %w", c.cfg.Name, err)
		}
	}
	c.executeRequests()
	c.executeMoves()
	// In turn, so that none uses up the room of every turn.
	if c.turns++; c.turns%2 == 0 {
		c.executeFrames()
		c.execute(now)
		c.executeCalls()
	} else {
		c.executeCalls()
		c.execute(now)
		c.executeFrames()
	}
	if ready := c.pace.ready(now, c.ledger.Waiting()); ready || c.draining || !c.ledger.Room() {
		if err := c.cut(now, c.ledger.CutTransactions); err != nil {
			return err
		}
	}
	c.release(c.ledger.Releases())
	c.traces.committed(c.ledger)
	c.reassign(now)
	c.answer()
	c.sendFrames()
	c.tellDirectory()
	for _, f := range c.ledger.Failures() {
		c.tellFailure(&f)
	}
	return c.compact()
}

// cut proposes the entry that is there, if there is one.
func (c *Core) cut(now time.Time, cut func() ([]byte, bool)) error {
	waiting := c.ledger.Waiting()
	entry, ok := cut()
	if !ok {
		return nil
	}
	c.pace.began(now, waiting)
	return c.propose(entry)
}

// propose proposes an entry. If this member is no longer the leader, a Role that says so follows, and nothing is
// released before that.
func (c *Core) propose(entry []byte) error {
	err := c.outside.Propose(c.role.Term, entry, c.ledger.Relaying())
	if err == nil || errors.Is(err, consensus.ErrNotLeader) {
		return nil
	}
	return fmt.Errorf("controller %s: propose an entry in term %d: %w", c.cfg.Name, c.role.Term, err)
}

// NextTick returns when Tick is to be called, unless something else happens before.
func (c *Core) NextTick() time.Time {
	at := c.nextTick()
	if due := c.pace.due; !due.IsZero() && due.Before(at) {
		return due
	}
	return at
}

func (c *Core) nextTick() time.Time {
	soon := c.ticked.Add(TickInterval)
	if c.hosting != nil || c.follower.Broken() || c.leader.Broken() || c.ledger.Busy() {
		return soon
	}
	// At times that are the same for all groups: one look at all of them wakes the process once.
	late := c.ticked.Add(QuietInterval - time.Duration(c.clock(c.ticked))%QuietInterval)
	if !c.role.Leading {
		return late
	}
	if c.draining || c.paths.IsZero() || len(c.held)+len(c.absent)+len(c.moves)+len(c.requests) > 0 {
		return soon
	}
	at, ok := c.ledger.NextTimer()
	if due := c.began.Add(time.Duration(at - c.began.UnixNano())); ok && due.Before(late) {
		late = due
	}
	if late.Before(soon) {
		return soon
	}
	return late
}

// Tick reports switches that stayed away, and logs which commands are complete, and inputs that have waited for others
// long enough. See NextTick.
func (c *Core) Tick(now time.Time) error {
	c.ticked = now
	if present := c.outside.Present(); len(present.Voters) > 0 {
		c.present = present
	}
	c.noticeLeader(now)
	c.deferElection(now)
	c.follower.Tick(now)
	c.leader.Tick(now)
	if c.minority.on {
		c.leaveClaimed()
	}
	if !c.role.Leading {
		return nil
	}
	c.tellRefusals(now)
	// With inputs that wait, Turn decides. While draining, acknowledgements alone wait: one entry after the other would
	// be on its way, and no snapshot possible.
	if c.ledger.Waiting() == 0 && (!c.draining || c.ledger.Executed()) {
		if err := c.cut(now, c.ledger.Cut); err != nil {
			return err
		}
	}
	if !c.draining {
		c.resume(now)
		c.choosePaths(now)
		c.reportAbsent(now)
		c.expire(now)
	}
	return nil
}
