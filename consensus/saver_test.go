package consensus

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// gate is a storage whose saves wait.
type gate struct {
	storage.Memory
	saves chan []storage.Batch // begun
	end   chan error           // ends the oldest of them
}

func (g *gate) Save(batches []storage.Batch) error {
	g.saves <- append([]storage.Batch(nil), batches...)
	if err := <-g.end; err != nil {
		return err
	}
	return g.Memory.Save(batches)
}

func stored(in *inbox) int {
	var t turn
	in.take(&t, false)
	return t.stored
}

// TestSaverSharedByGroups: batches of all groups that wait become durable together, and each group is told about its
// own.
func TestSaverSharedByGroups(t *testing.T) {
	g := &gate{saves: make(chan []storage.Batch, 1), end: make(chan error)}
	failed := make(chan error, 1)
	s := newSaver(g, time.Hour, func(err error) { failed <- err })
	ended := make(chan struct{})
	go func() { defer close(ended); s.run() }()
	a, b := newInbox(), newInbox()
	batch := func(group, index uint64) storage.Batch {
		return storage.Batch{Group: group, Entries: []*raftpb.Entry{{Index: &index, Term: &index}}}
	}
	s.add(a, []storage.Batch{batch(1, 1)})
	<-g.saves
	s.add(b, []storage.Batch{batch(2, 1), batch(2, 2)})
	s.add(a, []storage.Batch{batch(1, 2)})
	s.add(b, []storage.Batch{batch(2, 3)})
	if n := stored(a) + stored(b); n != 0 {
		t.Errorf("%d batches are reported before the first save has ended", n)
	}
	g.end <- nil
	if second := <-g.saves; len(second) != 4 || second[0].Group != 2 || second[2].Group != 1 || second[3].Group != 2 {
		t.Errorf("the second save has %v", second)
	}
	if n, other := stored(a), stored(b); n != 1 || other != 0 {
		t.Errorf("%d and %d batches are reported after the first save", n, other)
	}
	g.end <- nil
	s.add(a, []storage.Batch{batch(1, 3)})
	<-g.saves // the second has been reported
	if n, other := stored(a), stored(b); n != 1 || other != 3 {
		t.Errorf("%d and %d batches are reported after the second save", n, other)
	}
	broken := errors.New("broken")
	g.end <- broken
	<-ended
	if err := <-failed; !errors.Is(err, broken) || stored(a) != 0 {
		t.Errorf("the saver failed with %v", err)
	}
	if saved, _ := g.Load(); len(saved[1].Entries) != 2 || len(saved[2].Entries) != 3 {
		t.Errorf("saved is %v", saved)
	}
}
