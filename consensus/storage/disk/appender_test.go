package disk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"pgregory.net/rapid"
)

// as sets the length of segments during a test.
func as(t testing.TB, size int64) {
	before := wal.SegmentSizeBytes
	wal.SegmentSizeBytes = size
	t.Cleanup(func() { wal.SegmentSizeBytes = before })
}

// TestLikeEtcd: a segment is byte for byte equal to the one that etcd would write.
func TestLikeEtcd(t *testing.T) {
	as(t, 256<<10) // a single segment, because etcd ends segments elsewhere
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory(), "disk")
		must(t, err)
		defer os.RemoveAll(dir)
		ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
		must(t, os.Mkdir(ours, 0o700))
		g := &group{}
		a := &appender{dir: ours, owner: []byte(owner.String()), groups: &groups{g}}
		must(t, a.create())
		w, err := wal.Create(nil, theirs, a.owner)
		must(t, err)
		w.SetUnsafeNoFsync()
		next := uint64(1)
		for range rapid.IntRange(1, 8).Draw(t, "saves") {
			var es []*raftpb.Entry
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				e := &raftpb.Entry{Index: new(next), Term: new(rapid.Uint64Max(300).Draw(t, "term")),
					Data: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "data")}
				switch rapid.IntRange(0, 9).Draw(t, "kind") {
				case 0:
					e.Data = nil
				case 1:
					e.Type = raftpb.EntryConfChangeV2.Enum()
				case 2:
					e.Data = bytes.Repeat([]byte{7}, rapid.IntRange(0, 9000).Draw(t, "size"))
				}
				es = append(es, e)
				next++
			}
			h := hard(rapid.Uint64Max(3).Draw(t, "of"), rapid.Uint64Max(3).Draw(t, "vote"), next)
			for _, e := range es {
				must(t, a.entry(g, e))
			}
			if g.hard = h; !raft.IsEmptyHardState(h) {
				g.pending = true
			}
			must(t, a.state(g))
			must(t, a.finish(true))
			must(t, w.Save(h, es))
			if rapid.IntRange(0, 5).Draw(t, "snapshot") == 0 {
				s := &walpb.Snapshot{Index: new(next + 5), Term: new(uint64(2)),
					ConfState: &raftpb.ConfState{Voters: []uint64{1, 300}}}
				must(t, a.snapshot(g, s))
				must(t, w.SaveSnapshot(s))
				next += 6
			}
		}
		must(t, a.sync())
		must(t, a.close())
		must(t, w.Close())
		name := segment{}.name()
		got, err := os.ReadFile(filepath.Join(ours, name))
		must(t, err)
		want, err := os.ReadFile(filepath.Join(theirs, name))
		must(t, err)
		if !bytes.Equal(got, want) {
			at := 0
			for got[at] == want[at] {
				at++
			}
			t.Fatalf("at %d it is\n%x\nand not\n%x", at, got[at:at+200], want[at:at+200])
		}
	})
}

// TestEtcdReads: etcd can read a log of many segments and one group, also after a restart.
func TestEtcdReads(t *testing.T) {
	dir := t.TempDir()
	filled(t, dir)
	d, _ := open(t, dir, quiet())
	must(t, d.Save([]storage.Batch{{Entries: entries(1, 102, 1, 3000), Hard: hard(1, 0, 101)}}))
	must(t, d.Close())
	w, err := wal.Open(nil, filepath.Join(dir, "wal"), &walpb.Snapshot{Index: new(uint64(1)), Term: new(uint64(1))})
	must(t, err)
	defer w.Close()
	whose, state, es, err := w.ReadAll()
	must(t, err)
	if string(whose) != owner.String() || state.GetCommit() != 101 || len(es) != 101 || es[100].GetIndex() != 102 ||
		len(es[100].GetData()) != 3000 {
		t.Errorf("%d entries of %s, state %v", len(es), whose, state)
	}
}

