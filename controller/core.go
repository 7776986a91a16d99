package controller

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

// Core is what a controller does, without I/O, clock, goroutine or lock: it is told what happens and
// when, and acts on sessions and on what is Outside. Neither may call it back before the call returns. After an
// error it is of no more use but for Stop. What it does is the same for the same calls.
type Core struct {
	cfg     CoreConfig
	log     *slog.Logger
	outside Outside
	ledger  *ledger.Core
	began   time.Time // when the first update came; see clock

	role     consensus.Role
	applied  uint64 // index of the last committed entry
	snapshot uint64 // index of the last snapshot
	size     int    // bytes of that snapshot
	logged   int    // bytes of entries since
	draining bool   // no input is executed until a snapshot can begin
	encoding uint64 // index of the snapshot that is being encoded; 0 is none

	waiting  []delivery // oldest first; one of each session at most
	sessions map[openflow.DatapathID]*attached
	// those of sessions that are told what is logged: no agent keeps their events
	hearing  map[openflow.DatapathID]*attached
	absent   map[openflow.DatapathID]time.Time // since when a switch has no session
	suspects []suspect
	held     map[openflow.DatapathID]*attached // see pressure
	step     step
	refused  map[openflow.DatapathID]*refused // switches whose agents refuse this leader, or did in this term
	looked   time.Time                        // when such agents were last looked for
	hosting  *replay.Core                     // nil without hosted applications
}

// Outside is what a Core asks of the rest of its controller.
type Outside interface {
	// Propose hands an entry, which is not changed any more, to the consensus.
	// consensus.ErrNotLeader: a Role comes that says so as well.
	Propose(term uint64, entry []byte) error
	// Encode has encode run, anywhere, while the Core goes on, and then calls Core.Encoded with the
	// result. There is one at a time.
	Encode(encode func() []byte)
	// Compact hands over a snapshot of the state at index. consensus.ErrCompacting: the last is still
	// being written; the next one will do.
	Compact(index uint64, state []byte) error
	// Audit is given every committed entry, in order.
	Audit(index uint64, entry []byte) error
	// DeferElection says whether this controller should leave the leadership to others.
	DeferElection(on bool)
}

// CoreConfig makes a Core.
type CoreConfig struct {
	Name          string
	ID            uint64            // of this member, for status
	Names         map[uint64]string // of the members, for status
	Applications  []ledger.Application
	Limits        ledger.Limits
	SwitchTimeout time.Duration // without any connection, a switch is reported down
	SnapshotEvery int           // entries from one snapshot to the next, at most; 0 is 200,000
	Hosts         replay.Runner // runs hosts of applications of Ryu; nil if there are none
	Identity      string        // of those applications, see replay.NewLog
	Logger        *slog.Logger  // must be set
}

// NewCore makes a Core that follows and knows nothing yet.
func NewCore(cfg CoreConfig, outside Outside) (*Core, error) {
	l, err := ledger.New(cfg.Applications, cfg.Limits)
	if err != nil {
		return nil, err
	}
	if cfg.SnapshotEvery <= 0 {
		cfg.SnapshotEvery = 200_000
	}
	c := &Core{
		cfg: cfg, log: cfg.Logger, outside: outside, ledger: l,
		sessions: map[openflow.DatapathID]*attached{}, hearing: map[openflow.DatapathID]*attached{},
		absent: map[openflow.DatapathID]time.Time{}, held: map[openflow.DatapathID]*attached{},
		refused: map[openflow.DatapathID]*refused{},
	}
	replayed, err := replay.NewLog(l, cfg.Identity)
	if err != nil {
		return nil, err
	}
	if cfg.Hosts != nil {
		c.hosting = replay.New(replayed, cfg.Hosts, cfg.Logger)
	}
	l.Observe(c.observe)
	l.ObserveSkipped(c.observeSkipped)
	return c, nil
}

// Ledger is the ledger, to read.
func (c *Core) Ledger() *ledger.Core { return c.ledger }

// Hosting is the controller's side of the hosted applications; nil if there are none.
func (c *Core) Hosting() *replay.Core { return c.hosting }

