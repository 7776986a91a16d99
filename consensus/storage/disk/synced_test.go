package disk

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// kill closes a Disk without writing anything else to its files.
func (d *Disk) kill(t *testing.T) {
	t.Helper()
	d.failed = true // as after an error, so that Close does not mark
	must(t, d.Close())
}

// TestEveryBit flips each bit of a log, one at a time. Damage in the part that is known to be synced is refused,
// with the name of the file. Damage after that is refused or cut off, never decoded as something else, and nothing
// before it is lost.
func TestEveryBit(t *testing.T) {
	const saves, size = 4, 16
	for _, marked := range []int{0, 3, saves} { // number of marked saves before the process is killed
		t.Run(fmt.Sprintf("%d of %d saves marked", marked, saves), func(t *testing.T) {
			dir, err := os.MkdirTemp(memory(), "disk")
			must(t, err)
			defer os.RemoveAll(dir)
			d, _ := open(t, dir, quiet())
			must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)},
				{Group: 5, Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
			from := int64(0) // where the unmarked part begins
			for i := range uint64(saves) {
				if int(i) == marked && marked > 0 {
					must(t, d.Mark())
					from = d.synced.parts[0].size
				}
				es, h := entries(1, 2+i, 1, size), hard(1, 7, 1+i)
				must(t, d.Save([]storage.Batch{{Entries: es, Hard: h}, {Group: 5, Entries: es, Hard: h}}))
			}
			if marked == saves {
				must(t, d.Mark())
				from = d.synced.parts[0].size
			}
			d.kill(t)
			path := filepath.Join(dir, "wal", "0000000000000000-0000000000000000.wal")
			whole, err := os.ReadFile(path)
			must(t, err)
			flips, refused := 0, 0
			for at := range end(t, path) {
				for bit := range 8 {
					damaged := slices.Clone(whole)
					damaged[at] ^= 1 << bit
					must(t, os.WriteFile(path, damaged, 0o600))
					flips++
					if loadDamaged(t, dir, path, at < from, marked) {
						refused++
					}
				}
			}
			t.Logf("%d of %d flipped bits are refused, %.1f %%", refused, flips, 100*float64(refused)/float64(flips))
		})
	}
}

// loadDamaged reports whether a log with a flipped byte is refused.
func loadDamaged(t *testing.T, dir, path string, synced bool, marked int) bool {
	t.Helper()
	d, err := Open(dir, owner, false, quiet())
	must(t, err)
	groups, err := d.Load()
	d.kill(t)
	switch {
	case synced && (err == nil || !strings.Contains(err.Error(), path)):
		t.Fatalf("damage to what was synced: %v", err)
	case err != nil:
		return true
	}
	for group := uint64(0); group <= 5; group += 5 {
		saved := groups[group].Entries
		if marked > 0 && len(saved) < marked {
			t.Fatalf("%d entries of group %d are left, %d were marked", len(saved), group, marked)
		}
		for i, e := range saved {
			if want := entries(1, uint64(2+i), 1, len(e.GetData()))[0]; marked > 0 && e.GetTerm() == 1 &&
				!bytes.Equal(e.GetData(), want.GetData()) {
				t.Fatalf("entry %d of group %d became %v", i, group, e)
			}
		}
	}
	return false
}

// While segments are created and removed, the log keeps its marks, and every marked segment is verified.
func TestMarkedSegments(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	for i := range uint64(300) {
		must(t, d.Save([]storage.Batch{{Entries: entries(1, 2+i, 1, 10_000), Hard: hard(1, 0, 1+i)}}))
		if i%7 == 0 {
			must(t, d.Mark())
		}
		if i == 150 {
			s := snapshot(1, 100, "own")
			must(t, d.WriteSnapshot(0, *s))
			must(t, d.Save([]storage.Batch{{Compact: s}}))
		}
	}
	must(t, d.Close())
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	must(t, err)
	if len(segments) <= maxParts {
		t.Fatalf("%d segments", len(segments))
	}
	d, saved := open(t, dir, quiet())
	if len(saved.Entries) != 201 || len(d.synced.parts) != maxParts {
		t.Errorf("%d entries, %d segments are marked", len(saved.Entries), len(d.synced.parts))
	}
	must(t, d.Close())
	for _, s := range segments[len(segments)-maxParts:] {
		whole, err := os.ReadFile(s)
		must(t, err)
		must(t, os.WriteFile(s, append([]byte{whole[0] ^ 1}, whole[1:]...), 0o600))
		d, err := Open(dir, owner, false, quiet())
		must(t, err)
		if _, err := d.Load(); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("the first bit of %s: %v", s, err)
		}
		d.kill(t)
		must(t, os.WriteFile(s, whole, 0o600))
	}
}

