// Package promises is the demo of the network suite. It runs applications together, kills leaders, cuts a link and
// moves a machine meanwhile, and compares what each application promises with what hosts have seen.
//
// Controllers and agents are processes. Switches and hosts are in this process, and need no privileges.
package promises

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/api"
	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/mirror"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
)

// Config is what a Run needs.
type Config struct {
	Binary string // holdfast
	Dir    string // for logs and cluster files; must exist
	Groups string // of the cluster file: 1 or per-controller
	// Between is how long the streams flow between two faults, at least.
	Between time.Duration
}

// Promise is what an application promises, and what was measured.
type Promise struct {
	Application string `json:"application"`
	Promise     string `json:"promise"`
	Measured    string `json:"measured"`
	Kept        bool   `json:"kept"`
}

// Result is what a Run has measured.
type Result struct {
	Promises []Promise
	Figures  map[string]float64 // by name, with the unit in the name
}

// ErrBroken says that an application did not do what it promises.
var ErrBroken = errors.New("a promise was broken")

// Err returns ErrBroken, or nil.
func (r *Result) Err() error {
	if slices.ContainsFunc(r.Promises, func(p Promise) bool { return !p.Kept }) {
		return ErrBroken
	}
	return nil
}

func (r *Result) add(application, promise string, kept bool, measured string, args ...any) {
	r.Promises = append(r.Promises, Promise{application, promise, fmt.Sprintf(measured, args...), kept})
}

// Run runs the demo. say is called with what happens.
func Run(ctx context.Context, cfg Config, say func(string)) (Result, error) {
	r := Result{Figures: map[string]float64{}}
	for _, act := range []struct {
		apps     []string
		switches int
		play     func(context.Context, *site, *Result) error
	}{
		{[]string{"firewall", "kandoo", "router", "recovery"}, treeSize, playTree},
		{[]string{"tenants"}, pairSize, playTenants},
	} {
		if err := perform(ctx, cfg, act.apps, act.switches, say, func(s *site) error {
			return act.play(ctx, s, &r)
		}); err != nil {
			return r, err
		}
	}
	return r, nil
}

// perform runs a cluster with a network for an act.
func perform(ctx context.Context, cfg Config, apps []string, switches int, say func(string),
	play func(*site) error) (err error) {
	dir := filepath.Join(cfg.Dir, apps[0])
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Config{Binary: cfg.Binary, Dir: dir, Apps: apps, Agents: 1, Patience: patience,
		Sections: "groups: " + cfg.Groups + "\n"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	s := &site{Cluster: c, say: say, between: cfg.Between, network: startNetwork(c.Agents()[0].Listen, switches)}
	defer s.close()
	return play(s)
}

// patience is how long something that is waited for may take.
const patience = 2 * time.Minute

// site is a cluster and its network.
type site struct {
	*cluster.Cluster
	*network
	say     func(string)
	between time.Duration
}

// rest lets the streams flow.
func (s *site) rest(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.between):
		return nil
	}
}

// until waits for something.
func (s *site) until(ctx context.Context, what string, ok func() bool) error {
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			return s.WithLogs(fmt.Errorf("waited %v for %s", patience, what))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// request sends a request to an application, until a controller answers it.
func (s *site) request(ctx context.Context, method, path, body string) (text string, err error) {
	waited := s.until(ctx, method+" "+path, func() bool {
		for _, c := range s.Controllers() {
			var status int
			if status, text, err = ask(ctx, method, "http://"+c.REST+"/apps/"+path, body); err != nil ||
				status >= http.StatusInternalServerError {
				continue
			}
			if status >= http.StatusBadRequest {
				err = fmt.Errorf("%s %s: %d %s", method, path, status, text)
			}
			return true
		}
		return false
	})
	if waited != nil {
		return text, errors.Join(waited, err)
	}
	return text, err
}

func ask(ctx context.Context, method, url, body string) (status int, text string, err error) {
	q, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	a, err := http.DefaultClient.Do(q)
	if err != nil {
		return 0, "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	return a.StatusCode, string(b), err
}

// tables returns the tables of an application at the leader; false if there is none at present.
func (s *site) tables(ctx context.Context, name string) (t controller.Tables, ok bool) {
	for _, c := range s.Controllers() {
		r, err := c.Client().ListRows(ctx, &api.ListRowsRequest{Application: name})
		if err == nil && r.Stale == nil {
			mirror.Copy(&t, r)
			return t, true
		}
	}
	return t, false
}

// kill kills the leader after a while, and returns it.
func (s *site) kill(ctx context.Context) (*cluster.Controller, error) {
	if err := s.rest(ctx); err != nil {
		return nil, err
	}
	leader, err := s.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	return leader, leader.Kill()
}

// restart restarts controllers, and waits until each could be the next master of all switches.
func (s *site) restart(ctx context.Context, switches int, dead ...*cluster.Controller) error {
	for _, c := range dead {
		if err := c.Restart(); err != nil {
			return err
		}
	}
	if err := s.WaitReady(ctx, switches); err != nil {
		return err
	}
	return s.rest(ctx)
}
