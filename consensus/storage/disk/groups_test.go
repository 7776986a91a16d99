package disk

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"
)

// writer makes what the replica of one group might save.
type writer struct {
	group                    uint64
	term, commit, last, snap uint64
	terms                    map[uint64]uint64 // of the entries
}

// begin returns what a replica begins with.
func (w *writer) begin() storage.Batch {
	w.term, w.commit, w.last, w.snap, w.terms = 1, 1, 1, 1, map[uint64]uint64{1: 1}
	return storage.Batch{Group: w.group, Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}
}

func (w *writer) saved(first uint64, n int) {
	for i := range uint64(n) {
		w.terms[first+i] = w.term
	}
}

// append also truncates.
func (w *writer) append(t *rapid.T) storage.Batch {
	w.term += rapid.Uint64Range(0, 1).Draw(t, "term")
	first := w.last + 1
	if rapid.IntRange(0, 3).Draw(t, "truncate") == 0 {
		first = rapid.Uint64Range(w.commit+1, w.last+1).Draw(t, "first")
	}
	n := rapid.IntRange(0, 5).Draw(t, "count")
	if n > 0 {
		if first <= w.last && w.terms[w.last] == w.term {
			w.term++ // only the leader of a later term replaces entries
		}
		w.last = first + uint64(n) - 1
		w.saved(first, n)
	}
	return storage.Batch{Group: w.group, Entries: entries(w.term, first, n, rapid.IntRange(0, 9000).Draw(t, "size")),
		Hard: hard(w.term, 2, w.commit)}
}

func (w *writer) commits(t *rapid.T) storage.Batch {
	w.commit = rapid.Uint64Range(w.commit, w.last).Draw(t, "commit")
	return storage.Batch{Group: w.group, Hard: hard(w.term, 0, w.commit)}
}

func (w *writer) restore(t *rapid.T) storage.Batch {
	w.term++
	w.commit += rapid.Uint64Range(1, 10).Draw(t, "ahead")
	w.snap, w.last = w.commit, w.commit
	n := rapid.IntRange(0, 2).Draw(t, "count")
	w.saved(w.snap, n+1)
	w.last += uint64(n)
	return storage.Batch{Group: w.group, Snapshot: snapshot(w.term, w.snap, "theirs"), Hard: hard(w.term, 0, w.commit),
		Entries: entries(w.term, w.snap+1, n, 10)}
}

// TestLikeMemory: after any saves and restarts, the disk contains of every group what storage.Memory does.
func TestLikeMemory(t *testing.T) {
	as(t, 8<<10) // so that groups that are idle are carried forward
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(memory(), "disk")
		must(t, err)
		defer os.RemoveAll(dir)
		d, _ := open(t, dir, quiet())
		defer func() { must(t, d.Close()) }()
		var m storage.Memory
		save := func(b ...storage.Batch) {
			must(t, d.Save(b))
			must(t, m.Save(b))
		}
		writers := []*writer{{group: 0}, {group: 9}, {group: 1 << 60}}
		for _, w := range writers {
			save(w.begin())
		}
		one := func(t *rapid.T) *writer { return rapid.SampledFrom(writers).Draw(t, "writer") }
		t.Repeat(map[string]func(*rapid.T){
			"append":      func(t *rapid.T) { save(one(t).append(t)) },
			"append to 0": func(t *rapid.T) { save(writers[0].append(t)) },
			"commit":      func(t *rapid.T) { save(one(t).commits(t), storage.Batch{}) },
			"restore":     func(t *rapid.T) { save(one(t).restore(t)) },
			"together": func(t *rapid.T) {
				var all []storage.Batch
				for range rapid.IntRange(2, 6).Draw(t, "batches") {
					w := one(t)
					all = append(all, rapid.SampledFrom([]func(*rapid.T) storage.Batch{w.append, w.commits,
						w.restore}).Draw(t, "batch")(t))
				}
				save(all...)
			},
			"compact": func(t *rapid.T) {
				w := one(t)
				if w.commit == w.snap {
					return
				}
				w.snap = rapid.Uint64Range(w.snap+1, w.commit).Draw(t, "at")
				s := snapshot(w.terms[w.snap], w.snap, "own")
				must(t, d.WriteSnapshot(w.group, *s))
				if rapid.Bool().Draw(t, "crash before it counts") {
					return // the snapshot file is valid as soon as it exists
				}
				save(storage.Batch{Group: w.group, Compact: s})
			},
			"forget": func(t *rapid.T) {
				w := one(t)
				if rapid.Bool().Draw(t, "together") {
					save(w.append(t), storage.Batch{Group: w.group, Forget: true}, w.begin())
					return
				}
				save(storage.Batch{Group: w.group, Forget: true})
				reopen(t, &d, dir, &m)
				save(w.begin())
			},
			"mark":    func(*rapid.T) { must(t, d.Mark()) },
			"restart": func(t *rapid.T) { reopen(t, &d, dir, &m) },
		})
	})
}

