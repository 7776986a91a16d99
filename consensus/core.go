package consensus

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Sizes inside raft. With batches of about 100 KiB from the ledger they allow some
// milliseconds of traffic on the way, which is more than a group needs.
const (
	maxMessageSize   = 1 << 20  // of the entries in one append: a larger one delays the heartbeat behind it
	maxInflight      = 256      // appends to one follower that are not answered
	maxInflightBytes = 16 << 20 // the same in bytes; what one stopped follower costs in memory
	maxUndelivered   = 16 << 20 // bytes of committed entries which the owner has not taken
	maxUncommitted   = 64 << 20 // bytes of proposals that wait for a quorum; more wait in the owner's queue
	tailEntries      = 4096     // kept before a snapshot for followers that are a little behind
	tailBytes        = 16 << 20
)

// CoreConfig is what a Core needs to know.
type CoreConfig struct {
	ID             uint64
	HeartbeatTicks int // a leader says that it lives
	ElectionTicks  int // a silent leader is given up after that; lots decide who stands first, within as much again
	Stagger        time.Duration
	Seed           uint64 // of the lots
	Saved          storage.Saved
	Logger         *slog.Logger // raft's own messages, at level Debug and Warn
}

// Core is one member of a Raft group without any I/O: ticks, messages and proposals go in,
// Ready says what is to be done. It wraps raft.RawNode with asynchronous storage, and adds
// the order of roles among entries, elections that start from a hint, and membership with
// addresses. Equal inputs give equal outputs. Not for concurrent use.
//
// After any input, and until HasReady is false, the caller takes Ready and does what it says.
type Core struct {
	id       uint64
	raft     *raft.RawNode
	log      *raftLog
	members  membership
	election election
	pending  pendingProposals

	// As of the last Ready.
	state              raft.StateType
	term, vote, commit uint64
	last, lastTerm     uint64 // of the log, stored or not
	role               Role   // as the owner knows it

	newest   uint64   // index of the newest snapshot, also if it is not yet stored
	appends  []saving // not yet stored, the first handed of them handed out
	handed   int
	applies  []apply           // handed out and not yet delivered
	notices  notices           // to others, that wait
	acks     []*raftpb.Message // to others, for the next Ready: what they wait for is stored
	incoming map[uint64][]byte // states of snapshots that came since the last Ready, by index

	clock  uint64            // ticks since the start
	heard  map[uint64]uint64 // when another member last answered
	relief relief

	updates    []Update        // for the next Ready
	transferee uint64          // who is given the leadership; 0: nobody, or that was seen to end
	declined   map[uint64]bool // who did not take the leadership that this leader gave them
}

// Ready is what the caller has to do. Append and Updates are in order, also from one Ready to the next.
type Ready struct {
	Messages []wire.Message    // send at once
	Append   []storage.Batch   // save, then call Stored
	Updates  []Update          // hand to the owner; call Delivered when entries are taken
	Members  map[uint64]string // if not nil: the members have changed to these
	Gone     []uint64          // with Members: who was one before
	Elect    time.Duration     // if positive: call Elect after that time
	Relief   uint64            // if not 0: the leadership is being handed to that member, since this one's disk is slow
	Stop     error             // if not nil: this member is none of the group, because of ErrRemoved or ErrFounded
}

// ErrRemoved says that this member was removed from the group.
var ErrRemoved = errors.New("this member was removed from the group, and what its directory holds is of no more " +
	"use; to join again it needs a new id and an empty directory")

// ErrFounded says that this member was founded with other first members than the group which has added it.
var ErrFounded = errors.New("the group has added this member, which takes itself for one of its first: its " +
	"directory was begun for another group; " +
	"replace it by one with a new id and an empty directory, which joins")

// ErrNotLeader says that this member does not lead, or not in that term.
var ErrNotLeader = errors.New("not the leader")

// LostLogError says that this member has forgotten what it has acknowledged.
type LostLogError struct {
	ID, Leader uint64
	Known, Has uint64 // the last entry that the leader knows to be here, and that is here
}

func (e *LostLogError) Error() string {
	return fmt.Sprintf("member %d has lost its log: leader %d knows that it had entry %d, but it ends at %d; "+
		"restore its directory, or remove it from the group and add it again under a new id", e.ID, e.Leader, e.Known,
		e.Has)
}

