package client

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/holdfast-sdn/holdfast/controller"
)

// Answer is the status of one controller, or why there is none.
type Answer struct {
	Name   string             `json:"name"`
	Error  string             `json:"error,omitempty"`
	Status *controller.Status `json:"status,omitempty"`
}

// Status asks all controllers at once, and returns their answers in the order of the cluster file.
func (c *Client) Status(ctx context.Context) []Answer {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answers := make([]Answer, len(c.cluster.Controllers))
	w := c.wait("waiting for the status of all controllers")
	defer w.end()
	var wg sync.WaitGroup
	for i, n := range c.cluster.Controllers {
		w.asks(n.Name)
		wg.Go(func() {
			answers[i].Name = n.Name
			s := new(controller.Status)
			err := c.call(ctx, n, http.MethodGet, "/v1/status", nil, s)
			w.said(n.Name, err)
			if err != nil {
				answers[i].Error = err.Error()
				return
			}
			answers[i].Status = s
		})
	}
	wg.Wait()
	return answers
}

// LeaderOf returns the status of the controller that leads: of several that say so, the one in the latest term. It
// returns nil if none does.
func LeaderOf(answers []Answer) *controller.Status {
	var leader *controller.Status
	for _, a := range answers {
		if a.Status != nil && a.Status.Role == "leader" && (leader == nil || a.Status.Term > leader.Term) {
			leader = a.Status
		}
	}
	return leader
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
