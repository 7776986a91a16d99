package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"golang.org/x/sys/unix"
)

// small mounts a file system of this size. It returns a function that fills it, and one that frees space again.
func small(t *testing.T, bytes string) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+bytes); err != nil {
		t.Skipf("mount a small file system: %v; only root can", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		f, err := os.Create(filler)
		must(t, err)
		defer f.Close()
		for page := make([]byte, 4096); err == nil; {
			_, err = f.Write(page)
		}
		if !noRoom(err) {
			t.Fatal(err)
		}
	}
	return dir, fill, func() { must(t, os.Remove(filler)) }
}

// TestFull: when the disk is full, Save returns an error, the log keeps what it has acknowledged, and it continues
// when there is space again.
func TestFull(t *testing.T) {
	for _, fsync := range []bool{false, true} {
		root, fill, free := small(t, "1m")
		dir := filepath.Join(root, "log")
		var d *Disk
		last := uint64(1)
		load := func() (storage.Saved, error) {
			var err error
			if d, err = Open(dir, owner, fsync, quiet()); err != nil {
				return storage.Saved{}, err
			}
			groups, err := d.Load()
			if err != nil {
				must(t, d.Close())
			}
			return groups[0], err
		}
		save := func() error {
			err := d.Save([]storage.Batch{{Entries: entries(1, last+1, 1, 3000), Hard: hard(1, 0, last)}})
			if err == nil {
				last++
			}
			return err
		}
		fill()
		_, err := load()
		isFull(t, dir, err)
		free()
		_, err = load()
		must(t, err)
		must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
		for range 3 {
			for range 30 { // more than a segment
				must(t, save())
			}
			fill()
			isFull(t, dir, d.WriteSnapshot(0, *snapshot(1, last, strings.Repeat("x", 20_000))))
			for err = nil; err == nil; {
				err = save()
			}
			isFull(t, dir, err)
			must(t, d.Close())
			if _, err := load(); err == nil { // there may be just enough space
				_ = d.Close()
			} else {
				isFull(t, dir, err)
			}
			free()
			saved, err := load()
			must(t, err)
			if n := saved.Snapshot.Index() + uint64(len(saved.Entries)); n < last || n > last+1 {
				t.Errorf("the log ends at %d, and %d is what was saved", n, last)
			}
			last = saved.Snapshot.Index() + uint64(len(saved.Entries)) // one more than acknowledged, perhaps
			must(t, save())
			s := snapshot(1, last-1, "own")
			must(t, d.WriteSnapshot(0, *s))
			must(t, d.Save([]storage.Batch{{Compact: s}}))
		}
		must(t, d.Close())
	}
}

func isFull(t *testing.T, dir string, err error) {
	t.Helper()
	var full *FullError
	if !errors.As(err, &full) || full.Dir != dir || !strings.Contains(err.Error(), "make room") ||
		strings.Contains(err.Error(), "damaged") {
		t.Fatalf("with a full disk: %v", err)
	}
}

func TestRoom(t *testing.T) {
	root, fill, _ := small(t, "1m")
	free, wanted, err := Room(root)
	must(t, err)
	if free < 900<<10 || free > 1<<20 || wanted != (2+maxReserve)*segmentSize() {
		t.Errorf("%d bytes are free and %d wanted", free, wanted)
	}
	d, _ := open(t, root, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, strings.Repeat("x", 1000)), Hard: hard(1, 0, 1)}}))
	must(t, d.Close())
	fill()
	if free, wanted, err = Room(root); err != nil || free != 0 || wanted < (2+maxReserve)*segmentSize()+1000 {
		t.Errorf("%d bytes are free and %d wanted: %v", free, wanted, err)
	}
}
