package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
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

	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	storeclient "github.com/holdfast-sdn/holdfast/store/client"
	storerpc "github.com/holdfast-sdn/holdfast/store/rpc"
)

// TestStoreKill: clients read and write rows of several namespaces, which live in different groups and move, while one
// controller after the other is killed. What they see is linearizable, each write took effect once, and watches are
// told each once and in order.
func TestStoreKill(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Apps: []string{store.Name}, Sections: "groups: per-controller\n"})
	c.expectDeaths()
	s := startStoreTrial(c, 6, 3)
	c.killInTurn(3, &s.total, 200)
	if gaps := s.finish(); gaps > 0 {
		t.Errorf("changes were forgotten %d times, and not all controllers died", gaps)
	}
}

// TestStoreFaults is TestStoreKill with everything that may happen to controllers and their network, and a disk that is
// full at times. The trial has HOLDFAST_STORE_OPERATIONS, or some thousands.
func TestStoreFaults(t *testing.T) {
	notInShort(t)
	t.Parallel()
	const few, name = 4000, "c1"
	operations, seed := setting(t, "HOLDFAST_STORE_OPERATIONS", few), setting(t, "HOLDFAST_CHAOS_SEED", rand.Uint64N(1e6))
	t.Logf("HOLDFAST_CHAOS_SEED=%d", seed)
	workers, keys, step := 12, 6, int64(100) // operations from one fault to the next
	if operations > few {
		workers, keys, step = 96, 64, 2000
	}
	c := newChaos(seed)
	c.testCluster = startCluster(t, cluster.Config{Apps: []string{store.Name}, Durability: "disk", Route: c.route(t),
		Sections: "groups: per-controller\n", SnapshotEvery: 2000,
		Before: func(dir string) error { smallDisk(t, dir, name, "1g"); return nil }})
	c.expectDeaths()
	s := startStoreTrial(c.testCluster, workers, keys)
	filler := filepath.Join(c.dir, "data", name, "filler")
	for n := int64(1); s.total.Load() < int64(operations); n++ {
		c.fault()
		if small := c.Controllers()[0]; n%16 == 8 && c.take(small) {
			fill(t, filler)
			c.after(time.Second, func() { c.noError(os.Remove(filler)) }, small)
			c.counts["disk full"]++
		}
		await.Until(t, "clients to go on", func() bool { return s.total.Load() >= n*step || t.Failed() })
	}
	c.pending.Wait()
	t.Logf("faults: %v", c.counts)
	s.finish()
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
	for _, address := range addresses {
		on := storerpc.NewCaller(nil, address)
		defer on.Close()
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
		{"create-table counters --namespace f/4", "version 1\n"},
		{"put counters a 1 --namespace f/4", "version 2\n"},
		{"put counters b 2 --namespace f/4", "version 2\n"},
		{"get counters b --namespace f/4", "KEY  VERSION  value\nb    2        2\n"},
		{"list counters --namespace f/4", "KEY  VERSION  value\na    2        1\nb    2        2\n"},
		{"tables --namespace f/4", "TABLE     VERSION  COLUMNS  REFERS TO\ncounters  1        value    -\n"},
		{"watch counters --prefix a --after 1,1,1,1 --count 1 --namespace f/4", "3/2  counters  a  value=1\n"},
		{"watch counters --prefix b --after 1,1,1,1 --count 1 --json --namespace f/4", `{"bucket":0,"revision":2,"table":"counters"`},
		{"watch --after 1 --namespace f/4", "namespace f/4 has 4 buckets, 1 revisions are given"},
		{"upload testdata/robin.star --namespace f/4", "version 3\n"},
		{"run robin pool=a --namespace f/4", "run needs a key in namespace f/4"},
		{"put counters a x,y --namespace f/4", "version 4\n"},
		{"run robin --key b pool=a --namespace f/4", "the transaction is executed in f/4/0"},
		{"get counters a --namespace f/4/3", `"f/4/3" is not the name of a namespace`},
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
	c.storeInAPI()
}

// storeInAPI checks what the API has of the store after TestStoreCommands.
func (s *testCluster) storeInAPI() {
	s.t.Helper()
	said := s.leader().Client()
	list, err := said.ListTables(s.ctx, &emptypb.Empty{})
	s.check(err)
	if len(list.Namespaces) != 2 || len(list.Problems) > 0 {
		s.t.Fatalf("the API has %v", list)
	}
	if n := list.Namespaces[1]; n.Namespace != "f/4" || n.Buckets != 4 || len(n.Tables) != 1 || n.Tables[0].Rows != 2 {
		s.t.Errorf("the API has %v of a namespace with buckets", n)
	}
	var keys []string
	for token, first := "", true; first || token != ""; first = false {
		p, err := said.ListStoreRows(s.ctx, &api.ListStoreRowsRequest{Namespace: "f/4", Table: "counters", PageSize: 1,
			PageToken: token})
		s.check(err)
		for _, row := range p.Rows {
			keys = append(keys, fmt.Sprintf("%s=%s", row.Key, row.Columns[0].Value))
		}
		token = p.NextPageToken
	}
	if !slices.Equal(keys, []string{"a=x,y", "b=2"}) {
		s.t.Errorf("the API has the rows %v", keys)
	}
	p, err := said.ListStoreRows(s.ctx, &api.ListStoreRowsRequest{Namespace: "default", Table: "counters",
		KeyPrefix: "bo"})
	s.check(err)
	if len(p.Rows) != 1 || p.Rows[0].Key != "boots" || p.Rows[0].Version == 0 || !slices.Equal(p.Columns, []string{"value"}) {
		s.t.Errorf("the API has %v", p)
	}
}
