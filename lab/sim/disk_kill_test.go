package sim

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// scribe saves what the replicas of a controller might save, and knows which logs are valid after the process ends at
// any moment.
type scribe struct {
	t              *testing.T
	d              *disk
	replicas       []*scribed
	acked          storage.Memory
	pending        []storage.Batch // saved but not acknowledged, oldest first
	torn, restarts int
	forgotten      int
}

// scribed is the replica of one group.
type scribed struct {
	s            *scribe
	group        uint64
	term, last   uint64
	commit, snap uint64
	compacting   bool
}

// newScribe makes replicas of a group that writes much, one that writes some, and one that writes little.
func newScribe(t *testing.T, d *disk) *scribe {
	s := &scribe{t: t, d: d}
	for _, group := range []uint64{0, 1 << 40, 7} {
		s.replicas = append(s.replicas, &scribed{s: s, group: group})
	}
	return s
}

func (s *scribe) start() {
	loaded, err := s.d.load()
	if err != nil {
		s.t.Fatal(err)
	}
	s.d.p.start()
	pending := s.pending
	if s.restarts++; s.restarts > 1 {
		for _, r := range s.replicas {
			s.torn += r.compare(loaded[r.group])
		}
	}
	s.acked, s.pending = storage.Memory{}, nil
	for _, r := range s.replicas {
		r.start(loaded[r.group], pending)
	}
	s.d.p.every(700*time.Microsecond, func() {
		switch x := s.d.w.rand.IntN(20); {
		case x < 13:
			s.replicas[0].write()
		case x < 19:
			s.replicas[1].write()
		default:
			s.replicas[2].write()
		}
	})
}

// start continues with what was loaded. The leader sends a snapshot that was not installed again, because its content
// is committed. A replica that is gone begins anew.
func (r *scribed) start(loaded storage.Saved, pending []storage.Batch) {
	s := r.s
	r.compacting = false
	if loaded.Hard == nil {
		r.begin()
		return
	}
	var again *storage.Batch
	for _, b := range pending {
		if b.Group == r.group && (b.Snapshot != nil || b.Forget) {
			again = &b
		}
	}
	if err := s.acked.Save([]storage.Batch{{Group: r.group, Hard: loaded.Hard, Snapshot: &loaded.Snapshot,
		Entries: loaded.Entries}}); err != nil {
		s.t.Fatal(err)
	}
	r.term, r.commit, r.snap, r.last = loaded.Hard.GetTerm(), loaded.Hard.GetCommit(), loaded.Snapshot.Index(),
		lastOf(loaded)
	r.commit = max(r.commit, r.snap)
	if r.commit > r.last {
		s.t.Fatalf("group %d: commit %d of a log that ends at %d", r.group, r.commit, r.last)
	}
	for _, e := range loaded.Entries {
		r.term = max(r.term, e.GetTerm())
	}
	if again != nil && again.Snapshot != nil && again.Snapshot.Index() > r.snap {
		r.snap, r.term = again.Snapshot.Index(), max(r.term, again.Hard.GetTerm())
		r.commit, r.last = r.snap, r.snap+uint64(len(again.Entries))
		r.save(*again)
	}
}

// begin saves what a replica begins with.
func (r *scribed) begin() {
	r.term, r.commit, r.snap, r.last = 1, 1, 1, 1
	r.save(storage.Batch{Snapshot: logSnapshot(1, 1), Hard: hardState(1, 1)})
}