// reopen closes the log and compares what it has with what was saved.
func reopen(t T, d **Disk, dir string, m *storage.Memory) {
	t.Helper()
	must(t, (*d).Close())
	var err error
	*d, err = Open(dir, owner, false, quiet())
	must(t, err)
	got, err := (*d).Load()
	must(t, err)
	want, _ := m.Load() // never fails
	for group, s := range got {
		if s.Snapshot.Index() > want[group].Snapshot.Index() { // its Save was not necessary
			must(t, m.Save([]storage.Batch{{Group: group, Compact: &s.Snapshot}}))
		}
	}
	want, _ = m.Load()
	if !maps.EqualFunc(want, got, same) {
		t.Fatal(cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateEmpty()))
	}
}

func same(a, b storage.Saved) bool {
	return proto.Equal(a.Hard, b.Hard) && proto.Equal(a.Snapshot.Raft, b.Snapshot.Raft) &&
		bytes.Equal(a.Snapshot.State, b.Snapshot.State) && equal(a.Entries, b.Entries)
}

// quietAndBusy makes a log in which group 7 has entries in the first segments, and group 3 has written many segments
// since, so that the next Save carries the entries of group 7 forward. It returns what was saved.
func quietAndBusy(t *testing.T, dir string) (*Disk, *storage.Memory, func() []storage.Batch) {
	t.Helper()
	d, _ := open(t, dir, quiet())
	m := new(storage.Memory)
	save := func(b ...storage.Batch) {
		must(t, d.Save(b))
		must(t, m.Save(b))
	}
	for _, group := range []uint64{0, 3, 7} {
		save(storage.Batch{Group: group, Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)})
	}
	for i := range uint64(40) {
		save(storage.Batch{Group: 7, Entries: entries(1, 2+i, 1, 5000), Hard: hard(1, 0, 2)})
	}
	next := uint64(2)
	busy := func() []storage.Batch {
		next++
		return []storage.Batch{{Group: 3, Entries: entries(1, next-1, 1, 10_000), Hard: hard(1, 0, next-1)}}
	}
	for !d.crowded() {
		if next > 1000 {
			t.Fatalf("%d segments are not crowded", len(d.wal.segments))
		}
		if save(busy()...); next%10 == 0 {
			s := snapshot(1, next-1, "own")
			must(t, d.WriteSnapshot(3, *s))
			save(storage.Batch{Group: 3, Compact: s})
		}
	}
	return d, m, busy
}

