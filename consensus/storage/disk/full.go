package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FullError says that there was no room for the log or a snapshot. What was saved before is intact: when there is room
// again (see Room), the directory can be opened as after a crash.
type FullError struct {
	Dir  string
	Free int64 // bytes, when that was noticed
	Err  error
}

func (e *FullError) Error() string {
	return fmt.Sprintf("the disk of %s is full, %d MB are free: %v; make room there", e.Dir, e.Free>>20, e.Err)
}

func (e *FullError) Unwrap() error { return e.Err }

// noRoom reports whether an error means that a disk or a quota is full.
func noRoom(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// full turns such an error into a FullError.
func full(dir string, err error) error {
	if !noRoom(err) {
		return err
	}
	free, _, _ := Room(dir) // 0 if unknown
	return &FullError{dir, free, err}
}

// Room returns how many bytes are free for an existing directory, and how many are needed to continue for a while: the
// current segment, the previous one, those for reuse, and another snapshot.
func Room(dir string) (free, wanted int64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, fmt.Errorf("ask how full the disk of %s is: %w", dir, err)
	}
	wanted = (2 + maxReserve) * segmentSize()
	err = filepath.WalkDir(filepath.Join(dir, "snap"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			wanted += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, fmt.Errorf("ask how large the snapshots in %s are: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, wanted, nil
}
