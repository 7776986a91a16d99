package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// ErrCompacting says that the last snapshot is still being written.
var ErrCompacting = errors.New("consensus: the last snapshot is still being written")

// ErrTooLarge says that a state is too large for a snapshot, which could not be sent to others.
var ErrTooLarge = errors.New("consensus: the state is too large for a snapshot")

// Compact replaces the log up to index by the owner's state at that index. The owner must have taken the entry at index
// from Next, and must not change state afterwards. Compact does not wait for the disk. The error is about the index,
// or ErrCompacting, or the one that stopped the node. The state stays in memory for members that are far behind, and so
// do some thousand entries before index, for members that are a little behind.
func (n *Node) Compact(index uint64, state []byte) error {
	if len(state) > wire.MaxState {
		return fmt.Errorf("%w: it has %d bytes, at most %d are possible", ErrTooLarge, len(state), wire.MaxState)
	}
	if !n.compacts.CompareAndSwap(false, true) {
		return ErrCompacting
	}
	err := n.do(func(c *Core) error {
		snapshot, err := c.SnapshotAt(index, state)
		if err != nil {
			return fmt.Errorf("consensus: %w", err)
		}
		n.helpers.Go(func() { n.writeSnapshot(snapshot) })
		return nil
	})
	if err != nil {
		n.compacts.Store(false)
	}
	return err
}

func (n *Node) writeSnapshot(s storage.Snapshot) {
	defer n.compacts.Store(false)
	if err := n.host.store.WriteSnapshot(n.cfg.Group, s); err != nil {
		n.host.fail(fmt.Errorf("consensus: write the snapshot at %d: %w", s.Index(), err))
		return
	}
	_ = n.inbox.call(func(c *Core) { c.Compact(s) }) // refused only when the node has stopped
}

// ChangeMembers adds and removes members, and waits until the change is in effect. Only the leader can do that.
// ErrNotLeader may also be returned after the change was proposed: then its outcome is unknown, and Status shows it. A
// new member is started with GroupConfig.Join, before or after. A removed member stops with ErrRemoved if it learns of
// its removal, otherwise it stays alone; in both cases its directory must not be used again.
func (n *Node) ChangeMembers(ctx context.Context, change MemberChange) error {
	id, proposed := rand.Uint64(), false
	return n.await(ctx, func(*Core) error { return nil }, func(c *Core) (bool, error) {
		switch {
		case c.ConfChangeApplied(id):
			return true, nil
		case !c.Role().Leading:
			return true, ErrNotLeader
		case !proposed && c.established():
			proposed = true
			err := c.ProposeConfChange(id, change)
			return err != nil, err
		default:
			return false, nil
		}
	})
}

// HandOver transfers the leadership to the preferred successor (Status.Successor), or to the next one if that member
// declines, and so on. It waits until another member leads.
func (n *Node) HandOver(ctx context.Context) error {
	return n.await(ctx, (*Core).giveAway, (*Core).givenAway)
}

// Transfer transfers the leadership to one member, and waits until that leads. The error says so if it declined.
func (n *Node) Transfer(ctx context.Context, to uint64) error {
	return n.await(ctx, func(c *Core) error { return c.TransferLeader(to) }, func(c *Core) (bool, error) {
		switch role := c.Role(); {
		case c.Transferring() || role.Leader == raft.None:
			return false, nil
		case role.Leader == to:
			return true, nil
		default:
			return true, fmt.Errorf("member %d did not take over the leadership; member %d leads", to, role.Leader)
		}
	})
}

// Drain makes this member transfer the leadership, if it has it, and become leader again only if no other member has
// led for ten election timeouts. That holds until the node is closed. Drain waits until another member leads. If none
// does before ctx ends, the member is not drained; it may lose the leadership to one to which it was on its way.
func (n *Node) Drain(ctx context.Context) error {
	err := n.await(ctx, (*Core).beginDrain, func(c *Core) (bool, error) {
		done, err := c.givenAway()
		if err != nil {
			c.election.drained = false
		}
		return done, err
	})
	if err != nil && ctx.Err() != nil { // nobody looks any more whether all decline
		_ = n.inbox.call(func(c *Core) { // refused only when the node has stopped
			if c.state == raft.StateLeader {
				c.election.drained = false
			}
		})
	}
	return err
}

// DeferElection makes this member leave the leadership to others that can take it, while on is true. It does not wait.
func (n *Node) DeferElection(on bool) {
	_ = n.inbox.call(func(c *Core) { c.DeferElection(on) }) // refused only when the node has stopped
}

func (c *Core) giveAway() error {
	clear(c.declined) // a member that declined earlier may accept now
	to, ok := c.Status().Successor()
	if !ok {
		return errors.New("no other voter is reachable, so none can take over the leadership; start one first")
	}
	return c.TransferLeader(to)
}

// givenAway says whether another member leads. If the last successor declined, it tries the next.
func (c *Core) givenAway() (bool, error) {
	switch role := c.Role(); {
	case c.Transferring() || role.Leader == raft.None:
		return false, nil
	case role.Leader != c.id:
		return true, nil
	}
	if to, ok := c.Status().Successor(); ok && !c.declined[to] && c.TransferLeader(to) == nil {
		return false, nil
	}
	return true, errors.New("no other member took over the leadership: those that answer are drained, or too slow")
}

