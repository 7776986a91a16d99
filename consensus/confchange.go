package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// MemberChange changes several members at once, by joint consensus if there is more than one. Learners receive the log
// and do not vote. An id that was ever used must not be used again.
type MemberChange struct {
	Add     map[uint64]string // new members, as id to address; they join as learners
	Promote []uint64          // learners that have the log and become voters
	Demote  []uint64          // voters that become learners
	Remove  []uint64
}

// voters returns the voters after the change, given those before it.
func (m MemberChange) voters(before []uint64) []uint64 {
	after := slices.DeleteFunc(slices.Clone(before), func(id uint64) bool {
		return slices.Contains(m.Remove, id) || slices.Contains(m.Demote, id)
	})
	after = append(after, m.Promote...)
	slices.Sort(after)
	return after
}

// singles is the change in the form that raft takes.
func (m MemberChange) singles() []*raftpb.ConfChangeSingle {
	var list []*raftpb.ConfChangeSingle
	add := func(typ raftpb.ConfChangeType, ids ...uint64) {
		for _, id := range ids {
			list = append(list, &raftpb.ConfChangeSingle{Type: typ.Enum(), NodeId: ptr(id)})
		}
	}
	add(raftpb.ConfChangeAddLearnerNode, slices.Sorted(maps.Keys(m.Add))...)
	add(raftpb.ConfChangeAddNode, m.Promote...)
	add(raftpb.ConfChangeAddLearnerNode, m.Demote...)
	add(raftpb.ConfChangeRemoveNode, m.Remove...)
	return list
}

// ErrChanging says that another change of the membership is not finished.
var ErrChanging = errors.New("another change of the membership is not finished; try again")

// ProposeConfChange begins a change of the membership, named by id, which is unique in the
// group. See ConfChangeApplied.
func (c *Core) ProposeConfChange(id uint64, change MemberChange) error {
	if !c.role.Leading {
		return ErrNotLeader
	}
	if c.Transferring() || c.members.joint() {
		return ErrChanging
	}
	if err := c.members.validate(change, c.id); err != nil {
		return err
	}
	if err := c.keepsQuorum(change); err != nil {
		return err
	}
	cc := &raftpb.ConfChangeV2{Context: appendMembers(binary.AppendUvarint(nil, id), change.Add),
		Changes: change.singles()}
	data, err := proto.Marshal(cc)
	if err != nil {
		return fmt.Errorf("encode the change of the membership: %w", err)
	}
	m := &raftpb.Message{Type: raftpb.MsgProp.Enum(), From: ptr(c.id), Entries: []*raftpb.Entry{
		{Type: raftpb.EntryConfChangeV2.Enum(), Data: data},
	}}
	if err := c.raft.Step(m); errors.Is(err, raft.ErrProposalDropped) {
		return ErrNotLeader
	} else if err != nil {
		return fmt.Errorf("change the membership: %w", err)
	}
	if m.GetEntries()[0].GetType() == raftpb.EntryNormal { // raft has put an empty entry in its place
		return ErrChanging
	}
	return nil
}

// established says whether an entry of this leader's term is committed. Before that it may not have heard yet who is
// reachable, so it changes no members.
func (c *Core) established() bool {
	term, err := c.log.Term(c.commit)
	return err == nil && term == c.term
}

// ConfChangeApplied says whether the change id is in full effect and was the last one.
func (c *Core) ConfChangeApplied(id uint64) bool { return c.members.last == id && !c.members.joint() }

func (m *membership) validate(change MemberChange, self uint64) error {
	if len(change.singles()) == 0 {
		return errors.New("the change of the membership is empty")
	}
	for id, addr := range change.Add {
		switch {
		case !validReplica(id) || addr == "":
			return fmt.Errorf("cannot add member %d at %q: it needs an id from 1 and an address", id, addr)
		case m.has(id):
			return fmt.Errorf("member %d is in the group already", id)
		case m.gone(id):
			return fmt.Errorf("member %d was removed, and an id is used only once: use a new id", id)
		}
	}
	for _, id := range change.Promote {
		if !m.has(id) || m.votes(id) {
			return fmt.Errorf("member %d is not a learner", id)
		}
	}
	for _, id := range slices.Concat(change.Demote, change.Remove) {
		if id == self {
			return fmt.Errorf("member %d leads and cannot remove itself; transfer the leadership first", id)
		}
	}
	for _, id := range change.Demote {
		if !m.votes(id) {
			return fmt.Errorf("member %d does not vote", id)
		}
	}
	for _, id := range change.Remove {
		if !m.has(id) {
			return fmt.Errorf("member %d is not in the group", id)
		}
	}
	return nil
}

// QuorumError says that a change would leave fewer reachable voters than a quorum.
type QuorumError struct{ Voters, Reachable int }

func (e *QuorumError) Error() string {
	return fmt.Sprintf("the group would lose its quorum: after this change %d members would vote, of which %d are "+
		"reachable now, and %d are needed; start those that are down first", e.Voters, e.Reachable, e.Voters/2+1)
}

// keepsQuorum refuses a change that could not be completed, or after which nothing could be committed, judging by which
// members answer this leader. It also refuses to promote a member that has no log.
func (c *Core) keepsQuorum(change MemberChange) error {
	for _, p := range c.Status().Peers {
		if p.Match == 0 && slices.Contains(change.Promote, p.ID) {
			return fmt.Errorf("member %d does not have the log yet", p.ID)
		}
	}
	for _, voters := range [][]uint64{c.members.conf().Voters, change.voters(c.members.conf().Voters)} {
		reachable := 0
		for _, id := range voters {
			if id == c.id || c.active(id) {
				reachable++
			}
		}
		if reachable < len(voters)/2+1 {
			return &QuorumError{len(voters), reachable}
		}
	}
	return nil
}

// applyConfChange applies a committed change. Raft leaves a joint configuration by an empty entry of its own.
func (c *Core) applyConfChange(e *raftpb.Entry) {
	if e.GetIndex() <= c.members.now().known {
		return // a snapshot contained it
	}
	cc := new(raftpb.ConfChangeV2)
	var added map[uint64]string
	err := proto.Unmarshal(e.GetData(), cc)
	if ctx := cc.GetContext(); err == nil && len(ctx) > 0 {
		id, n := binary.Uvarint(ctx)
		c.members.last = id
		added, _, err = parseMembers(ctx[max(n, 0):])
	}
	if err != nil {
		panic(fmt.Sprintf("consensus: committed entry %d is not a change of the membership: %v", e.GetIndex(), err))
	}
	c.members.apply(e.GetIndex(), c.raft.ApplyConfChange(cc), added, c.id)
	maps.DeleteFunc(c.answers.heard, func(id uint64, _ uint64) bool { return !c.members.has(id) })
}
