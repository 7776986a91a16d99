package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/holdfast-sdn/holdfast/api"
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
	inTurn(ctx, c, w, askNext, c.statusAt, func(a said[controller.ClusterStatus]) bool {
		s := a.what
		switch {
		case a.err != nil:
			none.Controllers = append(none.Controllers, controller.Answer{Name: a.from.Name, Error: a.err.Error()})
		case s.Leader != "" && c.lists(s) == len(c.cluster.Controllers):
			best = s
			return false
		case best.By == "" || s.Leader != "" && best.Leader == "" ||
			(s.Leader != "") == (best.Leader != "") && c.lists(s) > c.lists(best):
			best = s
		}
		return true
	})
	if best.By == "" {
		return none
	}
	return best
}

// statusAt asks one controller for the state of the cluster.
func (c *Client) statusAt(ctx context.Context, n config.Controller) (s controller.ClusterStatus, err error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	err = call(ctx, c, n, plain(peer.GetStatus), &s)
	return s, err
}

// Controller asks one controller what it says of itself.
func (c *Client) Controller(ctx context.Context, name string) (s controller.Status, err error) {
	to, err := c.cluster.Named(name)
	if err != nil {
		return s, err
	}
	w := c.wait("waiting for controller " + name)
	defer w.end()
	w.asks(name)
	err = call(ctx, c, to, plain(peer.GetController), &s)
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

// Tables asks all controllers for an application's tables. It returns the first answer of a controller that knows the
// leaders of all groups, or else, after a moment, the answer of the one that has applied most of the log. Controllers
// of another release are not believed.
func (c *Client) Tables(ctx context.Context, app string) (*controller.Tables, error) {
	w := c.wait("waiting for the tables of application " + app)
	defer w.end()
	t, err := newest(ctx, c, w, func(ctx context.Context, n config.Controller) (*controller.Tables, error) {
		var t controller.Tables
		err := call(ctx, c, n, func(a peer, ctx context.Context) (*api.Tables, error) {
			return a.ListRows(ctx, &api.ListRowsRequest{Application: app})
		}, &t)
		if err == nil && t.Release != controller.Release() {
			err = &otherRelease{n.Name, t.Release}
		}
		return &t, err
	}, func(t *controller.Tables) bool { return t.Stale != nil },
		func(a, b *controller.Tables) bool { return a.Applied > b.Applied },
		func(a, b error) error {
			if a == nil || telling(b) > telling(a) {
				return b
			}
			return a
		})
	if err != nil {
		return nil, fmt.Errorf("no controller has tables of application %s: %w", app, err)
	}
	return t, nil
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
