//go:build linux && (amd64 || arm64)

package disk

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func newDatasync(t testing.TB) *datasync {
	t.Helper()
	d := new(datasync)
	must(t, d.open())
	t.Cleanup(func() { must(t, d.close()) })
	return d
}

// Many syncs end, each its own, beside those of others.
func TestDatasync(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		d, f := newDatasync(t), newFile(t)
		all.Go(func() {
			for i := range 50 {
				if _, err := f.WriteAt([]byte("record"), int64(i)*6); err != nil {
					t.Error(err)
				}
				if err := d.sync(f); err != nil || d.context != 0 && d.event.id != uint64(i+1) {
					t.Errorf("sync %d, of which the kernel says that %d has ended: %v", i+1, d.event.id, err)
				}
			}
		})
	}
	all.Wait()
}

// A file that cannot be synced is an error, with and without asynchronous I/O, and the next file is synced.
func TestDatasyncFails(t *testing.T) {
	for name, d := range map[string]*datasync{"asynchronous": newDatasync(t), "refused by the kernel": {}} {
		closed, pipe := newFile(t), newPipe(t)
		must(t, closed.Close())
		if err := d.sync(closed); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: a file that is closed: %v", name, err)
		}
		if err := d.sync(pipe); !errors.Is(err, unix.EINVAL) {
			t.Errorf("%s: a pipe: %v", name, err)
		}
		if err := d.sync(newFile(t)); err != nil {
			t.Errorf("%s: a file after those: %v", name, err)
		}
	}
}

func newFile(t testing.TB) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func newPipe(t testing.TB) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return w
}

// FuzzDatasync syncs files that are open, that are closed, and that cannot be synced, in any order, and wakes who waits
// too early. Each sync says of its own file whether it is synced.
func FuzzDatasync(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 3, 0, 3, 3, 0})
	f.Fuzz(func(t *testing.T, steps []byte) {
		d, good, closed, pipe := newDatasync(t), newFile(t), newFile(t), newPipe(t)
		must(t, closed.Close())
		for _, step := range steps[:min(len(steps), 20)] {
			switch step % 4 {
			case 0:
				if _, err := good.Write([]byte{step}); err != nil {
					t.Fatal(err)
				}
				must(t, d.sync(good))
			case 1:
				if err := d.sync(closed); !errors.Is(err, unix.EBADF) {
					t.Fatalf("a file that is closed: %v", err)
				}
			case 2:
				if err := d.sync(pipe); !errors.Is(err, unix.EINVAL) {
					t.Fatalf("a pipe: %v", err)
				}
			case 3: // as if an earlier sync was told late
				if _, err := d.ended.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
