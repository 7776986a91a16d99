package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
	"github.com/holdfast-sdn/holdfast/store/rpc"
)

// Store measures the consistent data store beside a cluster of etcd: updates and reads of three replicas, in batches
// over a stream and in one request each, under load and alone.
type Store struct {
	Binary     string // the holdfast binary
	Etcd       string // the etcd binary
	Buckets    int    // of the namespace; 1: it has none
	Batch      int    // updates of a batch
	Callers    int    // of batches at a time
	Clients    int    // with one update at a time, of the store and of etcd
	Seconds    int    // how long each measurement lasts
	Durability string
}

// Validate returns a *FieldError for a value that cannot be.
func (s Store) Validate() error {
	return cmp.Or(inRange("buckets", s.Buckets, 1, store.MaxBuckets), inRange("batch", s.Batch, 1, store.MaxOps),
		inRange("callers", s.Callers, 1, 64), inRange("clients", s.Clients, 1, 1000),
		inRange("seconds", s.Seconds, 1, 3600), isDurability(s.Durability))
}

// What is written: as many keys, and values of so many bytes.
const (
	storeKeys  = 10_000
	storeValue = 32
	storeTable = "rows"

	benchNamespace    = "bench"
	staleMilliseconds = 100 // how old what followers answer may be
)

// namespace returns the name of the one with the rows.
func (s Store) namespace() string {
	if s.Buckets == 1 {
		return benchNamespace
	}
	return fmt.Sprint(benchNamespace, "/", s.Buckets)
}

func storeKey(n int) string { return fmt.Sprintf("row%06d", n%storeKeys) }

// Run runs the benchmark.
func (s Store) Run(ctx context.Context, progress Progress) (Report, error) {
	r := Report{Bench: "store", Figures: map[string]float64{}, Setup: map[string]any{
		"replicas": "3 processes on loopback, as for etcd; all share the machine with the clients, which ask the " +
			"leader, or one controller if there are buckets",
		"buckets": s.Buckets,
		"data":    fmt.Sprintf("%d keys, values of %d bytes; each update is a transaction", storeKeys, storeValue),
		"batched": fmt.Sprintf("%d batches of %d updates or reads at a time, over one stream", s.Callers, s.Batch),
		"unary":   fmt.Sprintf("%d clients, each with one request for one update at a time", s.Clients),
		"shared": fmt.Sprintf("%d callers of one client (store/client), each with one update at a time, which it "+
			"sends together", s.Clients),
		"stale": fmt.Sprintf("%d requests of %d reads at a time to the followers, which may answer what was at one "+
			"time in the last %d ms", s.Callers, s.Batch, staleMilliseconds),
		"alone": "one client with one request at a time", "durability": s.Durability, "seconds": s.Seconds,
	}}
	if err := s.ours(ctx, progress, r.Figures); err != nil {
		return Report{}, err
	}
	if err := s.etcd(ctx, progress, r.Figures); err != nil {
		return Report{}, err
	}
	f := r.Figures
	f["ratio_etcd_batched"] = f["updates_per_s"] / f["etcd_puts_per_s"]
	f["ratio_etcd_unary"] = f["unary_updates_per_s"] / f["etcd_puts_per_s"]
	f["ratio_etcd_p50"] = f["alone_update_p50_us"] / f["etcd_alone_put_p50_us"]
	return r, nil
}

// ours adds the figures of the store.
func (s Store) ours(ctx context.Context, progress Progress, f map[string]float64) error {
	conf := cluster.Config{Binary: s.Binary, Apps: []string{store.Name}, Durability: s.Durability}
	if s.Buckets > 1 {
		conf.Sections = "groups: per-controller\n"
	}
	c, end, err := startCluster(ctx, conf)
	if err != nil {
		return err
	}
	defer end()
	leader, err := s.asked(ctx, c)
	if err != nil {
		return err
	}
	cl, err := client.New(s.namespace(), leader.REST)
	if err != nil {
		return err
	}
	defer cl.Close()
	if _, err := cl.Do(ctx, store.Op{Kind: store.CreateTable, Table: storeTable}); err != nil {
		return c.WithLogs(err)
	}
	value := make([]byte, storeValue)
	put := func(n int) store.Op {
		return store.Op{Kind: store.Put, Table: storeTable, Key: storeKey(n),
			Columns: store.Value(value)}
	}
	get := func(n int) store.Op { return store.Op{Kind: store.Get, Table: storeTable, Key: storeKey(n)} }
	batches := func(name, latency string, op func(int) store.Op) error {
		var n atomic.Int64
		return s.measure(progress, s.Callers, float64(s.Batch), name, latency, f, func(int, int) error {
			ops := make([][]store.Op, s.Batch)
			for i := range ops {
				ops[i] = []store.Op{op(int(n.Add(1)))}
			}
			out, err := cl.Batch(ctx, ops...)
			if err == nil && out[0].Error != nil {
				err = out[0].Error
			}
			return err
		})
	}
	err = batches("updates_per_s", "update", put)
	if err == nil {
		err = batches("linearizable_reads_per_s", "read", get)
	}
	if err == nil {
		err = s.stale(ctx, progress, c, get, f)
	}
	if err == nil {
		err = s.measure(progress, s.Clients, 1, "shared_updates_per_s", "shared_update", f, func(i, n int) error {
			_, err := cl.Do(ctx, put(i*7919+n))
			return err
		})
	}
	on := rpc.NewCaller(nil, leader.REST)
	defer on.Close()
	if err == nil {
		err = s.unary(ctx, progress, on, s.Clients, "unary_updates_per_s", "unary_update", put, f)
	}
	if err == nil {
		err = s.unary(ctx, progress, on, 1, "alone_updates_per_s", "alone_update", put, f)
	}
	if err != nil {
		return c.WithLogs(err)
	}
	return nil
}

