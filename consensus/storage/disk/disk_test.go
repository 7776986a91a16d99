package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	wal.SegmentSizeBytes = 64 << 10 // small, so that tests use many segments
	goleak.VerifyTestMain(m)
}

var owner = Owner{Cluster: "test", ID: 1}

// T has the methods that testing.T and rapid.T share.
type T interface {
	Helper()
	Fatal(...any)
}

func open(t T, dir string, log *slog.Logger) (*Disk, storage.Saved) {
	t.Helper()
	d, err := Open(dir, owner, false, log)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := d.Load()
	if err != nil {
		t.Fatal(err)
	}
	return d, groups[0]
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func hard(term, vote, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Vote: &vote, Commit: &commit}
}

func entries(term, first uint64, count int, size int) []*raftpb.Entry {
	var es []*raftpb.Entry
	for i := range count {
		data := bytes.Repeat([]byte{byte(first + uint64(i))}, size)
		es = append(es, &raftpb.Entry{Term: &term, Index: new(first + uint64(i)), Data: data})
	}
	return es
}

func snapshot(term, index uint64, state string) *storage.Snapshot {
	return &storage.Snapshot{State: []byte(state), Raft: &raftpb.Snapshot{
		Data: []byte("members"),
		Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term,
			ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
	}}
}

// Entries that a leader's snapshot and a later entry have replaced do not return when the log is read from a newer
// snapshot at its very end.
func TestReplacedTailStaysGone(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	own := snapshot(2, 3, "own")
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	must(t, d.Save([]storage.Batch{{Entries: entries(1, 2, 3, 10)}}))
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(2, 2, "theirs"), Hard: hard(2, 0, 2)}}))
	must(t, d.Save([]storage.Batch{{Entries: entries(2, 3, 1, 10), Hard: hard(2, 0, 3)}}))
	must(t, d.WriteSnapshot(0, *own))
	must(t, d.Save([]storage.Batch{{Compact: own}}))
	must(t, d.Close())
	d, got := open(t, dir, quiet())
	defer d.Close()
	if got.Snapshot.Index() != 3 || len(got.Entries) != 0 {
		t.Errorf("snapshot at %d and entries %v; want 3 and none", got.Snapshot.Index(), got.Entries)
	}
}

// memory returns a directory in memory, if the machine has one.
func memory() string {
	const shm = "/dev/shm"
	if _, err := os.Stat(shm); err == nil {
		return shm
	}
	return ""
}

func TestEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	d, saved := open(t, dir, quiet())
	if saved.Hard != nil || saved.Entries != nil {
		t.Errorf("an empty directory holds %v", saved)
	}
	must(t, d.Close())
	d, saved = open(t, dir, quiet())
	if saved.Hard != nil {
		t.Errorf("a log without entries holds %v", saved)
	}
	must(t, d.Close())
}

// TestSnapshotEndsLog: entries from before a snapshot of the leader do not return after it.
func TestSnapshotEndsLog(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	must(t, d.Save([]storage.Batch{{Entries: entries(3, 2, 99, 10), Hard: hard(3, 0, 1)}}))
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(2, 50, "theirs"), Hard: hard(4, 0, 50)}}))
	must(t, d.Close())
	d, saved := open(t, dir, quiet())
	defer d.Close()
	if len(saved.Entries) > 0 || saved.Snapshot.Index() != 50 || string(saved.Snapshot.State) != "theirs" {
		t.Errorf("snapshot %d, %d entries behind it", saved.Snapshot.Index(), len(saved.Entries))
	}
}

// filled writes and closes a log of several segments, and returns their paths.
func filled(t *testing.T, dir string) []string {
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	for i := range 100 {
		if i == 97 {
			must(t, d.Mark())
			d.failed = true // as if the process was killed: Close does not mark
		}
		must(t, d.Save([]storage.Batch{{Entries: entries(1, uint64(2+i), 1, 3000), Hard: hard(1, 0, uint64(1+i))}}))
	}
	must(t, d.Close())
	segments, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	must(t, err)
	if len(segments) < 3 {
		t.Fatalf("only %d segments", len(segments))
	}
	return segments
}

// end returns the offset at which the zeros begin.
func end(t *testing.T, path string) int64 {
	b, err := os.ReadFile(path)
	must(t, err)
	return int64(len(bytes.TrimRight(b, "\x00")))
}

func TestTornTail(t *testing.T) {
	for _, keep := range []int64{1, 700, 2500} { // bytes of the last record that remain
		dir := t.TempDir()
		segments := filled(t, dir)
		tail := segments[len(segments)-1]
		f, err := os.OpenFile(tail, os.O_RDWR, 0)
		must(t, err)
		at := end(t, tail)
		from := (at - keep) / 512 * 512 // a sector is written completely or not at all
		_, err = f.WriteAt(make([]byte, at-from), from)
		must(t, err)
		must(t, f.Close())
		var log bytes.Buffer
		d, saved := open(t, dir, slog.New(slog.NewTextHandler(&log, nil)))
		if n := len(saved.Entries); n < 97 || n > 99 {
			t.Errorf("%d bytes lost: %d entries of 100 left", keep, n)
		}
		if !strings.Contains(log.String(), "torn record") {
			t.Errorf("no log line about it, but %q", log.String())
		}
		next := uint64(len(saved.Entries) + 2)
		must(t, d.Save([]storage.Batch{{Entries: entries(2, next, 1, 10), Hard: hard(2, 0, next-1)}}))
		must(t, d.Close())
		d, saved = open(t, dir, quiet())
		if last := saved.Entries[len(saved.Entries)-1]; last.GetIndex() != next || last.GetTerm() != 2 {
			t.Errorf("what was saved after the repair is lost")
		}
		must(t, d.Close())
	}
}

