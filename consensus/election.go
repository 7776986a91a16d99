package consensus

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/wire"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// election decides when this member starts an election. The raft package could decide that itself, but it draws
// timeouts from a source that cannot be seeded, has one timeout for good, and has no hints. So raft's clock runs only
// while this member leads, for heartbeats. This type does the rest: it makes raft forget a silent leader, campaign, and
// step down without a quorum.
type election struct {
	base    int // the election timeout on a quiet machine, in ticks
	late    lateness
	heard   contacts
	stagger time.Duration
	random  *rand.Rand

	drained   bool // campaigns only if nobody has led for lastResort election timeouts
	deferring bool // campaigns after the others
	hangs     bool // the owner of this member takes no updates, so it campaigns as a drained one: see stall

	lost    int // elections in a row that this member lost although the others granted its PreVote
	elapsed int // ticks since the last message of the leader, or since the last change of term, vote or role
	owed    int // ticks that were missed before the last one, and are not in elapsed yet
	crowd   int // the fewest threads for each processor in this silence; 0: nobody said. See Crowded
	lot     int // random, in [0, lots): see campaignAfter
	// hinted: the connection from the leader broke, and no leader was heard since. What is late says nothing then.
	hinted bool

	// Vote requests, by sender, that raft would drop because the leader's lease still holds here. The sender may have
	// noticed the death of the leader earlier.
	kept map[uint64]keptVote
	// Nominations of this member, by sender, that came before its own hint: see nominate. They end with a heartbeat of
	// the leader, and are for one term.
	nominations map[uint64]*raftpb.Message

	armed    bool // wait was not handed out yet
	wait     time.Duration
	hintTerm uint64 // the term of the hint
}

type keptVote struct {
	m   *raftpb.Message
	age int // in ticks
}

// lastResort is for how many election timeouts a drained member leaves elections to the others.
const lastResort = 10

// lots is the number of values of election.lot.
const lots = 1 << 10

// maxLost bounds how often the election timeout is doubled. A vote counts only when it is stored. If that takes longer
// than the timeout on a majority, no member could ever win an election without doubling it.
const maxLost = 6

func newElection(cfg CoreConfig) election {
	e := election{
		base: cfg.ElectionTicks, stagger: cfg.Stagger,
		kept: make(map[uint64]keptVote), nominations: make(map[uint64]*raftpb.Message),
		late:   lateness{least: cfg.ElectionTicks, most: cfg.mostTicks(), hold: cfg.HoldTicks},
		random: rand.New(rand.NewPCG(cfg.Seed, cfg.ID)),
	}
	e.restart()
	return e
}

func (e *election) restart() { e.elapsed, e.crowd, e.lot = 0, 0, e.random.IntN(lots) }

// timeout is the election timeout T: a leader that was silent for so long is forgotten.
func (e *election) timeout() int { return e.late.timeout() }

// campaignAfter is the value of elapsed at which this member campaigns. It is randomised in [T, 2T). If the leader has
// died, T is that of a quiet machine.
func (e *election) campaignAfter() int {
	t := e.base << e.lost
	if !e.hinted {
		t = max(t, e.timeout())
	}
	after := t + t*e.lot/lots
	if e.reluctant() {
		after += lastResort * e.timeout()
	} else if e.deferring {
		after += e.timeout()
	}
	return after
}

// reluctant reports whether this member leads only if no other does.
func (e *election) reluctant() bool { return e.drained || e.hangs }

func (e *election) take() time.Duration {
	if !e.armed {
		return 0
	}
	e.armed = false
	return e.wait
}

// Tick advances the clock by one tick. missed is the number of ticks before it that were due and did not come, because
// this member had no processor time. They raise the election timeout. Nothing was received meanwhile either, so they
// count as silence of the leader only if nothing has been received by the next tick.
func (c *Core) Tick(missed int) {
	c.clock++
	c.relieve()
	c.checkOwner()
	c.notices.tick()
	e := &c.election
	e.late.tick()
	e.late.waited(missed+1, LateSelf)
	e.heard.tick(e.late.most)
	for id, k := range e.kept {
		if k.age++; k.age >= e.timeout() {
			delete(e.kept, id)
		} else {
			e.kept[id] = k
		}
	}
	c.answers.tick(c)
	s := c.raft.BasicStatus()
	if s.RaftState == raft.StateLeader {
		c.tickLeader()
		return
	}
	if e.elapsed > 0 {
		e.elapsed += e.owed
		e.owed = missed
	} else {
		e.owed = 0
	}
	e.elapsed++
	if e.elapsed >= e.timeout() && s.Lead != raft.None {
		if e.excuse(); e.elapsed >= e.timeout() {
			c.forgetLeader()
		}
	}
	if e.elapsed >= e.campaignAfter() && c.members.votes(c.id) {
		if s.RaftState == raft.StateCandidate {
			e.lost = min(e.lost+1, maxLost)
		}
		e.restart()
		c.campaign()
	}
}

