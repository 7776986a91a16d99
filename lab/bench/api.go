package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// API measures what clients of the API cost the control path: its p99 alone and beside watchers and dashboards of one
// controller, in turn. Everything uses TLS, and each controller leads a group.
type API struct {
	Binary     string // the holdfast binary
	Watchers   int
	Dashboards int // each watches, as JSON, and asks every two seconds for what its view shows
	Slow       int // further watchers that stop reading
	Switches   int
	Seconds    int // how long each slice lasts
	Rounds     int // pairs of slices
}

// apiFactor is how much the p99 of the control path may grow.
const apiFactor = 1.2

// Validate returns a *FieldError for a value that cannot be.
func (b API) Validate() error {
	return errors.Join(inRange("watchers", b.Watchers, 0, 4096), inRange("dashboards", b.Dashboards, 1, 1000),
		inRange("slow", b.Slow, 0, 1000), inRange("switches", b.Switches, 1, 1000),
		inRange("seconds", b.Seconds, 1, 3600), inRange("rounds", b.Rounds, 1, 100))
}

// Times of the benchmark.
const (
	apiSettle   = 6 * time.Second  // after which a controller does nothing more for watchers that have gone
	apiFlat     = 3 * time.Second  // for which dashboards ask without a pause
	apiView     = 2 * time.Second  // after which a dashboard asks again
	apiStall    = time.Minute      // in which slow readers have to be cut off
	apiDrain    = 10 * time.Second // in which they read what was sent before
	apiDatapath = 1000             // the first one
)

// views is what the views of dashboards ask for. The view of the topology, the first, only watches.
var views = []string{"", api.ClusterListActorsProcedure, api.ClusterGetMatrixProcedure}

// Run runs the benchmark. If the bound does not hold, the report is complete, and the error is ErrBounds.
func (b API) Run(ctx context.Context, progress Progress) (Report, error) {
	cl, end, err := startCluster(ctx, cluster.Config{Binary: b.Binary, Controllers: 3, Apps: []string{"learning"},
		TLS: true, Sections: "groups: " + PerController + "\n"})
	if err != nil {
		return Report{}, err
	}
	defer end()
	if err := cl.WaitHome(ctx); err != nil {
		return Report{}, cl.WithLogs(err)
	}
	leader, err := cl.WaitLeader(ctx)
	if err != nil {
		return Report{}, err
	}
	crowd, err := newAudience(cl, leader)
	if err != nil {
		return Report{}, err
	}
	dial, err := asSwitches(cl)
	if err != nil {
		return Report{}, err
	}
	control := load.Config{Mode: load.Latency, Switches: b.Switches, MACsPerSwitch: 1000,
		FirstDatapathID: apiDatapath, Dial: dial, Warmup: time.Second, Duration: time.Duration(b.Seconds) * time.Second}
	pairs, err := b.slices(ctx, progress, crowd, control)
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	paced := crowd.took
	rate, err := crowd.flat(ctx, b.Dashboards)
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	stop := progress.during(apiStall, "slow readers")
	slow, err := crowd.slow(ctx, b.Slow, control)
	stop()
	if err != nil {
		return Report{}, cl.WithLogs(err)
	}
	f := map[string]float64{"requests_per_s": rate, "p99_ms": quantile(paced, 0.99), "watchers": float64(b.Watchers),
		"dashboards": float64(b.Dashboards), "slow_readers": float64(b.Slow), "slow_cut": float64(slow),
		"watchers_cut_off": float64(crowd.cut.Load()), "messages_to_watchers": float64(crowd.messages.Load()),
		"control_p99_ms_alone": median(pairs.alone), "control_p99_ms_with": median(pairs.with),
		"control_p99_ratio": median(pairs.ratios), "rss_max_mb": 0}
	if rss, alive := peakMB(leader); alive {
		f["rss_max_mb"] = rss
	}
	return Report{Bench: "api", Figures: f, Setup: map[string]any{
		"controllers": "3 processes on loopback, each leads a group", "app": "learning", "switches": b.Switches,
		"tls":     "everywhere; watchers and dashboards have a certificate of the role viewer",
		"control": "1 packet-in outstanding for each switch",
		"dashboards": fmt.Sprintf("%d at the leader of the system group; each watches, as JSON; of three, one asks "+
			"for the actors and one for the matrix, every %v", b.Dashboards, apiView),
		"requests_per_s": "of the dashboards without a pause, and without other load",
		"slices": fmt.Sprintf("%d pairs of %d s each, alone and with clients; medians, of the ratio that of the pairs",
			b.Rounds, b.Seconds),
		"slow_readers": fmt.Sprintf("read one message and no more, and have to be cut off in %v", apiStall),
		"load_1min":    loadAverage(),
	}}, b.bounds(f)
}