// TestTornSnapshot: wherever the log ends while a snapshot from the leader is saved, the member has either its
// previous state or the snapshot.
func TestTornSnapshot(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	must(t, d.Save([]storage.Batch{{Entries: entries(1, 2, 3, 10), Hard: hard(1, 0, 2)}}))
	tail := filepath.Join(dir, "wal", "0000000000000000-0000000000000000.wal")
	from := end(t, tail)
	theirs := storage.Batch{Snapshot: snapshot(2, 9, "theirs"), Entries: entries(2, 10, 2, 10), Hard: hard(2, 0, 11)}
	must(t, d.WriteSnapshot(0, *theirs.Snapshot))
	before := t.TempDir()
	must(t, os.CopyFS(before, os.DirFS(dir)))
	must(t, d.Save([]storage.Batch{theirs}))
	must(t, d.Close())
	whole, err := os.ReadFile(tail)
	must(t, err)
	for at := (from + 7) / 8 * 8; at < end(t, tail); at += 8 {
		size := int64(binary.LittleEndian.Uint64(whole[at:]) & (1<<56 - 1))
		torn := t.TempDir()
		must(t, os.CopyFS(torn, os.DirFS(before)))
		must(t, os.WriteFile(filepath.Join(torn, "wal", filepath.Base(tail)),
			append(slices.Clone(whole[:at]), make([]byte, int64(len(whole))-at)...), 0o600))
		d, saved := open(t, torn, quiet())
		must(t, d.Close())
		last := saved.Snapshot.Index() + uint64(len(saved.Entries))
		old := saved.Snapshot.Index() == 1 && last == 4 && saved.Hard.GetTerm() == 1
		installed := saved.Snapshot.Index() == 9 && last >= 9 && saved.Hard.GetTerm() == 2 &&
			saved.Hard.GetCommit() <= last
		if !old && !installed {
			t.Errorf("cut off at %d: snapshot %d, the log ends at %d, state %v", at, saved.Snapshot.Index(), last,
				saved.Hard)
		}
		at += (size + 7) / 8 * 8 // a record is its length and its data
	}
}

func TestDamage(t *testing.T) {
	flip := func(path string, at int64) func(*testing.T) {
		return func(t *testing.T) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			must(t, err)
			b := make([]byte, 1)
			_, err = f.ReadAt(b, at)
			must(t, err)
			b[0] ^= 0xff
			_, err = f.WriteAt(b, at)
			must(t, err)
			must(t, f.Close())
		}
	}
	for _, c := range []struct {
		name   string
		damage func(dir string, segments []string) func(*testing.T)
		says   []string
	}{
		{"middle of the log", func(_ string, s []string) func(*testing.T) { return flip(s[1], 20_000) },
			[]string{"damaged", "0000000000000001-", "remove the member"}},
		{"segment missing", func(_ string, s []string) func(*testing.T) {
			return func(t *testing.T) {
				must(t,
					os.Remove(s[1]))
			}
		}, []string{"damaged"}},
		{"snapshot", func(dir string, _ []string) func(*testing.T) {
			return flip(filepath.Join(dir, "snap", "0000000000000000-0000000000000001-0000000000000001"), 30)
		}, []string{"checksum", "snap/0000000000000000-0000000000000001-0000000000000001", "remove the member"}},
		{"no log", func(dir string, _ []string) func(*testing.T) {
			return func(t *testing.T) { must(t, os.RemoveAll(filepath.Join(dir, "wal"))) }
		}, []string{"no log in", "remove the member"}},
		{"no snapshot", func(dir string, _ []string) func(*testing.T) {
			return func(t *testing.T) { must(t, os.RemoveAll(filepath.Join(dir, "snap"))) }
		}, []string{"damaged"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.damage(dir, filled(t, dir))(t)
			d, err := Open(dir, owner, false, quiet())
			must(t, err)
			defer d.Close()
			_, err = d.Load()
			for _, says := range c.says {
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v, which does not say %q", err, says)
				}
			}
		})
	}
}

func TestWhose(t *testing.T) {
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	second, err := Open(dir, owner, false, quiet())
	must(t, err)
	if _, err := second.Load(); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second process: %v", err)
	}
	must(t, d.Close())
	other, err := Open(dir, Owner{Cluster: "test", ID: 2}, false, quiet())
	must(t, err)
	if _, err := other.Load(); err == nil || !strings.Contains(err.Error(),
		`belongs to controller 1 of cluster "test", not to controller 2`) {
		t.Errorf("other member: %v", err)
	}
}

func TestPurge(t *testing.T) {
	dir := t.TempDir()
	before := len(filled(t, dir))
	d, saved := open(t, dir, quiet())
	if len(saved.Entries) != 100 {
		t.Fatalf("%d entries", len(saved.Entries))
	}
	s := snapshot(1, 95, "own")
	must(t, d.WriteSnapshot(0, *s))
	must(t, d.Save([]storage.Batch{{Compact: s}}))
	must(t, d.Close())
	segments, _ := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	snaps, _ := filepath.Glob(filepath.Join(dir, "snap", "*"))
	if len(segments) >= before || len(segments) > 2 || len(snaps) != 1 {
		t.Errorf("%d segments of %d left, and snapshots %v", len(segments), before, snaps)
	}
	d, saved = open(t, dir, quiet())
	if saved.Snapshot.Index() != 95 || len(saved.Entries) != 6 {
		t.Errorf("snapshot %d and %d entries", saved.Snapshot.Index(), len(saved.Entries))
	}
	must(t, d.Close())
}

func ExampleOwner() {
	fmt.Println(Owner{Cluster: "lab", ID: 2})
	// Output: controller 2 of cluster "lab"
}
