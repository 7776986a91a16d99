package consensus

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// bootIndex and bootTerm are those of the snapshot from which every first member starts. It contains the members and no
// state of the owner. So a member that joins later receives the members like everything else.
const (
	bootIndex = 1
	bootTerm  = 1
)

// SplitAddress splits "c1@10.0.0.1:7001" into the name, which is optional and for people only, and the address.
func SplitAddress(s string) (name, addr string) {
	if name, addr, ok := strings.Cut(s, "@"); ok {
		return name, addr
	}
	return "", s
}

// Bootstrap is what the first members of a new group save before they start: the voters, and those of the members that
// are learners. All of them must name the same members.
func Bootstrap(group uint64, members map[uint64]string, learners ...uint64) storage.Batch {
	voters := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(id uint64) bool {
		return slices.Contains(learners, id)
	})
	return storage.Batch{
		Group: group,
		Hard:  &raftpb.HardState{Term: ptr(uint64(bootTerm)), Vote: ptr(uint64(0)), Commit: ptr(uint64(bootIndex))},
		Snapshot: &storage.Snapshot{Raft: &raftpb.Snapshot{
			Data: appendMembers(binary.AppendUvarint(nil, bootIndex), members),
			Metadata: &raftpb.SnapshotMetadata{
				Index: ptr(uint64(bootIndex)), Term: ptr(uint64(bootTerm)),
				ConfState: &raftpb.ConfState{Voters: voters, Learners: slices.Sorted(slices.Values(learners))},
			},
		}},
	}
}

func ptr[T any](v T) *T { return &v }

// appendMembers encodes ids and addresses: count, then id, length and bytes of the address,
// all numbers as uvarints, in the order of the ids.
func appendMembers(dst []byte, members map[uint64]string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(members)))
	for _, id := range slices.Sorted(maps.Keys(members)) {
		dst = binary.AppendUvarint(dst, id)
		dst = binary.AppendUvarint(dst, uint64(len(members[id])))
		dst = append(dst, members[id]...)
	}
	return dst
}

var errMembers = errors.New("the list of members is damaged")

// parseMembers decodes the output of appendMembers, and returns the bytes after it.
func parseMembers(b []byte) (map[uint64]string, []byte, error) {
	next := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return 1 << 32 // more than any list or address can have
		}
		b = b[n:]
		return v
	}
	count := next()
	if count > uint64(len(b)) {
		return nil, nil, errMembers
	}
	members := make(map[uint64]string, count)
	for range count {
		id, n := next(), next()
		if n > uint64(len(b)) {
			return nil, nil, errMembers
		}
		members[id], b = string(b[:n]), b[n:]
	}
	return members, b, nil
}

// maxGone is how many former members are remembered: the newest ones.
const maxGone = 1024

// appendGone encodes the ids of former members: count, then the ids, as uvarints.
func appendGone(dst []byte, gone []uint64) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(gone)))
	for _, id := range gone {
		dst = binary.AppendUvarint(dst, id)
	}
	return dst
}

// parseGone decodes the output of appendGone. No bytes at all mean no former members.
func parseGone(b []byte) ([]uint64, error) {
	if len(b) == 0 {
		return nil, nil
	}
	count, n := binary.Uvarint(b)
	if n <= 0 || count > uint64(len(b)-n) {
		return nil, errMembers
	}
	gone := make([]uint64, count)
	for i := range gone {
		b = b[n:]
		if gone[i], n = binary.Uvarint(b); n <= 0 {
			return nil, errMembers
		}
	}
	return gone, nil
}

// membership is the configuration of the group at each index since the last snapshot.
type membership struct {
	history []membersAt // never empty after restore
	last    uint64      // id of the last change that was applied
	changed bool        // since the last Ready
	ended   error       // why this member does not belong to the group; nil: it does
	pairs   pairs
}

type membersAt struct {
	index uint64 // in the log, from which on this configuration holds
	known uint64 // changes up to this index are contained; larger than index after some snapshots
	conf  *raftpb.ConfState
	addrs map[uint64]string
	gone  []uint64 // former members, the newest last
}

func (m *membership) restore(s storage.Snapshot) error {
	at := membersAt{index: s.Index(), conf: raftpb.EnsureConfState(s.Raft.GetMetadata().GetConfState())}
	if s.Raft != nil {
		var err error
		if at.known, at.addrs, at.gone, err = parseSnapshotData(s.Raft.GetData()); err != nil {
			return err
		}
		m.changed = true
	}
	m.history = []membersAt{at}
	return nil
}

// raftSnapshot is the part of a snapshot that raft sees: index, term and members.
func (at membersAt) raftSnapshot(index, term uint64) *raftpb.Snapshot {
	return &raftpb.Snapshot{
		Data:     appendGone(appendMembers(binary.AppendUvarint(nil, max(at.known, index)), at.addrs), at.gone),
		Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term, ConfState: at.conf},
	}
}

func parseSnapshotData(b []byte) (known uint64, addrs map[uint64]string, gone []uint64, err error) {
	known, n := binary.Uvarint(b)
	if n <= 0 {
		return 0, nil, nil, errMembers
	}
	addrs, rest, err := parseMembers(b[n:])
	if err != nil {
		return 0, nil, nil, err
	}
	gone, err = parseGone(rest)
	return known, addrs, gone, err
}

func (m *membership) now() membersAt               { return m.history[len(m.history)-1] }
func (m *membership) conf() *raftpb.ConfState      { return m.now().conf }
func (m *membership) addresses() map[uint64]string { return m.now().addrs }
func (m *membership) joint() bool                  { return len(m.conf().VotersOutgoing) > 0 }

func (m *membership) votes(id uint64) bool {
	return slices.Contains(m.conf().Voters, id) || slices.Contains(m.conf().VotersOutgoing, id)
}

// has says whether id is a member: a voter or a learner.
func (m *membership) has(id uint64) bool {
	return m.votes(id) || slices.Contains(m.conf().Learners, id) || slices.Contains(m.conf().LearnersNext, id)
}

func (m *membership) gone(id uint64) bool { return slices.Contains(m.now().gone, id) }

func (m *membership) alone(id uint64) bool {
	return len(m.conf().Voters) == 1 && m.conf().Voters[0] == id && !m.joint()
}

// at returns the configuration at index, which is not before the last snapshot.
func (m *membership) at(index uint64) membersAt {
	i := len(m.history) - 1
	for i > 0 && m.history[i].index > index {
		i--
	}
	return m.history[i]
}

// forget drops configurations that are needed only before index.
func (m *membership) forget(index uint64) {
	for len(m.history) > 1 && m.history[1].index <= index {
		m.history = m.history[1:]
	}
}

// apply records a change. Removed members keep their addresses while a joint configuration lasts.
func (m *membership) apply(index uint64, conf *raftpb.ConfState, added map[uint64]string, self uint64) {
	was := m.has(self)
	if _, again := added[self]; again && was {
		m.ended = ErrFounded // the group adds only members that it did not have
	}
	addrs, gone := maps.Clone(m.addresses()), slices.Clone(m.now().gone)
	if addrs == nil {
		addrs = make(map[uint64]string)
	}
	maps.Copy(addrs, added)
	m.history = append(m.history, membersAt{index: index, known: index, conf: conf, addrs: addrs})
	for _, id := range slices.Sorted(maps.Keys(addrs)) {
		if !m.has(id) {
			delete(addrs, id)
			gone = append(gone, id)
		}
	}
	m.history[len(m.history)-1].gone = gone[max(0, len(gone)-maxGone):]
	m.changed = true
	if was && !m.has(self) {
		m.ended = ErrRemoved
	}
}
