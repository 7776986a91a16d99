package controller

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller/proxy"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// The leader reaches a switch on one path: through its own session, or through a proxy, which is a session of a
// follower. Its own session has precedence. A proxy is used for a switch that has been connected to the follower, and
// not to the leader, for pathDelay: a switch usually connects to all controllers at the same time. Then it is used as
// long as it lives, until the leader has a session that can replace it without losing an event.
//
// An agent loses nothing by a change of the path. So if its session ends, a proxy is used after agentDelay, in which an
// agent that can connect again does so. If it was silent, a proxy is used at once. The next session of the leader then
// replaces the proxy after a pause, which is longer each time (holdFirst to holdMost): an agent that stops from time to
// time does not change its path each time.
//
// Sessions of one switch may number its next events differently. So a new path is claimed only when every event of the
// switch that was delivered is committed.
const (
	pathDelay  = 500 * time.Millisecond
	agentDelay = 50 * time.Millisecond
	pathEvery  = 50 * time.Millisecond // between two looks, unless a session was offered, or has ended in silence
	// A session that does not get in sync replaces a proxy after sparePatience, and begins a new epoch.
	sparePatience = 5 * time.Second

	holdFirst  = time.Second
	holdMost   = time.Minute
	holdForget = 2 * time.Minute // after the last silence
)

// silence is the last time at which a session here ended because its agent was silent.
type silence struct {
	at   time.Time
	hold time.Duration // for which the next session here must have lived before it replaces a proxy
}

// spare is a session of the leader that is not used yet. It is told what is logged, as at a follower.
type spare struct {
	*attached
	since time.Time // zero until the next Tick
}

// remote returns the proxy through which the leader reaches a switch; nil if there is none.
func (c *Core) remote(id openflow.DatapathID) *proxy.Remote {
	if s := c.sessions[id]; s != nil {
		r, _ := s.Session.(*proxy.Remote)
		return r
	}
	return nil
}

// stand makes a new session of the leader a spare beside a proxy.
func (c *Core) stand(id openflow.DatapathID, s *attached) {
	c.spares[id] = &spare{attached: s}
	s.Standby(experimenter.Generation(c.version(s), c.role.Term, c.claims[id].number))
	c.paths = time.Time{}
}

// choosePaths changes the paths of switches that have a better one.
func (c *Core) choosePaths(now time.Time) {
	if now.Sub(c.paths) < pathEvery {
		return
	}
	c.paths = now
	for _, id := range sorted(c.spares, func(*spare) bool { return true }) {
		s := c.spares[id]
		if s.since.IsZero() {
			s.since = now
		}
		wait := c.holdOf(now, id)
		if !s.State().InSync {
			wait = sparePatience
		}
		if r := c.remote(id); r != nil && now.Sub(s.since) >= wait {
			c.leaveRemote(now, r)
			c.use(id, s.attached)
			c.claimSettled(s.attached)
		} else if c.sessions[id] == nil && !c.useHolder(now, s) {
			c.use(id, s.attached)
			c.claimSettled(s.attached)
		}
	}
	for _, id := range sorted(c.sessions, func(s *attached) bool { return s.unsettled }) {
		c.claimSettled(c.sessions[id])
	}
	var without []openflow.DatapathID
	for r := range c.leader.Offers {
		if id := r.Switch(); c.sessions[id] == nil && c.spares[id] == nil && c.lacking(now, id) {
			without = append(without, id)
		}
	}
	for _, id := range without {
		if r := c.leader.Best(id, now.Add(-pathDelay)); r != nil && c.sessions[id] == nil {
			c.reach(now, r, "it is not connected to this one")
		}
	}
}

// reach reaches a switch through a follower.
func (c *Core) reach(now time.Time, r *proxy.Remote, why string) {
	s := &attached{Session: r, since: now}
	c.use(r.Switch(), s)
	c.claimSettled(s)
	c.log.Info("switch reached through another controller", "switch", r.Switch(), "through", c.nameOf(r.Member()),
		"because", why)
}

// claimSettled claims a switch on a new path, now or in a later call of choosePaths.
func (c *Core) claimSettled(s *attached) {
	if s.unsettled = !c.settled(s.Switch()); !s.unsettled {
		c.claim(s)
	}
}

// settled reports whether every event of the switch that was delivered is committed.
func (c *Core) settled(id openflow.DatapathID) bool {
	waits := func(d delivery) bool { return d.session.Switch() == id }
	return c.ledger.Settled(id) && !slices.ContainsFunc(c.waiting, waits)
}

