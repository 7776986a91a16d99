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

// MemberChange adds and removes members at once (Raft's joint consensus if it is more than one).
type MemberChange struct {
	Add    map[uint64]string // id to address; an id that was ever used must not be used again
	Remove []uint64
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
	cc := &raftpb.ConfChangeV2{Context: appendMembers(binary.AppendUvarint(nil, id), change.Add)}
	for _, id := range slices.Sorted(maps.Keys(change.Add)) {
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeAddNode.Enum(), NodeId: ptr(id)})
	}
	for _, id := range change.Remove {
		cc.Changes = append(cc.Changes, &raftpb.ConfChangeSingle{Type: raftpb.ConfChangeRemoveNode.Enum(), NodeId: ptr(id)})
	}
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

// ConfChangeApplied says whether the change id is in full effect and was the last one.
func (c *Core) ConfChangeApplied(id uint64) bool { return c.members.last == id && !c.members.joint() }

func (m *membership) validate(change MemberChange, self uint64) error {
	if len(change.Add)+len(change.Remove) == 0 {
		return errors.New("the change of the membership is empty")
	}
	for id, addr := range change.Add {
		if id == 0 || raft.IsLocalMsgTarget(id) || addr == "" {
			return fmt.Errorf("cannot add member %d at %q: it needs an id from 1 and an address", id, addr)
		}
		if m.votes(id) {
			return fmt.Errorf("member %d is in the group already", id)
		}
	}
	for _, id := range change.Remove {
		if id == self {
			return fmt.Errorf("member %d leads and cannot remove itself; transfer the leadership first", id)
		}
		if !m.votes(id) {
			return fmt.Errorf("member %d is not in the group", id)
		}
	}
	return nil
}

// applyConfChange puts a committed change into effect. Raft leaves a joint configuration by
// an entry of its own, which is empty.
func (c *Core) applyConfChange(e *raftpb.Entry) {
	if e.GetIndex() <= c.members.now().known {
		return // a snapshot has brought it
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
}
