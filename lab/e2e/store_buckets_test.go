package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
)

// bucketTrial is clients of a namespace with buckets, with what they were told.
type bucketTrial struct {
	t    *testing.T
	ns   string
	done atomic.Int64

	mu   sync.Mutex                // guards sums
	sums map[string]map[int64]bool // of each counter, that were told
}

// TestStoreBuckets: clients add to counters of a namespace with buckets, which live in all groups, while one controller
// after the other is killed, and two of the buckets move. Each sum is told once, and a watch is told each change once,
// those of a bucket in order.
func TestStoreBuckets(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}, Sections: "groups: per-controller\n"})
	c.expectDeaths()
	c.check(c.WaitHome(c.ctx))
	var addresses []string
	for _, n := range c.Controllers() {
		addresses = append(addresses, n.REST)
	}
	s := &bucketTrial{t: t, ns: "x/8", sums: map[string]map[int64]bool{}}
	client := func(first int) *storeclient.Client {
		cl, err := storeclient.New(s.ns, slices.Concat(addresses[first:], addresses[:first])...)
		c.check(err)
		return cl
	}
	c.command("store", "create-table", "counters", "--namespace", s.ns)
	var watching, working sync.WaitGroup
	told := map[string]int{}
	watching.Go(func() {
		cl := client(0)
		defer cl.Close()
		told = s.watch(c.ctx, cl)
	})
	stop := make(chan struct{})
	for i := range 3 {
		cl := client(i)
		var adding sync.WaitGroup
		for n := range 4 {
			adding.Go(func() { s.add(c.ctx, cl, 4*i+n, stop) })
		}
		working.Go(func() { adding.Wait(); cl.Close() })
	}
	working.Go(func() { c.moveAround([]string{store.BucketName(s.ns, 1), store.BucketName(s.ns, 5)}, stop) })
	c.killInTurn(3, &s.done, 200)
	close(stop)
	working.Wait()
	c.command("store", "put", "counters", lastKey, "0", "--namespace", s.ns)
	watching.Wait()
	list := c.command("store", "list", "counters", "--namespace", s.ns)
	for key, sums := range s.sums {
		want := len(sums)
		if !slices.ContainsFunc(strings.Split(list, "\n"), func(line string) bool {
			f := strings.Fields(line)
			return len(f) == 3 && f[0] == key && f[2] == fmt.Sprint(want)
		}) || told[key] != want {
			t.Errorf("%d additions to %s were acknowledged, and a watch was told %d: %s", want, key, told[key], list)
		}
	}
	s.checkGroups(c, client(0))
	t.Logf("%d additions", s.done.Load())
}

// add adds to counters until stop is closed.
func (s *bucketTrial) add(ctx context.Context, c *storeclient.Client, id int, stop <-chan struct{}) {
	for n := id; ; n++ {
		select {
		case <-stop:
			return
		default:
		}
		key := fmt.Sprint("k", n%24)
		out, err := c.Do(ctx, store.Op{Kind: store.Add, Table: "counters", Key: key, Delta: 1})
		if err != nil {
			s.t.Error(err)
			return
		}
		s.mu.Lock()
		if s.sums[key] == nil {
			s.sums[key] = map[int64]bool{}
		}
		if sum := out.Results[0].Value; s.sums[key][sum] {
			s.t.Errorf("two clients were told the sum %d of %s", sum, key)
		} else {
			s.sums[key][sum] = true
		}
		s.mu.Unlock()
		s.done.Add(1)
	}
}

// watch watches until lastKey is written and everything in the other buckets was told too, and returns how often each
// row has changed.
func (s *bucketTrial) watch(ctx context.Context, c *storeclient.Client) map[string]int {
	next, rows := make([]uint64, store.Buckets(s.ns)), map[string]int{}
	var last []uint64 // the revisions at the end
	for told, err := range c.Watch(ctx, "", "", next...) {
		if err != nil {
			s.t.Error("watch:", err)
			return rows
		}
		for _, change := range told.Changes {
			if next[told.Bucket]++; change.Revision != next[told.Bucket] {
				s.t.Errorf("watch of bucket %d: told revision %d where %d is next", told.Bucket, change.Revision,
					next[told.Bucket])
				return rows
			}
			if rows[change.Key]++; change.Key == lastKey {
				out, err := c.Do(ctx, store.Op{Kind: store.List, Table: "counters", Limit: 1})
				if err != nil {
					s.t.Error("list:", err)
					return rows
				}
				last = out.Revisions
			}
		}
		if last != nil && slices.Equal(last, next) {
			return rows
		}
	}
	return rows
}

// checkGroups checks that the buckets are in all groups.
func (s *bucketTrial) checkGroups(c *testCluster, cl *storeclient.Client) {
	c.t.Helper()
	defer cl.Close()
	for key := range s.sums { // a leader shows the actors that have had inputs there, and may be new
		_, err := cl.Do(c.ctx, store.Op{Kind: store.Add, Table: "counters", Key: key})
		c.check(err)
	}
	await.Until(c.t, "buckets in each group", func() bool {
		groups := map[string]bool{}
		for line := range strings.Lines(c.command("actors", "--top", "0")) {
			if f := strings.Fields(line); len(f) > 3 && strings.HasPrefix(f[2], s.ns+"/") {
				groups[f[3]] = true
			}
		}
		return len(groups) == len(c.Controllers())
	})
}
