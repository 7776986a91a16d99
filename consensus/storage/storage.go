// Package storage says what a Raft member must not forget, and keeps it in memory. The
// version on disk is in storage/disk. Nothing here does I/O; the consensus core uses the
// types, and the loop around it a Storage.
package storage

import "go.etcd.io/raft/v3/raftpb"

// Snapshot is the owner's state at an index, and what Raft must know of it.
type Snapshot struct {
	// Raft holds the index, the term and the voters; its Data are the members' addresses,
	// never the state: raft copies its Data several times.
	Raft  *raftpb.Snapshot
	State []byte // opaque; shared, never modified
}

// Index is that of the last entry which the snapshot contains; 0 if there is none.
func (s Snapshot) Index() uint64 { return s.Raft.GetMetadata().GetIndex() }

// Saved is everything that survived.
type Saved struct {
	Hard     *raftpb.HardState // nil: nothing was ever saved
	Snapshot Snapshot
	Entries  []*raftpb.Entry // those that follow Snapshot, without gaps
}

// Batch is what becomes durable at once.
type Batch struct {
	Hard     *raftpb.HardState // nil: as it was
	Entries  []*raftpb.Entry   // replace the log from the first one's index on
	Snapshot *Snapshot         // from the leader: replaces the whole log; Entries follow it
	Compact  *Snapshot         // own, written before by WriteSnapshot: nothing before it is needed again
}

// Storage keeps the log of one member. Load comes first, once. Save is called from one
// goroutine; WriteSnapshot may run beside it. After an error the storage must only be
// closed: what it holds is then unknown.
type Storage interface {
	// Load returns what was saved, or a zero Saved if nothing was.
	Load() (Saved, error)
	// Save makes the batches durable, in order, with as few fsyncs as possible. It does
	// not keep the slice.
	Save([]Batch) error
	// Mark notes beside the log that all which was saved is durable, so that what is missing of it later is known
	// for damage, and not taken for a write that was cut off. It costs about as much as a write, and is for
	// now and then. It comes from the goroutine of Save.
	Mark() error
	// WriteSnapshot stores a snapshot, which counts only from the Save whose Batch.Compact names it.
	WriteSnapshot(Snapshot) error
	Close() error
}
