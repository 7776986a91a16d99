// Package disk is a storage.Storage on a file system: a write-ahead log in etcd's format for entries, votes and terms,
// and one file for each snapshot.
//
//	DIR/wal/…                    segments of 16 MB, preallocated; without fsync up to four old ones for reuse
//	DIR/snap/GROUP-TERM-INDEX    the newest snapshot of each group, and while it is replaced the one before
//	DIR/synced                   how much of each segment is synced, with a checksum; perhaps a little behind
//	DIR/lock                     locked by the process that has the directory open
//
// A torn record at the end of the log was never acknowledged; it is removed, with a log line. Other damage is an error
// that names the file. Damage after the end that DIR/synced knows cannot be told from a torn record: it can only affect
// what was saved in the last moments of a process that was killed.
package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
)

// Owner identifies the controller that the log belongs to. A directory never changes its owner.
type Owner struct {
	Cluster string
	ID      uint64
}

func (o Owner) String() string { return fmt.Sprintf("controller %d of cluster %q", o.ID, o.Cluster) }

// remedy ends every error about damage.
const remedy = "restore the directory from a copy of this member made while it was down, or remove the member from " +
	"the group and add it again under a new id with an empty directory"

// Disk implements storage.Storage.
type Disk struct {
	dir, walDir, snapDir string
	owner                Owner
	fsync                bool
	log                  *slog.Logger
	lock                 *os.File        // nil before Load
	wal                  *appender       // nil before Load
	last                 uint64          // of the log
	entries              []*raftpb.Entry // of the batches being saved; kept for the next ones
	synced               synced
	failed               bool // the content of the log is unknown
}

// Exists says whether a directory has a log, perhaps an empty one.
func Exists(dir string) bool { return wal.Exist(filepath.Join(dir, "wal")) }

// Open prepares a directory, and creates it if needed. Without fsync the files survive the end of the process, but not
// of the machine.
func Open(dir string, owner Owner, fsync bool, log *slog.Logger) (*Disk, error) {
	d, err := prepare(dir, owner, fsync, log)
	return d, full(dir, err)
}

func prepare(dir string, owner Owner, fsync bool, log *slog.Logger) (*Disk, error) {
	d := &Disk{dir: dir, walDir: filepath.Join(dir, "wal"), snapDir: filepath.Join(dir, "snap"), owner: owner,
		fsync: fsync, log: log}
	d.synced = synced{dir: dir, walDir: d.walDir, fsync: fsync}
	if err := os.MkdirAll(d.snapDir, 0o700); err != nil {
		return nil, fmt.Errorf("create the directory of the log: %w; name one that this process may write", err)
	}
	boot, err := bootID()
	if err != nil {
		return nil, err
	}
	if err := checkBoot(dir, fsync, boot); err != nil {
		return nil, err
	}
	return d, nil
}

// Load reads the log, and creates an empty one if there is none.
func (d *Disk) Load() (map[uint64]storage.Saved, error) {
	saved, err := d.load()
	if d.failed = err != nil; err != nil {
		return nil, full(d.dir, err)
	}
	groups := make(map[uint64]storage.Saved)
	if saved.Hard != nil {
		groups[0] = saved
	}
	return groups, nil
}

func (d *Disk) load() (storage.Saved, error) {
	if err := d.claim(); err != nil {
		return storage.Saved{}, err
	}
	if err := errors.Join(d.removeTemporary(), d.synced.load()); err != nil {
		return storage.Saved{}, err
	}
	if !wal.Exist(d.walDir) {
		return storage.Saved{}, d.create()
	}
	if err := d.synced.verify(); err != nil {
		return storage.Saved{}, d.damaged(err)
	}
	snapshots, err := d.snapshots()
	if err != nil {
		return storage.Saved{}, err
	}
	for _, name := range snapshots {
		saved, err := d.loadFrom(name)
		if !errors.Is(err, errUnfinished) {
			return saved, err
		}
	}
	return d.loadFrom(snapshotFile{})
}

