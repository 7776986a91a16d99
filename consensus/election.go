package consensus

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// election decides when this member stands. Raft would decide by itself, but draws its lots
// from a source that nobody can seed, and knows no hints. So raft's clock runs only
// while this member leads (heartbeats, and stepping down without a quorum), and everything
// else is here: raft is told to forget a silent leader, and to campaign.
type election struct {
	ticks   int // a leader that was silent for so long is forgotten
	stagger time.Duration
	lots    *rand.Rand

	drained  bool // stands only when nobody else has for a long time
	hesitant bool // stands after the others

	lost    int // times in a row that the others were ready to vote for this member and it did not become leader
	elapsed int // ticks since the leader was heard, or something else began
	timeout int // stand when elapsed has reached it: ticks to 2*ticks-1

	// Requests for votes, by sender, which raft would drop because this member still
	// hears its leader. The sender has perhaps only learned earlier that it is dead.
	kept map[uint64]keptVote

	armed    bool // wait was not yet handed out
	wait     time.Duration
	hintTerm uint64 // in which wait was armed
}

type keptVote struct {
	m   *raftpb.Message
	age int // in ticks
}

// lastResort is how many election timeouts a drained member leaves to the others.
const lastResort = 10

// maxLost bounds how often the time for an election is doubled. Votes are stored before they count, and where that
// takes longer than the usual time nobody would ever be elected.
const maxLost = 6

func newElection(cfg CoreConfig) election {
	e := election{
		ticks: cfg.ElectionTicks, stagger: cfg.Stagger, kept: make(map[uint64]keptVote),
		lots: rand.New(rand.NewPCG(cfg.Seed, cfg.ID)),
	}
	e.restart()
	return e
}

func (e *election) restart() {
	e.elapsed, e.timeout = 0, (e.ticks+e.lots.IntN(e.ticks))<<e.lost
	if e.drained {
		e.timeout += lastResort * e.ticks
	} else if e.hesitant {
		e.timeout += e.ticks
	}
}

func (e *election) take() time.Duration {
	if !e.armed {
		return 0
	}
	e.armed = false
	return e.wait
}

// Tick says that one tick has passed.
func (c *Core) Tick() {
	c.clock++
	c.relieve()
	c.notices.tick()
	e := &c.election
	for id, k := range e.kept {
		if k.age++; k.age >= e.ticks {
			delete(e.kept, id)
		} else {
			e.kept[id] = k
		}
	}
	s := c.raft.BasicStatus()
	if s.RaftState == raft.StateLeader {
		c.raft.Tick()
		return
	}
	e.elapsed++
	if e.elapsed >= e.ticks && s.Lead != raft.None {
		c.forgetLeader()
	}
	if e.elapsed >= e.timeout && c.members.votes(c.id) {
		if s.RaftState == raft.StateCandidate {
			e.lost = min(e.lost+1, maxLost)
		}
		e.restart()
		c.campaign()
	}
}

// Hint says that the connection from a member broke. If it leads, that is taken as its
// death: this member votes for others from now on, and stands itself, after others that
// come before it in rank. A leader that lives loses nothing: the members that still hear it do
// not vote (raft's PreVote and CheckQuorum), and its next heartbeat is obeyed.
func (c *Core) Hint(member uint64) {
	s := c.raft.BasicStatus()
	switch {
	case s.RaftState == raft.StateLeader:
		c.raft.ReportUnreachable(member)
	case s.RaftState == raft.StateFollower && s.Lead == member:
		asked := len(c.election.kept) > 0
		c.election.hintTerm = s.HardState.GetTerm()
		c.forgetLeader()
		rank := c.rank(member)
		if asked || c.election.hesitant { // someone stands already, or should; two at once would split the votes
			rank += len(c.members.conf().Voters)
		}
		if rank == 0 {
			c.Elect()
		} else {
			c.election.armed, c.election.wait = true, time.Duration(rank)*c.election.stagger
		}
	}
}

// Elect stands for election, if nothing has happened since the hint.
func (c *Core) Elect() {
	s := c.raft.BasicStatus()
	if !c.election.drained && s.RaftState == raft.StateFollower && s.Lead == raft.None &&
		s.HardState.GetTerm() == c.election.hintTerm && c.members.votes(c.id) {
		c.election.restart()
		c.campaign()
	}
}

// Drain has this member stand for election only as the last resort, when nobody else has led for many
// election timeouts, and take no leadership that is transferred to it. It does not
// give away what it has.
func (c *Core) Drain() {
	c.election.drained = true
	c.election.restart()
}

// Hesitate has this member stand for election after the others, and take no leadership that is transferred to
// it, as long as on is true. If it alone can win, since the others' logs are shorter, it leads all the same.
func (c *Core) Hesitate(on bool) { c.election.hesitant = on }

