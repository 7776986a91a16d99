// Package storage defines what a Raft member must persist, and keeps it in memory. The version on disk is package
// storage/disk. Nothing here does I/O: the consensus core uses the types, and the loop around it a Storage.
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

// Saved is everything that survived.
type Saved struct {
	Hard     *raftpb.HardState // nil: nothing was ever saved
	Snapshot Snapshot
	Entries  []*raftpb.Entry // those that follow Snapshot, without gaps
}

// Batch is saved atomically.
type Batch struct {
	Hard     *raftpb.HardState // nil: unchanged
	Entries  []*raftpb.Entry   // replace the log from the index of the first on
	Snapshot *Snapshot         // from the leader: replaces the whole log, and Entries follow it
	// the member's own, written before by WriteSnapshot: nothing before it is needed any more
	Compact *Snapshot
}

// Storage keeps the log of one member. Call Load first, once. Save is called from one goroutine; WriteSnapshot may run
// concurrently. After an error the storage must only be closed: its content is then unknown.
type Storage interface {
	// Load returns what was saved, or a zero Saved if nothing was.
	Load() (Saved, error)
	// Save makes the batches durable, in order, with as few fsyncs as possible. It does
	// not keep the slice.
	Save([]Batch) error
	// Mark records, beside the log, that everything saved so far is durable. If part of that is missing later, it is
	// reported as damage and not taken for a torn write. It costs about as much as a write, and is meant to be called
	// now and then, from the goroutine of Save.
	Mark() error
	// WriteSnapshot stores a snapshot. It takes effect with the Save whose Batch.Compact names it.
	WriteSnapshot(Snapshot) error
	Close() error
}
