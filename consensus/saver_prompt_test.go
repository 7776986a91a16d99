package consensus

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"go.etcd.io/raft/v3/raftpb"
)

// prompt is a storage that saves what has at most one entry without waiting, or with the given error.
type prompt struct {
	storage.Memory
	takes time.Duration
	err   error
	marks chan struct{}
}

func (p *prompt) SavePrompt(batches []storage.Batch) (bool, error) {
	if len(batches[0].Entries) > 1 {
		return false, nil
	}
	time.Sleep(p.takes)
	if p.err != nil {
		return true, p.err
	}
	return true, p.Save(batches)
}

func (p *prompt) Mark() error {
	p.marks <- struct{}{}
	return nil
}

func entriesAt(indexes ...uint64) []storage.Batch {
	b := storage.Batch{Group: 1}
	for _, i := range indexes {
		b.Entries = append(b.Entries, &raftpb.Entry{Index: &i, Term: &i})
	}
	return []storage.Batch{b}
}

func running(t *testing.T, store storage.Storage, interval time.Duration, failed func(error)) *saver {
	s := newSaver(store, interval, failed)
	ended := make(chan struct{})
	go func() { defer close(ended); s.run() }()
	t.Cleanup(func() { s.stop(); <-ended })
	return s
}

// What is saved at once is not reported by the saver, and makes a Mark due. While somebody else uses the storage, or if
// the storage would wait, nothing is saved at once.
func TestSaveNow(t *testing.T) {
	p := &prompt{marks: make(chan struct{})}
	s := running(t, p, 10*time.Millisecond, func(err error) { t.Error(err) })
	<-p.marks // of a log to which nothing is added; there is no other
	select {
	case <-p.marks:
		t.Error("a log that has not changed is marked twice")
	case <-time.After(50 * time.Millisecond):
	}
	if !s.addNow(entriesAt(1)) {
		t.Error("a batch is not saved at once")
	}
	<-p.marks
	if s.addNow(entriesAt(2, 3)) {
		t.Error("a batch for which the storage waits is saved at once")
	}
	in := newInbox()
	s.add(in, entriesAt(2, 3))
	<-in.wake
	if n := stored(in); n != 1 {
		t.Errorf("%d batches reported", n)
	}
	<-p.marks
	s.turn.Lock()
	if s.addNow(entriesAt(4)) {
		t.Error("a batch is saved while the storage is in use")
	}
	s.turn.Unlock()
	if saved, _ := p.Load(); len(saved[1].Entries) != 3 {
		t.Errorf("%d entries are saved", len(saved[1].Entries))
	}
}

// After an error nothing is saved any more, whoever comes first.
func TestSaveNowFails(t *testing.T) {
	broken := errors.New("broken")
	p := &prompt{err: broken}
	failed := make(chan error, 2)
	s := running(t, p, time.Hour, func(err error) { failed <- err })
	if s.addNow(entriesAt(1)) || !errors.Is(<-failed, broken) {
		t.Error("an error is not reported")
	}
	p.err = nil
	if s.addNow(entriesAt(1)) {
		t.Error("saved after an error")
	}
	in := newInbox()
	s.add(in, entriesAt(1))
	time.Sleep(20 * time.Millisecond)
	if saved, _ := p.Load(); len(saved) > 0 || stored(in) > 0 || len(failed) > 0 {
		t.Errorf("after an error %v is saved", saved)
	}
}

// A storage that waits although it says that it does not is left to the saver for some time.
func TestSaveNowIsSlow(t *testing.T) {
	p := &prompt{takes: slowSave}
	s := running(t, p, time.Hour, func(err error) { t.Error(err) })
	if !s.addNow(entriesAt(1)) || s.addNow(entriesAt(2)) {
		t.Error("a slow storage delays the loop again")
	}
}

// withoutSaver returns a replica that leads, and whose storage is prompt. What is passed to its saver is not saved.
func withoutSaver(t *testing.T) (n *Node, o *owner, term uint64) {
	t.Helper()
	h, err := NewHost(HostConfig{ID: 1, Storage: &prompt{marks: make(chan struct{}, 100)}, Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if n, err = h.Start(GroupConfig{Members: map[uint64]string{1: ""}}); err != nil {
		t.Fatal(err)
	}
	o = own(n)
	term = o.leads(t)
	h.saver.mu.Lock()
	h.saver.closed = true
	h.saver.mu.Unlock()
	return n, o, term
}

// A replica whose storage is prompt commits, and its saver has nothing to do.
func TestSaveNowInTheLoop(t *testing.T) {
	n, o, term := withoutSaver(t)
	for range 10 {
		if err := n.Propose(term, []byte("x")); err != nil {
			t.Fatal(err)
		}
		o.entry(t)
	}
}

// What follows a batch that waits is not saved before it.
func TestSaveNowKeepsOrder(t *testing.T) {
	n, _, term := withoutSaver(t)
	before := n.Status().Committed
	held, begun := make(chan struct{}), make(chan struct{})
	if err := n.inbox.call(func(*Core) { close(begun); <-held }); err != nil {
		t.Fatal(err)
	}
	await.End(t, "the wait for a turn", begun)
	for range 2 { // become one batch, which is passed to the saver
		if err := n.Propose(term, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	close(held)
	for range 3 {
		_ = n.do(func(*Core) error { return nil }) // a turn
	}
	if err := n.Propose(term, []byte("y")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_ = n.do(func(*Core) error { return nil })
	}
	if now := n.Status().Committed; now != before || n.Err() != nil {
		t.Errorf("entries %d to %d are committed and not saved: %v", before+1, now, n.Err())
	}
}
