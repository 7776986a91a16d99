package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/internal/mtls"
	"github.com/holdfast-sdn/holdfast/internal/pause"
	"github.com/holdfast-sdn/holdfast/internal/pki"
	"github.com/holdfast-sdn/holdfast/lab/load"
)

// APIClients is the name of the command, below bench, that is the clients of API.
const APIClients = "api-clients"

// Clients are the watchers and dashboards of API, in a process of their own that only gets time that nothing else wants
// (SCHED_IDLE). Elsewhere they run on other machines: what they do with the answers is not to delay controllers and
// switches.
type Clients struct {
	Address    string     // of the API of a controller
	Files      mtls.Files // the certificate of a viewer
	Watchers   int
	Dashboards int
}

// ClientsReport is what clients have seen.
type ClientsReport struct {
	Messages int64     // of watches
	Took     []float64 // each request, ms
}

func (r *ClientsReport) add(o ClientsReport) {
	r.Messages += o.Messages
	r.Took = append(r.Took, o.Took...)
}

// Run runs the clients until ctx ends. It writes two reports as JSON: one when each watch has been told something, and
// one at the end.
func (c Clients) Run(ctx context.Context, out io.Writer) error {
	if err := idleAll(); err != nil {
		return err
	}
	crowd, err := newAudience(c.Address, c.Files)
	if err != nil {
		return err
	}
	err = crowd.gather(ctx, c.Watchers, c.Dashboards)
	if err == nil {
		err = crowd.report(out)
		<-ctx.Done()
	}
	return errors.Join(err, crowd.leave(), crowd.report(out))
}

// idleAll lets all threads of this process run only when nothing else does; those that they start inherit it. For the
// kernel, a processor that runs one of them is idle when another thread wakes. With nice 19 it is not.
func idleAll() error {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range threads {
		tid, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		err = unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		if err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("priority of the clients: %w", err)
		}
	}
	return nil
}

// start starts the process, and returns when each watch has been told something. leave ends it.
func (c Clients) start(ctx context.Context, binary string) (leave func() (ClientsReport, error), err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "bench", APIClients, string(text))
	var printed bytes.Buffer
	cmd.Stderr = &printed
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	reports, ended := make(chan ClientsReport, 2), make(chan error, 1)
	if err := lifeline.Start(cmd, func() {
		for d := json.NewDecoder(out); ; {
			var r ClientsReport
			if err := d.Decode(&r); err != nil {
				break
			}
			reports <- r
		}
		close(reports)
		if err := cmd.Wait(); err != nil {
			ended <- fmt.Errorf("clients: %w\n%s", err, printed.String())
		}
		close(ended)
	}); err != nil {
		return nil, fmt.Errorf("start the clients: %w", err)
	}
	if _, gathered := <-reports; !gathered {
		return nil, errors.Join(errors.New("the clients have ended"), <-ended)
	}
	return func() (ClientsReport, error) {
		_ = in.Close() // it ends with its input
		return <-reports, <-ended
	}, nil
}

// views is what the views of dashboards ask for. The view of the topology, the first, only watches.
var views = []string{"", api.ClusterListActorsProcedure, api.ClusterGetMatrixProcedure}

// Times of clients.
const (
	apiFlat  = 3 * time.Second  // for which dashboards ask without a pause
	apiView  = 2 * time.Second  // after which a dashboard asks again
	apiStall = time.Minute      // in which slow readers have to be cut off
	apiDrain = 10 * time.Second // in which they read what was sent before
)

// audience is clients of the API of one controller.
type audience struct {
	url      string
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	messages atomic.Int64

	mu     sync.Mutex // guards the fields below
	took   []float64  // of requests, in ms
	failed error

	end  context.CancelFunc
	here sync.WaitGroup
}

// newAudience returns one whose clients have the certificate of a viewer.
func newAudience(address string, files mtls.Files) (*audience, error) {
	c, err := mtls.Load(files, mtls.Role(pki.Viewer), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return &audience{url: "http://" + address, // the connection has TLS
		dial: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Dial(ctx, address, mtls.Role(pki.Controller))
		}}, nil
}

// report writes what was seen until now.
func (c *audience) report(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return json.NewEncoder(out).Encode(ClientsReport{Messages: c.messages.Load(), Took: c.took})
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
				c.fail(err)
			}
		})
	}
	for range watchers + dashboards {
		select {
		case <-told:
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(30 * time.Second):
			return errors.Join(errors.New("a watcher was told nothing in 30 s"), c.failure())
		}
	}
	return c.ask(ctx, client, dashboards)
}

// ask lets dashboards ask for what their views show, and returns when each has got that once, as when it is opened.
func (c *audience) ask(ctx context.Context, client *http.Client, dashboards int) error {
	var opened sync.WaitGroup
	for i := range dashboards {
		path := views[i%len(views)]
		if path == "" {
			continue
		}
		opened.Add(1)
		c.here.Go(func() {
			defer client.CloseIdleConnections()
			c.poll(ctx, client, path)
			opened.Done()
			_ = pause.For(ctx, time.Duration(i)*apiView/time.Duration(dashboards)) // ctx has ended
			each := time.NewTicker(apiView)
			defer each.Stop()
			for ctx.Err() == nil {
				c.poll(ctx, client, path)
				select {
				case <-each.C:
				case <-ctx.Done():
				}
			}
		})
	}
	opened.Wait()
	return c.failure()
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
	if err := pause.For(ctx, apiStall); err != nil {
		return false, err
	}
	if err := conn.SetReadDeadline(time.Now().Add(apiDrain)); err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, conn) // a watch that goes on ends at the deadline
	return !errors.Is(err, os.ErrDeadlineExceeded), nil
}
