package disk

import (
	"slices"
	"testing"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// Without fsync, a few entries are saved promptly; with fsync, only what need not be synced. What takes longer is not
// saved by SavePrompt at all. What was saved is there when the log is opened again.
func TestSavePrompt(t *testing.T) {
	for _, fsync := range []bool{false, true} {
		dir := t.TempDir()
		d, err := Open(dir, owner, fsync, quiet())
		must(t, err)
		_, err = d.Load()
		must(t, err)
		must(t, d.Save([]storage.Batch{{Hard: hard(1, 1, 0), Entries: entries(1, 1, 3, 100)}}))
		last := uint64(3)
		for _, c := range []struct {
			what            string
			batch           storage.Batch
			prompt, durable bool // without and with fsync
		}{
			{"a commit index", storage.Batch{Hard: hard(1, 1, 2)}, true, true},
			{"an entry", storage.Batch{Entries: entries(1, 4, 1, 100)}, true, false},
			{"a term", storage.Batch{Hard: hard(2, 1, 2)}, true, false},
			{"many bytes", storage.Batch{Entries: entries(2, 5, 2, maxPrompt/2)}, false, false},
			{"a snapshot", storage.Batch{Snapshot: &storage.Snapshot{Raft: &raftpb.Snapshot{}}}, false, false},
			{"a snapshot of its own", storage.Batch{Compact: &storage.Snapshot{Raft: &raftpb.Snapshot{}}}, false, false},
			{"the end of a replica", storage.Batch{Forget: true}, false, false},
		} {
			want := c.prompt && !fsync || c.durable
			saved, err := d.SavePrompt([]storage.Batch{c.batch})
			if must(t, err); saved != want {
				t.Errorf("fsync %v: %s is saved promptly: %v", fsync, c.what, saved)
			}
			if n := len(c.batch.Entries); saved && n > 0 {
				last = c.batch.Entries[n-1].GetIndex()
			}
		}
		refused, count := 0, 2000 // several segments
		if fsync {
			count = 50
		}
		for range count {
			b := []storage.Batch{{Entries: entries(2, last+1, 1, 100)}}
			saved, err := d.SavePrompt(b)
			if must(t, err); !saved {
				refused++
				must(t, d.Save(b))
			}
			last++
		}
		segments := len(d.wal.segments)
		want := segments - 1 // the first entry of each but the first
		if fsync && refused < count || !fsync && (segments < 3 || refused < want || refused > 10*want) {
			t.Errorf("fsync %v: %d of %d entries are not saved promptly, in %d segments", fsync, refused, count, segments)
		}
		must(t, d.closeLog()) // as if the process had died
		must(t, d.lock.Close())
		d, err = Open(dir, owner, fsync, quiet())
		must(t, err)
		groups, err := d.Load()
		must(t, err)
		var indexes []uint64
		for _, e := range groups[0].Entries {
			indexes = append(indexes, e.GetIndex())
		}
		if uint64(len(indexes)) != last || !slices.IsSorted(indexes) {
			t.Errorf("fsync %v: %d entries of %d after a restart", fsync, len(indexes), last)
		}
		must(t, d.Close())
	}
}
