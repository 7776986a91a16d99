package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"golang.org/x/sys/unix"
)

const (
	minLatency  = 50 * time.Microsecond
	maxLatency  = 2 * time.Millisecond
	slowLatency = 300 * time.Millisecond
)

// errFull is what a write says while there is no space.
var errFull = fmt.Errorf("write the log: %w", unix.ENOSPC)

// backing is what a disk keeps, and how it fails when the process ends.
type backing interface {
	load() (map[uint64]storage.Saved, error)
	save(batches []storage.Batch) error
	writeSnapshot(group uint64, s storage.Snapshot) error
	// tear is the end of a process in the middle of save: a beginning of the batches is kept.
	tear(batches []storage.Batch, r *rand.Rand) error
	// tearSnapshot is the same in writeSnapshot, and comes before tear or stop.
	tearSnapshot(group uint64, s storage.Snapshot, r *rand.Rand) error
	// stop is the end of a process that saves nothing, or of one that was torn already.
	stop() error
	// reboot is a restart of the machine when nothing was synced.
	reboot() error
	// flip changes what is stored so that a checksum is wrong.
	flip(r *rand.Rand) error
	// remember notes what is stored; restore, after stop or tear, goes back to that.
	remember() error
	restore() error
	// remove frees everything.
	remove() error
}

// diskOptions say what a disk is like.
type diskOptions struct {
	real  bool // files of storage/disk, else a model of them
	fsync bool // what is saved survives the machine, else only the process
}

// disk is where a controller keeps its log. It survives the process.
type disk struct {
	w      *world
	p      *process
	fsync  bool
	back   backing
	most   time.Duration // of a save
	slowTo time.Duration
	fullTo time.Duration

	lying      bool
	remembered bool // something was said to be durable and is not

	// As long as the process lives.
	queue   []save // waits for the save that is under way
	saving  []save
	writing []*writing
	failed  bool
}

// writing is a snapshot of a group that is being stored.
type writing struct {
	group    uint64
	snapshot storage.Snapshot
}

type save struct {
	batches []storage.Batch
	done    func(error)
}

func newDisk(w *world, p *process, o diskOptions) *disk {
	d := &disk{w: w, p: p, fsync: o.fsync, most: minLatency + time.Duration(
		w.rand.Int64N(int64(maxLatency-minLatency)))}
	d.back = &modelDisk{}
	if o.real {
		back, err := newRealDisk(o.fsync)
		d.check(err)
		d.back = back
	}
	w.observe(d)
	return d
}

// check ends the run if the simulator itself cannot go on.
func (d *disk) check(err error) {
	if err != nil {
		d.w.fail("the disk of %s: %v", d.p.name, err)
	}
}

// format saves what a new member begins with.
func (d *disk) format(batches []storage.Batch) {
	if _, err := d.back.load(); err != nil {
		d.check(err)
		return
	}
	d.check(d.back.save(batches))
	d.check(d.back.stop())
}

// load returns what survived. It comes first when a process starts.
func (d *disk) load() (map[uint64]storage.Saved, error) { return d.back.load() }

// save makes the batches durable and then calls done in a step of the process. One save is under
// way at a time; what comes meanwhile goes together with the next one. After an error nothing is saved.
func (d *disk) save(batches []storage.Batch, done func(error)) {
	if !d.p.up || d.failed {
		return
	}
	d.queue = append(d.queue, save{append([]storage.Batch(nil), batches...), done})
	if d.saving == nil {
		d.begin()
	}
}

// savePrompt makes batches durable at once, in most cases, if that needs no fsync and no save is under way or waits.
func (d *disk) savePrompt(batches []storage.Batch) bool {
	busy := d.saving != nil || len(d.queue) > 0 || !d.p.up || d.failed
	if len(batches) == 0 || d.fsync || busy || d.isFull() || d.w.now < d.slowTo || d.w.rand.IntN(8) == 0 {
		return false
	}
	d.lieOrNot()
	d.check(d.back.save(batches))
	return true
}

