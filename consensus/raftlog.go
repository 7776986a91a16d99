package consensus

import (
	"fmt"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// raftLog is the durable part of the log as raft reads it: the newest snapshot, and the entries from some point before
// it, which slow followers still need. It implements raft.Storage. Unlike raft.MemoryStorage it needs no locks and does
// not copy the snapshot.
type raftLog struct {
	hard     *raftpb.HardState // as loaded; raft asks for it once
	snapshot storage.Snapshot
	base     uint64 // index and term of the entry before the first
	baseTerm uint64
	entries  []*raftpb.Entry
	members  *membership       // for the snapshots that are sent
	lent     map[uint64][]byte // states of the snapshots that raft has asked for since the last Ready, by index
}

func newRaftLog(s storage.Saved) (*raftLog, error) {
	meta := s.Snapshot.Raft.GetMetadata()
	l := &raftLog{
		hard: s.Hard, snapshot: s.Snapshot, base: meta.GetIndex(), baseTerm: meta.GetTerm(),
		lent: make(map[uint64][]byte),
	}
	for i, e := range s.Entries {
		if want := l.base + 1 + uint64(i); e.GetIndex() != want {
			return nil, fmt.Errorf("the saved log has entry %d where %d belongs", e.GetIndex(), want)
		}
	}
	l.entries = s.Entries
	if c := s.Hard.GetCommit(); c > l.last() {
		return nil, fmt.Errorf("the saved log ends at %d, but entry %d was committed", l.last(), c)
	}
	return l, nil
}

func (l *raftLog) last() uint64 { return l.base + uint64(len(l.entries)) }

// append adds durable entries; they replace those with the same indexes and all later ones.
func (l *raftLog) append(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	keep := entries[0].GetIndex() - l.base - 1
	if keep < uint64(len(l.entries)) { // never overwrite in place: raft may still hold the slice
		l.entries = append(l.entries[:keep:keep], entries...)
	} else {
		l.entries = append(l.entries, entries...)
	}
}

// restore replaces everything by a snapshot from the leader.
func (l *raftLog) restore(s storage.Snapshot) {
	meta := s.Raft.GetMetadata()
	l.snapshot, l.base, l.baseTerm, l.entries = s, meta.GetIndex(), meta.GetTerm(), nil
}

// compact takes an own snapshot, and drops the entries before it except for a tail of at most maxEntries and maxBytes.
func (l *raftLog) compact(s storage.Snapshot, maxEntries, maxBytes int) {
	l.snapshot = s
	drop := int(s.Index() - l.base)
	for n, bytes := 0, 0; drop > 0 && n < maxEntries; n++ {
		bytes += len(l.entries[drop-1].GetData())
		if bytes > maxBytes {
			break
		}
		drop--
	}
	// The cost of a copy grows with the number of entries kept, so drop many at a time.
	if drop == 0 || (drop < len(l.entries)/4 && drop < maxEntries) {
		return
	}
	last := l.entries[drop-1]
	l.base, l.baseTerm = last.GetIndex(), last.GetTerm()
	l.entries = append([]*raftpb.Entry(nil), l.entries[drop:]...)
}

func (l *raftLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return l.hard, raftpb.EnsureConfState(l.snapshot.Raft.GetMetadata().GetConfState()), nil
}

func (l *raftLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	if lo <= l.base {
		return nil, raft.ErrCompacted
	}
	if hi > l.last()+1 {
		return nil, raft.ErrUnavailable
	}
	entries := l.entries[lo-l.base-1 : hi-l.base-1]
	size := uint64(0)
	for i, e := range entries {
		size += uint64(len(e.GetData())) + entryOverhead
		if i > 0 && size > maxSize {
			return entries[:i:i], nil
		}
	}
	return entries[:len(entries):len(entries)], nil
}

// entryOverhead is about what an entry costs on the wire beyond its data.
const entryOverhead = 16

func (l *raftLog) Term(i uint64) (uint64, error) {
	switch {
	case i == l.base:
		return l.baseTerm, nil
	case i < l.base:
		return 0, raft.ErrCompacted
	case i > l.last():
		return 0, raft.ErrUnavailable
	}
	return l.entries[i-l.base-1].GetTerm(), nil
}

func (l *raftLog) LastIndex() (uint64, error)  { return l.last(), nil }
func (l *raftLog) FirstIndex() (uint64, error) { return l.base + 1, nil }

// Snapshot is called to send the snapshot; a newer one may replace it before that is done. Raft refuses a snapshot
// whose configuration does not contain the receiver, and a member that was added after the snapshot was made is not in
// it. So the snapshot is sent with the current members, and the receiver skips the changes in the log that lead there.
func (l *raftLog) Snapshot() (*raftpb.Snapshot, error) {
	l.lent[l.snapshot.Index()] = l.snapshot.State
	now, meta := l.members.now(), l.snapshot.Raft.GetMetadata()
	if now.index <= meta.GetIndex() {
		return l.snapshot.Raft, nil
	}
	return now.raftSnapshot(meta.GetIndex(), meta.GetTerm()), nil
}
