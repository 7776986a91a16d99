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

// Sizes for raft. With batches of about 100 KiB from the ledger they allow some milliseconds of traffic in flight,
// which is more than a group needs.
const (
	maxMessageSize   = 1 << 20  // bytes of entries in one append; a larger one would delay the heartbeat behind it
	maxInflight      = 256      // unanswered appends to one follower
	maxInflightBytes = 16 << 20 // the same in bytes: the memory that one stopped follower costs
	maxUndelivered   = 16 << 20 // bytes of committed entries which the owner has not taken
	maxUncommitted   = 64 << 20 // bytes of proposals that wait for a quorum; more wait in the owner's queue
	tailEntries      = 4096     // kept before a snapshot for followers that are a little behind
	tailBytes        = 16 << 20
)

// CoreConfig is what a Core needs to know.
type CoreConfig struct {
	Group, ID      uint64
	HeartbeatTicks int // between two heartbeats of a leader
	ElectionTicks  int // the election timeout T on a quiet machine; it is randomised in [T, 2T)
	MostTicks      int // the largest T on a busy machine; ElectionTicks if that is more
	HoldTicks      int // for how long a late message keeps T large: see lateness
	Stagger        time.Duration
	Seed           uint64 // of the election timeouts
	PatienceTicks  int    // for which the owner of a leader may take no update: see stall; 0: unlimited
	Saved          storage.Saved
	// FirstTerm is a term that the first leader after a start of all members exceeds, the Unix time in tenths of a
	// second: see lift. With 0 it has no effect.
	FirstTerm uint64
	Logger    *slog.Logger // raft's own messages, at level Debug and Warn
}

func (c CoreConfig) mostTicks() int { return max(c.ElectionTicks, c.MostTicks) }

// Core is one member of a Raft group without I/O: ticks, messages and proposals are its inputs, and Ready returns what
// is to be done. It wraps raft.RawNode with asynchronous storage. It adds role changes that are ordered among the
// entries, elections that a hint starts, and members with addresses. Equal inputs give equal outputs. Not for
// concurrent use.
//
// After any input the caller calls Ready, and does what it says, until HasReady is false.
type Core struct {
	group    uint64
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
	settled            bool   // a leader since the start has committed an entry of its term: see lift

	firstTerm uint64 // see CoreConfig

	newest   uint64   // index of the newest snapshot, also if it is not yet stored
	appends  []saving // not yet stored; Ready has returned the first `handed` of them
	handed   int
	given    uint64  // index of the last committed entry that was made an update, or was not for the owner
	applies  []apply // returned by Ready and not yet delivered
	notices  notices // delayed messages to others
	vouch    vouch
	acks     []*raftpb.Message // to others, for the next Ready: what they acknowledge is stored; and nominations
	incoming map[uint64][]byte // states of snapshots that came since the last Ready, by index

	clock   uint64 // ticks since the start
	answers answers
	relief  relief
	stall   stall

	updates    []Update        // for the next Ready
	transferee uint64          // target of a leadership transfer in progress; 0: none
	transferAt uint64          // when it began, by clock
	declined   map[uint64]bool // members that did not take the leadership that this leader offered
}

// Ready is what the caller has to do. Append and Updates are in order, also from one Ready to the next.
type Ready struct {
	Messages []wire.Message    // pass to Vouch, and send at once
	Append   []storage.Batch   // save, then call Stored; what can be saved at once goes before Vouch
	Updates  []Update          // hand to the owner; call Taken when it has taken one, and Delivered for entries
	Members  map[uint64]string // if not nil: the new members
	Gone     []uint64          // with Members: former members
	Voters   []uint64          // with Members: those that vote
	Elect    time.Duration     // if positive: call Elect after that time
	Relief   uint64            // if not 0: the leadership moves to that member, because the disk of this one is slow
	Stalled  uint64            // if not 0: the leadership moves to that member, because the owner takes no updates
	Stop     error             // if not nil: this member does not belong to the group: ErrRemoved or ErrFounded
}

// ErrRemoved says that this member was removed from the group.
var ErrRemoved = errors.New("this member was removed from the group, and its directory is of no more use; " +
	"to join again it needs a new id and an empty directory")

// ErrFounded says that this member was founded with other first members than the group that has added it.
var ErrFounded = errors.New("the group has added this member, which takes itself for one of its first: its " +
	"directory was created for another group; replace the member by one with a new id and an empty directory")

// ErrStranger says that this member was founded although other members of its configuration already form a group, which
// does not have it.
var ErrStranger = errors.New("this member was begun as one of the first, but the others already form a group, and it " +
	"is not a member of that")

