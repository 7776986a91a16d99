package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-sdn/holdfast/lab/rows"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
)

// storeNamespaces are those of a storeTrial.
var storeNamespaces = []string{"one", "two", "three"}

// storeTrial is clients of the store that work, while its user does harm to the cluster.
type storeTrial struct {
	storeClients
	c                 *testCluster
	stop              chan struct{}
	working, watching sync.WaitGroup
	watches           []watched
	moved             int
}

// startStoreTrial starts workers that read and write so many keys of each namespace, a watch of each, and somebody who
// moves them from group to group.
func startStoreTrial(c *testCluster, workers, keys int) *storeTrial {
	c.t.Helper()
	c.check(c.WaitHome(c.ctx))
	var addresses []string
	for _, n := range c.Controllers() {
		addresses = append(addresses, n.REST)
	}
	client := func(ns string, first int) *storeclient.Client {
		cl, err := storeclient.New(ns, slices.Concat(addresses[first%3:], addresses[:first%3])...)
		c.check(err)
		return cl
	}
	s := &storeTrial{c: c, stop: make(chan struct{}), watches: make([]watched, len(storeNamespaces))}
	s.storeClients = storeClients{t: c.t, began: time.Now(), keys: keys, counted: map[string]map[int64]bool{}}
	for i, ns := range storeNamespaces {
		for _, table := range []string{"rows", "counters"} {
			c.command("store", "create-table", table, "--namespace", ns)
		}
		cl := client(ns, i)
		s.watching.Go(func() { s.watches[i] = s.watch(c.ctx, ns, cl); cl.Close() })
	}
	var clients []*storeclient.Client // two of each namespace
	for i := range 2 * len(storeNamespaces) {
		clients = append(clients, client(storeNamespaces[i%len(storeNamespaces)], i/2))
	}
	var using sync.WaitGroup
	for i := range workers {
		at := i % len(clients)
		using.Go(func() { s.work(c.ctx, i, storeNamespaces[at%len(storeNamespaces)], clients[at], s.stop) })
	}
	s.working.Go(func() {
		using.Wait()
		for _, cl := range clients {
			cl.Close()
		}
	})
	s.working.Go(func() { s.moved = c.moveAround(storeNamespaces, s.stop) })
	return s
}

// finish stops the clients, and checks what they were told. It returns how often a watch was told that changes are
// forgotten.
func (s *storeTrial) finish() (gaps int) {
	c := s.c
	c.t.Helper()
	close(s.stop)
	s.working.Wait()
	for _, ns := range storeNamespaces {
		c.command("store", "put", "rows", lastKey, "end", "--namespace", ns)
	}
	s.watching.Wait()
	for i, ns := range storeNamespaces {
		s.checkWatch(ns, &s.watches[i])
		gaps += len(s.watches[i].gaps)
	}
	if result := porcupine.CheckOperationsTimeout(rows.Model, s.history, 5*time.Minute); result != porcupine.Ok {
		c.t.Errorf("%d operations are not linearizable: %s", len(s.history), result)
	}
	counts := 0
	for _, ns := range storeNamespaces {
		counts += len(s.counted[ns])
		want := fmt.Sprint(len(s.counted[ns]))
		if got := c.command("store", "get", "counters", "sum", "--namespace", ns); !strings.HasSuffix(got,
			"  "+want+"\n") {
			c.t.Errorf("namespace %s: %s writes of the counter were acknowledged: %s", ns, want, got)
		}
	}
	if s.moved == 0 {
		c.t.Error("no namespace has moved")
	}
	c.t.Logf("%d operations on rows, %d on counters, %d moves, %d gaps of watches, in %v", len(s.history), counts,
		s.moved, gaps, time.Since(s.began).Round(time.Second))
	return gaps
}

// storeClients are clients of several namespaces, with what they have done.
type storeClients struct {
	t       *testing.T
	began   time.Time
	keys    int
	mu      sync.Mutex // guards history and counted
	history []porcupine.Operation
	counted map[string]map[int64]bool // sums of the counter of each namespace
	total   atomic.Int64
}

// work reads and writes rows of a namespace until stop is closed.
func (s *storeClients) work(ctx context.Context, id int, ns string, c *storeclient.Client, stop <-chan struct{}) {
	versions := map[string]uint64{} // that it has seen
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprint("k", rand.IntN(s.keys))
		if rand.IntN(8) == 0 {
			s.count(ctx, ns, c)
			continue
		}
		in := rows.Draw(rand.IntN, ns+" "+key, fmt.Sprint(id, " ", n), versions[key])
		call := time.Since(s.began)
		r, err := c.Do(ctx, in.Op("rows", key))
		ended := time.Since(s.began)
		if refused, is := errors.AsType[*store.Error](err); is {
			r.Error = refused
		} else if err != nil {
			s.t.Error(err)
			return
		}
		out := rows.Answer(r)
		if r.Error == nil {
			versions[key] = out.Version
		}
		s.mu.Lock()
		s.history = append(s.history, porcupine.Operation{ClientId: id, Input: in, Call: int64(call), Output: out,
			Return: int64(ended)})
		s.mu.Unlock()
		s.total.Add(1)
	}
}