// bounds returns ErrBounds if a figure is not within its bound.
func (b API) bounds(f map[string]float64) (err error) {
	if f["control_p99_ratio"] > apiFactor {
		err = fmt.Errorf("%w: control_p99_ratio is %.2f, more than %v", ErrBounds, f["control_p99_ratio"], apiFactor)
	}
	if cut := int(f["slow_cut"]); cut < b.Slow {
		err = errors.Join(err, fmt.Errorf("%w: %d of %d slow readers were cut off", ErrBounds, cut, b.Slow))
	}
	return err
}

// apiPairs are the p99 of the control path in ms, and their ratios.
type apiPairs struct{ alone, with, ratios []float64 }

// slices measures the control path alone and with the audience, in turn.
func (b API) slices(ctx context.Context, progress Progress, crowd *audience, cfg load.Config) (p apiPairs, err error) {
	measure := func(name string) (float64, error) {
		defer progress.during(cfg.Warmup+cfg.Duration, fmt.Sprintf("control path %s", name))()
		r, err := load.Run(ctx, cfg)
		return micros(r.Latency.Quantile(0.99)) / 1e3, err
	}
	for range b.Rounds {
		alone, err := measure("alone")
		if err != nil {
			return p, err
		}
		with := 0.0
		if err = crowd.gather(ctx, b.Watchers, b.Dashboards); err == nil {
			with, err = measure("with clients")
		}
		if err = errors.Join(err, crowd.leave()); err != nil {
			return p, err
		}
		p.alone, p.with, p.ratios = append(p.alone, alone), append(p.with, with), append(p.ratios, with/alone)
		if err := pause(ctx, apiSettle); err != nil {
			return p, err
		}
	}
	return p, nil
}

// asSwitches returns what connects switches to the agent, with a certificate.
func asSwitches(cl *cluster.Cluster) (func(context.Context, int) (net.Conn, error), error) {
	c, err := credentials(cl, pki.Switch, "switch")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ int) (net.Conn, error) {
		return c.Dial(ctx, cl.Agents()[0].Listen, mtls.Role(pki.Agent))
	}, nil
}

func credentials(cl *cluster.Cluster, role pki.Role, name string) (*mtls.Credentials, error) {
	files, err := cl.Issue(pki.Identity{Role: role, Name: name})
	if err != nil {
		return nil, err
	}
	return mtls.Load(files, mtls.Role(role), slog.New(slog.DiscardHandler))
}

// audience is clients of the API of one controller.
type audience struct {
	url      string
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	cut      atomic.Int64 // watches that the controller has ended
	messages atomic.Int64

	mu     sync.Mutex // guards the fields below
	took   []float64  // of requests, in ms
	failed error

	end  context.CancelFunc
	here sync.WaitGroup
}

// newAudience returns one whose clients are viewers.
func newAudience(cl *cluster.Cluster, of *cluster.Controller) (*audience, error) {
	c, err := credentials(cl, pki.Viewer, "viewer")
	if err != nil {
		return nil, err
	}
	return &audience{url: "http://" + of.API, // the connection has TLS
		dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Dial(ctx, address, mtls.Role(pki.Controller))
		}}, nil
}

func (c *audience) client(connections int) *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, DialContext: c.dial}}
}