// Hint reports that the connection from a controller broke. If the leader is there, this member assumes that it has
// died: it grants votes from now on, and starts an election itself, after members of a lower rank. A wrong hint does
// not depose a live leader: members that still hear it do not vote (PreVote and CheckQuorum), and this member follows
// its next heartbeat.
func (c *Core) Hint(controller uint64) {
	c.election.heard.broken(controller)
	s := c.raft.BasicStatus()
	switch {
	case s.RaftState == raft.StateLeader:
		for member := range c.members.addresses() {
			if wire.ControllerOf(member) == controller {
				c.raft.ReportUnreachable(member)
			}
		}
	case s.RaftState == raft.StateFollower && s.Lead != raft.None && wire.ControllerOf(s.Lead) == controller:
		asked := len(c.election.kept) > 0
		c.election.hintTerm, c.election.hinted = s.HardState.GetTerm(), true
		c.forgetLeader()
		rank := c.rank(c.id, s.Lead)
		if asked || c.election.deferring { // another candidate exists, or should; two at once would split the votes
			rank += len(c.members.conf().Voters)
		}
		if rank == 0 {
			c.Elect()
		} else {
			c.election.armed, c.election.wait = true, time.Duration(rank)*c.election.stagger
			c.nominate(s.Lead)
		}
	}
}

// nominate grants the PreVote of the first in rank before it asks. That member has probably noticed the death of the
// leader at the same time, and so need not ask. The nomination says where the log of this member ends, since only a
// member whose log has as much may be elected.
func (c *Core) nominate(down uint64) {
	for _, id := range c.members.conf().Voters {
		if id != down && id != c.id && c.rank(id, down) == 0 {
			c.acks = append(c.acks, &raftpb.Message{Type: raftpb.MsgPreVoteResp.Enum(), From: ptr(c.id), To: ptr(id),
				Term: ptr(c.election.hintTerm + 1), Index: ptr(c.last), LogTerm: ptr(c.lastTerm)})
		}
	}
}

// nominated takes the answer to a PreVote that this member has not sent, and keeps it until it has a hint itself. It is
// false for other answers.
func (c *Core) nominated(m *raftpb.Message) bool {
	s := c.raft.BasicStatus()
	switch {
	case m.GetIndex() == 0:
		return false // raft's answers name no entry
	case !c.members.votes(m.GetFrom()) || m.GetTerm() != s.HardState.GetTerm()+1 || m.GetLogTerm() > c.lastTerm ||
		m.GetLogTerm() == c.lastTerm && m.GetIndex() > c.last:
	case s.RaftState == raft.StatePreCandidate:
		_ = c.raft.Step(m)
	case s.Lead != raft.None:
		c.election.nominations[m.GetFrom()] = m
	}
	return true
}

// Elect starts an election, unless the role, the leader or the term has changed since the hint.
func (c *Core) Elect() {
	s := c.raft.BasicStatus()
	if !c.election.reluctant() && s.RaftState == raft.StateFollower && s.Lead == raft.None &&
		s.HardState.GetTerm() == c.election.hintTerm && c.members.votes(c.id) {
		c.election.restart()
		c.campaign()
		for _, id := range slices.Sorted(maps.Keys(c.election.nominations)) {
			c.nominated(c.election.nominations[id])
		}
		clear(c.election.nominations)
	}
}

// Drain makes this member start an election only as a last resort, when no member has led for lastResort election
// timeouts, and decline leadership transfers. It does not transfer a leadership that this member has.
func (c *Core) Drain() {
	c.election.drained = true
	c.election.restart()
}

// DeferElection makes this member start elections after the others, and decline leadership transfers, while on is true.
// If it alone can win, because the logs of the others are behind, it becomes leader all the same.
func (c *Core) DeferElection(on bool) { c.election.deferring = on }

// rank is the place of a member in the order of elections after the failure of a leader: that of the controllers of the
// voters, rotated by the number of the group. So the groups of a dead controller spread over the others.
func (c *Core) rank(member, down uint64) int {
	before, all := 0, 1
	for _, id := range c.members.conf().Voters {
		if id == down || id == member {
			continue
		}
		if all++; wire.ControllerOf(id) < wire.ControllerOf(member) {
			before++
		}
	}
	return (before + all - int(c.group%uint64(all))) % all
}

// The errors of campaign and forgetLeader are those of a node that was stopped.
func (c *Core) campaign() { _ = c.raft.Campaign() }

// lift raises the term above CoreConfig.FirstTerm if this member has won an election, and no leader that it has known
// since it started has committed an entry. So all members were started, or the group is new. The members of a new
// group, and those whose disks were all set back, know no terms of the past; but the switches do, and refuse a leader
// of an earlier term. The clock gives a term above those, if it is right. The other members vote as for a leadership
// transfer, which takes one round trip. An election after the failure of a leader is not affected.
func (c *Core) lift() {
	if c.settled {
		return
	}
	term, err := c.log.Term(c.commit)
	c.settled = err == nil && term == c.term && c.role.Leader != raft.None
	if !c.settled && c.state == raft.StateLeader && c.term < c.firstTerm {
		_ = c.raft.Step(&raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: ptr(c.id), To: ptr(c.id),
			Term: ptr(c.firstTerm)})
	}
}

