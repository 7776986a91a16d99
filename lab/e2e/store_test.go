package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/rows"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
	storerpc "github.com/holdfast-sdn/holdfast/store/rpc"
)

// storeClients are clients of several namespaces, with what they have done.
type storeClients struct {
	t       *testing.T
	began   time.Time
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
		key := fmt.Sprint("k", rand.IntN(3))
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

// watch watches a namespace until lastKey is written, and returns all changes by their revision.
func (s *storeClients) watch(ctx context.Context, ns string, c *storeclient.Client) map[uint64]store.Change {
	all := map[uint64]store.Change{}
	after, next := uint64(0), uint64(1)
	for told, err := range c.Watch(ctx, "", "", &after) {
		if err != nil {
			s.t.Errorf("watch of namespace %s: %v", ns, err)
			return nil
		}
		for _, change := range told.Changes {
			if change.Revision != next {
				s.t.Errorf("watch of namespace %s: told revision %d where %d is next", ns, change.Revision, next)
				return nil
			}
			next++
			all[change.Revision] = change
			if change.Key == lastKey {
				return all
			}
		}
	}
	s.t.Errorf("the watch of namespace %s ended", ns)
	return nil
}

// checkWatch checks that a watch was told all writes that were acknowledged.
func (s *storeClients) checkWatch(ns string, all map[uint64]store.Change) {
	n := 0
	for _, o := range s.history {
		in, out := o.Input.(rows.Access), o.Output.(rows.Told)
		if out.Code != 0 || in.Kind == store.Get || !strings.HasPrefix(in.At, ns+" ") {
			continue
		}
		n++
		change := all[out.Version]
		value, _ := change.Columns.Get(store.DefaultColumn)
		if ns+" "+change.Key != in.At || change.Removed != (in.Kind == store.Delete) ||
			!change.Removed && string(value) != in.Value {
			s.t.Errorf("namespace %s: %+v was acknowledged with %+v, and a watch was told %+v", ns, in, out, change)
			return
		}
	}
	if n == 0 || n > len(all) {
		s.t.Errorf("namespace %s: %d writes were acknowledged, a watch was told %d", ns, n, len(all))
	}
}

// moveAround moves the namespaces from group to group until stop is closed, and returns how often that succeeded.
func (s *testCluster) moveAround(namespaces []string, stop <-chan struct{}) (moved int) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return moved
		default:
		}
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second) // a controller may be dead
		_, err := s.Command(ctx, "move", store.Name, "--key", namespaces[n%len(namespaces)],
			fmt.Sprint(1+(n/len(namespaces)+n)%len(s.Controllers())))
		cancel()
		if err == nil {
			moved++
		}
	}
}

// TestStoreKill: clients read and write rows of several namespaces, which live in different groups and move, while one
// controller after the other is killed. What they see is linearizable, each write took effect once, and watches are
// told each once and in order.
func TestStoreKill(t *testing.T) {
	t.Parallel()
	const clients, kills = 6, 3
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}, Sections: "groups: per-controller\n"})
	c.expectDeaths()
	c.check(c.WaitHome(c.ctx))
	var addresses []string
	for _, n := range c.Controllers() {
		addresses = append(addresses, n.REST)
	}
	namespaces := []string{"one", "two", "three"}
	for _, ns := range namespaces {
		for _, table := range []string{"rows", "counters"} {
			c.command("store", "create-table", table, "--namespace", ns)
		}
	}
	s := &storeClients{t: t, began: time.Now(), counted: map[string]map[int64]bool{}}
	stop := make(chan struct{})
	var working, watching sync.WaitGroup
	for i := range clients {
		ns := namespaces[i%len(namespaces)]
		cl, err := storeclient.New(ns, slices.Concat(addresses[i%3:], addresses[:i%3])...)
		c.check(err)
		working.Go(func() { s.work(c.ctx, i, ns, cl, stop); cl.Close() })
	}
	watches := make([]map[uint64]store.Change, len(namespaces))
	for i, ns := range namespaces {
		cl, err := storeclient.New(ns, addresses...)
		c.check(err)
		watching.Go(func() { watches[i] = s.watch(c.ctx, ns, cl); cl.Close() })
	}
	moved := 0
	working.Go(func() { moved = c.moveAround(namespaces, stop) })
	c.killInTurn(kills, &s.total, 200)
	close(stop)
	working.Wait()
	for _, ns := range namespaces {
		c.command("store", "put", "rows", lastKey, "end", "--namespace", ns)
	}
	watching.Wait()
	for i, ns := range namespaces {
		s.checkWatch(ns, watches[i])
	}
	if result, _ := porcupine.CheckOperationsVerbose(rows.Model, s.history, time.Minute); result !=
		porcupine.Ok {
		t.Errorf("%d operations are not linearizable: %s", len(s.history), result)
	}
	for _, ns := range namespaces {
		want := fmt.Sprint(len(s.counted[ns]))
		if got := c.command("store", "get", "counters", "sum", "--namespace", ns); !strings.HasSuffix(got,
			"  "+want+"\n") {
			t.Errorf("namespace %s: %s writes of the counter were acknowledged: %s", ns, want, got)
		}
	}
	if moved == 0 {
		t.Error("no namespace has moved")
	}
	t.Logf("%d operations, %d moves, counters %d, %d, %d", len(s.history), moved, len(s.counted["one"]), len(s.counted["two"]),
		len(s.counted["three"]))
}

