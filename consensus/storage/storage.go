// Package storage defines what the replicas of a controller must persist, and keeps it in memory. A controller has one
// Storage for the replicas of all Raft groups in which it takes part. The version on disk is package storage/disk.
// Nothing here does I/O: the consensus core uses the types, and the loops around it a Storage.
package storage

import "go.etcd.io/raft/v3/raftpb"

// Snapshot is the owner's state at an index, with the metadata that Raft needs.
type Snapshot struct {
	// Raft has the index, the term and the voters. Its Data are the members' addresses, never the state: raft copies
	// its Data several times.
	Raft  *raftpb.Snapshot
	State []byte // opaque; shared, never modified
}

// Index is the index of the last entry that the snapshot contains; 0 if there is none.
func (s Snapshot) Index() uint64 { return s.Raft.GetMetadata().GetIndex() }

// Saved is everything that survived of the replica of one group.
type Saved struct {
	Hard     *raftpb.HardState // nil: nothing was ever saved
	Snapshot Snapshot
	Entries  []*raftpb.Entry // those that follow Snapshot, without gaps
}

// Batch is saved atomically. The entries are shared and never modified: a Storage may keep them until a snapshot
// contains them.
type Batch struct {
	Group    uint64            // 0: the only group of a cluster, or its system group
	Hard     *raftpb.HardState // nil: unchanged
	Entries  []*raftpb.Entry   // replace the log from the index of the first on
	Snapshot *Snapshot         // from the leader: replaces the whole log, and Entries follow it
	// the replica's own, written before by WriteSnapshot: nothing before it is needed any more
	Compact *Snapshot
	// Forget ends the replica of the group, and the other fields are empty. Nothing of it is loaded again. A replica of
	// the group that is saved later begins anew.
	Forget bool
}

// Storage keeps the logs of the replicas of one controller. Call Load first, once. Save and Mark are called one at a
// time; WriteSnapshot may run concurrently, but not while its group is forgotten. After an error the storage must
// only be closed: its content is then unknown.
type Storage interface {
	// Load returns what was saved, by group. A group for which nothing was saved is missing.
	Load() (map[uint64]Saved, error)
	// Save makes the batches durable, with as few fsyncs as possible; those of one group in order. It does not keep
	// the slice.
	Save([]Batch) error
	// Mark records, beside the log, that everything saved so far is durable. If part of that is missing later, it is
	// reported as damage and not taken for a torn write. It costs about as much as a write, and is meant to be called
	// now and then.
	Mark() error
	// WriteSnapshot stores a snapshot of a group. It takes effect with the Save whose Batch.Compact names it.
	WriteSnapshot(group uint64, s Snapshot) error
	Close() error
}

// Prompt is implemented by a Storage that can save some batches without waiting for the disk.
type Prompt interface {
	// SavePrompt is a Save if that only copies a little, at most into the cache of the file system. It reports whether
	// it was. It is called like Save.
	SavePrompt([]Batch) (saved bool, err error)
}
