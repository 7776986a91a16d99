package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Status asks for the state of the cluster: one controller after the other, until one answers that has heard the leader
// and knows all controllers of the cluster file. Otherwise it returns the answer that says most. If no controller
// answers, the result has only the controllers, with the reasons.
func (c *Client) Status(ctx context.Context) controller.ClusterStatus {
	w := c.wait("waiting for the status of the cluster")
	defer w.end()
	var best, none controller.ClusterStatus
	for _, n := range c.cluster.Controllers {
		w.asks(n.Name)
		s, err := c.statusAt(ctx, n)
		w.said(n.Name, err)
		switch {
		case err != nil:
			none.Controllers = append(none.Controllers, controller.Answer{Name: n.Name, Error: err.Error()})
		case s.Leader != "" && c.lists(s) == len(c.cluster.Controllers):
			return s
		case best.By == "" || s.Leader != "" && best.Leader == "" ||
			(s.Leader != "") == (best.Leader != "") && c.lists(s) > c.lists(best):
			best = s
		}
	}
	if best.By == "" {
		return none
	}
	return best
}

// statusAt asks one controller for the state of the cluster.
func (c *Client) statusAt(ctx context.Context, n config.Controller) (s controller.ClusterStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = c.call(ctx, n, http.MethodGet, "/v1/cluster", nil, &s)
	return s, err
}

// lists counts the controllers of the cluster file of which the controller that answers knows the address.
func (c *Client) lists(s controller.ClusterStatus) (n int) {
	for _, a := range s.Controllers {
		if _, ok := c.cluster.Controller(a.Name); ok && (a.API != "" || a.Status != nil) {
			n++
		}
	}
	return n
}

// otherRelease says that the tables of a controller may differ from those that this release knows.
type otherRelease struct{ controller, release string }

func (e *otherRelease) Error() string {
	return fmt.Sprintf("controller %s is of another release (%s, and this is %s), so its tables may differ: "+
		"use the holdfast binary beside it", e.controller, cmp.Or(e.release, "an older one"), controller.Release())
}

// Tables asks all controllers for an application's tables. It returns the first answer of a controller that knows a
// leader, or else the answer of the one that has applied most of the log. Controllers of another release are not
// believed.
func (c *Client) Tables(ctx context.Context, app string) (*controller.Tables, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		tables controller.Tables
		err    error
	}
	w := c.wait("waiting for the tables of application " + app)
	defer w.end()
	answers := make(chan answer, len(c.cluster.Controllers))
	for _, n := range c.cluster.Controllers {
		w.asks(n.Name)
		go func() { // ends with cancel
			var a answer
			a.err = c.call(ctx, n, http.MethodGet, "/v1/apps/"+app+"/tables", nil, &a.tables)
			w.said(n.Name, a.err)
			if a.err == nil && a.tables.Release != controller.Release() {
				a.err = &otherRelease{n.Name, a.tables.Release}
			}
			answers <- a
		}()
	}
	var behind []controller.Tables
	var failed error
	for range c.cluster.Controllers {
		switch a := <-answers; {
		case a.err != nil:
			if failed == nil || telling(a.err) > telling(failed) {
				failed = a.err
			}
		case a.tables.Leader != "":
			return &a.tables, nil
		default:
			behind = append(behind, a.tables)
		}
	}
	if len(behind) == 0 {
		return nil, fmt.Errorf("no controller has tables of application %s: %w", app, failed)
	}
	newest := slices.MaxFunc(behind, func(a, b controller.Tables) int { return cmp.Compare(a.Applied, b.Applied) })
	return &newest, nil
}

// telling ranks the errors of several controllers by how much they say about all of them: the first of the highest
// rank is returned.
func telling(err error) int {
	if _, is := err.(*otherRelease); is {
		return 2
	}
	if NotFound(err) {
		return 1
	}
	return 0
}