// TestCarriedForward: wherever the log is cut off while entries are carried forward, each group has what was saved, and
// when that is done the old segments are released.
func TestCarriedForward(t *testing.T) {
	as(t, 128<<10) // one Save carries half of that
	dir := memoryDir(t)
	d, m, busy := quietAndBusy(t, dir)
	oldest, carried := d.wal.segments[0].seq, 0
	for d.wal.segments[0].seq < oldest+2 {
		before, from := copied(t, dir), d.wal.size()
		tail := d.wal.segments[len(d.wal.segments)-1].name()
		batches := busy()
		must(t, d.Save(batches))
		if carried++; carried > 10 {
			t.Fatalf("segment %d is still there", oldest)
		}
		whole, err := os.ReadFile(filepath.Join(dir, "wal", tail))
		must(t, err)
		at := from
		for at < int64(len(whole)) {
			_, n := records(whole[at : at+8])
			if n == 0 {
				break
			}
			next := at + int64(n)
			for _, end := range []int64{at, (at/512 + 1) * 512, next / 512 * 512} { // sectors are written as a whole
				if at <= end && end < next {
					cutOffAt(t, before, tail, whole[:end], m, batches)
				}
			}
			at = next
		}
		if at-from > 10_000+leastCarried+2*5000 {
			t.Errorf("a Save of 10,000 bytes wrote %d", at-from)
		}
		must(t, m.Save(batches))
	}
	reopen(t, &d, dir, m)
	if got := d.groups.oldest(); got != d.wal.segments[0].seq || len(d.groups) != 3 {
		t.Errorf("the log begins with segment %d, and %d is the oldest that is needed", d.wal.segments[0].seq, got)
	}
	must(t, d.Close())
}

// memoryDir is a directory in memory, if the machine has that.
func memoryDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "disk")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// copied returns a copy of a directory. All segments but the last are links, because nobody writes them.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := memoryDir(t)
	list, err := segments(filepath.Join(dir, "wal"))
	must(t, err)
	must(t, os.CopyFS(filepath.Join(to, "snap"), os.DirFS(filepath.Join(dir, "snap"))))
	must(t, os.Mkdir(filepath.Join(to, "wal"), 0o700))
	for i, s := range list {
		if link := filepath.Join(to, "wal", s.name()); i < len(list)-1 {
			must(t, os.Link(s.path, link))
		} else {
			whole, err := os.ReadFile(s.path)
			must(t, err)
			must(t, os.WriteFile(link, whole, 0o600))
		}
	}
	return to
}

// cutOffAt loads a log whose last segment was not written to its end: it has what was saved, perhaps with the batches.
func cutOffAt(t *testing.T, before, tail string, written []byte, m *storage.Memory, batches []storage.Batch) {
	t.Helper()
	torn := copied(t, before)
	must(t, os.WriteFile(filepath.Join(torn, "wal", tail), append(slices.Clone(written), make([]byte, 4096)...), 0o600))
	d, err := Open(torn, owner, false, quiet())
	must(t, err)
	got, err := d.Load()
	must(t, err)
	d.kill(t)
	old, _ := m.Load()
	with := m.Clone()
	must(t, with.Save(batches))
	all, _ := with.Load()
	for group := range all {
		got := got[group].Entries
		if !equal(got, old[group].Entries) && !equal(got, all[group].Entries) {
			t.Fatalf("%d bytes written: group %d has %d entries, and %d were saved", len(written), group, len(got),
				len(old[group].Entries))
		}
	}
	must(t, os.RemoveAll(torn))
}