// ErrNotLeader says that this member does not lead, or not in that term.
var ErrNotLeader = errors.New("not the leader")

// LostLogError says that this member's log lacks entries that it has acknowledged.
type LostLogError struct {
	ID, Leader uint64
	Known, Has uint64 // the last entry that the leader knows to be here, and that is here
}

func (e *LostLogError) Error() string {
	return fmt.Sprintf("member %d has lost its log: leader %d knows that it had entry %d, but it ends at %d; "+
		"do not restore an older copy of its folder, but replace it by a member with a new id and an empty folder "+
		"(holdfast member replace)", e.ID, e.Leader, e.Known, e.Has)
}

// NewCore starts from what was saved: at least a Bootstrap, or nothing for a member that is to be added to a running
// group.
func NewCore(cfg CoreConfig) (*Core, error) {
	log, err := newRaftLog(cfg.Saved)
	if err != nil {
		return nil, err
	}
	c := &Core{group: cfg.Group, id: cfg.ID, firstTerm: cfg.FirstTerm, log: log, newest: cfg.Saved.Snapshot.Index(),
		incoming: make(map[uint64][]byte),
		answers:  answers{heard: make(map[uint64]uint64)}, declined: make(map[uint64]bool)}
	log.members = &c.members
	c.raft, err = raft.NewRawNode(&raft.Config{
		ID:                        cfg.ID,
		ElectionTick:              2 * cfg.mostTicks(), // raft leaves this to us: see election and answers
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
	c.stall.patience = uint64(cfg.PatienceTicks)
	c.deliverSnapshot(cfg.Saved.Snapshot)
	if c.members.alone(c.id) {
		c.campaign() // there is no other member to wait for
	}
	return c, nil
}

// Propose appends data to the log, if this member leads in term. The error is ErrNotLeader,
// or says that raft refused a proposal of its leader; then the member must stop.
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

// Accepts says whether proposals should be made now. They must wait during a leadership transfer, because raft would
// drop them, and while maxUncommitted bytes are not committed.
func (c *Core) Accepts() bool {
	return !c.Transferring() && c.pending.bytes() < maxUncommitted
}

// TransferLeader begins to transfer the leadership to another member. The transfer succeeds or fails within the
// election timeout, at most within mostTransfer of those of a quiet machine.
func (c *Core) TransferLeader(to uint64) error {
	if c.state != raft.StateLeader {
		return ErrNotLeader
	}
	if to == c.id || !c.members.votes(to) {
		return fmt.Errorf("cannot transfer the leadership from member %d to %d, which is not another voter", c.id, to)
	}
	c.transferee, c.transferAt = to, c.clock
	c.raft.TransferLeader(to)
	return nil
}

// Transferring says whether this member leads and a leadership transfer is in progress.
func (c *Core) Transferring() bool {
	if s := c.raft.BasicStatus(); c.transferee != 0 && s.LeadTransferee == raft.None {
		if s.RaftState == raft.StateLeader {
			c.declined[c.transferee] = true
		}
		c.transferee = 0
	}
	return c.transferee != 0
}

// Compact takes a snapshot of the owner's state, and drops the log before its index. The index was delivered, and is
// larger than that of the last snapshot.
func (c *Core) Compact(s storage.Snapshot) {
	if s.Index() <= c.newest {
		return // a snapshot from the leader came in between
	}
	c.newest = s.Index()
	c.members.forget(s.Index())
	c.log.compact(s, tailEntries, tailBytes)
	c.appends = append(c.appends, saving{batch: storage.Batch{Group: c.group, Compact: &s}})
}

// SnapshotAt makes the snapshot that Compact takes, to be stored first.
func (c *Core) SnapshotAt(index uint64, state []byte) (storage.Snapshot, error) {
	switch applied := c.raft.BasicStatus().Applied; {
	case index > applied:
		return storage.Snapshot{}, fmt.Errorf("cannot compact at %d: entries to %d were delivered", index, applied)
	case index <= c.newest: // a newer one came from the leader, which the owner does not know yet
		return storage.Snapshot{}, fmt.Errorf("compact at %d, and there is a snapshot at %d: %w", index, c.newest,
			ErrCompacting)
	}
	term, err := c.log.Term(index)
	if err != nil {
		return storage.Snapshot{}, fmt.Errorf("compact at %d: %w", index, err)
	}
	return storage.Snapshot{State: state, Raft: c.members.at(index).raftSnapshot(index, term)}, nil
}