// asked returns the controller that clients ask: the leader, or any one if each leads a group.
func (s Store) asked(ctx context.Context, c *cluster.Cluster) (*cluster.Controller, error) {
	if s.Buckets == 1 {
		return c.WaitLeader(ctx)
	}
	return c.Controllers()[0], c.WaitHome(ctx)
}

// stale adds the figures of reads at the followers, in requests of one batch each.
func (s Store) stale(ctx context.Context, progress Progress, c *cluster.Cluster, get func(int) store.Op,
	f map[string]float64) error {
	var callers []*rpc.Caller
	for _, n := range c.Controllers() {
		if st, err := n.Status(ctx); err == nil && (st.Role == "follower" || s.Buckets > 1) {
			on := rpc.NewCaller(nil, n.REST)
			defer on.Close()
			callers = append(callers, on)
		}
	}
	if len(callers) == 0 {
		return errors.New("no controller follows")
	}
	var n atomic.Int64
	return s.measure(progress, s.Callers, float64(s.Batch), "stale_reads_per_s", "stale_read", f, func(i, _ int) error {
		q := store.Request{Namespace: s.namespace(), MaxAge: staleMilliseconds,
			Transactions: make([][]store.Op, s.Batch)}
		for j := range q.Transactions {
			q.Transactions[j] = []store.Op{get(int(n.Add(1)))}
		}
		out, err := callers[i%len(callers)].Do(ctx, &q)
		switch {
		case err != nil:
			return err
		case out.Error != nil:
			return out.Error
		case out.Outcomes[0].Error != nil:
			return out.Outcomes[0].Error
		}
		return nil
	})
}

// unary adds the figures of clients with a session each, and one request at a time.
func (s Store) unary(ctx context.Context, progress Progress, on *rpc.Caller, clients int, name, latency string,
	put func(int) store.Op, f map[string]float64) error {
	sessions, seqs := make([]uint64, clients), make([]uint64, clients)
	ask := func(i int, ops ...store.Op) (store.Outcome, error) {
		r := store.Request{Namespace: s.namespace(), Session: sessions[i], Seq: seqs[i], Acked: max(seqs[i], 1) - 1,
			Transactions: [][]store.Op{ops}}
		out, err := on.Do(ctx, &r)
		switch {
		case err != nil:
			return store.Outcome{}, err
		case out.Error != nil:
			return store.Outcome{}, out.Error
		case out.Outcomes[0].Error != nil:
			return store.Outcome{}, out.Outcomes[0].Error
		}
		return out.Outcomes[0], nil
	}
	for i := range sessions {
		out, err := ask(i, store.Op{Kind: store.OpenSession})
		if err != nil {
			return err
		}
		sessions[i] = out.Results[0].Session
	}
	return s.measure(progress, clients, 1, name, latency, f, func(i, n int) error {
		seqs[i]++
		_, err := ask(i, put(i*7919+n))
		return err
	})
}

// measure has callers call f again and again, and adds how much that is in a second, and how long a call takes.
func (s Store) measure(progress Progress, callers int, each float64, name, latency string, figures map[string]float64,
	f func(i, n int) error) error {
	about := time.Duration(s.Seconds) * time.Second
	defer progress.during(about, name)()
	began := time.Now()
	took, err := timed(callers, about, nil, f)
	figures[name] = float64(len(took)) * each / time.Since(began).Seconds()
	figures[latency+"_p50_us"], figures[latency+"_p99_us"] = quantile(took, 0.5), quantile(took, 0.99)
	return err
}
