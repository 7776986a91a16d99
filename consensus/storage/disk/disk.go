// Package disk is a storage.Storage on a file system: a write-ahead log in etcd's format for entries, votes and terms,
// and one file for each snapshot.
//
//	DIR/wal/…                    segments of 16 MB, preallocated; without fsync up to four old ones for reuse
//	DIR/snap/GROUP-TERM-INDEX    the newest snapshot of each group, and while it is replaced the one before
//	DIR/synced                   how much of each segment is synced, with a checksum; perhaps a little behind
//	DIR/lock                     locked by the process that has the directory open
//
// The log is one for all groups, so that one fsync serves them all. A record says of which group the following ones are
// (appender.go). A segment begins with the states of all groups, and is released when no group needs an entry in it.
// So that a group that writes little does not keep old segments for ever, entries are carried forward (carry.go).
//
// A torn record at the end of the log was never acknowledged; it is removed, with a log line. Other damage is an error
// that names the file, and the group if it is known; it is damage of the log as a whole. Damage after the end that
// DIR/synced knows cannot be told from a torn record: it can only affect what was saved in the last moments of a
// process that was killed.
package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/internal/durable"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"golang.org/x/sys/unix"
)

// Owner identifies the controller that the log belongs to. A directory never changes its owner.
type Owner struct {
	Cluster string
	ID      uint64
}

// OwnerError says that a directory belongs to another controller.
type OwnerError struct {
	Dir   string
	Has   string // Owner.String of that
	Wants Owner
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s belongs to %s, not to %s: name its own directory", e.Dir, e.Has, e.Wants)
}

func (o Owner) String() string { return fmt.Sprintf("controller %d of cluster %q", o.ID, o.Cluster) }

// remedy ends every error about damage.
const remedy = "restore the directory from a copy of this member made while it was down, or remove the member from " +
	"its groups and add it again under a new id with an empty directory"

// Disk implements storage.Storage.
type Disk struct {
	dir, walDir, snapDir string
	owner                Owner
	fsync                bool
	log                  *slog.Logger
	lock                 *os.File  // nil before Load
	wal                  *appender // nil before Load
	groups               groups
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
	d.synced = synced{dir: dir, fsync: fsync}
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
	d.failed = err != nil
	return saved, full(d.dir, err)
}

func (d *Disk) load() (map[uint64]storage.Saved, error) {
	if err := d.claim(); err != nil {
		return nil, err
	}
	if err := errors.Join(d.removeTemporary(), d.synced.load()); err != nil {
		return nil, err
	}
	files, err := d.snapshots()
	if err != nil {
		return nil, err
	}
	if !wal.Exist(d.walDir) {
		return nil, d.create(files)
	}
	l, err := d.read(files)
	if err != nil {
		return nil, err
	}
	return d.take(l, files)
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

func (d *Disk) create(snapshots map[uint64][]snapshotFile) error {
	if len(snapshots) > 0 || len(d.synced.parts) > 0 {
		return fmt.Errorf("%s had a log, and there is no log in %s: %s", d.dir, d.walDir, remedy)
	}
	d.wal = &appender{dir: d.walDir, fsync: d.fsync, owner: []byte(d.owner.String()), groups: &d.groups}
	err := os.MkdirAll(d.walDir, 0o700)
	if err == nil {
		err = d.wal.create()
	}
	if err == nil && d.fsync {
		err = durable.Names(d.dir)
	}
	if err != nil {
		return fmt.Errorf("create the log in %s: %w", d.walDir, err)
	}
	return nil
}

// read verifies and reads the log, of each group after its newest snapshot, and opens it for writing. A snapshot that
// is newer than what the log has committed was not finished: the group is read after the one before it.
func (d *Disk) read(snapshots map[uint64][]snapshotFile) (*loaded, error) {
	list, err := segments(d.walDir)
	if err != nil {
		return nil, err
	}
	if err := d.synced.verify(list); err != nil {
		return nil, d.damaged(err)
	}
	l := &loaded{}
	for unfinished := true; unfinished; {
		*l = loaded{starts: make(map[uint64]snapshotFile), groups: make(map[uint64]*replica)}
		for id, files := range snapshots {
			if len(files) > 0 {
				l.starts[id] = files[0]
			}
		}
		if err := l.read(list); err != nil {
			return nil, d.damaged(err)
		}
		unfinished = false
		for id, r := range l.groups {
			if r.hard.GetCommit() < r.start.index {
				snapshots[id], unfinished = snapshots[id][1:], true
			}
		}
	}
	if string(l.owner) != d.owner.String() {
		return nil, &OwnerError{Dir: d.dir, Has: string(l.owner), Wants: d.owner}
	}
	if l.torn != nil {
		d.log.Warn("consensus: the log ends in a torn record; removing it", "dir", d.walDir, "err", l.torn)
	}
	d.wal = &appender{dir: d.walDir, fsync: d.fsync, groups: &d.groups}
	if err := d.wal.open(list, l); err != nil {
		return nil, fmt.Errorf("open the log in %s: %w", d.walDir, err)
	}
	return l, nil
}

// take returns what was read, and removes the snapshots of groups that were forgotten.
func (d *Disk) take(l *loaded, snapshots map[uint64][]snapshotFile) (map[uint64]storage.Saved, error) {
	all := make(map[uint64]storage.Saved)
	for id, r := range l.groups {
		if r.empty() {
			continue
		}
		g, err := r.group()
		if err != nil {
			return nil, d.damaged(err)
		}
		*d.groups.of(id) = *g
		saved := storage.Saved{Hard: g.hard, Entries: slices.Clone(g.entries)}
		if g.snapshot > 0 {
			if saved.Snapshot, err = readSnapshot(filepath.Join(d.snapDir, r.start.name())); err != nil {
				return nil, fmt.Errorf("%w; %s", err, remedy)
			}
		}
		all[id] = saved
	}
	for id := range snapshots {
		if _, ok := d.groups.search(id); !ok {
			if err := d.removeSnapshots(id, math.MaxUint64); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (d *Disk) damaged(err error) error {
	return fmt.Errorf("the log in %s is damaged: %w; %s", d.walDir, err, remedy)
}

// Mark records how much of the log is synced, in most cases without waiting for the disk.
func (d *Disk) Mark() error {
	if err := d.wal.sync(); err != nil {
		d.failed = true // so that Close does not take for durable what the next sync says nothing of
		return full(d.dir, fmt.Errorf("sync the log in %s: %w", d.walDir, err))
	}
	return full(d.dir, d.synced.mark(d.wal.segments))
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