func (r *scribed) save(b storage.Batch) {
	s := r.s
	b.Group = r.group
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
func (r *scribed) write() {
	rand := r.s.d.w.rand
	n := 1 + rand.IntN(4)
	switch x := rand.IntN(41); {
	case x < 20:
		es := logEntries(r.term, r.last+1, n, rand.IntN(12_000))
		r.last += uint64(n)
		r.commit += rand.Uint64N(r.last - r.commit + 1)
		r.save(storage.Batch{Entries: es, Hard: hardState(r.term, r.commit)})
	case x < 28:
		r.commit += rand.Uint64N(r.last - r.commit + 1)
		r.save(storage.Batch{Hard: hardState(r.term, r.commit)})
	case x < 33: // another leader replaces the end of the log
		r.term++
		first := r.commit + 1 + rand.Uint64N(r.last-r.commit+1)
		r.last = first + uint64(n) - 1
		r.save(storage.Batch{Entries: logEntries(r.term, first, n, rand.IntN(500)), Hard: hardState(r.term, r.commit)})
	case x < 35: // a snapshot from the leader
		r.term++
		r.snap = r.commit + 1 + rand.Uint64N(r.last-r.commit+10) // entries after it are discarded
		r.commit, r.last = r.snap, r.snap+uint64(n)
		r.save(storage.Batch{Snapshot: logSnapshot(r.term, r.snap), Hard: hardState(r.term, r.commit),
			Entries: logEntries(r.term, r.snap+1, n, rand.IntN(1500))})
	case x < 40:
		r.compact()
	case !r.compacting && r.group != 0: // the replica ends, and another of the group begins
		r.s.forgotten++
		r.save(storage.Batch{Forget: true})
		r.begin()
	}
}

// compact writes a snapshot of entries that are durable and committed.
func (r *scribed) compact() {
	durable := r.acked()
	i := int(durable.Hard.GetCommit()) - int(durable.Snapshot.Index()) - 1
	ending := slices.ContainsFunc(r.pending(), func(b storage.Batch) bool { return b.Forget })
	if r.compacting || ending || i < 0 || i >= len(durable.Entries) {
		return
	}
	own := logSnapshot(durable.Entries[i].GetTerm(), durable.Entries[i].GetIndex())
	r.compacting = true
	r.s.d.writeSnapshot(r.group, *own, func(err error) {
		if err != nil {
			r.s.t.Fatal(err)
		}
		r.compacting = false
		if own.Index() > r.snap {
			r.snap = own.Index()
			r.save(storage.Batch{Compact: own})
		}
	})
}

func (r *scribed) acked() storage.Saved { return saved(r.s.acked, r.group) }

func saved(m storage.Memory, group uint64) storage.Saved {
	groups, _ := m.Load() // never fails
	return groups[group]
}

// pending is what was saved of the group and not acknowledged.
func (r *scribed) pending() (own []storage.Batch) {
	for _, b := range r.s.pending {
		if b.Group == r.group {
			own = append(own, b)
		}
	}
	return own
}

// compare checks that the loaded log contains everything that was acknowledged, and a prefix of the rest. It returns 1
// if there is something of the rest.
func (r *scribed) compare(loaded storage.Saved) int {
	pending := r.pending()
	for batches := range len(pending) + 1 {
		count := 0
		if batches < len(pending) {
			count = len(pending[batches].Entries)
		}
		for entries := nothing; entries <= count; entries++ {
			if !sameLog(r.after(pending, batches, entries, loaded), loaded) {
				continue
			}
			r.compareState(loaded, pending)
			if batches > 0 || entries > nothing {
				return 1
			}
			return 0
		}
	}
	acked := r.acked()
	r.s.t.Fatalf(
		"the log of group %d, from %d to %d, holds no beginning of what was saved; acknowledged was %d to %d, "+
			"and then %d batches", r.group, loaded.Snapshot.Index(), lastOf(loaded), acked.Snapshot.Index(),
		lastOf(acked),
		len(pending))
	return 0
}

// sameLog compares logs without their hard states.
func sameLog(a, b storage.Saved) bool {
	return proto.Equal(a.Snapshot.Raft, b.Snapshot.Raft) && bytes.Equal(a.Snapshot.State, b.Snapshot.State) &&
		slices.EqualFunc(a.Entries, b.Entries, func(a, b *raftpb.Entry) bool {
			return a.GetIndex() == b.GetIndex() && a.GetTerm() == b.GetTerm() && bytes.Equal(a.GetData(), b.GetData())
		})
}

// What a log may have of a batch with less than all its entries: a number of them, or one of these.
const (
	nothing   = -2
	truncated = -1 // what the batch replaces is gone, and the snapshot is not in effect
)

// after returns the acknowledged log with this number of pending batches, and with this number of entries of the next
// batch.
func (r *scribed) after(pending []storage.Batch, batches, entries int, loaded storage.Saved) storage.Saved {
	var m storage.Memory
	save := func(b ...storage.Batch) {
		for i := range b {
			b[i].Group = r.group
		}
		if err := m.Save(b); err != nil {
			r.s.t.Fatal(err)
		}
	}
	if acked := r.acked(); acked.Hard != nil {
		save(storage.Batch{Hard: acked.Hard, Snapshot: &acked.Snapshot, Entries: acked.Entries})
	}
	save(slices.Clone(pending[:batches])...)
	if batches < len(pending) {
		next := pending[batches]
		switch {
		case entries == truncated:
			log := saved(m, r.group)
			if keep := r.kept(log, next); keep < len(log.Entries) {
				save(storage.Batch{Hard: log.Hard, Snapshot: &log.Snapshot, Entries: log.Entries[:keep]})
			}
		case entries >= 0:
			next.Entries = next.Entries[:entries]
			save(next)
		}
	}
	// A snapshot is valid as soon as it is written.
	log := saved(m, r.group)
	if i := loaded.Snapshot.Index(); i > log.Snapshot.Index() && i <= log.Hard.GetCommit() && i <= lastOf(log) {
		save(storage.Batch{Compact: &loaded.Snapshot})
	}
	return saved(m, r.group)
}

// kept is how many entries of a log a batch does not replace.
func (r *scribed) kept(log storage.Saved, b storage.Batch) int {
	end := lastOf(log)
	switch {
	case b.Snapshot != nil:
		end = min(end, b.Snapshot.Index())
	case len(b.Entries) > 0:
		end = min(end, b.Entries[0].GetIndex()-1)
	}
	return int(end - log.Snapshot.Index())
}

// compareState checks that the loaded term was saved, and is not older than the acknowledged one.
func (r *scribed) compareState(loaded storage.Saved, pending []storage.Batch) {
	acked := r.acked()
	least, term, commit := acked.Hard.GetTerm(), acked.Hard.GetTerm(), acked.Hard.GetCommit()
	for _, b := range pending {
		if b.Forget {
			least = 0
		}
		term, commit = max(term, b.Hard.GetTerm()), max(commit, b.Hard.GetCommit())
	}
	if h := loaded.Hard; h.GetTerm() < least || h.GetTerm() > term || h.GetCommit() > commit {
		r.s.t.Fatalf("the state of group %d is %v; acknowledged was %v, saved terms to %d and commits to %d", r.group,
			h,
			acked.Hard, term, commit)
	}
}

// TestDiskSurvivesKills: what was acknowledged in any group survives a process that ends at any moment, and with fsync
// a machine that does. Of the rest, a prefix survives.
func TestDiskSurvivesKills(t *testing.T) {
	torn, restarts, forgotten := map[bool]int{}, 0, 0
	eachDisk(t, 15, func(t *testing.T, d *disk) {
		s := newScribe(t, d)
		s.start()
		for range 12 {
			runTo(t, d.w, d.w.now+time.Duration(d.w.rand.IntN(60_000))*time.Microsecond)
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
		forgotten += s.forgotten
	})
	if torn[false] < 20 || torn[true] < 20 || forgotten < 20 {
		t.Errorf("of %d restarts only %d with the model and %d with files found a part of what was not acknowledged; "+
			"%d replicas ended", restarts, torn[false], torn[true], forgotten)
	}
}
