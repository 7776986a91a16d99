package disk

import (
	"errors"
	"fmt"
	"math"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Save writes all batches, with one fsync if no snapshot is among them and no replica ends.
func (d *Disk) Save(batches []storage.Batch) error {
	if err := d.save(batches); err != nil {
		d.failed = true
		return full(d.dir, fmt.Errorf("write the log in %s: %w", d.walDir, err))
	}
	return nil
}

// maxPrompt bounds what SavePrompt takes for a little.
const maxPrompt = 128 << 10

// SavePrompt implements storage.Prompt. Without fsync a Save writes to the cache of the file system, and with it a Save
// of commit indexes writes nothing.
func (d *Disk) SavePrompt(batches []storage.Batch) (saved bool, err error) {
	if !d.prompt(batches) {
		return false, nil
	}
	d.wal.prompt = true
	defer func() { d.wal.prompt = false }()
	return true, d.Save(batches)
}

// prompt reports whether a Save takes little time. Snapshots, the end of a group and the end of a segment take longer.
func (d *Disk) prompt(batches []storage.Batch) bool {
	most := min(maxPrompt, segmentSize()-d.wal.size())
	for i := range batches {
		b := &batches[i]
		if b.Compact != nil || b.Snapshot != nil || b.Forget || d.fsync && d.mustSync(b) {
			return false
		}
		for _, e := range b.Entries {
			most -= 2 * size(e) // with its record
		}
		most -= 128 // of the group and its state
	}
	return most > 0 && !d.crowded()
}

// mustSync reports whether a batch must be synced: entries, terms and votes must not be lost. A commit index is synced
// with the next of those.
func (d *Disk) mustSync(b *storage.Batch) bool {
	if len(b.Entries) > 0 {
		return true
	}
	if raft.IsEmptyHardState(b.Hard) {
		return false
	}
	old := new(raftpb.HardState)
	if i, ok := d.groups.search(b.Group); ok && d.groups[i].hard != nil {
		old = d.groups[i].hard
	}
	return raft.MustSync(b.Hard, old, 0)
}

func (d *Disk) save(batches []storage.Batch) error {
	var g *group // of the last batch; several batches of a group write its state once
	urgent, before := false, d.wal.size()
	for i := range batches {
		b := &batches[i]
		if g == nil || g.id != b.Group {
			if err := d.wal.state(g); err != nil {
				return err
			}
			g = d.groups.of(b.Group)
		}
		if b.Forget {
			if err := d.forget(g); err != nil {
				return err
			}
			g = nil
			continue
		}
		saved, err := d.batch(g, b)
		if err != nil {
			return err
		}
		urgent = urgent || saved
	}
	if err := d.wal.state(g); err != nil {
		return err
	}
	carries := urgent && d.crowded()
	if carries {
		if err := d.carry(max(d.wal.size()-before, leastCarried)); err != nil {
			return err
		}
	}
	if err := d.wal.finish(urgent); err != nil {
		return err
	}
	if carries {
		return d.wal.releaseBefore(d.groups.oldest())
	}
	return nil
}

// batch writes a batch, and reports whether it must be synced.
func (d *Disk) batch(g *group, b *storage.Batch) (urgent bool, err error) {
	if b.Compact != nil {
		if err := d.compact(g, *b.Compact); err != nil {
			return false, err
		}
	}
	if b.Snapshot != nil {
		if err := d.install(g, *b.Snapshot, b.Hard); err != nil {
			return false, err
		}
	}
	if err := d.append(g, b.Entries); err != nil {
		return false, err
	}
	urgent = d.mustSync(b)
	if !raft.IsEmptyHardState(b.Hard) {
		g.hard, g.pending = b.Hard, true
	}
	if b.Snapshot != nil {
		return false, d.settle(g, b.Snapshot.Index())
	}
	return urgent, nil
}

// append writes entries. If they replace others, these are truncated first, so that no entry that was replaced follows
// one that is needed, wherever the log is cut off and from which snapshot it is read.
func (d *Disk) append(g *group, entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if err := g.follows(first); err != nil {
		return err
	}
	if first <= g.last() {
		if err := d.truncate(g, first-1); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if err := d.wal.entry(g, e); err != nil {
			return err
		}
		g.append(e, d.wal.seq)
	}
	return nil
}

// truncate ends the log of a group after index, with an entry record that no leader has made: it has no term. The next
// entry replaces it.
func (d *Disk) truncate(g *group, index uint64) error {
	err := d.wal.entry(g, &raftpb.Entry{Index: new(index + 1), Term: new(uint64(0))})
	if index < g.last() {
		g.truncate(index)
	}
	return err
}

// install makes a snapshot from the leader take effect, by a commit index that reaches it. Before that it ends the log
// at the snapshot: what follows there belongs to a log with which the snapshot has nothing in common.
func (d *Disk) install(g *group, s storage.Snapshot, hard *raftpb.HardState) error {
	if err := d.WriteSnapshot(g.id, s); err != nil {
		return err
	}
	if err := errors.Join(d.wal.state(g), d.record(g, s)); err != nil {
		return err
	}
	if err := d.truncate(g, s.Index()); err != nil {
		return err
	}
	g.compact(s.Index())
	if hard == nil {
		return nil
	}
	g.hard, g.pending = &raftpb.HardState{Term: hard.Term, Vote: hard.Vote, Commit: new(s.Index())}, true
	return d.wal.state(g)
}

// compact makes a snapshot of the replica take effect, and removes what precedes it.
func (d *Disk) compact(g *group, s storage.Snapshot) error {
	if err := d.record(g, s); err != nil {
		return err
	}
	g.compact(s.Index())
	return d.settle(g, s.Index())
}

func (d *Disk) record(g *group, s storage.Snapshot) error {
	meta := s.Raft.GetMetadata()
	return d.wal.snapshot(g, &walpb.Snapshot{Index: meta.Index, Term: meta.Term, ConfState: meta.ConfState})
}

// settle makes durable that a snapshot is in effect, and then removes what it makes unnecessary.
func (d *Disk) settle(g *group, snapshot uint64) error {
	if err := d.wal.state(g); err != nil {
		return err
	}
	if err := d.wal.sync(); err != nil {
		return err
	}
	if err := d.wal.releaseBefore(d.groups.oldest()); err != nil {
		return err
	}
	return d.removeSnapshots(g.id, snapshot)
}

// forget ends the replica of a group.
func (d *Disk) forget(g *group) error {
	d.wal.forget(g)
	d.groups.remove(g.id)
	if err := d.wal.sync(); err != nil {
		return err
	}
	if err := d.removeSnapshots(g.id, math.MaxUint64); err != nil {
		return err
	}
	return d.wal.releaseBefore(d.groups.oldest())
}