// claim locks the directory for this process.
func (d *Disk) claim() (err error) {
	if d.lock, err = os.OpenFile(filepath.Join(d.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	err = unix.Flock(int(d.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("%s is in use by another process", d.dir)
	}
	return err
}

// errUnfinished says that a snapshot from the leader had not become part of the log.
var errUnfinished = errors.New("the snapshot is newer than what the log has committed")

// loadFrom reads a snapshot and the log after it.
func (d *Disk) loadFrom(f snapshotFile) (storage.Saved, error) {
	saved, err := d.read(&walpb.Snapshot{Index: new(f.index), Term: new(f.term)})
	if err != nil {
		return storage.Saved{}, err
	}
	if saved.Hard.GetCommit() < f.index {
		return storage.Saved{}, errors.Join(errUnfinished, d.closeLog())
	}
	d.last = f.index + uint64(len(saved.Entries))
	if f.index > 0 {
		if saved.Snapshot, err = readSnapshot(filepath.Join(d.snapDir, f.name())); err != nil {
			return storage.Saved{}, fmt.Errorf("%w; %s", err, remedy)
		}
	}
	return saved, nil
}

func (d *Disk) create() error {
	if names, err := d.snapshots(); err != nil || len(names) > 0 || len(d.synced.parts) > 0 {
		return errors.Join(err, fmt.Errorf("%s had a log, and there is no log in %s: %s", d.dir, d.walDir, remedy))
	}
	d.wal = &appender{dir: d.walDir, fsync: d.fsync, owner: []byte(d.owner.String())}
	err := os.MkdirAll(d.walDir, 0o700)
	if err == nil {
		err = d.wal.create()
	}
	if err == nil && d.fsync {
		err = syncDir(d.dir)
	}
	if err != nil {
		return fmt.Errorf("create the log in %s: %w", d.walDir, err)
	}
	return nil
}

// read reads everything after start, and opens the log for writing.
func (d *Disk) read(start *walpb.Snapshot) (storage.Saved, error) {
	list, err := segments(d.walDir)
	if err != nil {
		return storage.Saved{}, err
	}
	l := loaded{start: start}
	if err := l.read(list); err != nil {
		return storage.Saved{}, d.damaged(err)
	}
	if string(l.owner) != d.owner.String() {
		return storage.Saved{}, fmt.Errorf("%s belongs to %s, not to %s: name its own directory", d.dir, l.owner,
			d.owner)
	}
	if l.torn != nil {
		d.log.Warn("consensus: the log ends in a torn record; removing it", "dir", d.walDir, "err", l.torn)
	}
	d.wal = &appender{dir: d.walDir, fsync: d.fsync}
	if err := d.wal.open(list[len(list)-1], &l); err != nil {
		return storage.Saved{}, fmt.Errorf("open the log in %s: %w", d.walDir, err)
	}
	saved := storage.Saved{Entries: valid(start.GetTerm(), l.entries)}
	if l.hard.GetTerm() != 0 {
		saved.Hard = l.hard
	}
	return saved, nil
}

func (d *Disk) damaged(err error) error {
	return fmt.Errorf("the log in %s is damaged: %w; %s", d.walDir, err, remedy)
}

// Save writes all batches, with one fsync if no snapshot is among them.
func (d *Disk) Save(batches []storage.Batch) error {
	err := d.save(batches)
	d.failed = d.failed || err != nil
	return full(d.dir, err)
}

// Mark records how much of the log is synced, in most cases without waiting for the disk.
func (d *Disk) Mark() error {
	if err := d.wal.sync(); err != nil {
		return full(d.dir, fmt.Errorf("sync the log in %s: %w", d.walDir, err))
	}
	return full(d.dir, d.synced.mark())
}

func (d *Disk) save(batches []storage.Batch) error {
	var hard *raftpb.HardState
	entries := d.entries[:0]
	flush := func() error {
		err := d.wal.save(hard, entries)
		clear(entries)
		hard, entries = nil, entries[:0]
		if err != nil {
			return fmt.Errorf("write the log in %s: %w", d.walDir, err)
		}
		return nil
	}
	for _, b := range batches {
		if b.Group != 0 || b.Forget {
			return fmt.Errorf("the log in %s takes one group only", d.walDir)
		}
		if b.Snapshot != nil || b.Compact != nil {
			if err := flush(); err != nil {
				return err
			}
		}
		if b.Compact != nil {
			if err := d.mark(*b.Compact); err != nil {
				return err
			}
		}
		if b.Hard != nil {
			hard = b.Hard
		}
		if b.Snapshot == nil {
			entries = d.replace(entries, b.Entries)
			continue
		}
		if err := d.WriteSnapshot(b.Group, *b.Snapshot); err != nil {
			return err
		}
		if err := d.install(*b.Snapshot, hard); err != nil {
			return err
		}
		entries = append(entries, cut(b.Snapshot.Index()))
		d.last = b.Snapshot.Index()
		entries = d.replace(entries, b.Entries)
		if err := flush(); err != nil {
			return err
		}
		if err := d.purge(*b.Snapshot); err != nil {
			return err
		}
	}
	err := flush()
	d.entries = entries
	return err
}

// install makes a snapshot from the leader take effect, by a commit index that reaches it. That is written before any
// entry after the snapshot: if the log is torn in between, it is read from an older snapshot, for which these entries
// would leave a gap.
func (d *Disk) install(s storage.Snapshot, hard *raftpb.HardState) error {
	if err := d.record(s); err != nil || hard == nil {
		return err
	}
	state := &raftpb.HardState{Term: hard.Term, Vote: hard.Vote, Commit: new(s.Index())}
	if err := d.wal.save(state, nil); err != nil {
		return fmt.Errorf("write the log in %s: %w", d.walDir, err)
	}
	return nil
}

// replace appends entries to those being saved. If they shorten the log, a cut follows.
func (d *Disk) replace(saving, next []*raftpb.Entry) []*raftpb.Entry {
	if len(next) == 0 {
		return saving
	}
	last := next[len(next)-1].GetIndex()
	saving = append(saving, next...)
	if last < d.last {
		saving = append(saving, cut(last))
	}
	d.last = last
	return saving
}

// cut makes an entry that ends the log after index. The file still holds the replaced entries after it, and reading
// from a snapshot at index, or from one of the leader that replaces the whole log, would take these for valid. The next
// real entry replaces the cut.
func cut(index uint64) *raftpb.Entry {
	return &raftpb.Entry{Index: new(index + 1), Term: new(uint64(0))}
}

// valid returns the entries that follow one of the given term, up to the first that is in the file but not in the log:
// a cut, or an entry that a snapshot or a later leader has replaced, where no cut was read because reading began after
// it. Terms never decrease in a log, and such entries have a lower term than those that replaced them.
func valid(term uint64, entries []*raftpb.Entry) []*raftpb.Entry {
	for i, e := range entries {
		if e.GetTerm() == 0 || e.GetTerm() < term {
			return entries[:i]
		}
		term = e.GetTerm()
	}
	return entries
}

// mark makes an own snapshot take effect, and removes what precedes it.
func (d *Disk) mark(s storage.Snapshot) error {
	if err := d.record(s); err != nil {
		return err
	}
	return d.purge(s)
}

func (d *Disk) record(s storage.Snapshot) error {
	meta := s.Raft.GetMetadata()
	err := d.wal.snapshot(&walpb.Snapshot{Index: meta.Index, Term: meta.Term, ConfState: meta.ConfState})
	if err != nil {
		return fmt.Errorf("write the log in %s: %w", d.walDir, err)
	}
	return nil
}

// purge removes the segments and snapshots that s makes unnecessary.
func (d *Disk) purge(s storage.Snapshot) error {
	list, err := segments(d.walDir)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(list) && list[i+1].first <= s.Index(); i++ { // a segment ends where the next one begins
		if err := d.wal.release(list[i]); err != nil {
			return fmt.Errorf("remove an old segment of the log: %w", err)
		}
	}
	return d.removeSnapshotsBefore(s)
}

// Close closes the log; saved data remain.
func (d *Disk) Close() error {
	var err error
	if d.wal != nil && !d.failed {
		err = d.Mark()
	}
	err = errors.Join(err, d.closeLog(), d.synced.close())
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

func (d *Disk) closeLog() error {
	if d.wal == nil {
		return nil
	}
	w := d.wal
	d.wal = nil
	if err := w.close(); err != nil {
		return fmt.Errorf("close the log in %s: %w", d.walDir, err)
	}
	return nil
}
