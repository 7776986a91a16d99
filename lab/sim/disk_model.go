package sim

import (
	"errors"
	"math/rand/v2"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// modelDisk keeps a log in memory, and loses what storage/disk would lose.
type modelDisk struct {
	log      storage.Memory
	honest   storage.Memory // what restore goes back to
	flipped  bool
	rebooted bool
}

// load refuses what storage/disk refuses.
func (m *modelDisk) load() (map[uint64]storage.Saved, error) {
	switch {
	case m.flipped:
		return nil, errors.New("the log is damaged: a checksum is wrong")
	case m.rebooted:
		return nil, errors.New("the log was kept with durability memory and the machine has restarted " +
			"since, so its end may be missing")
	}
	return m.log.Load()
}

func (m *modelDisk) save(batches []storage.Batch) error           { return m.log.Save(batches) }
func (m *modelDisk) writeSnapshot(uint64, storage.Snapshot) error { return nil }
func (m *modelDisk) stop() error                                  { return nil }
func (m *modelDisk) reboot() error                                { m.rebooted = true; return nil }
func (m *modelDisk) flip(*rand.Rand) error                        { m.flipped = true; return nil }
func (m *modelDisk) remember() error                              { m.honest = m.log.Clone(); return nil }
func (m *modelDisk) restore() error                               { m.log = m.honest.Clone(); return nil }
func (m *modelDisk) remove() error                                { return nil }

func (m *modelDisk) tearSnapshot(uint64, storage.Snapshot, *rand.Rand) error { return nil }

func (m *modelDisk) tear(batches []storage.Batch, r *rand.Rand) error {
	return m.log.Save(Beginning(batches, r))
}

// Beginning is what a log holds of the batches if writing them ended at a random record. Like storage/disk it writes
// the entries first and then one state for all batches of a group that follow each other. A snapshot ends such a run,
// and has a state of its own before the entries that follow it.
func Beginning(batches []storage.Batch, r *rand.Rand) []storage.Batch {
	records := 1
	for _, b := range batches {
		records += 1 + len(b.Entries)
	}
	left := r.IntN(records + 1)
	if left == records {
		return batches
	}
	var kept []storage.Batch
	run := 0 // first of those whose state is not written
	for i, b := range batches {
		if left == 0 {
			break
		}
		if i > 0 && b.Group != batches[i-1].Group {
			run = len(kept)
		}
		whole := left > len(b.Entries)
		left--
		b.Entries = b.Entries[:min(left, len(b.Entries))]
		left -= len(b.Entries)
		switch kept = append(kept, b); {
		case b.Snapshot != nil && !whole:
			kept[len(kept)-1].Hard = &raftpb.HardState{Term: b.Hard.Term, Vote: b.Hard.Vote,
				Commit: new(b.Snapshot.Index())}
			run = len(kept)
		case b.Snapshot != nil:
			run = len(kept)
		case b.Compact != nil || b.Forget:
			run = len(kept) - 1
		}
	}
	for i := range kept[run:] {
		kept[run+i].Hard = nil
	}
	return kept
}
