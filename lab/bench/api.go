package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// API measures what clients of the API cost the control path: its p99 alone and beside watchers and pollers of the
// leader, in turn.
type API struct {
	Binary   string // the holdfast binary
	Watchers int
	Pollers  int // each asks once a second, like a dashboard
	Switches int
	Seconds  int // how long each slice lasts
	Rounds   int // slices of both kinds
}

// apiFactor is how much the p99 of the control path may grow.
const apiFactor = 1.2

// Validate returns a *FieldError for a value that cannot be.
func (b API) Validate() error {
	return errors.Join(inRange("watchers", b.Watchers, 0, 4096), inRange("pollers", b.Pollers, 1, 1000),
		inRange("switches", b.Switches, 1, 1000), inRange("seconds", b.Seconds, 1, 3600),
		inRange("rounds", b.Rounds, 1, 100))
}

// Times of the benchmark.
const (
	apiSettle   = 6 * time.Second // after which a controller does nothing more for watchers that have gone
	apiFlat     = 3 * time.Second // for which pollers ask without a pause
	apiDatapath = 1000            // the first one
)

// dashboard is what the pollers ask, in turn.
var dashboard = []string{api.ClusterGetStatusProcedure, api.ClusterListActorsProcedure, api.ClusterGetMatrixProcedure}

// Run runs the benchmark. If the bound does not hold, the report is complete, and the error is ErrBounds.
func (b API) Run(ctx context.Context, progress Progress) (Report, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: 3, Apps: []string{"learning"}})
	if err != nil {
		return Report{}, err
	}
	defer end()
	leader, err := cl.WaitLeader(ctx)
	if err != nil {
		return Report{}, err
	}
	cfg := load.Config{Mode: load.Latency, Switches: b.Switches, MACsPerSwitch: 1000, FirstDatapathID: apiDatapath,
		Dial: load.TCP(cl.Agents()[0].Listen), Warmup: time.Second, Duration: time.Duration(b.Seconds) * time.Second}
	crowd := &audience{url: "http://" + leader.API}
	of := map[string][]float64{}
	measure := func(name string) error {
		defer progress.during(cfg.Warmup+cfg.Duration, fmt.Sprintf("control path %s", name))()
		r, err := load.Run(ctx, cfg)
		if err == nil {
			of[name] = append(of[name], micros(r.Latency.Quantile(0.99))/1e3)
		}
		return err
	}
	for range b.Rounds {
		if err := measure("alone"); err != nil {
			return Report{}, cl.WithLogs(err)
		}
		err := crowd.gather(ctx, b.Watchers, b.Pollers)
		if err == nil {
			err = measure("beside")
		}
		if err = errors.Join(err, crowd.leave()); err != nil {
			return Report{}, cl.WithLogs(err)
		}
		if err := pause(ctx, apiSettle); err != nil {
			return Report{}, err
		}
	}
	paced := crowd.took
	rate, err := crowd.flat(ctx, b.Pollers)
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	alone, beside := median(of["alone"]), median(of["beside"])
	f := map[string]float64{"requests_per_s": rate, "p99_ms": quantile(paced, 0.99), "watchers": float64(b.Watchers),
		"watchers_cut_off": float64(crowd.cut.Load()), "messages_to_watchers": float64(crowd.messages.Load()),
		"control_p99_ms_alone": alone, "control_p99_ms_beside": beside, "control_p99_ratio": beside / alone,
		"rss_max_mb": 0}
	if rss, alive := peakMB(leader); alive {
		f["rss_max_mb"] = rss
	}
	if f["control_p99_ratio"] > apiFactor {
		err = fmt.Errorf("%w: control_p99_ratio is %.2f, more than %v", ErrBounds, f["control_p99_ratio"], apiFactor)
	}
	return Report{Bench: "api", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, without TLS", "app": "learning", "switches": b.Switches,
		"pollers": fmt.Sprintf("%d, each asks the leader each second for the status, the actors or the matrix, in JSON",
			b.Pollers),
		"requests_per_s": "of the pollers without a pause, and without other load",
		"slices":         fmt.Sprintf("%d of %d s of each kind, in turn; medians of their p99", b.Rounds, b.Seconds),
		"load_1min":      loadAverage(),
	}}, err
}

