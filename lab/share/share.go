// Package share is the demo of the consistent data store: processes in Go and in Python share its tables, while the
// leader is killed again and again. It counts the writes that were acknowledged, and those that are there.
package share

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/lifeline"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/python"
	"github.com/holdfast-sdn/holdfast/store"
	"github.com/holdfast-sdn/holdfast/store/client"
)

// The namespace and its tables. Each transaction makes a row, and adds to a sum.
const (
	namespace = "demo"
	rowTable  = "rows" // by NAME/NUMBER
	sumTable  = "sums"
	sumKey    = "all"
)

// Config is what a Run does.
type Config struct {
	Binary  string // holdfast
	Dir     string
	Kills   int
	Between time.Duration // between two kills
}

// Result is what a Run has seen.
type Result struct {
	Writers []Writer
	Kills   []Kill
	Rows    int    // that are there
	Sum     int64  // that is there
	Watched uint64 // revisions that a watch was told, each once and in order
	Last    uint64 // the last revision
}

// Writer is a process.
type Writer struct {
	Name         string
	Acknowledged int
	Lost         int // acknowledged writes that are not there
	Repeated     int // sums that were told twice
}

// Kill is one of the leader.
type Kill struct {
	Controller string
	Pause      time.Duration // the longest one in which no write was acknowledged
}

// ErrNotOnce says that a write was lost or repeated.
var ErrNotOnce = errors.New("not every acknowledged write is there once")

// Err returns ErrNotOnce, or nil.
func (r *Result) Err() error {
	total := 0
	for _, w := range r.Writers {
		if total += w.Acknowledged; w.Lost+w.Repeated > 0 {
			return ErrNotOnce
		}
	}
	if total != r.Rows || int64(total) != r.Sum || r.Watched != r.Last {
		return ErrNotOnce
	}
	return nil
}

// watchTimeout is how long the watch has to tell the last change, after all are made.
const watchTimeout = 20 * time.Second

// run is a Run that goes on.
type run struct {
	Config
	cluster   *cluster.Cluster
	addresses []string

	mu   sync.Mutex // guards what follows
	sums map[int64]string
	last time.Time // when a write was acknowledged
	gap  time.Duration
}

// writer is a Writer that runs.
type writer struct {
	Writer
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan error
	said  strings.Builder
}

// Run runs the demo. say is called with what happens.
func Run(ctx context.Context, cfg Config, say func(string)) (result Result, err error) {
	c, err := cluster.Start(ctx, cluster.Config{Binary: cfg.Binary, Dir: cfg.Dir, Apps: []string{store.Name}})
	if err != nil {
		return result, err
	}
	defer c.Close()
	r := &run{Config: cfg, cluster: c, sums: map[int64]string{}, last: time.Now()}
	for _, n := range c.Controllers() {
		r.addresses = append(r.addresses, n.REST)
	}
	cl, err := client.New(namespace, r.addresses...)
	if err != nil {
		return result, err
	}
	defer cl.Close()
	tables := []store.Op{{Kind: store.CreateTable, Table: rowTable}, {Kind: store.CreateTable, Table: sumTable}}
	if _, err := cl.Do(ctx, tables...); err != nil {
		return result, c.WithLogs(err)
	}
	watched := make(chan uint64, 1)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { watched <- watch(watching, cl) }() // ends with stop, or the last row
	writers, err := r.startWriters(say)
	defer func() {
		for _, w := range writers {
			_ = w.cmd.Process.Kill() // it may have ended
		}
	}()
	if err == nil {
		err = r.killAll(ctx, &result, say)
	}
	for _, w := range writers {
		err = errors.Join(err, w.end())
	}
	if err != nil {
		return result, c.WithLogs(err)
	}
	if err := r.compare(ctx, cl, writers, &result); err != nil {
		return result, c.WithLogs(err)
	}
	late := time.AfterFunc(watchTimeout, stop)
	defer late.Stop()
	result.Watched = <-watched
	return result, nil
}

// startWriters starts two processes of holdfast, and one of Python if that is installed.
func (r *run) startWriters(say func(string)) (list []*writer, err error) {
	commands := map[string]*exec.Cmd{}
	names := []string{"first", "second"}
	for _, name := range names {
		commands[name] = exec.Command(r.Binary, append([]string{"store", "share", name}, r.addresses...)...)
	}
	if interpreter, err := exec.LookPath("python3"); err == nil {
		for file, text := range map[string]string{"store.py": python.Store, "share.py": script} {
			if err := os.WriteFile(filepath.Join(r.Dir, file), []byte(text), 0o600); err != nil {
				return nil, err
			}
		}
		names = append(names, "python")
		commands["python"] = exec.Command(interpreter, append([]string{filepath.Join(r.Dir, "share.py"), "python"},
			r.addresses...)...)
	} else {
		say("python3 is not installed: the client in Python is left out")
	}
	for _, name := range names {
		w := &writer{Writer: Writer{Name: name}, cmd: commands[name], ended: make(chan error, 1)}
		w.cmd.Stderr = &w.said
		var out io.Reader
		if w.stdin, err = w.cmd.StdinPipe(); err == nil {
			out, err = w.cmd.StdoutPipe()
		}
		done := make(chan struct{})
		if err == nil {
			err = lifeline.Start(w.cmd, func() { <-done; w.ended <- w.cmd.Wait() })
		}
		if err != nil {
			return list, fmt.Errorf("start %s: %w", name, err)
		}
		go func() { defer close(done); r.read(w, out) }() // ends with the process
		list = append(list, w)
	}
	return list, nil
}

