package consensus

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// ErrCompacting says that the last snapshot is still being written.
var ErrCompacting = errors.New("consensus: the last snapshot is still being written")

// Compact replaces the log up to index by the owner's state there. The owner has taken the entry
// index, or a later one, from Updates. state must not be changed afterwards. Compact does not
// wait for the disk; the error is about the index, or ErrCompacting, or that which stopped the
// node. The state stays in memory, to be sent to members that are far behind, and so do some
// thousand entries before index, for those that are a little behind.
func (n *Node) Compact(index uint64, state []byte) error {
	if len(state) > wire.MaxState {
		return fmt.Errorf("consensus: state of %d bytes; at most %d are allowed", len(state), wire.MaxState)
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
	if err := n.saver.store.WriteSnapshot(s); err != nil {
		n.inbox.stop(fmt.Errorf("consensus: write the snapshot at %d: %w", s.Index(), err))
		return
	}
	_ = n.inbox.call(func(c *Core) { c.Compact(s) }) // refused only when the node has stopped
}

// ChangeMembers adds and removes members, and waits until the change is in effect. Only the
// leader can. The error ErrNotLeader may also come after the change was proposed; it is then
// undecided whether it comes about, and Status tells. A new member is started, with
// Config.Join, before or after. One that was removed stops with ErrRemoved if it hears of it, else it
// stays alone; in both cases its directory must not be used again.
func (n *Node) ChangeMembers(ctx context.Context, change MemberChange) error {
	id := rand.Uint64()
	return n.await(ctx, func(c *Core) error { return c.ProposeConfChange(id, change) }, func(c *Core) (bool, error) {
		switch {
		case c.ConfChangeApplied(id):
			return true, nil
		case !c.Role().Leading:
			return true, ErrNotLeader
		default:
			return false, nil
		}
	})
}

// HandOver gives the leadership to the member that should have it (Status.Successor), to the next one if
// that does not take it, and so on. It waits until another leads.
func (n *Node) HandOver(ctx context.Context) error {
	return n.await(ctx, (*Core).giveAway, (*Core).givenAway)
}

// Drain has this member give away the leadership, if it has it, and take it again only when nobody
// else has led for a while. That lasts as long as the node. It waits until another leads.
func (n *Node) Drain(ctx context.Context) error {
	return n.await(ctx, (*Core).beginDrain, func(c *Core) (bool, error) {
		done, err := c.givenAway()
		if err != nil {
			c.election.drained = false
		}
		return done, err
	})
}

// Hesitate has this member leave the leadership to others if one of them can have it, or no longer. It does
// not wait.
func (n *Node) Hesitate(on bool) {
	_ = n.inbox.call(func(c *Core) { c.Hesitate(on) }) // refused only when the node has stopped
}

func (c *Core) giveAway() error {
	clear(c.declined) // who did not take it some time ago may today
	to, ok := c.Status().Successor()
	if !ok {
		return errors.New("no other member that votes is reachable, so nobody can take over; start one first")
	}
	return c.TransferLeader(to)
}

// givenAway says whether another leads. It asks the next one when the last has declined.
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
		return errors.New("this is the only member that votes: nobody else can lead")
	}
	if c.state == raft.StateLeader {
		if err := c.giveAway(); err != nil {
			return err
		}
	}
	c.Drain()
	return nil
}

// Status is where this member stands.
type Status struct {
	Role
	ID        uint64
	First     uint64 // of the log in memory
	Last      uint64 // stored here
	Committed uint64
	Delivered uint64            // taken by the owner
	Snapshot  uint64            // the index of the newest
	Members   map[uint64]string // id to address
	Voters    []uint64          // those of them that vote, in order; the others stand by
	Changing  bool              // a change of the members is under way
	Peers     []Peer            // if this member leads: the others, by id
}

// Successor is who should take over from this leader: of the others that vote and answer, and have not
// declined unless all did, the one that has most of the log.
func (s Status) Successor() (id uint64, ok bool) {
	var to Peer
	for _, p := range s.Peers { // none unless this one leads
		if !p.Votes || !p.Active {
			continue
		}
		if to.ID == 0 || to.Declined && !p.Declined || to.Declined == p.Declined && p.Match >= to.Match {
			to = p
		}
	}
	return to.ID, to.ID != 0
}

// Peer is another member as its leader sees it.
type Peer struct {
	ID        uint64
	Match     uint64 // the last entry known to be stored there
	Votes     bool
	State     string // "probe", "replicate" or "snapshot"
	Active    bool   // has answered within the election timeout
	Connected bool   // there is a connection to it
	Declined  bool   // did not take the leadership when it was given: it is drained, perhaps
}

// Status returns where this member stands. The zero Status if the node has stopped.
func (n *Node) Status() Status {
	var s Status
	if n.do(func(c *Core) error { s = c.Status(); return nil }) != nil {
		return Status{}
	}
	for i := range s.Peers {
		s.Peers[i].Connected = n.transport.Connected(s.Peers[i].ID)
	}
	s.Members = n.addresses(s.Members)
	return s
}

// Role is what the owner was last told, or will be by updates that were handed out.
func (c *Core) Role() Role { return c.role }

// Status returns where this member stands; Connected is not known here.
func (c *Core) Status() Status {
	b := c.raft.BasicStatus()
	s := Status{
		Role: c.role, ID: c.id, First: c.log.base + 1, Last: c.log.last(), Committed: b.HardState.GetCommit(),
		Delivered: b.Applied, Snapshot: c.log.snapshot.Index(), Members: c.members.addresses(),
		Voters: slices.Clone(c.members.conf().Voters), Changing: c.members.joint(),
	}
	slices.Sort(s.Voters)
	if b.RaftState == raft.StateLeader {
		c.raft.WithProgress(func(id uint64, _ raft.ProgressType, p tracker.Progress) {
			if id != c.id {
				s.Peers = append(s.Peers, Peer{
					ID: id, Match: p.Match, Votes: c.members.votes(id), State: progressName(p.State),
					Active: c.active(id), Declined: c.declined[id],
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

// peers hands to the loop what the transport hears. It implements transport.Handler.
type peers struct{ n *Node }

func (p peers) Received(m wire.Message) { p.n.inbox.message(m) }

func (p peers) Disconnected(peer uint64) { p.n.inbox.hint(peer) }

func (p peers) Removed() { p.n.stop(ErrRemoved) }

func (p peers) Dropped(peer uint64) { p.call(func(c *Core) { c.Unreachable(peer) }) }

func (p peers) SnapshotSent(peer uint64, ok bool) { p.call(func(c *Core) { c.SnapshotSent(peer, ok) }) }

// call is refused only when the node has stopped; then nobody needs to know.
func (p peers) call(f func(*Core)) { _ = p.n.inbox.call(f) }