// TestStoreAge: reads at any controller that may be somewhat old are not older, while the leader is killed.
func TestStoreAge(t *testing.T) {
	t.Parallel()
	const maxAge = 100 * time.Millisecond
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}})
	c.expectDeaths()
	var addresses []string
	for _, n := range c.Controllers() {
		addresses = append(addresses, n.REST)
	}
	c.command("store", "create-table", "counters")
	writes, err := storeclient.New("default", addresses...)
	c.check(err)
	defer writes.Close()
	type wrote struct {
		sum int64
		at  time.Time
	}
	var mu sync.Mutex // guards written
	var written []wrote
	var done atomic.Int64
	stop := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for ended := false; !ended; {
			out, err := writes.Do(c.ctx, store.Op{Kind: store.Add, Table: "counters", Key: "sum", Delta: 1})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			written = append(written, wrote{out.Results[0].Value, time.Now()})
			mu.Unlock()
			select {
			case <-stop:
				ended = true
			case <-time.After(time.Millisecond):
			}
		}
	})
	via := storerpc.Transport(nil)
	defer via.CloseIdleConnections()
	for _, address := range addresses {
		on := storerpc.NewCaller(via, address)
		working.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				out, err := on.Do(c.ctx, &store.Request{Namespace: "default", MaxAge: uint32(maxAge.Milliseconds()),
					Transactions: [][]store.Op{{{Kind: store.Get, Table: "counters", Key: "sum"}}}})
				if err != nil || out.Error != nil || out.Outcomes[0].Error != nil {
					time.Sleep(time.Millisecond) // it is dead, nobody leads, or nothing was written yet
					continue
				}
				value, _ := out.Outcomes[0].Results[0].Row.Columns.Get(store.DefaultColumn)
				mu.Lock()
				i, _ := slices.BinarySearchFunc(written, began.Add(-maxAge), func(w wrote, at time.Time) int {
					return w.at.Compare(at)
				})
				if i > 0 && string(value) != "" {
					if sum, err := strconv.ParseInt(string(value), 10, 64); err != nil || sum < written[i-1].sum {
						t.Errorf("%s told the sum %s (%v), which was %d more than %v before", address, value, err,
							written[i-1].sum, maxAge)
					}
				}
				mu.Unlock()
				done.Add(1)
			}
		})
	}
	c.killInTurn(3, &done, 500)
	close(stop)
	working.Wait()
}