//go:embed share.py
var script string

// read notes the sums that a process is told.
func (r *run) read(w *writer, out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		sum, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			continue
		}
		r.mu.Lock()
		w.Acknowledged++
		if _, twice := r.sums[sum]; twice {
			w.Repeated++
		}
		r.sums[sum] = w.Name
		now := time.Now()
		r.gap, r.last = max(r.gap, now.Sub(r.last)), now
		r.mu.Unlock()
	}
}

// end ends a process after its present write.
func (w *writer) end() error {
	w.stdin.Close()
	select {
	case err := <-w.ended:
		if err != nil {
			return fmt.Errorf("%s: %w: %s", w.Name, err, w.said.String())
		}
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s does not end: %s", w.Name, w.said.String())
	}
}

// killAll kills the leader again and again.
func (r *run) killAll(ctx context.Context, result *Result, say func(string)) error {
	for range r.Kills {
		if err := r.sleep(ctx); err != nil {
			return err
		}
		leader, err := r.cluster.WaitLeader(ctx)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.gap = 0
		before := len(r.sums)
		r.mu.Unlock()
		if err := leader.Kill(); err != nil {
			return err
		}
		if err := r.sleep(ctx); err != nil {
			return err
		}
		r.mu.Lock()
		k, after := Kill{leader.Name, r.gap}, len(r.sums)
		r.mu.Unlock()
		if after == before {
			return fmt.Errorf("no write was acknowledged after %s was killed", leader.Name)
		}
		say(fmt.Sprintf("leader %s killed after %d writes; the next was acknowledged after %.0f ms", k.Controller,
			before, k.Pause.Seconds()*1000))
		result.Kills = append(result.Kills, k)
		if err := leader.Restart(); err != nil {
			return err
		}
		if err := r.cluster.WaitReady(ctx, 0); err != nil {
			return err
		}
	}
	return r.sleep(ctx)
}

func (r *run) sleep(ctx context.Context) error {
	select {
	case <-time.After(r.Between):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastKey is that of the row which is written last.
const lastKey = "last"

// compare compares what was acknowledged with what is there.
func (r *run) compare(ctx context.Context, cl *client.Client, writers []*writer, result *Result) error {
	there := map[string]bool{}
	for start := ""; ; {
		out, err := cl.Do(ctx, store.Op{Kind: store.List, Table: rowTable, Start: start})
		if err != nil {
			return err
		}
		for _, row := range out.Results[0].Rows {
			there[row.Key] = true
		}
		if start = out.Results[0].Next; start == "" {
			break
		}
	}
	result.Rows = len(there)
	out, err := cl.Do(ctx, store.Op{Kind: store.Get, Table: sumTable, Key: sumKey},
		store.Op{Kind: store.Put, Table: sumTable, Key: lastKey, Columns: store.Value(nil)})
	if err != nil {
		return err
	}
	result.Last = out.Revision
	text, _ := out.Results[0].Row.Columns.Get(store.DefaultColumn)
	if result.Sum, err = strconv.ParseInt(string(text), 10, 64); err != nil {
		return err
	}
	for _, w := range writers {
		for n := range w.Acknowledged {
			if !there[fmt.Sprintf("%s/%d", w.Name, n+1)] {
				w.Lost++
			}
		}
		result.Writers = append(result.Writers, w.Writer)
	}
	return nil
}

// watch returns how many revisions a watch was told, each once and in order, up to the last one.
func watch(ctx context.Context, cl *client.Client) (told uint64) {
	after := uint64(0)
	for r, err := range cl.Watch(ctx, "", "", after) {
		if err != nil {
			return told
		}
		for _, c := range r.Changes {
			if c.Revision != told+1 {
				return told
			}
			if told++; c.Key == lastKey {
				return told
			}
		}
	}
	return told
}

// Write is one of the processes: it writes until ended is closed, and prints the sum that each write is told.
func Write(ctx context.Context, out io.Writer, name string, addresses []string, ended <-chan struct{}) error {
	cl, err := client.New(namespace, addresses...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for n := 1; ; n++ {
		select {
		case <-ended:
			return nil
		default:
		}
		row := store.Op{Kind: store.Create, Table: rowTable, Key: fmt.Sprintf("%s/%d", name, n),
			Columns: store.Value([]byte("written by " + name))}
		done, err := cl.Do(ctx, row, store.Op{Kind: store.Add, Table: sumTable, Key: sumKey, Delta: 1})
		if err == nil {
			_, err = fmt.Fprintln(out, done.Results[1].Value)
		}
		if err != nil {
			return err
		}
	}
}
