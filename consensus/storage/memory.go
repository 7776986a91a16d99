package storage

import (
	"fmt"
	"maps"

	"go.etcd.io/raft/v3/raftpb"
)

// Memory is a Storage that lives as long as the process. A simulator may open it again with Load, as if it were a disk.
// It is not safe for concurrent use, except for WriteSnapshot, which does nothing.
type Memory struct {
	saved map[uint64]Saved
}

// Load returns everything that was saved.
func (m *Memory) Load() (map[uint64]Saved, error) {
	all := make(map[uint64]Saved, len(m.saved))
	for group, s := range m.saved {
		s.Entries = append([]*raftpb.Entry(nil), s.Entries...)
		all[group] = s
	}
	return all, nil
}

// Clone returns a copy that later calls of Save do not change.
func (m *Memory) Clone() Memory { return Memory{maps.Clone(m.saved)} }

// Save fails only when the entries would leave a gap in the log.
func (m *Memory) Save(batches []Batch) error {
	if m.saved == nil {
		m.saved = make(map[uint64]Saved)
	}
	for _, b := range batches {
		if b.Forget {
			delete(m.saved, b.Group)
			continue
		}
		s := m.saved[b.Group]
		if err := s.save(b); err != nil {
			return fmt.Errorf("group %d: %w", b.Group, err)
		}
		m.saved[b.Group] = s
	}
	return nil
}

func (s *Saved) save(b Batch) error {
	if b.Snapshot != nil {
		s.Snapshot, s.Entries = *b.Snapshot, nil
	}
	if err := s.append(b.Entries); err != nil {
		return err
	}
	if b.Compact != nil {
		drop := b.Compact.Index() - s.Snapshot.Index()
		s.Entries = append([]*raftpb.Entry(nil), s.Entries[drop:]...)
		s.Snapshot = *b.Compact
	}
	if b.Hard != nil {
		s.Hard = b.Hard
	}
	return nil
}

func (s *Saved) append(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first, base := entries[0].GetIndex(), s.Snapshot.Index()+1
	if first < base || first > base+uint64(len(s.Entries)) {
		return fmt.Errorf("entry %d does not follow a log of %d to %d", first, base, base+uint64(len(s.Entries))-1)
	}
	keep := first - base
	if keep == uint64(len(s.Entries)) {
		s.Entries = append(s.Entries, entries...)
	} else { // never overwrite in place: Load has returned the entries
		s.Entries = append(s.Entries[:keep:keep], entries...)
	}
	return nil
}

// WriteSnapshot does nothing: Save is given the snapshot again.
func (m *Memory) WriteSnapshot(uint64, Snapshot) error { return nil }

// Mark does nothing: memory is lost as a whole or not at all.
func (m *Memory) Mark() error { return nil }

// Close does nothing; what was saved can be loaded again.
func (m *Memory) Close() error { return nil }
