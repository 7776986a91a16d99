package bench

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/apps/kv"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/flock"
)

// KV measures the key-value store (Beehive, figure 7): how many values an application puts in a second, by batches of
// messages and replicas of the group; and the latency of GET and PUT over HTTP, when the controller that is asked leads
// the group of the key, and when another one does.
type KV struct {
	Binary      string // the holdfast binary
	Batches     []int  // messages that are sent at once
	Replication []int  // replicas of the group: odd numbers
	Clients     int    // over HTTP, each with one request at a time
	PauseMS     int    // between the requests of a client, on average, if it pauses
	Seconds     int    // how long each measurement lasts
	Durability  string
}

// Validate returns a *FieldError for a value that cannot be.
func (k KV) Validate() error {
	for _, n := range k.Batches {
		if err := inRange("batches", n, 1, 8192); err != nil {
			return err
		}
	}
	for _, n := range k.Replication {
		if err := isOdd("replication", n); err != nil {
			return err
		}
	}
	return cmp.Or(inRange("clients", k.Clients, 1, 1000), inRange("pause-ms", k.PauseMS, 1, 10_000),
		inRange("seconds", k.Seconds, 1, 3600), isDurability(k.Durability))
}

// Run runs the benchmark.
func (k KV) Run(ctx context.Context, progress Progress) (Report, error) {
	r := Report{Bench: "kv", Figures: map[string]float64{}, Setup: map[string]any{
		"controllers": "processes on loopback, as many as replicas; 3 for latency", "durability": k.Durability,
		"seconds": k.Seconds,
		"puts": fmt.Sprintf("messages of an application for %d keys, values of 8 bytes, by transactions of at most "+
			"%d; two batches at a time; one group, so that one controller leads", flock.Keys, flock.MaxPuts),
		"latency": fmt.Sprintf("%d clients in this process, each with one request at a time; _paced: and a pause "+
			"of %d ms on average between two; a group for each controller; local: the controller that is asked "+
			"leads the group", k.Clients, k.PauseMS),
		"paper": "Beehive, figure 7b: what most requests take less than, 20 controllers and 80 clients; figure 7a " +
			"has no numbers",
	}}
	for _, n := range k.Replication {
		if err := k.throughput(ctx, progress, n, r.Figures); err != nil {
			return Report{}, err
		}
	}
	return r, k.latency(ctx, progress, r.Figures)
}

// throughput adds the figures of one number of replicas.
func (k KV) throughput(ctx context.Context, progress Progress, replicas int, f map[string]float64) error {
	c, end, err := startCluster(ctx, cluster.Config{Binary: k.Binary, Controllers: replicas,
		Apps: []string{kv.Name, flock.Name}, Durability: k.Durability})
	if err != nil {
		return err
	}
	defer end()
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return err
	}
	client := newWebClient(32)
	defer client.close()
	for _, batch := range k.Batches {
		about := time.Duration(k.Seconds) * time.Second
		stop := progress.during(about, fmt.Sprintf("%d replicas, batches of %d", replicas, batch))
		perSecond, err := puts(ctx, client, leader, batch, about)
		stop()
		if err != nil {
			return c.WithLogs(fmt.Errorf("%d replicas, batches of %d: %w", replicas, batch, err))
		}
		f[fmt.Sprintf("puts_per_s_r%d_b%d", replicas, batch)] = perSecond
	}
	return nil
}

// puts returns how many values are put in a second, two batches at a time.
func puts(ctx context.Context, client *webClient, leader *cluster.Controller, batch int, about time.Duration) (float64,
	error) {
	send := func() error {
		return together((batch+flock.MaxPuts-1)/flock.MaxPuts, func(i int) error {
			n := min(flock.MaxPuts, batch-i*flock.MaxPuts)
			_, err := client.ask(ctx, leader, "POST", fmt.Sprintf("/apps/%s/put/%d", flock.Name, n), nil)
			return err
		})
	}
	if err := send(); err != nil { // warm-up
		return 0, err
	}
	var batches atomic.Int64
	began := time.Now()
	err := together(2, func(int) error {
		for time.Since(began) < about {
			if err := send(); err != nil {
				return err
			}
			batches.Add(1)
		}
		return nil
	})
	return float64(batches.Load()) * float64(batch) / time.Since(began).Seconds(), err
}

// latency adds the figures of requests over HTTP.
func (k KV) latency(ctx context.Context, progress Progress, f map[string]float64) error {
	c, end, err := startCluster(ctx, cluster.Config{Binary: k.Binary, Apps: []string{kv.Name}, Durability: k.Durability,
		Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return err
	}
	defer end()
	if err := c.WaitHome(ctx); err != nil {
		return err
	}
	client := newWebClient(k.Clients)
	defer client.close()
	first := clients{client: client, cluster: c, count: k.Clients, method: "PUT"}
	if _, err := first.run(ctx, time.Second); err != nil { // makes the keys, each where its client asks
		return c.WithLogs(err)
	}
	paper := map[string]float64{"get_local": 1, "get_remote": 7, "put_local": 20, "put_remote": 20}
	for _, method := range []string{"GET", "PUT"} {
		for away, where := range []string{"local", "remote"} {
			for _, pause := range []time.Duration{0, time.Duration(k.PauseMS) * time.Millisecond} {
				name := map[string]string{"GET": "get", "PUT": "put"}[method] + "_" + where
				q := clients{client, c, k.Clients, method, away, pause}
				about := time.Duration(k.Seconds) * time.Second
				stop := progress.during(about, name)
				took, err := q.run(ctx, about)
				stop()
				if err != nil {
					return c.WithLogs(fmt.Errorf("%s: %w", name, err))
				}
				suffix := ""
				if pause > 0 {
					suffix = "_paced"
				}
				f[name+"_per_s"+suffix] = float64(len(took)) / about.Seconds()
				for _, q := range []float64{0.5, 0.95, 0.99} {
					f[fmt.Sprintf("%s_ms_p%d%s", name, int(100*q), suffix)] = quantile(took, q) / 1e3
				}
				f["paper_"+name+"_ms_p95"+suffix] = paper[name]
			}
		}
	}
	return nil
}

// clients ask for a key each, of the controller where it was made, or of another one.
type clients struct {
	client  *webClient
	cluster *cluster.Cluster
	count   int
	method  string
	away    int           // 0: the controller that leads the group of the key
	pause   time.Duration // between two requests of a client, on average
}

// run returns how long requests took, in µs.
func (q clients) run(ctx context.Context, about time.Duration) ([]float64, error) {
	controllers := q.cluster.Controllers()
	pause := func(i, n int) {
		if q.pause > 0 { // clients do not stay in step
			time.Sleep(q.pause/2 + time.Duration((i*7919+n*104729)%1000)*q.pause/1000)
		}
	}
	return timed(q.count, about, pause, func(i, n int) error {
		var body []byte
		if q.method == "PUT" {
			body = fmt.Appendf(nil, "value %d", n)
		}
		at := controllers[(i+q.away)%len(controllers)]
		_, err := q.client.ask(ctx, at, q.method, fmt.Sprintf("/apps/%s/key%d", kv.Name, i), body)
		return err
	})
}