func (c *Core) beginDrain() error {
	s := c.Status()
	if len(s.Voters) == 1 && s.Voters[0] == c.id {
		return errors.New("this is the only voter: no other member can lead")
	}
	if c.state == raft.StateLeader {
		if err := c.giveAway(); err != nil {
			return err
		}
	}
	c.Drain()
	return nil
}

// Status describes the state of this member.
type Status struct {
	Role
	ID        uint64
	First     uint64 // of the log in memory
	Last      uint64 // stored here
	Committed uint64
	Delivered uint64            // taken by the owner
	Snapshot  uint64            // the index of the newest
	Members   map[uint64]string // id to address
	Voters    []uint64          // those of them that vote, in order; the others are learners
	Former    []uint64          // members that were removed, the newest last; at most 1,024
	Drained   bool              // this member leads only as a last resort, see Drain
	Changing  bool              // a change of the members is under way, or the leader is too new for one
	Peers     []Peer            // if this member leads: the others, by id
	Election  ElectionTimeout
}

// ElectionTimeout is the election timeout T of one member: see HostConfig.Election. A leader that hangs is replaced
// within 2T, and one that no majority answers steps down after 2T.
type ElectionTimeout struct {
	Configured time.Duration // HostConfig.Election
	Present    time.Duration
	Late       Late          // why it is longer than configured; NotLate if it is not
	Waited     time.Duration // the longest wait for what came late
}

// Successor is the member that should take over from this leader: among the other active voters, the one that has most
// of the log. Of several it is the last in rank, so that the groups of a controller that stops spread over the others.
// Members that declined are considered only if all did.
func (s Status) Successor() (id uint64, ok bool) {
	var to Peer
	for _, p := range s.Peers { // none unless this one leads
		if p.Votes && p.Active && (to.ID == 0 || p.precedes(to)) {
			to = p
		}
	}
	return to.ID, to.ID != 0
}

// precedes reports whether a leader should rather be succeeded by p than by q.
func (p Peer) precedes(q Peer) bool {
	switch {
	case p.Declined != q.Declined:
		return q.Declined
	case p.Match != q.Match:
		return p.Match > q.Match
	}
	return p.Rank > q.Rank
}

// Peer is another member as its leader sees it.
type Peer struct {
	ID        uint64
	Match     uint64 // the last entry known to be stored there
	Rank      int    // its place in the order of elections after a failure of this leader; the first is 0
	Votes     bool
	State     string // "probe", "replicate" or "snapshot"
	Active    bool   // has answered within the election timeout
	Connected bool   // there is a connection to it
	Declined  bool   // declined a leadership transfer: for example because it is drained
}

// Status returns the state of this member, or the zero Status if the node has stopped.
func (n *Node) Status() Status {
	var s Status
	if n.do(func(c *Core) error { s = c.Status(); s.Election = n.electionTimeout(c); return nil }) != nil {
		return Status{}
	}
	for i := range s.Peers {
		s.Peers[i].Connected = n.host.transport.Connected(wire.ControllerOf(s.Peers[i].ID))
	}
	s.Members = n.addresses(s.Members)
	return s
}

// electionTimeout converts ticks to time.
func (n *Node) electionTimeout(c *Core) ElectionTimeout {
	l := &c.election.late
	cfg := &n.host.cfg
	t := ElectionTimeout{Configured: cfg.Election, Present: time.Duration(l.timeout()) * cfg.Heartbeat}
	if l.timeout() > l.least {
		t.Late, t.Waited = l.cause, time.Duration(l.longest)*cfg.Heartbeat
	}
	return t
}

// Role is the role as of the updates that Ready has returned so far.
func (c *Core) Role() Role { return c.role }

// Status returns the state of this member, without Peer.Connected and Election.
func (c *Core) Status() Status {
	b := c.raft.BasicStatus()
	s := Status{
		Role: c.role, ID: c.id, First: c.log.base + 1, Last: c.log.last(), Committed: b.HardState.GetCommit(),
		Delivered: b.Applied, Snapshot: c.log.snapshot.Index(), Members: c.members.addresses(),
		Voters:   slices.Clone(c.members.conf().Voters),
		Changing: c.members.joint() || c.role.Leading && !c.established(),
		Former:   slices.Clone(c.members.now().gone), Drained: c.election.drained,
	}
	slices.Sort(s.Voters)
	if b.RaftState == raft.StateLeader {
		c.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			if id != c.id {
				s.Peers = append(s.Peers, Peer{
					ID: id, Match: p.Match, Votes: c.members.votes(id), State: progressName(p.State),
					Active: c.active(id), Declined: c.declined[id], Rank: c.rank(id, c.id),
				})
			}
		})
	}
	return s
}

func progressName(s tracker.StateType) string {
	switch s {
	case tracker.StateReplicate:
		return "replicate"
	case tracker.StateSnapshot:
		return "snapshot"
	default:
		return "probe"
	}
}