// The error for a log that has lost more than its unfinished end.
func TestLostEnd(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(dir, tail string, synced int64) error
		says string
	}{
		"zeros": {func(_, tail string, synced int64) error { return zeros(tail, synced-64, 64) },
			"not those that were synced"},
		"truncated": {func(_, tail string, synced int64) error { return os.Truncate(tail, synced-1) }, "were synced"},
		"no segment": {func(_, tail string, _ int64) error { return os.Remove(tail) },
			"segment 0000000000000004 is missing"},
		"no log": {func(dir, _ string, _ int64) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "wal")), os.RemoveAll(filepath.Join(dir, "snap")))
		}, "had a log"},
		"no mark": {func(dir, _ string, _ int64) error { return os.Remove(filepath.Join(dir, syncedFile)) }, ""},
		"empty mark": {func(dir, _ string, _ int64) error { return os.Truncate(filepath.Join(dir, syncedFile), 0) },
			""},
		"bad mark": {func(dir, _ string, _ int64) error { return zeros(filepath.Join(dir, syncedFile), 16, 20) },
			"synced is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			segments := filled(t, dir)
			d, saved := open(t, dir, quiet())
			must(t, d.Close()) // writes the mark
			must(t, c.lose(dir, segments[len(segments)-1], d.synced.parts[len(d.synced.parts)-1].size))
			d, err := Open(dir, owner, false, quiet())
			must(t, err)
			groups, err := d.Load()
			got := groups[0]
			defer d.kill(t)
			if c.says == "" {
				if err != nil || len(got.Entries) != len(saved.Entries) {
					t.Errorf("%d entries of %d: %v", len(got.Entries), len(saved.Entries), err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "remove the member") {
				t.Errorf("%v, which does not say %q and what to do", err, c.says)
			}
		})
	}
}

func zeros(path string, at, n int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(make([]byte, n), at)
	return err
}

// A segment that was being prepared when the process ended is prepared again.
func TestUnfinishedSegment(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	must(t, d.Close())
	garbage := bytes.Repeat([]byte{16, 0, 0, 0, 0, 0, 0, 0}, int(wal.SegmentSizeBytes/8))
	for i := range 2 {
		must(t, os.WriteFile(filepath.Join(dir, "wal", fmt.Sprintf("%d.tmp", i)), garbage, 0o600))
	}
	d, _ = open(t, dir, quiet())
	for i := range uint64(50) {
		must(t, d.Save([]storage.Batch{{Entries: entries(1, 2+i, 1, 3000), Hard: hard(1, 0, 1+i)}}))
		must(t, d.Mark())
	}
	d.kill(t)
	d, saved := open(t, dir, quiet())
	if len(saved.Entries) != 50 {
		t.Errorf("%d entries of 50", len(saved.Entries))
	}
	must(t, d.Close())
}

// BenchmarkMark compares a mark after each Save, of 64 entries of 200 bytes, with no marks.
func BenchmarkMark(b *testing.B) {
	as(b, 64<<20) // the usual length
	for _, fsync := range []bool{false, true} {
		for _, marks := range []bool{false, true} {
			b.Run(fmt.Sprintf("fsync=%v/marks=%v", fsync, marks), func(b *testing.B) {
				d, err := Open(b.TempDir(), owner, fsync, quiet())
				must(b, err)
				_, err = d.Load()
				must(b, err)
				must(b, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
				next := uint64(2)
				for b.Loop() {
					must(b, d.Save([]storage.Batch{{Entries: entries(1, next, 64, 200), Hard: hard(1, 0, next-1)}}))
					next += 64
					if marks {
						must(b, d.Mark())
					}
				}
				must(b, d.Close())
			})
		}
	}
}
