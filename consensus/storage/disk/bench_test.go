package disk

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/consensus/storage"
	"go.etcd.io/raft/v3/raftpb"
)

// BenchmarkGroups compares one log for all groups of a controller with a log for each, on a disk that syncs. Each group
// saves an entry of 256 bytes as soon as its last one is durable. p50-µs is how long that takes.
func BenchmarkGroups(b *testing.B) {
	as(b, 64<<20) // the usual length
	for _, n := range []int{1, 3, 9} {
		for _, shared := range []bool{true, false} {
			name := fmt.Sprintf("groups=%d/log=each", n)
			if shared {
				name = fmt.Sprintf("groups=%d/log=one", n)
			}
			b.Run(name, func(b *testing.B) { benchmarkGroups(b, n, shared) })
		}
	}
}

func benchmarkGroups(b *testing.B, n int, shared bool) {
	logs := make([]*queue, n)
	for i := range logs {
		if shared && i > 0 {
			logs[i] = logs[0]
			continue
		}
		logs[i] = newQueue(b)
		defer logs[i].close(b)
	}
	for i, l := range logs {
		must(b, l.d.Save([]storage.Batch{{Group: uint64(i), Snapshot: snapshot(1, 1, ""), Hard: hard(1, 0, 1)}}))
	}
	took := make([][]time.Duration, n)
	var writers sync.WaitGroup
	b.ResetTimer()
	for i, l := range logs {
		writers.Go(func() {
			data := make([]byte, 256)
			for k := range uint64(b.N/n + 1) {
				begin := time.Now()
				e := &raftpb.Entry{Term: new(uint64(1)), Index: new(k + 2), Data: data}
				l.save(storage.Batch{Group: uint64(i), Entries: []*raftpb.Entry{e}, Hard: hard(1, 0, k+1)})
				took[i] = append(took[i], time.Since(begin))
			}
		})
	}
	writers.Wait()
	b.StopTimer()
	all := slices.Concat(took...)
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
}

// queue saves what waits together, as consensus does.
type queue struct {
	d       *Disk
	mu      sync.Mutex
	batches []storage.Batch
	told    chan struct{} // closed when they are durable
	wake    chan struct{}
	ended   chan error
}

func newQueue(b *testing.B) *queue {
	d, err := Open(b.TempDir(), owner, true, quiet())
	must(b, err)
	_, err = d.Load()
	must(b, err)
	q := &queue{d: d, told: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan error, 1)}
	go func() { q.ended <- q.run() }()
	return q
}

func (q *queue) save(batch storage.Batch) {
	q.mu.Lock()
	q.batches = append(q.batches, batch)
	told := q.told
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
	<-told
}

func (q *queue) run() error {
	for range q.wake {
		q.mu.Lock()
		batches, told := q.batches, q.told
		q.batches, q.told = nil, make(chan struct{})
		q.mu.Unlock()
		if len(batches) == 0 {
			continue
		}
		if err := q.d.Save(batches); err != nil {
			return err
		}
		close(told)
	}
	return nil
}

func (q *queue) close(b *testing.B) {
	close(q.wake)
	must(b, <-q.ended)
	must(b, q.d.Close())
}