// audience is clients of the API of one controller.
type audience struct {
	url      string
	cut      atomic.Int64 // watches that the controller has ended
	messages atomic.Int64

	mu     sync.Mutex // guards the fields below
	took   []float64  // of requests, in ms
	failed error

	end  context.CancelFunc
	here sync.WaitGroup
}

// gather starts watchers and pollers, and returns when each watcher has been told something.
func (c *audience) gather(ctx context.Context, watchers, pollers int) error {
	ctx, c.end = context.WithCancel(ctx)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pollers}}
	told := make(chan struct{}, watchers)
	for range watchers {
		c.here.Go(func() {
			if err := c.watch(ctx, client, told); ctx.Err() == nil {
				c.cut.Add(1)
				c.fail(err)
			}
		})
	}
	for range watchers {
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			return errors.Join(errors.New("a watcher was told nothing in 30 s"), c.failure())
		}
	}
	for i := range pollers {
		c.here.Go(func() {
			defer client.CloseIdleConnections()
			each := time.NewTicker(time.Second)
			defer each.Stop()
			_ = pause(ctx, time.Duration(i)*time.Second/time.Duration(pollers)) // ctx has ended
			for n := i; ctx.Err() == nil; n++ {
				c.poll(ctx, client, dashboard[n%len(dashboard)])
				select {
				case <-each.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return nil
}

// leave ends all that gather has started.
func (c *audience) leave() error {
	c.end()
	c.here.Wait()
	return c.failure()
}

func (c *audience) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *audience) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
}

// envelope is the length of what precedes a message of a stream of connect: flags, and its length.
const envelope = 5

// watch reads what a watch tells, without decoding it. That would cost more than everything else here.
func (c *audience) watch(ctx context.Context, client *http.Client, told chan<- struct{}) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+api.ClusterWatchProcedure,
		bytes.NewReader(make([]byte, envelope)))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/connect+proto")
	a, err := client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("a watch is answered %s", a.Status)
	}
	head, first := make([]byte, envelope), true
	for {
		if _, err := io.ReadFull(a.Body, head); err != nil {
			return err
		}
		size := int64(binary.BigEndian.Uint32(head[1:]))
		if head[0] != 0 {
			text, _ := io.ReadAll(io.LimitReader(a.Body, min(size, 4096))) // what can be read of the reason
			return fmt.Errorf("a watch has ended: %s", text)
		}
		if _, err := io.CopyN(io.Discard, a.Body, size); err != nil {
			return err
		}
		if c.messages.Add(1); first {
			told <- struct{}{}
			first = false
		}
	}
}

// poll makes a request, and notes how long that took.
func (c *audience) poll(ctx context.Context, client *http.Client, path string) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, bytes.NewReader([]byte("{}")))
	if err != nil {
		c.fail(err)
		return
	}
	q.Header.Set("Content-Type", "application/json")
	began := time.Now()
	a, err := client.Do(q)
	if err == nil {
		_, err = io.Copy(io.Discard, a.Body)
		a.Body.Close()
		if err == nil && a.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s is answered %s", path, a.Status)
		}
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		c.fail(err)
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.took = append(c.took, float64(time.Since(began))/float64(time.Millisecond))
	}
}

// flat returns how many requests a second pollers get answered that ask without a pause.
func (c *audience) flat(ctx context.Context, pollers int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiFlat)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: pollers}}
	defer client.CloseIdleConnections()
	c.took = nil
	began := time.Now()
	for i := range pollers {
		c.here.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				c.poll(ctx, client, dashboard[n%len(dashboard)])
			}
		})
	}
	c.here.Wait()
	return float64(len(c.took)) / time.Since(began).Seconds(), c.failure()
}