func (d *disk) begin() {
	d.saving, d.queue = d.queue, nil
	d.p.after(d.latency(), d.finish)
}

func (d *disk) latency() time.Duration {
	most := d.most
	if d.w.now < d.slowTo {
		most = slowLatency
	}
	return minLatency + time.Duration(d.w.rand.Int64N(int64(most)))
}

func (d *disk) isFull() bool { return d.w.now < d.fullTo }

// finish ends the save under way, and begins the next.
func (d *disk) finish() {
	group := d.saving
	if d.failed {
		return
	}
	var err error
	if d.isFull() {
		d.failed, err = true, errFull
		d.check(d.back.tear(batches(group), d.w.rand))
	} else {
		d.lieOrNot()
		d.check(d.back.save(batches(group)))
	}
	d.saving = group[:0] // what comes now waits until all have heard
	incarnation := d.p.incarnation
	for _, s := range group {
		if s.done(err); d.p.incarnation != incarnation {
			return
		}
	}
	if d.saving = nil; len(d.queue) > 0 && !d.failed {
		d.begin()
	}
}

func batches(group []save) (all []storage.Batch) {
	for _, s := range group {
		all = append(all, s.batches...)
	}
	return all
}

// lieOrNot notes what is durable before the first save that is not.
func (d *disk) lieOrNot() {
	if d.lying && !d.remembered {
		d.check(d.back.remember())
	}
	d.remembered = d.lying
}

// writeSnapshot stores a snapshot of a group beside the log, which may be saved meanwhile, and then calls done in a
// step of the process.
func (d *disk) writeSnapshot(group uint64, s storage.Snapshot, done func(error)) {
	if !d.p.up || d.failed {
		return
	}
	w := &writing{group, s}
	d.writing = append(d.writing, w)
	d.p.after(d.latency(), func() {
		d.writing = slices.DeleteFunc(slices.Clone(d.writing), func(o *writing) bool { return o == w })
		switch {
		case d.failed:
		case d.isFull():
			d.failed = true
			done(errFull)
		default:
			d.check(d.back.writeSnapshot(group, s))
			done(nil)
		}
	})
}

// started is the beginning of a process; it has loaded its log.
func (d *disk) started(*process) {}

// killed loses what was not saved; with the machine, what only seemed to be.
func (d *disk) killed(p *process, power bool) {
	if p != d.p {
		return
	}
	if p.up {
		d.check(d.crash())
	}
	d.queue, d.saving, d.writing, d.failed = nil, nil, nil, false
	if power && d.remembered {
		d.check(d.back.restore())
		d.remembered = false
	}
	if power && !d.fsync {
		d.check(d.back.reboot())
	}
}

func (d *disk) crash() (err error) {
	for _, w := range d.writing {
		err = errors.Join(err, d.back.tearSnapshot(w.group, w.snapshot, d.w.rand))
	}
	if len(d.saving) == 0 || d.failed {
		return errors.Join(err, d.back.stop())
	}
	d.w.note(d.p, "ends while it saves %d batches", len(d.saving))
	return errors.Join(err, d.back.tear(batches(d.saving), d.w.rand))
}

// slow lets saves take long for some time, and full lets them fail; heal ends both.
func (d *disk) slow(length time.Duration) { d.slowTo = max(d.slowTo, d.w.now+length) }
func (d *disk) full(length time.Duration) { d.fullTo = max(d.fullTo, d.w.now+length) }
func (d *disk) heal()                     { d.slowTo, d.fullTo = 0, 0 }

// corrupt flips a byte of what was saved, while the process is down. The log cannot be loaded then.
func (d *disk) corrupt() {
	if !d.p.up {
		d.check(d.back.flip(d.w.rand))
	}
}

// lie lets save say done while nothing is durable: until a save which does not lie, a machine
// that loses power loses all of it.
func (d *disk) lie(lying bool) { d.lying = lying }

// close frees what the disk holds.
func (d *disk) close() { d.check(d.back.remove()) }