// Types of what watches send and get.
const (
	asProtobuf = "application/connect+proto"
	asJSON     = "application/connect+json"
	everything = "\x00\x00\x00\x00\x02{}" // a request for all kinds, as JSON
)

// gather starts watchers and dashboards, and returns when each has been told something.
func (c *audience) gather(ctx context.Context, watchers, dashboards int) error {
	ctx, c.end = context.WithCancel(ctx)
	client := c.client(dashboards)
	told := make(chan struct{}, watchers+dashboards)
	for i := range watchers + dashboards {
		kind := asProtobuf
		if i >= watchers {
			kind = asJSON
		}
		c.here.Go(func() {
			if err := c.watch(ctx, client, kind, told); ctx.Err() == nil {
				c.cut.Add(1)
				c.fail(err)
			}
		})
	}
	for range watchers + dashboards {
		select {
		case <-told:
		case <-time.After(30 * time.Second):
			return errors.Join(errors.New("a watcher was told nothing in 30 s"), c.failure())
		}
	}
	for i := range dashboards {
		path := views[i%len(views)]
		if path == "" {
			continue
		}
		c.here.Go(func() {
			defer client.CloseIdleConnections()
			each := time.NewTicker(apiView)
			defer each.Stop()
			_ = pause(ctx, time.Duration(i)*apiView/time.Duration(dashboards)) // ctx has ended
			for ctx.Err() == nil {
				c.poll(ctx, client, path)
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
func (c *audience) watch(ctx context.Context, client *http.Client, kind string, told chan<- struct{}) error {
	body := make([]byte, envelope)
	if kind == asJSON {
		body = []byte(everything)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+api.ClusterWatchProcedure, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", kind)
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

// flat returns how many requests a second dashboards get answered that ask without a pause.
func (c *audience) flat(ctx context.Context, dashboards int) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, apiFlat)
	defer cancel()
	client := c.client(dashboards)
	defer client.CloseIdleConnections()
	c.took = nil
	began := time.Now()
	for i := range dashboards {
		c.here.Go(func() {
			for n := i; ctx.Err() == nil; n++ {
				c.poll(ctx, client, views[1+n%(len(views)-1)])
			}
		})
	}
	c.here.Wait()
	return float64(len(c.took)) / time.Since(began).Seconds(), c.failure()
}

// slow starts watchers that stop reading, beside the control load, and returns how many of them the controller cuts off
// in apiStall.
func (c *audience) slow(ctx context.Context, readers int, control load.Config) (int, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	control.Duration = 2 * apiStall // it ends with the readers
	loaded := make(chan error, 1)
	go func() {
		_, err := load.Run(ctx, control)
		if ctx.Err() != nil {
			err = nil // it was ended
		}
		loaded <- err
	}()
	var cut atomic.Int64
	for range readers {
		c.here.Go(func() {
			was, err := c.stall(ctx)
			if was {
				cut.Add(1)
			}
			if err != nil && ctx.Err() == nil {
				c.fail(err)
			}
		})
	}
	c.here.Wait()
	cancel()
	return int(cut.Load()), errors.Join(<-loaded, c.failure())
}

// stall watches, but reads only the beginning of the answer, for apiStall. It reports whether the controller has cut
// it off by then. As its end follows what was sent before, that is read first.
func (c *audience) stall(ctx context.Context) (cut bool, err error) {
	conn, err := c.dial(ctx, "tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		return false, err
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: api\r\nContent-Type: %s\r\nContent-Length: %d\r\n"+
		"\r\n%s", api.ClusterWatchProcedure, asJSON, len(everything), everything); err != nil {
		return false, err
	}
	status := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, status); err != nil || string(status) != "HTTP/1.1 200" {
		return false, fmt.Errorf("a watch is answered %q: %w", status, err)
	}
	if err := pause(ctx, apiStall); err != nil {
		return false, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(apiDrain)); err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, conn) // a watch that goes on ends at the deadline
	return !errors.Is(err, os.ErrDeadlineExceeded), nil
}
