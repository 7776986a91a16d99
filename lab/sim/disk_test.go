package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
	"golang.org/x/sys/unix"
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
				if eachSeed(t, seed, o, test); t.Failed() {
					return
				}
			}
		})
	}
}

func eachSeed(t *testing.T, seed uint64, o diskOptions, test func(t *testing.T, d *disk)) {
	defer func() {
		if t.Failed() {
			t.Logf("with seed %d", seed)
		}
	}()
	w := newWorld(seed)
	d := newDisk(w, w.newProcess("c"), o)
	t.Cleanup(d.close)
	d.format([]storage.Batch{{Snapshot: logSnapshot(1, 1), Hard: hardState(1, 1)}})
	test(t, d)
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

func TestDiskCorruptionIsNoticed(t *testing.T) {
	eachDisk(t, 40, func(t *testing.T, d *disk) {
		s := newScribe(t, d)
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