// forgetLeader commits what the leader has stored, and ends its lease, so that raft grants votes. Then it handles the
// vote requests that came too early, in the order of their senders.
func (c *Core) forgetLeader() {
	c.commitStored()
	_ = c.raft.ForgetLeader()
	early := make([]*raftpb.Message, 0, len(c.election.kept))
	for _, k := range c.election.kept {
		early = append(early, k.m)
	}
	clear(c.election.kept)
	slices.SortFunc(early, func(a, b *raftpb.Message) int { return cmp.Compare(a.GetFrom(), b.GetFrom()) })
	for _, m := range early {
		_ = c.raft.Step(m)
		c.preempt(m)
	}
}

// keep stores a vote request that raft would drop because of the leader's lease, and says whether it did.
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

// preempt starts an election at once, instead of after this member's delay, if a candidate whose log is behind has
// asked for its vote and cannot win without it.
func (c *Core) preempt(m *raftpb.Message) {
	voters := len(c.members.conf().Voters)
	behind := m.GetLogTerm() < c.lastTerm || m.GetLogTerm() == c.lastTerm && m.GetIndex() < c.last
	if behind && voters-2 < voters/2+1 { // without the dead leader and this member
		c.Elect()
	}
}

// Step handles a message from another member. Messages from outside the group are ignored. After an error, such as
// *LostLogError, the member must stop: raft would panic.
func (c *Core) Step(m wire.Message) error {
	r := m.Raft
	if most := maxTerm(c.term); r.GetTerm() > most {
		return &TermError{From: r.GetFrom(), Term: r.GetTerm(), Most: most}
	}
	switch r.GetType() {
	case raftpb.MsgApp, raftpb.MsgHeartbeat, raftpb.MsgSnap:
		c.election.late.waited(c.election.heard.heard(r.GetFrom(), r.GetTerm()), LateLeader)
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
		c.election.elapsed, c.election.crowd, c.election.hinted = 0, 0, false
		if r.GetType() == raftpb.MsgHeartbeat { // an append may be what the leader sent before it died
			clear(c.election.nominations)
		}
	case raftpb.MsgVote, raftpb.MsgPreVote:
		if c.blank() || c.stranger(r) || c.keep(r) {
			return nil
		}
		defer c.preempt(r)
	case raftpb.MsgAppResp, raftpb.MsgHeartbeatResp:
		if c.members.has(r.GetFrom()) {
			c.answers.heard[r.GetFrom()] = c.clock
		}
	case raftpb.MsgTimeoutNow:
		if c.election.reluctant() || c.election.deferring {
			return nil
		}
		c.commitStored()
	case raftpb.MsgPreVoteResp:
		if c.nominated(r) {
			return nil
		}
	case raftpb.MsgVoteResp:
	default:
		return nil // never sent to another member
	}
	_ = c.raft.Step(r) // an answer from a stranger
	if r.GetType() == raftpb.MsgApp {
		c.heardStored(r.GetTerm(), m.Stored, m.Hasten)
	}
	return nil
}

// Terms end at 2^36, because a generation_id has no more bits for them (experimenter.Generation). A message with a term
// near the end would leave no election to win, and the term is saved. So any term up to clockTerms is taken: that is
// the Unix time in tenths of a second (CoreConfig.FirstTerm) until the year 2078. Above it only those are taken that
// follow the last one closely: a member that was away has missed fewer elections than termStep.
const (
	clockTerms uint64 = 1 << 35
	termStep   uint64 = 1 << 10
)

func maxTerm(last uint64) uint64 { return max(clockTerms, last+termStep) }

// TermError says that a message was not taken, because its term would use up the terms of the group.
type TermError struct {
	From       uint64 // the member in whose name it was sent
	Term, Most uint64 // its term, and the highest that is taken
}

func (e *TermError) Error() string {
	return fmt.Sprintf("a message of member %d has term %d, and at most %d is plausible: look for a process that "+
		"pretends to be that member, and use `tls`", e.From, e.Term, e.Most)
}

// blank says that this member has no log yet and waits to be added. It does not vote: a member becomes a voter only
// after it has received the log, so a blank member that the group regards as a voter has lost its log.
func (c *Core) blank() bool { return c.newest == 0 }

// stranger says that a candidate is not a member as far as this one knows, and that its log is empty, so it was not
// added later either. It was founded with other first members than this one; with its votes two groups could overlap.
func (c *Core) stranger(m *raftpb.Message) bool {
	return m.GetIndex() <= bootIndex && !c.members.has(m.GetFrom())
}

// Unreachable reports that a message to a member was dropped.
func (c *Core) Unreachable(member uint64) { c.raft.ReportUnreachable(member) }

// SnapshotSent reports whether a snapshot could be sent to a member.
func (c *Core) SnapshotSent(member uint64, ok bool) {
	status := raft.SnapshotFinish
	if !ok {
		status = raft.SnapshotFailure
	}
	c.raft.ReportSnapshot(member, status)
}