// NewCore starts from what was saved, which is at least a Bootstrap, or nothing for a
// member that is to be added to a running group.
func NewCore(cfg CoreConfig) (*Core, error) {
	log, err := newRaftLog(cfg.Saved)
	if err != nil {
		return nil, err
	}
	c := &Core{id: cfg.ID, log: log, newest: cfg.Saved.Snapshot.Index(), incoming: make(map[uint64][]byte),
		heard: make(map[uint64]uint64), declined: make(map[uint64]bool)}
	log.members = &c.members
	c.raft, err = raft.NewRawNode(&raft.Config{
		ID:                        cfg.ID,
		ElectionTick:              cfg.ElectionTicks,
		HeartbeatTick:             cfg.HeartbeatTicks,
		Storage:                   log,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxMessageSize,
		MaxCommittedSizePerReady:  maxUndelivered,
		MaxInflightMsgs:           maxInflight,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		Logger:                    raftLogger{cfg.Logger},
		DisableProposalForwarding: true, // a proposal belongs to one term of one leader
		StepDownOnRemoval:         true,
	})
	if err != nil {
		return nil, err
	}
	if err := c.members.restore(cfg.Saved.Snapshot); err != nil {
		return nil, err
	}
	h := cfg.Saved.Hard
	c.state, c.term, c.vote, c.commit = raft.StateFollower, h.GetTerm(), h.GetVote(), h.GetCommit()
	c.role = Role{Term: c.term}
	c.last = log.last()
	c.lastTerm, _ = log.Term(c.last) // it is there
	c.election = newElection(cfg)
	c.deliverSnapshot(cfg.Saved.Snapshot)
	if c.members.alone(c.id) {
		c.campaign() // nobody to wait for
	}
	return c, nil
}

// Propose appends data to the log, if this member leads in term. The error is ErrNotLeader,
// or says that raft has broken its word; then the member must stop.
func (c *Core) Propose(term uint64, data ...[]byte) error {
	if !c.Leading(term) {
		return ErrNotLeader
	}
	m := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: ptr(c.id), Entries: make([]*raftpb.Entry, len(data))}
	for i, d := range data {
		m.Entries[i] = &raftpb.Entry{Data: d}
		c.pending.proposed += len(d)
	}
	if err := c.raft.Step(m); err != nil {
		return fmt.Errorf("raft refused a proposal of its leader in term %d: %w", term, err)
	}
	return nil
}

// Leading says whether proposals of term are taken now.
func (c *Core) Leading(term uint64) bool {
	if !c.role.Leading || c.role.Term != term {
		return false
	}
	s := c.raft.BasicStatus() // raft may have stepped down since the last Ready
	return s.RaftState == raft.StateLeader && s.HardState.GetTerm() == term
}

// Accepts says whether proposals should be made now. They must wait while the leadership is
// being transferred, since raft would drop them, and while too much is not committed.
func (c *Core) Accepts() bool {
	return !c.Transferring() && c.pending.bytes() < maxUncommitted
}

// TransferLeader begins to hand the leadership to another member. It ends, one way or the
// other, within the election timeout.
func (c *Core) TransferLeader(to uint64) error {
	if c.state != raft.StateLeader {
		return ErrNotLeader
	}
	if to == c.id || !c.members.votes(to) {
		return fmt.Errorf("cannot transfer the leadership from member %d to %d, which is not another voter", c.id, to)
	}
	c.transferee = to
	c.raft.TransferLeader(to)
	return nil
}

// Transferring says whether this member leads and tries to give the leadership away.
func (c *Core) Transferring() bool {
	if s := c.raft.BasicStatus(); c.transferee != 0 && s.LeadTransferee == raft.None {
		if s.RaftState == raft.StateLeader {
			c.declined[c.transferee] = true
		}
		c.transferee = 0
	}
	return c.transferee != 0
}

// Compact takes the owner's state at index, and lets the log before it go. The index was
// delivered, and is larger than that of the last snapshot.
func (c *Core) Compact(s storage.Snapshot) {
	if s.Index() <= c.newest {
		return // one from the leader has come in between
	}
	c.newest = s.Index()
	c.members.forget(s.Index())
	c.log.compact(s, tailEntries, tailBytes)
	c.appends = append(c.appends, saving{batch: storage.Batch{Compact: &s}})
}

// SnapshotAt makes the snapshot that Compact takes, to be stored first.
func (c *Core) SnapshotAt(index uint64, state []byte) (storage.Snapshot, error) {
	switch applied := c.raft.BasicStatus().Applied; {
	case index > applied:
		return storage.Snapshot{}, fmt.Errorf("cannot compact at %d: entries to %d were delivered", index, applied)
	case index <= c.newest: // one has come from the leader, and the owner does not know yet
		return storage.Snapshot{}, fmt.Errorf("compact at %d, and there is a snapshot at %d: %w", index, c.newest,
			ErrCompacting)
	}
	term, err := c.log.Term(index)
	if err != nil {
		return storage.Snapshot{}, fmt.Errorf("compact at %d: %w", index, err)
	}
	return storage.Snapshot{State: state, Raft: c.members.at(index).raftSnapshot(index, term)}, nil
}
