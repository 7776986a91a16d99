package sim

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

func hardState(term, commit uint64) *raftpb.HardState {
	return &raftpb.HardState{Term: &term, Vote: new(uint64(1)), Commit: &commit}
}

func logEntries(term, first uint64, count, size int) (es []*raftpb.Entry) {
	for i := range count {
		data := make([]byte, size)
		for j := range data {
			data[j] = byte(1 + (uint64(i+j)+first*7+term)%250)
		}
		es = append(es, &raftpb.Entry{Term: &term, Index: new(first + uint64(i)), Data: data})
	}
	return es
}

func logSnapshot(term, index uint64) *storage.Snapshot {
	return &storage.Snapshot{State: fmt.Appendf(nil, "state at %d", index), Raft: &raftpb.Snapshot{
		Data: []byte("members"),
		Metadata: &raftpb.SnapshotMetadata{Index: &index, Term: &term,
			ConfState: &raftpb.ConfState{Voters: []uint64{1, 2, 3}}},
	}}
}

// eachDisk runs a test on every kind of disk.
func eachDisk(t *testing.T, seeds int, test func(t *testing.T, d *disk)) {
	for _, o := range []diskOptions{{false, false}, {false, true}, {true, false}, {true, true}} {
		t.Run(fmt.Sprintf("real %v fsync %v", o.real, o.fsync), func(t *testing.T) {
			for seed := range uint64(seeds) {
				w := newWorld(seed)
				d := newDisk(w, w.newProcess("c"), o)
				t.Cleanup(d.close)
				d.format([]storage.Batch{{Snapshot: logSnapshot(1, 1), Hard: hardState(1, 1)}})
				if test(t, d); t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

// begin loads the log and starts the process.
func begin(t *testing.T, d *disk) storage.Saved {
	t.Helper()
	groups, err := d.load()
	if err != nil {
		t.Fatal(err)
	}
	d.p.start()
	return groups[0]
}

// saveNow saves batches and waits for the acknowledgement.
func saveNow(t *testing.T, d *disk, b ...storage.Batch) {
	t.Helper()
	acked := false
	d.save(b, func(err error) {
		if acked = true; err != nil {
			t.Fatal(err)
		}
	})
	runTo(t, d.w, d.w.now+time.Second)
	if !acked {
		t.Fatal("not acknowledged")
	}
}

// only is what was saved of the only group.
func only(m storage.Memory) storage.Saved {
	groups, _ := m.Load() // never fails
	return groups[0]
}

func lastOf(s storage.Saved) uint64 { return s.Snapshot.Index() + uint64(len(s.Entries)) }

func TestDiskCommitsInGroups(t *testing.T) {
	eachDisk(t, 3, func(t *testing.T, d *disk) {
		begin(t, d)
		var order []int
		var at []time.Duration
		save := func(i int) {
			d.save([]storage.Batch{{Entries: logEntries(1, uint64(1+i), 1, 10)}}, func(err error) {
				if err != nil {
					t.Error(err)
				}
				order, at = append(order, i), append(at, d.w.now)
				if i == 2 {
					d.save([]storage.Batch{{Entries: logEntries(1, 5, 1, 10)}},
						func(error) { at = append(at, d.w.now) })
				}
			})
		}
		save(1)
		save(2)
		save(3)
		if len(order) > 0 {
			t.Error("acknowledged before it can be durable")
		}
		runTo(t, d.w, time.Second)
		if fmt.Sprint(order) != "[1 2 3]" || len(at) != 4 || at[0] < minLatency || at[1] < at[0]+minLatency ||
			at[2] != at[1] || at[3] < at[2]+minLatency {
			t.Errorf("acknowledged %v at %v", order, at)
		}
		d.p.kill()
		if last := lastOf(begin(t, d)); last != 5 {
			t.Errorf("the log ends at %d", last)
		}
	})
}

// scribe saves what a member might save, and knows which logs are valid after the process ends at any moment.
type scribe struct {
	t              *testing.T
	d              *disk
	acked          storage.Memory
	pending        []storage.Batch // saved but not acknowledged, oldest first
	term, last     uint64
	commit, snap   uint64
	compacting     bool
	torn, restarts int
}

func (s *scribe) start() {
	loaded := begin(s.t, s.d)
	if s.restarts++; s.restarts > 1 {
		s.compare(loaded)
	}
	// If a snapshot was not installed, the leader sends it again, because its content is committed.
	var again *storage.Batch
	for _, b := range s.pending {
		if b.Snapshot != nil {
			again = &b
		}
	}
	s.acked, s.pending, s.compacting = storage.Memory{}, nil, false
	if err := s.acked.Save([]storage.Batch{{Hard: loaded.Hard, Snapshot: &loaded.Snapshot,
		Entries: loaded.Entries}}); err != nil {
		s.t.Fatal(err)
	}
	s.term, s.commit, s.snap, s.last = loaded.Hard.GetTerm(), loaded.Hard.GetCommit(), loaded.Snapshot.Index(),
		lastOf(loaded)
	s.commit = max(s.commit, s.snap)
	if s.commit > s.last {
		s.t.Fatalf("commit %d of a log that ends at %d", s.commit, s.last)
	}
	for _, e := range loaded.Entries {
		s.term = max(s.term, e.GetTerm())
	}
	if again != nil && again.Snapshot.Index() > s.snap {
		s.snap, s.term = again.Snapshot.Index(), max(s.term, again.Hard.GetTerm())
		s.commit, s.last = s.snap, s.snap+uint64(len(again.Entries))
		s.save(*again)
	}
	s.d.p.every(700*time.Microsecond, s.write)
}

func (s *scribe) save(b storage.Batch) {
	s.pending = append(s.pending, b)
	s.d.save([]storage.Batch{b}, func(err error) {
		if err == nil {
			err = s.acked.Save(s.pending[:1])
		}
		if err != nil {
			s.t.Fatal(err)
		}
		s.pending = s.pending[1:]
	})
}

// write saves a random batch.
func (s *scribe) write() {
	r := s.d.w.rand
	n := 1 + r.IntN(4)
	switch x := r.IntN(40); {
	case x < 20:
		es := logEntries(s.term, s.last+1, n, r.IntN(3000))
		s.last += uint64(n)
		s.commit += r.Uint64N(s.last - s.commit + 1)
		s.save(storage.Batch{Entries: es, Hard: hardState(s.term, s.commit)})
	case x < 30:
		s.commit += r.Uint64N(s.last - s.commit + 1)
		s.save(storage.Batch{Hard: hardState(s.term, s.commit)})
	case x < 35: // another leader replaces the end of the log
		s.term++
		first := s.commit + 1 + r.Uint64N(s.last-s.commit+1)
		s.last = first + uint64(n) - 1
		s.save(storage.Batch{Entries: logEntries(s.term, first, n, r.IntN(500)), Hard: hardState(s.term, s.commit)})
	case x < 37: // a snapshot from the leader
		s.term++
		s.snap = s.commit + 1 + r.Uint64N(s.last-s.commit+10) // entries after it are discarded
		s.commit, s.last = s.snap, s.snap+uint64(n)
		s.save(storage.Batch{Snapshot: logSnapshot(s.term, s.snap), Hard: hardState(s.term, s.commit),
			Entries: logEntries(s.term, s.snap+1, n, r.IntN(1500))})
	default:
		s.compact()
	}
}

// compact writes a snapshot of entries that are durable and committed.
func (s *scribe) compact() {
	durable := only(s.acked)
	i := int(durable.Hard.GetCommit()) - int(durable.Snapshot.Index()) - 1
	if s.compacting || i < 0 || i >= len(durable.Entries) {
		return
	}
	own := logSnapshot(durable.Entries[i].GetTerm(), durable.Entries[i].GetIndex())
	s.compacting = true
	s.d.writeSnapshot(0, *own, func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
		s.compacting = false
		if own.Index() > s.snap {
			s.snap = own.Index()
			s.save(storage.Batch{Compact: own})
		}
	})
}

// compare checks that the loaded log contains everything that was acknowledged, and a prefix of the rest.
func (s *scribe) compare(loaded storage.Saved) {
	for batches := range len(s.pending) + 1 {
		count := 0
		if batches < len(s.pending) {
			count = len(s.pending[batches].Entries)
		}
		for entries := -1; entries <= count; entries++ {
			want := s.after(batches, entries, loaded)
			if sameLog(want, loaded) {
				if batches > 0 || entries >= 0 {
					s.torn++
				}
				s.compareState(loaded)
				return
			}
		}
	}
	acked := only(s.acked)
	s.t.Fatalf("the log, from %d to %d, holds no beginning of what was saved; acknowledged was %d to %d, and then "+
		"%d batches",
		loaded.Snapshot.Index(), lastOf(loaded), acked.Snapshot.Index(), lastOf(acked), len(s.pending))
}

// sameLog compares logs without their hard states.
func sameLog(a, b storage.Saved) bool {
	return proto.Equal(a.Snapshot.Raft, b.Snapshot.Raft) && bytes.Equal(a.Snapshot.State, b.Snapshot.State) &&
		slices.EqualFunc(a.Entries, b.Entries, func(a, b *raftpb.Entry) bool {
			return a.GetIndex() == b.GetIndex() && a.GetTerm() == b.GetTerm() && bytes.Equal(a.GetData(), b.GetData())
		})
}

// after returns the acknowledged log with this number of pending batches, and this number of entries of the next
// batch. If entries is -1, nothing of the next batch is included.
func (s *scribe) after(batches, entries int, loaded storage.Saved) storage.Saved {
	saved := only(s.acked)
	var m storage.Memory
	group := append([]storage.Batch{{Hard: saved.Hard, Snapshot: &saved.Snapshot, Entries: saved.Entries}},
		s.pending[:batches]...)
	if entries >= 0 && batches < len(s.pending) {
		next := s.pending[batches]
		next.Entries = next.Entries[:entries]
		group = append(group, next)
	}
	if err := m.Save(group); err != nil {
		s.t.Fatal(err)
	}
	saved = only(m)
	// A snapshot is valid as soon as it is written.
	if i := loaded.Snapshot.Index(); i > saved.Snapshot.Index() && i <= saved.Hard.GetCommit() && i <= lastOf(saved) {
		if err := m.Save([]storage.Batch{{Compact: &loaded.Snapshot}}); err != nil {
			s.t.Fatal(err)
		}
		saved = only(m)
	}
	return saved
}

// compareState checks that the loaded term was saved, and is not older than the acknowledged one.
func (s *scribe) compareState(loaded storage.Saved) {
	saved := only(s.acked)
	low, high := saved.Hard, saved.Hard
	for _, b := range s.pending {
		if b.Hard != nil {
			high = b.Hard
		}
	}
	if h := loaded.Hard; h.GetTerm() < low.GetTerm() || h.GetTerm() > high.GetTerm() ||
		h.GetCommit() > high.GetCommit() {
		s.t.Fatalf("the state is %v; acknowledged was %v, saved %v", h, low, high)
	}
}

// TestDiskSurvivesKills: what was acknowledged survives a process that ends at any moment, and with fsync a machine
// that does. Of the rest, a prefix survives.
func TestDiskSurvivesKills(t *testing.T) {
	torn, restarts := map[bool]int{}, 0
	eachDisk(t, 15, func(t *testing.T, d *disk) {
		s := &scribe{t: t, d: d}
		s.start()
		for range 12 {
			runTo(t, d.w, d.w.now+time.Duration(d.w.rand.IntN(30_000))*time.Microsecond)
			if d.fsync && d.w.rand.IntN(2) == 0 {
				d.p.powerOff()
			} else {
				d.p.kill()
			}
			if s.start(); t.Failed() {
				return
			}
		}
		_, real := d.back.(*realDisk)
		torn[real] += s.torn
		restarts += s.restarts
	})
	if torn[false] < 20 || torn[true] < 20 {
		t.Errorf("of %d restarts only %d with the model and %d with files found a part of what was not acknowledged",
			restarts, torn[false], torn[true])
	}
}

func TestDiskCorruptionIsNoticed(t *testing.T) {
	eachDisk(t, 40, func(t *testing.T, d *disk) {
		s := &scribe{t: t, d: d}
		s.start()
		runTo(t, d.w, time.Duration(5+d.w.rand.IntN(100))*ms)
		d.p.kill()
		d.corrupt()
		for range 2 {
			if groups, err := d.load(); err == nil {
				t.Errorf("a log was loaded that ends at %d", lastOf(groups[0]))
			}
		}
	})
}

func TestDiskWithoutFsyncIsRefusedAfterReboot(t *testing.T) {
	eachDisk(t, 2, func(t *testing.T, d *disk) {
		begin(t, d)
		saveNow(t, d, storage.Batch{Entries: logEntries(1, 2, 3, 10)})
		d.p.kill() // only the process
		if last := lastOf(begin(t, d)); last != 4 {
			t.Fatalf("the log ends at %d", last)
		}
		d.p.kill()
		d.p.powerOff()
		groups, err := d.load()
		switch {
		case d.fsync && (err != nil || lastOf(groups[0]) != 4):
			t.Errorf("the log ends at %d, error %v", lastOf(groups[0]), err)
		case !d.fsync && (err == nil || !strings.Contains(err.Error(), "the machine has restarted since")):
			t.Errorf("error %v", err)
		}
	})
}

func TestDiskFull(t *testing.T) {
	eachDisk(t, 5, func(t *testing.T, d *disk) {
		begin(t, d)
		saveNow(t, d, storage.Batch{Entries: logEntries(1, 2, 3, 2000)})
		d.full(time.Minute)
		var errs []error
		d.save([]storage.Batch{{Entries: logEntries(1, 5, 3, 2000)}},
			func(err error) { errs = append(errs, err); d.p.kill() })
		runTo(t, d.w, d.w.now+time.Second)
		if len(errs) != 1 || !errors.Is(errs[0], unix.ENOSPC) {
			t.Fatalf("errors %v", errs)
		}
		saved := begin(t, d) // the log can be loaded
		if last := lastOf(saved); last < 4 || last > 7 {
			t.Errorf("the log ends at %d", last)
		}
		d.writeSnapshot(0, *logSnapshot(1, 3), func(err error) { errs = append(errs, err); d.p.kill() })
		runTo(t, d.w, d.w.now+time.Second)
		if len(errs) != 2 || !errors.Is(errs[1], unix.ENOSPC) {
			t.Fatalf("errors %v", errs)
		}
		d.heal()
		last := lastOf(begin(t, d))
		saveNow(t, d, storage.Batch{Entries: logEntries(1, last+1, 1, 10)})
	})
}

func TestDiskSaysNothingAfterError(t *testing.T) {
	eachDisk(t, 2, func(t *testing.T, d *disk) {
		begin(t, d)
		d.full(3 * ms)
		said := 0
		for i := range 3 {
			d.save([]storage.Batch{{Entries: logEntries(1, uint64(2+i), 1, 10)}}, func(error) { said++ })
		}
		runTo(t, d.w, time.Second)
		d.save(nil, func(error) { said++ })
		runTo(t, d.w, 2*time.Second)
		if said != 1 {
			t.Errorf("%d saves were answered", said)
		}
		d.p.kill()
		begin(t, d)
	})
}

func TestDiskLies(t *testing.T) {
	for _, real := range []bool{false, true} {
		w := newWorld(3)
		d := newDisk(w, w.newProcess("c"), diskOptions{real: real, fsync: true})
		t.Cleanup(d.close)
		d.format([]storage.Batch{{Snapshot: logSnapshot(1, 1), Hard: hardState(1, 1)}})
		begin(t, d)
		saveNow(t, d, storage.Batch{Entries: logEntries(1, 2, 1, 10)})
		d.lie(true)
		for i := range uint64(30) { // several segments
			saveNow(t, d, storage.Batch{Entries: logEntries(1, 3+i, 1, 5000)})
		}
		d.p.kill()
		if last := lastOf(begin(t, d)); last != 32 {
			t.Errorf("after the end of the process the log ends at %d", last)
		}
		d.p.powerOff()
		if last := lastOf(begin(t, d)); last != 2 {
			t.Errorf("after the end of the machine the log ends at %d", last)
		}
		saveNow(t, d, storage.Batch{Entries: logEntries(1, 3, 1, 10)})
		d.lie(false)
		saveNow(t, d, storage.Batch{Entries: logEntries(1, 4, 1, 10)})
		d.p.powerOff()
		if last := lastOf(begin(t, d)); last != 4 {
			t.Errorf("after an honest save the log ends at %d", last)
		}
	}
}

func TestSlowDisk(t *testing.T) {
	w := newWorld(1)
	d := newDisk(w, w.newProcess("c"), diskOptions{})
	d.p.start()
	longest := func() (longest time.Duration) {
		for i := range 20 {
			begin := w.now
			d.save([]storage.Batch{{Hard: hardState(uint64(i), 0)}},
				func(error) { longest = max(longest, w.now-begin) })
			runTo(t, w, w.now+time.Second)
		}
		return longest
	}
	if l := longest(); l > maxLatency {
		t.Errorf("a save took %v", l)
	}
	d.slow(time.Minute)
	if l := longest(); l < slowLatency/2 || l > slowLatency+minLatency {
		t.Errorf("the slowest of 20 slow saves took %v", l)
	}
	d.heal()
	if l := longest(); l > maxLatency {
		t.Errorf("then a save took %v", l)
	}
}