// TestSegmentsAreWrittenAgain: without fsync the log reuses old segments. Their old content never returns, and
// wherever a write is cut off, the log ends with the previous one.
func TestSegmentsAreWrittenAgain(t *testing.T) {
	as(t, 4*flushSize)
	for _, fsync := range []bool{false, true} {
		dir := t.TempDir()
		d, err := Open(dir, owner, fsync, quiet())
		must(t, err)
		_, err = d.Load()
		must(t, err)
		must(t, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
		again := 0 // number of writes into old segments
		for i := uint64(2); i < 200; i++ {
			if d.wal.reused {
				again++
			}
			must(t, d.Save([]storage.Batch{{Entries: entries(1, i, 1, 40_000), Hard: hard(1, 0, i-1)}}))
			if i%20 == 0 {
				s := snapshot(1, i-1, "own")
				must(t, d.WriteSnapshot(0, *s))
				must(t, d.Save([]storage.Batch{{Compact: s}}))
			}
			if d.wal.reused && again%60 == 0 {
				cutOff(t, d, i)
			}
		}
		if fsync != (again == 0) {
			t.Errorf("fsync %v: %d writes to old segments", fsync, again)
		}
		must(t, d.Close())
		files, err := os.ReadDir(filepath.Join(dir, "wal"))
		must(t, err)
		if len(files) > 3 {
			t.Errorf("what is left are %v", files)
		}
	}
}

// cutOff writes the next entry to copies of the log, each cut off at another byte.
func cutOff(t *testing.T, d *Disk, last uint64) {
	t.Helper()
	list, err := segments(d.walDir)
	must(t, err)
	tail := list[len(list)-1].name()
	w := *d.wal
	w.buf = nil
	e := entries(1, last+1, 1, 40_000)[0]
	w.record(wal.EntryType, entryHead(e), e.Data)
	before, writes := t.TempDir(), w.writes()
	must(t, os.CopyFS(before, os.DirFS(d.dir)))
	cut := func(part string, end uint64) {
		torn := t.TempDir()
		must(t, os.CopyFS(torn, os.DirFS(before)))
		got, saved := open(t, torn, quiet())
		if is := saved.Snapshot.Index() + uint64(len(saved.Entries)); is != end {
			t.Errorf("with %s of the next entry the log ends at %d, not at %d", part, is, end)
		}
		got.kill(t)
	}
	f, err := os.OpenFile(filepath.Join(before, "wal", tail), os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	for i, w := range writes {
		for _, n := range []int{0, lengthSize, 100, 4096, 20_000, len(w.data)} {
			if n > len(w.data) || i > 0 && n == len(w.data) {
				continue
			}
			_, err = f.WriteAt(w.data[:n], w.at)
			must(t, err)
			cut(fmt.Sprintf("%d bytes of write %d", n, i), last)
		}
	}
	_, err = f.WriteAt(writes[1].data, writes[1].at)
	must(t, err)
	cut("all", last+1)
}

// BenchmarkSave saves entries of 60 kB, with a snapshot after each 16 MB, as a busy follower does.
func BenchmarkSave(b *testing.B) {
	as(b, 64<<20) // the usual length
	for _, fsync := range []bool{false, true} {
		b.Run(fmt.Sprintf("fsync=%v", fsync), func(b *testing.B) {
			const size, every = 60_000, 16 << 20 / 60_000
			d, err := Open(b.TempDir(), owner, fsync, quiet())
			must(b, err)
			_, err = d.Load()
			must(b, err)
			must(b, d.Save([]storage.Batch{{Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
			b.SetBytes(size)
			next, data := uint64(2), bytes.Repeat([]byte{2}, size)
			for b.Loop() {
				e := &raftpb.Entry{Term: new(uint64(1)), Index: new(next), Data: data}
				must(b, d.Save([]storage.Batch{{Entries: []*raftpb.Entry{e}, Hard: hard(1, 0, next-1)}}))
				if next++; next%every == 0 {
					s := snapshot(1, next-1, "own")
					must(b, d.WriteSnapshot(0, *s))
					must(b, d.Save([]storage.Batch{{Compact: s}}))
				}
			}
			must(b, d.Close())
		})
	}
}
