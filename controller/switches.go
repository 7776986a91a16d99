package controller

import (
	"errors"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/proxy"
	"github.com/holdfast-sdn/holdfast/internal/crash"
	"github.com/holdfast-sdn/holdfast/internal/trace"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// Session is one connected switch, usually a *southbound.Session, which documents the methods. No method blocks.
type Session = proxy.Session

// attached is a session that the Core knows.
type attached struct {
	Session
	master     bool   // this controller has claimed it in this term
	generation uint64 // of that claim
	// unsettled: it is claimed when all events of the switch that were delivered are committed, see choosePaths
	unsettled bool
	version   uint64    // of the assignment by which the session came to this group, see reassign
	early     bool      // and the log of this group, as it is here, does not have the arrival yet
	departed  bool      // the log has since said that the switch departs
	since     time.Time // of a proxy: when it came into use
	pressure  pressure
}

// refuseEpoch tells the switch that an epoch has ended, unless it has begun a newer one.
func (s *attached) refuseEpoch(epoch uint64) {
	if s.State().Epoch <= epoch {
		s.Refuse(experimenter.ReasonStaleEpoch, epoch)
	}
}

// delivery is a batch of events that waits for execution.
type delivery struct {
	session Session
	batch   southbound.Batch // what is not executed yet
	done    func(error)
	refused uint64 // 1 + Relieved of the ledger when it refused the first event with ErrFull
}

// Attached starts a session.
func (c *Core) Attached(session Session) {
	at, known := c.ledger.Assignment(theSwitch(session.Switch()))
	if !known || at.Group != c.cfg.Group {
		at.Version = 0 // the directory was behind
	}
	c.attach(&attached{Session: session, version: at.Version})
}

func (c *Core) attach(s *attached) {
	session, id := s.Session, s.Switch()
	if at, left := c.ledger.Left(id); left && at.Version > s.version {
		c.outside.Reassign(session, at)
		return
	}
	c.local[id] = s
	delete(c.left, id)
	if delete(c.hearing, id); session.State().Peer != southbound.Agent {
		c.hearing[id] = s
	}
	c.follower.Attached(session)
	switch {
	case !c.role.Leading:
		c.use(id, s)
		c.follow(s)
		c.step.looked = time.Time{} // check again in the next Tick
	case c.remote(id) != nil:
		c.stand(id, s)
	case c.awaitsHolder(c.ticked, s):
		c.standAside(s)
	default:
		c.use(id, s)
		c.claimSettled(s)
	}
}

// use makes a session the one of its switch that is in use.
func (c *Core) use(id openflow.DatapathID, s *attached) {
	c.sessions[id] = s
	delete(c.absent, id)
	delete(c.held, id)
}

// Detached ends a session.
func (c *Core) Detached(now time.Time, session Session) {
	id := session.Switch()
	if s := c.local[id]; s != nil && s.Session == session {
		delete(c.local, id)
		delete(c.hearing, id)
		if c.spares[id] != nil && c.sessions[id] == nil {
			c.absent[id] = now
		}
		delete(c.spares, id)
		c.left[id] = c.lost(now, session)
	}
	c.follower.Detached(session)
	c.leave(now, session)
}

// leave ends the use of a session.
func (c *Core) leave(now time.Time, session Session) {
	id := session.Switch()
	if s := c.sessions[id]; s != nil && s.Session == session {
		delete(c.sessions, id)
		delete(c.held, id)
		c.absent[id] = now
	}
}

// Events executes events of a session. done is called once, now or in a later call: with nil when all of them are
// executed, or with the reason why they are not. Until then b.Messages must not change, and the session must not
// deliver more. So a busy ledger slows down its switches.
func (c *Core) Events(session Session, b southbound.Batch, done func(error)) {
	if !c.role.Leading {
		if handled, err := c.degrade(session, b); handled {
			done(err)
			return
		}
		c.follower.Events(session, b, done)
		return
	}
	if outdated(session) || !c.ledger.Here(session.Switch()) {
		done(nil) // the agent or the session keeps them for the next master
		return
	}
	c.waiting = append(c.waiting, delivery{session: session, batch: b, done: done})
}

// CommandsDone records that a switch has executed its commands up to seq.
func (c *Core) CommandsDone(session Session, epoch, seq uint64) {
	if !c.role.Leading {
		c.follower.CommandsDone(session, epoch, seq)
		return
	}
	if outdated(session) {
		return
	}
	if err := c.ledger.Done(session.Switch(), epoch, seq); err != nil {
		session.Close(err)
		return
	}
	c.traces.done(session.Switch(), epoch, seq)
	crash.At(crash.AfterCommandAck)
}

// outdated reports whether the input of a session is from before the claim by this leader. A session of a switch
// without an agent is not in sync during a claim. Afterwards it may number the events of the same epoch differently, so
// answers that arrived in an earlier term must not be used.
func outdated(session Session) bool { return !session.State().InSync }

// finishWaiting ends all waiting deliveries.
func (c *Core) finishWaiting(err error) {
	for _, d := range slices.Concat(c.waiting, c.full) {
		if d.done != nil { // else execute, which was given up, is done with it
			d.done(err)
		}
	}
	clear(c.waiting)
	c.waiting, c.full = c.waiting[:0], nil
}

// execute runs waiting events, oldest first, while the ledger has room.
func (c *Core) execute(now time.Time) {
	if c.draining {
		return
	}
	i, n, kept, retries := 0, 0, 0, 0
	for ; i < len(c.waiting); i++ {
		d := &c.waiting[i]
		relieved := c.ledger.Relieved() + 1
		if d.refused != 0 {
			if d.refused == relieved || retries == maxRetries {
				held := *d
				d.done = nil
				c.waiting[kept] = held
				kept++
				continue
			}
			retries++
		}
		finished, err := c.executeBatch(now, &d.batch, d.session)
		c.releaseImmediate()
		if errors.Is(err, ledger.ErrFull) { // others, which send nothing to that group, go on
			d.refused = relieved
			c.full = append(c.full, *d) // behind the others, so that each has its turn
			d.done = nil
			continue
		}
		if !finished {
			break
		}
		n++
		d.done(err)
		d.done = nil
	}
	c.waiting, c.full = append(slices.Delete(c.waiting, kept, i), c.full...), nil
	if n > 0 {
		crash.At(crash.BeforeReplicate)
	}
}

func (c *Core) executeBatch(now time.Time, b *southbound.Batch, s Session) (finished bool, err error) {
	id := s.Switch()
	current := c.sessions[id] // may be held up, if it is this session and its events are kept
	peer := s.State().Peer
	if current != nil && (current.Session != s || peer == southbound.Legacy) {
		current = nil
	}
	event := c.ledger.Event
	if peer == southbound.Agent { // it keeps them itself, so no standby compares them with the log
		event = c.ledger.EventByDigest
	}
	// ahead is for how many messages rows are prefetched
	for ahead := 0; len(b.Messages) > 0; ahead-- {
		if !c.room() {
			return false, nil
		}
		if current != nil && c.hold(now, id, current) {
			return true, nil
		}
		if ahead == 0 {
			ahead = c.ledger.Prefetch(id, b.Messages)
		}
		msg, rest, err := openflow.Next(b.Messages)
		if err != nil {
			return true, err
		}
		if e := (trace.Event{Switch: id, Epoch: b.Epoch, Seq: b.First}); c.cfg.Tracer.Takes(e) {
			err = c.trace(e, msg, peer != southbound.Agent, func() error { return event(id, b.Epoch, b.First, msg) })
		} else {
			err = event(id, b.Epoch, b.First, msg)
		}
		if err != nil {
			if errors.Is(err, ledger.ErrMoved) {
				return true, nil // the agent or the session keeps it for the next master
			}
			if errors.Is(err, ledger.ErrFull) && current != nil {
				c.holdFull(now, id, current)
				return true, nil
			}
			// The agent of a refused epoch discards its events, so only committed entries may decide that.
			if newest, over := c.over(id, b.Epoch); over && errors.Is(err, ledger.ErrStaleEpoch) {
				s.Refuse(experimenter.ReasonStaleEpoch, newest)
			}
			return true, err // otherwise the agent reconnects and sends its events again
		}
		b.Messages = rest
		b.First++
	}
	if b.Done > 0 { // in the same entry as the event
		c.traces.done(id, b.Epoch, b.Done)
		return true, c.ledger.Done(id, b.Epoch, b.Done)
	}
	return true, nil
}

// over reports whether an epoch of a switch is over, and returns the newest one.
func (c *Core) over(id openflow.DatapathID, epoch uint64) (newest uint64, over bool) {
	r, known := c.ledger.Resume(id)
	if !known {
		return c.ledger.Floor(), epoch <= c.ledger.Floor()
	}
	return r.Epoch, r.Closed || r.Epoch > epoch
}

// acknowledge tells sessions which events are committed.
func (c *Core) acknowledge(list []ledger.Release) {
	for _, r := range list {
		if s := c.sessions[r.Switch]; s != nil && r.BestEffortCount == 0 {
			s.Acknowledge(r.Epoch, r.Acked)
		}
	}
}

// acknowledgeHeld is called at the end of a leadership, so that sessions of switches without an agent discard the
// events that are committed and were not acknowledged yet.
func (c *Core) acknowledgeHeld(list []ledger.Release) {
	for _, r := range list {
		if s := c.sessions[r.Switch]; s != nil && s.State().Peer == southbound.Bundles {
			s.Acknowledge(r.Epoch, r.Acked)
		}
	}
}

// observe passes an event that another leader has logged to the session of its switch.
func (c *Core) observe(id openflow.DatapathID, epoch, seq uint64, msg []byte) {
	if s := c.listener(id); !c.follower.Logged(id, epoch, seq, msg) && s != nil {
		s.Logged(epoch, seq, msg)
	}
}

func (c *Core) observeSkipped(id openflow.DatapathID, epoch, seq, asynchronous uint64) {
	if s := c.listener(id); !c.follower.Skipped(id, epoch, seq, int(asynchronous)) && s != nil {
		s.Skipped(epoch, seq, int(asynchronous))
	}
}

// listener returns the session that is told what is logged of a switch. If the switch moves to and fro, and this
// replica is behind, the session is told only what follows the arrival with which it has come.
func (c *Core) listener(id openflow.DatapathID) *attached {
	s := c.hearing[id]
	if s == nil || s.departed {
		return nil
	}
	if s.early = s.early && !c.ledger.Arrived(id, s.version); s.early {
		return nil
	}
	return s
}

// leadersGeneration returns the generation in which the present leader first claims the switch of a session, or 0 if
// the leader is unknown. A switch must not be told a term that no controller has won, or it would refuse the leader of
// the term before.
func (c *Core) leadersGeneration(s *attached) uint64 {
	if c.role.Leader == 0 {
		return 0
	}
	return experimenter.Generation(max(s.version, c.version(s)), c.role.Term, 0)
}

// standBy makes all sessions standbys.
func (c *Core) standBy() {
	for _, id := range sorted(c.sessions, func(*attached) bool { return true }) {
		c.follow(c.sessions[id])
	}
}

// follow makes a session a standby, unless it is kept in a minority.
func (c *Core) follow(s *attached) {
	if !c.keep(s) {
		s.master = false
		s.Standby(c.leadersGeneration(s))
	}
}

// release acknowledges committed events and sends committed commands.
func (c *Core) release(list []ledger.Release) {
	if len(list) == 0 {
		return
	}
	// Releases without commands are not crash points: sync markers, ten a second, would use up their counts.
	passes := crash.Compiled && slices.ContainsFunc(list, func(r ledger.Release) bool { return r.Count > 0 })
	if passes {
		crash.At(crash.AfterCommit)
	}
	c.acknowledge(list)
	if passes {
		crash.At(crash.AfterEventAck)
	}
	sent := false
	for _, r := range list {
		c.traces.released(r)
		s := c.sessions[r.Switch]
		switch {
		case s == nil || !s.master: // one that is claimed later then gets all commands that are not complete
		case r.Closed:
			s.refuseEpoch(r.Epoch)
		case r.Count > 0:
			if sent {
				crash.At(crash.BetweenCommands)
			}
			c.sendCommands(s, r)
			sent = true
		case r.BestEffortCount > 0:
			c.sendBestEffort(s, r)
		}
	}
	if sent {
		crash.At(crash.AfterCommands)
	}
}

// sendCommands passes commands to the session. If that fails, the session ends. The commands stay in the ledger until
// they are done, and are sent again in the next session.
func (c *Core) sendCommands(s *attached, r ledger.Release) {
	b := experimenter.Block{Generation: s.generation, Epoch: r.Epoch, First: r.First, Count: uint32(r.Count)}
	if err := s.Send(b, r.Commands); err != nil {
		s.Close(err)
	}
}

// reportAbsent tells the applications about switches that had no connection for the timeout.
func (c *Core) reportAbsent(now time.Time) {
	for _, id := range sorted(c.absent, func(since time.Time) bool { return now.Sub(since) >= c.cfg.SwitchTimeout }) {
		if !c.ledger.Room() {
			return
		}
		delete(c.absent, id)
		c.ledger.Unreachable(id)
	}
}

// sorted returns the switches for which which is true, by datapath id, because the effects of a Core must not depend on
// the order of a map.
func sorted[V any](m map[openflow.DatapathID]V, which func(V) bool) []openflow.DatapathID {
	var list []openflow.DatapathID
	for id, v := range m {
		if which(v) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}