// TestStorePython: clients in Python add to a counter, and watch it, while one controller after the other is killed.
// Each sum is told once, and none is missing.
func TestStorePython(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}})
	c.expectDeaths()
	args := []string{filepath.Join("testdata", "store.py")}
	for _, n := range c.Controllers() {
		args = append(args, n.REST)
	}
	cmd := exec.CommandContext(c.ctx, "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join("..", "..", "python"))
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	c.check(err)
	out, err := cmd.StdoutPipe()
	c.check(err)
	c.check(cmd.Start())
	var done atomic.Int64
	var last string
	var reading sync.WaitGroup
	reading.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); done.Add(1) {
			last = lines.Text()
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, said.String())
		}
	})
	c.killInTurn(3, &done, 20)
	c.check(in.Close())
	reading.Wait()
	var told struct {
		Sums, Watched []int
		Value         int
	}
	c.check(json.Unmarshal([]byte(last), &told))
	slices.Sort(told.Sums)
	for i, sum := range told.Sums {
		if sum != i+1 {
			t.Fatalf("after %d they were told the sum %d", i, sum)
		}
	}
	if !slices.Equal(told.Watched, told.Sums) {
		t.Errorf("a watch was told the sums %v", told.Watched)
	}
	if told.Value != len(told.Sums) {
		t.Errorf("the counter is %d, and %d sums were told", told.Value, len(told.Sums))
	}
}

// TestStoreCommands: what the commands of the store print.
func TestStoreCommands(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}})
	for _, step := range []struct{ command, want string }{
		{"create-table hosts mac port", "version 1\n"},
		{"create-table addresses mac --refers-to hosts", "version 2\n"},
		{"put hosts m1 mac=00:00 port=7", "version 3\n"},
		{"put addresses 10.0.0.1 mac=m1", "version 4\n"},
		{"get addresses 10.0.0.1 --resolve", "KEY  VERSION  mac    port\nm1   3        00:00  7\n"},
		{"put hosts m1 port=8 --update --if-version 3", "version 5\n"},
		{"put hosts m1 port=9 --update --if-version 3", "the row has version 5, not 3"},
		{"get hosts m1 port", "KEY  VERSION  port\nm1   5        8\n"},
		{"create-table counters", "version 6\n"},
		{"add counters boots 2", "2\n"},
		{"add counters boots 3", "5\n"},
		{"tables", "TABLE      VERSION  COLUMNS   REFERS TO\naddresses  2        mac       hosts (by mac)\n" +
			"counters   6        value     -\nhosts      1        mac port  -\n"},
		{"list hosts --limit 1", "KEY  VERSION  mac    port\nm1   5        00:00  8\n"},
		{"get counters boots --json", `"value": "NQ=="`},
		{"delete hosts m1 --if-version 5", "version 9\n"},
		{"get hosts m1", `there is no row "m1"`},
		{"drop-table hosts", "version 10\n"},
		{"list hosts", `there is no table "hosts" in namespace default`},
		{"upload testdata/robin.star", "version 11\n"},
		{"put counters pool a,b --create", "version 12\n"},
		{"run robin pool=pool", "member=a\n"},
		{"run robin pool=pool", "member=b\n"},
		{"run robin pool=none", "component robin: line 7: there is no pool none"},
		{"components", "COMPONENT  VERSION  BYTES\nrobin      11       386\n"},
		{"remove-component robin", "version 15\n"},
		{"run robin pool=pool", `there is no component "robin" in namespace default`},
		{"watch --after 5 --count 2", "6  counters  created, with the columns value\n7  counters  boots  value=2\n"},
		{"watch counters --after 6 --count 1 --json", `{"revision":7,"table":"counters","key":"boots",` +
			`"columns":{"value":"Mg=="}}` + "\n"},
		{"watch hosts --after 8 --count 2", "9  hosts  m1  removed\n10  hosts  dropped\n"},
		{"watch hosts", `there is no table "hosts" in namespace default`},
	} {
		text, err := c.Command(c.ctx, strings.Fields("store "+step.command)...)
		if err != nil {
			text = err.Error()
		}
		if text != step.want && (err == nil && !strings.Contains(step.command, "json") ||
			!strings.Contains(text, step.want)) {
			t.Errorf("holdfast store %s says\n%s, want\n%s", step.command, text, step.want)
		}
	}
}
