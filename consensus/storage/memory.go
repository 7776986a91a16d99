package storage

import (
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

// Memory is a Storage that lives as long as the process. A simulator may open it again with Load, as if it were a disk.
// It is not safe for concurrent use, except for WriteSnapshot, which does nothing.
// nothing, may be called at any time.
type Memory struct {
	saved Saved
}

// Load returns everything that was saved.
func (m *Memory) Load() (Saved, error) {
	s := m.saved
	s.Entries = append([]*raftpb.Entry(nil), s.Entries...)
	return s, nil
}

// Save fails only when the entries would leave a gap in the log.
func (m *Memory) Save(batches []Batch) error {
	for _, b := range batches {
		if b.Snapshot != nil {
			m.saved.Snapshot, m.saved.Entries = *b.Snapshot, nil
		}
		if err := m.append(b.Entries); err != nil {
			return err
		}
		if b.Compact != nil {
			drop := b.Compact.Index() - m.saved.Snapshot.Index()
			m.saved.Entries = append([]*raftpb.Entry(nil), m.saved.Entries[drop:]...)
			m.saved.Snapshot = *b.Compact
		}
		if b.Hard != nil {
			m.saved.Hard = b.Hard
		}
	}
	return nil
}

func (m *Memory) append(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first, base := entries[0].GetIndex(), m.saved.Snapshot.Index()+1
	if first < base || first > base+uint64(len(m.saved.Entries)) {
		return fmt.Errorf("entry %d does not follow a log of %d to %d", first, base,
			base+uint64(len(m.saved.Entries))-1)
	}
	keep := first - base
	if keep == uint64(len(m.saved.Entries)) {
		m.saved.Entries = append(m.saved.Entries, entries...)
	} else { // never overwrite in place: Load has returned the entries
		m.saved.Entries = append(m.saved.Entries[:keep:keep], entries...)
	}
	return nil
}

// WriteSnapshot does nothing: Save is given the snapshot again.
func (m *Memory) WriteSnapshot(Snapshot) error { return nil }

// Mark does nothing: memory is lost as a whole or not at all.
func (m *Memory) Mark() error { return nil }

// Close does nothing; what was saved can be loaded again.
func (m *Memory) Close() error { return nil }