// TestLogStaysSmall: groups that write little, or cannot take snapshots, do not make the log grow without bound.
func TestLogStaysSmall(t *testing.T) {
	as(t, 16<<10)
	dir := t.TempDir()
	d, _ := open(t, dir, quiet())
	last := map[uint64]uint64{}
	save := func(group uint64, size int) {
		last[group]++
		must(t, d.Save([]storage.Batch{{Group: group, Entries: entries(1, last[group], 1, size),
			Hard: hard(1, 0, last[group])}}))
	}
	for group := range uint64(5) {
		last[group] = 1
		must(t, d.Save([]storage.Batch{{Group: group, Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	}
	most, written, needed := 0, 0, int64(0)
	for i := range 3000 {
		save(4, 2000)
		switch {
		case i%100 == 99: // a snapshot
			s := snapshot(1, last[4], "own")
			must(t, d.WriteSnapshot(4, *s))
			must(t, d.Save([]storage.Batch{{Group: 4, Compact: s}}))
		case i%500 == 0 && i < 2000:
			save(uint64(i/500), 100)
		case i > 200 && i < 300: // the group has no majority, and nothing of it is committed
			save(2, 1500)
		}
		now := int64(0)
		for _, g := range d.groups {
			now += g.bytes
		}
		needed = max(needed, now)
		if n := len(d.wal.segments); n > manySegments+2+int(3*needed/segmentSize()) {
			t.Fatalf("after %d saves %d segments of %d bytes for at most %d bytes that are needed", i, n, segmentSize(),
				needed)
		}
		most = max(most, len(d.wal.segments))
		written = int(d.wal.seq)
	}
	t.Logf("at most %d segments; %d were written", most, written)
	if most < manySegments || len(d.groups) != 5 || len(d.groups[2].entries) != 99 {
		t.Errorf("at most %d segments, groups %v", most, d.groups)
	}
	must(t, d.Close())
}

// TestForgotten: of a replica that ended nothing is left, also if the process ends before its snapshot is removed.
func TestForgotten(t *testing.T) {
	dir := t.TempDir()
	d, m, busy := quietAndBusy(t, dir)
	snaps := func(group uint64) []string {
		found, err := filepath.Glob(filepath.Join(dir, "snap", fmt.Sprintf("%016x-*", group)))
		must(t, err)
		return found
	}
	kept := snaps(7)
	whole, err := os.ReadFile(kept[0])
	must(t, err)
	before := len(d.wal.segments)
	end := []storage.Batch{{Group: 7, Forget: true}}
	must(t, d.Save(end))
	must(t, m.Save(end))
	if left := snaps(7); len(left) > 0 || len(d.wal.segments) >= before {
		t.Errorf("%d segments of %d and snapshots %v are left", len(d.wal.segments), before, left)
	}
	for n := d.wal.seq; d.wal.seq == n; { // the next segment does not know the group
		b := busy()
		must(t, d.Save(b))
		must(t, m.Save(b))
	}
	must(t, os.WriteFile(kept[0], whole, 0o600))
	reopen(t, &d, dir, m)
	if left := snaps(7); len(left) > 0 {
		t.Errorf("after a restart, snapshots %v are left", left)
	}
	must(t, d.Close())
}

// TestNeededSegmentIsMissing: the log is refused if a segment is missing that only one group needs.
func TestNeededSegmentIsMissing(t *testing.T) {
	dir := t.TempDir()
	d, _, _ := quietAndBusy(t, dir)
	must(t, d.Mark())
	first := d.wal.segments[0].path
	must(t, d.Close())
	must(t, os.Remove(first))
	d, err := Open(dir, owner, false, quiet())
	must(t, err)
	_, err = d.Load()
	if err == nil || !strings.Contains(err.Error(), "entry 2 of group 7 is missing") {
		t.Errorf("error %v", err)
	}
	d.kill(t)
}

// Entries that would leave a gap are an error, and not damage that the next start finds.
func TestGap(t *testing.T) {
	d, _ := open(t, t.TempDir(), quiet())
	must(t, d.Save([]storage.Batch{{Group: 2, Snapshot: snapshot(1, 5, ""), Hard: hard(1, 0, 5)}}))
	for _, first := range []uint64{5, 7} {
		err := d.Save([]storage.Batch{{Group: 2, Entries: entries(1, first, 1, 10)}})
		if err == nil || !strings.Contains(err.Error(), "of group 2 does not follow") {
			t.Errorf("entry %d: %v", first, err)
		}
	}
	d.kill(t)
}

func equal(a, b []*raftpb.Entry) bool {
	return slices.EqualFunc(a, b, func(a, b *raftpb.Entry) bool { return proto.Equal(a, b) })
}