// lacking reports whether a switch has had no session here for some time.
func (c *Core) lacking(now time.Time, id openflow.DatapathID) bool {
	until, known := c.left[id]
	if known && !now.Before(until) {
		delete(c.left, id)
		return true
	}
	return !known
}

// lost returns from when on a proxy may be used for the switch of a session that has ended.
func (c *Core) lost(now time.Time, s Session) time.Time {
	switch st := s.State(); {
	case st.Silent:
		c.paths = time.Time{} // look in the next Tick
		last := c.silences[s.Switch()]
		hold := holdFirst
		if now.Sub(last.at) < holdForget {
			hold = min(2*last.hold, holdMost)
		}
		c.silences[s.Switch()] = silence{now, hold}
		return now
	case st.Peer == southbound.Agent:
		return now.Add(agentDelay)
	}
	return now.Add(pathDelay)
}

// holdOf returns how long a new session of a switch must live before it replaces a proxy.
func (c *Core) holdOf(now time.Time, id openflow.DatapathID) time.Duration {
	if last, known := c.silences[id]; known && now.Sub(last.at) < holdForget {
		return last.hold
	}
	return 0
}

// leaveRemote ends the use of a proxy. Its events that are not executed stay in the session at the follower.
func (c *Core) leaveRemote(now time.Time, r *proxy.Remote) {
	c.dropWaiting(r)
	r.Standby(0)
	c.leave(now, r)
}

// dropWaiting ends the delivery of a session. It delivers its events again when it is claimed.
func (c *Core) dropWaiting(s Session) {
	keep := c.waiting[:0]
	for _, d := range c.waiting {
		if d.session == s {
			d.done(nil)
		} else {
			keep = append(keep, d)
		}
	}
	clear(c.waiting[len(keep):])
	c.waiting = keep
}

// leavePaths ends the use of all proxies, when a term begins or ends.
func (c *Core) leavePaths(term uint64) {
	for _, id := range sorted(c.sessions, func(s *attached) bool { return c.remote(s.Switch()) != nil }) {
		if delete(c.sessions, id); c.local[id] != nil {
			c.sessions[id] = c.local[id]
		}
	}
	clear(c.spares)
	clear(c.silences)
	c.leader.Term(term)
}

// tellSpares tells the spares of this leader what is in an entry of its own.
func (c *Core) tellSpares(entry []byte) error {
	if len(c.spares) == 0 {
		return nil
	}
	_, err := ledger.Walk(entry, func(r *ledger.Record) error {
		switch s := c.spares[r.Switch]; {
		case s == nil:
		case r.Op == ledger.OpEvent:
			s.Logged(r.Epoch, r.Seq, r.Bytes)
		case r.Op == ledger.OpSkipped, r.Op == ledger.OpSeen:
			s.Skipped(r.Epoch, r.Seq, int(r.Asynchronous))
		}
		return nil
	})
	return err
}

// Payload handles a payload of another controller.
func (c *Core) Payload(now time.Time, from uint64, payload []byte) {
	if len(payload) > 0 && payload[0] == requestPayload {
		c.asked(from, payload[1:])
		return
	}
	if len(payload) > 0 && payload[0] == digestPayload {
		c.heardDigest(from, payload[1:])
		return
	}
	if c.fromGroup(payload) {
		return
	}
	c.follower.Receive(now, from, payload)
	c.leader.Receive(now, from, payload)
}

// remotes implements proxy.Owner.
type remotes struct{ c *Core }

func (o remotes) Offered(*proxy.Remote) { o.c.paths = time.Time{} } // the next Tick looks at it

func (o remotes) Withdrawn(r *proxy.Remote) {
	if c := o.c; c.remote(r.Switch()) == r {
		c.leaveRemote(c.leader.Now(), r)
	}
}

func (o remotes) Events(r *proxy.Remote, b southbound.Batch, done func(error)) {
	o.c.Events(r, b, done)
}

func (o remotes) CommandsDone(r *proxy.Remote, epoch, seq uint64) { o.c.CommandsDone(r, epoch, seq) }

func (o remotes) Resume(r *proxy.Remote) {
	c := o.c
	s := c.sessions[r.Switch()]
	if s == nil || s.Session != Session(r) || !s.master {
		return
	}
	if release, known := c.ledger.Resume(r.Switch()); known {
		c.send(s, release)
	}
}