// active says whether another member has answered within the election timeout.
func (c *Core) active(member uint64) bool {
	at, ok := c.heard[member]
	return ok && c.clock-at <= uint64(c.election.ticks)
}

// rank is this member's place among the voters, without the one that is down.
func (c *Core) rank(down uint64) int {
	rank := 0
	for _, id := range c.members.conf().Voters {
		if id < c.id && id != down {
			rank++
		}
	}
	return rank
}

// The errors of campaign and forgetLeader are those of a node that was stopped.
func (c *Core) campaign() { _ = c.raft.Campaign() }

// forgetLeader gives the leader up, so that raft votes for others, and looks again at the
// requests that came too early, in the order of their senders.
func (c *Core) forgetLeader() {
	_ = c.raft.ForgetLeader()
	early := make([]*raftpb.Message, 0, len(c.election.kept))
	for _, k := range c.election.kept {
		early = append(early, k.m)
	}
	clear(c.election.kept)
	slices.SortFunc(early, func(a, b *raftpb.Message) int { return int(a.GetFrom()) - int(b.GetFrom()) })
	for _, m := range early {
		_ = c.raft.Step(m)
		c.outdo(m)
	}
}

// keep puts a request for a vote aside if raft would drop it because of the leader's lease.
func (c *Core) keep(m *raftpb.Message) bool {
	s := c.raft.BasicStatus()
	transfer := bytes.Equal(m.GetContext(), []byte("CampaignTransfer"))
	if s.RaftState != raft.StateFollower || s.Lead == raft.None || m.GetTerm() <= s.HardState.GetTerm() || transfer {
		return false
	}
	if c.members.votes(m.GetFrom()) {
		c.election.kept[m.GetFrom()] = keptVote{m: m}
	}
	return true
}

// outdo stands at once, instead of waiting for its turn after a hint, when someone has asked
// for a vote whose log is behind, and who cannot win without this member's vote.
func (c *Core) outdo(m *raftpb.Message) {
	voters := len(c.members.conf().Voters)
	behind := m.GetLogTerm() < c.lastTerm || m.GetLogTerm() == c.lastTerm && m.GetIndex() < c.last
	if behind && voters-2 < voters/2+1 { // without the dead leader and this member
		c.Elect()
	}
}

// Step takes a message from another member. What does not belong into the group is ignored.
// After an error, such as *LostLogError, the member must stop: raft would panic.
func (c *Core) Step(m wire.Message) error {
	r := m.Raft
	switch r.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		if r.GetTerm() < c.term {
			break
		}
		if r.GetType() == raftpb.MsgHeartbeat && r.GetCommit() > c.log.last() {
			return &LostLogError{ID: c.id, Leader: r.GetFrom(), Known: r.GetCommit(), Has: c.log.last()}
		}
		if r.GetType() == raftpb.MsgSnap {
			meta := r.GetSnapshot().GetMetadata()
			if conf := meta.GetConfState(); c.blank() && slices.Contains(slices.Concat(conf.GetVoters(),
				conf.GetVotersOutgoing()), c.id) {
				return &LostLogError{ID: c.id, Leader: r.GetFrom(), Known: meta.GetIndex()}
			}
			if _, _, _, err := parseSnapshotData(r.GetSnapshot().GetData()); err != nil {
				return fmt.Errorf("snapshot from member %d: %w", r.GetFrom(), err)
			}
			c.incoming[meta.GetIndex()] = m.State
		}
		c.election.elapsed = 0
	case raftpb.MsgVote, raftpb.MsgPreVote:
		if c.blank() || c.stranger(r) || c.keep(r) {
			return nil
		}
		defer c.outdo(r)
	case raftpb.MsgAppResp, raftpb.MsgHeartbeatResp:
		if c.members.has(r.GetFrom()) {
			c.heard[r.GetFrom()] = c.clock
		}
	case raftpb.MsgTimeoutNow:
		if c.election.drained || c.election.hesitant {
			return nil
		}
	case raftpb.MsgVoteResp, raftpb.MsgPreVoteResp:
	default:
		return nil // never sent to another member
	}
	_ = c.raft.Step(r) // an answer from a stranger
	return nil
}

// blank says that this member waits to be added. It has no vote: nobody who is added votes before he has the
// log, so if the group thinks that it does it has lost its own.
func (c *Core) blank() bool { return c.newest == 0 }

// stranger says that who asks for a vote is no member that this one knows of, and has nothing in its log by which
// it could have become one: it was founded with other first members than this one, and two groups would overlap.
func (c *Core) stranger(m *raftpb.Message) bool {
	return m.GetIndex() <= bootIndex && !c.members.has(m.GetFrom())
}

// Unreachable says that a message to a member was dropped.
func (c *Core) Unreachable(member uint64) { c.raft.ReportUnreachable(member) }

// SnapshotSent says that a snapshot has left for a member, or could not.
func (c *Core) SnapshotSent(member uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	c.raft.ReportSnapshot(member, status)
}
