package shells

import (
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/lab/sim"
)

// disk keeps the log of a controller over its lives. It is safe for concurrent use.
type disk struct {
	mu      sync.Mutex // guards the fields below; held for copies only
	rand    *rand.Rand
	log     storage.Memory
	latency time.Duration
	full    bool
	failed  bool // a write failed since the last start: the controller ends
}

func newDisk(seed uint64) *disk {
	r := rand.New(rand.NewPCG(seed, 3))
	return &disk{rand: r, latency: 50*time.Microsecond + time.Duration(r.Int64N(int64(2*time.Millisecond)))}
}

func (d *disk) set(change func(*disk)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// wasFull reports whether a write has failed: then the controller ends by itself.
func (d *disk) wasFull() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failed
}

// mount is the disk as one life of a controller has it. It implements storage.Storage.
type mount struct {
	d       *disk
	dead    bool                                    // guarded by d.mu
	pending []storage.Batch                         // a write that is under way; guarded by d.mu
	loaded  func(group, index uint64, state []byte) // a snapshot that this life begins with
	took    func(group, index uint64, state []byte) // one of the leader's
	wrote   func(group, index uint64, state []byte) // one of its own
}

// kill is the end of the process: of a write that is under way the disk has a beginning.
func (m *mount) kill() {
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	if !m.dead && len(m.pending) > 0 {
		_ = m.d.log.Save(sim.Beginning(m.pending, m.d.rand)) // of batches in order, which fail only with a gap
	}
	m.dead = true
}

// Load implements storage.Storage.
func (m *mount) Load() (map[uint64]storage.Saved, error) {
	m.d.mu.Lock()
	groups, err := m.d.log.Load()
	m.d.mu.Unlock()
	for group, saved := range groups {
		if err == nil && saved.Snapshot.Index() > 0 && saved.Snapshot.State != nil {
			m.loaded(group, saved.Snapshot.Index(), saved.Snapshot.State)
		}
	}
	return groups, err
}

// Save implements storage.Storage.
func (m *mount) Save(batches []storage.Batch) error {
	for _, b := range batches {
		if b.Snapshot != nil && b.Snapshot.State != nil {
			m.took(b.Group, b.Snapshot.Index(), b.Snapshot.State)
		}
	}
	m.d.mu.Lock()
	latency := m.d.latency
	m.pending = append([]storage.Batch(nil), batches...)
	m.d.mu.Unlock()
	time.Sleep(latency)
	m.d.mu.Lock()
	defer m.d.mu.Unlock()
	m.pending = nil
	switch {
	case m.dead:
		return errDead
	case m.d.full:
		m.d.failed = true
		return syscall.ENOSPC
	}
	return m.d.log.Save(batches)
}

// WriteSnapshot implements storage.Storage.
func (m *mount) WriteSnapshot(group uint64, s storage.Snapshot) error {
	m.d.mu.Lock()
	latency, full, dead := m.d.latency, m.d.full, m.dead
	m.d.failed = m.d.failed || full && !dead
	m.d.mu.Unlock()
	time.Sleep(latency)
	switch {
	case dead:
		return errDead
	case full:
		return syscall.ENOSPC
	}
	m.wrote(group, s.Index(), s.State)
	return nil
}

// Mark implements storage.Storage.
func (m *mount) Mark() error { return nil }

// Close implements storage.Storage.
func (m *mount) Close() error { return nil }