// Stop finishes what sessions wait for, and ends the host of applications; nothing may be called after it.
func (c *Core) Stop() {
	c.finishWaiting(errClosing)
	if c.hosting != nil {
		c.hosting.Stop()
	}
}

var errClosing = errors.New("the controller is stopping")

// Update takes what the consensus says.
func (c *Core) Update(now time.Time, u consensus.Update) error {
	if c.began.IsZero() {
		c.began = now
	}
	switch {
	case u.Role != nil:
		return c.changeRole(now, *u.Role)
	case u.Snapshot != nil:
		return c.restore(u.Snapshot)
	}
	for _, e := range u.Entries {
		before := c.ledger.Counters().Completions
		if err := c.ledger.Commit(e.Data); err != nil {
			return fmt.Errorf("controller %s: entry %d: %w", c.cfg.Name, e.Index, err)
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
	return nil
}

func (c *Core) changeRole(now time.Time, r consensus.Role) error {
	was := c.role
	c.role = r
	clear(c.held) // each leader claims all switches anew
	clear(c.refused)
	if was.Leading {
		c.acknowledgeHeld(c.ledger.Releases())
	}
	if !r.Leading {
		if was.Leading {
			c.log.Warn("no longer leader", "term", was.Term)
		}
		if err := c.ledger.Follow(); err != nil {
			return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
		}
		c.finishWaiting(nil) // whoever leads now gets them again
		c.draining, c.suspects = false, nil
		if c.hosting != nil {
			c.hosting.Follow()
		}
		c.standBy()
		return nil
	}
	if err := c.ledger.Lead(r.Term, c.clock(now)); err != nil {
		return fmt.Errorf("controller %s: %w", c.cfg.Name, err)
	}
	if c.hosting != nil {
		c.hosting.Lead()
	}
	c.suspects = nil
	c.log.Info("leader", "term", r.Term, "index", c.applied, "switches", len(c.sessions))
	c.takeOverAll(now)
	return nil
}

// clock is what ledger time goes by, in ns since 1970: the wall clock when this Core began, and what has gone by
// since. A wall clock that is set, forward or back, moves no timer.
func (c *Core) clock(now time.Time) int64 { return c.began.Add(now.Sub(c.began)).UnixNano() }

// Turn executes the timers that are due and what else there is room for, proposes one entry, and lets out what was
// committed. It is called after each of the other calls, or after several that come together.
func (c *Core) Turn(now time.Time) error {
	if !c.draining {
		c.ledger.Tick(c.clock(now)) // before events, which may use up all room, turn after turn
	}
	if c.hosting != nil {
		if err := c.hosting.Turn(now, c.draining); err != nil {
			return fmt.Errorf("controller %s: hosted applications: %w", c.cfg.Name, err)
		}
	}
	c.execute(now)
	if entry, ok := c.ledger.CutTransactions(); ok {
		if err := c.propose(entry); err != nil {
			return err
		}
	}
	c.release(c.ledger.Releases())
	c.judge()
	for _, f := range c.ledger.Failures() {
		c.log.Error("application failed; what it did for this input is discarded", "app", f.App, "input",
			f.Input.String(), "err", f.Err, "stack", string(f.Stack))
	}
	return c.compact()
}

// propose hands an entry to the consensus. If this member leads no more, the node says so with
// a Role as well, and until then nothing is released.
func (c *Core) propose(entry []byte) error {
	err := c.outside.Propose(c.role.Term, entry)
	if err == nil || errors.Is(err, consensus.ErrNotLeader) {
		return nil
	}
	return fmt.Errorf("controller %s: propose an entry in term %d: %w", c.cfg.Name, c.role.Term, err)
}

// Tick reports switches that stayed away, and logs what is complete. It is called
// every few milliseconds.
func (c *Core) Tick(now time.Time) error {
	c.hesitate(now)
	if !c.role.Leading {
		return nil
	}
	c.suspectOutdone(now)
	if entry, ok := c.ledger.Cut(); ok {
		if err := c.propose(entry); err != nil {
			return err
		}
	}
	if !c.draining {
		c.resume(now)
		c.reportAbsent(now)
	}
	return nil
}