// count adds 1 to the counter of a namespace.
func (s *storeClients) count(ctx context.Context, ns string, c *storeclient.Client) {
	r, err := c.Do(ctx, store.Op{Kind: store.Add, Table: "counters", Key: "sum", Delta: 1})
	if err != nil {
		s.t.Error(err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted[ns] == nil {
		s.counted[ns] = map[int64]bool{}
	}
	if sum := r.Results[0].Value; s.counted[ns][sum] {
		s.t.Errorf("namespace %s: two clients were told the sum %d", ns, sum)
	} else {
		s.counted[ns][sum] = true
	}
}

// lastKey is the key of the row that is written last.
const lastKey = "last"

// watched is what a watch was told: changes by their revision, and what it was not, because no controller had it any
// more: from, to.
type watched struct {
	changes map[uint64]store.Change
	gaps    [][2]uint64
}

// watch watches a namespace until lastKey is written.
func (s *storeClients) watch(ctx context.Context, ns string, c *storeclient.Client) (w watched) {
	w.changes = map[uint64]store.Change{}
	for next := uint64(1); ; {
		after := next - 1
		for told, err := range c.Watch(ctx, "", "", after) {
			if refused, is := errors.AsType[*store.Error](err); is && refused.Code == store.Forgotten {
				break
			} else if err != nil {
				s.t.Errorf("watch of namespace %s: %v", ns, err)
				return w
			}
			for _, change := range told.Changes {
				if change.Revision != next {
					s.t.Errorf("watch of namespace %s: told revision %d where %d is next", ns, change.Revision, next)
					return w
				}
				next++
				if w.changes[change.Revision] = change; change.Key == lastKey {
					return w
				}
			}
		}
		_, open := c.Do(ctx, store.Op{Kind: store.Get, Table: "rows", Key: lastKey}) // not the end yet
		now, err := c.Do(ctx, store.Op{Kind: store.ListTables, Start: store.AfterAll})
		if err != nil {
			s.t.Errorf("watch of namespace %s: %v", ns, err)
			return w
		}
		w.gaps = append(w.gaps, [2]uint64{next, now.Revision})
		next = now.Revision + 1
		if open == nil {
			return w
		}
	}
}

// has reports whether a watch was told of a revision, or could not be.
func (w *watched) has(revision uint64) (change store.Change, told bool) {
	for _, gap := range w.gaps {
		if revision >= gap[0] && revision <= gap[1] {
			return change, false
		}
	}
	return w.changes[revision], true
}

// checkWatch checks that a watch was told all writes that were acknowledged, but for gaps.
func (s *storeClients) checkWatch(ns string, w *watched) {
	n := 0
	for _, o := range s.history {
		in, out := o.Input.(rows.Access), o.Output.(rows.Told)
		if out.Code != 0 || in.Kind == store.Get || !strings.HasPrefix(in.At, ns+" ") {
			continue
		}
		change, told := w.has(out.Version)
		if !told {
			continue
		}
		n++
		value, _ := change.Columns.Get(store.DefaultColumn)
		if ns+" "+change.Key != in.At || change.Removed != (in.Kind == store.Delete) ||
			!change.Removed && string(value) != in.Value {
			s.t.Errorf("namespace %s: %+v was acknowledged with %+v, and a watch was told %+v", ns, in, out, change)
			return
		}
	}
	if n == 0 || n > len(w.changes) {
		s.t.Errorf("namespace %s: %d writes were acknowledged, a watch was told %d", ns, n, len(w.changes))
	}
}

// moveAround moves the namespaces from group to group until stop is closed, and returns how often they have moved.
func (s *testCluster) moveAround(namespaces []string, stop <-chan struct{}) (moved int) {
	at := map[string]int{} // the group, as far as a command has said so
	for n := 0; ; n++ {
		select {
		case <-stop:
			return moved
		default:
		}
		ns, to := namespaces[n%len(namespaces)], 1+(n/len(namespaces)+n)%len(s.Controllers())
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second) // a controller may be dead
		_, err := s.Command(ctx, "move", store.Name, "--key", ns, fmt.Sprint(to))
		cancel()
		if err != nil {
			delete(at, ns)
			continue
		}
		if at[ns] != 0 && at[ns] != to {
			moved++
		}
		at[ns] = to
	}
}
