package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// otherRelease says that only its own command line knows for sure what a controller has in its tables.
type otherRelease struct{ controller, release string }

func (e *otherRelease) Error() string {
	return fmt.Sprintf("controller %s is of another release (%s, and this is %s), and its tables may be others: "+
		"use the holdfast beside it", e.controller, cmp.Or(e.release, "an older one"), controller.Release())
}

// tables asks all controllers for an application's tables. The first answer of one that knows who leads is taken, else
// that of the one that has most of the log; controllers of another release count only in errors.
func (o *operator) tables(ctx context.Context, app string) (*controller.Tables, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		tables controller.Tables
		err    error
	}
	answers := make(chan answer, len(o.cluster.Controllers))
	for _, c := range o.cluster.Controllers {
		go func() { // ends with cancel
			var a answer
			a.err = o.call(ctx, c, http.MethodGet, "/v1/apps/"+app+"/tables", nil, &a.tables)
			if a.err == nil && a.tables.Release != controller.Release() {
				a.err = &otherRelease{c.Name, a.tables.Release}
			}
			answers <- a
		}()
	}
	var behind []controller.Tables
	var failed error
	for range o.cluster.Controllers {
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
		return nil, fmt.Errorf("no controller tells of application %s: %w", app, failed)
	}
	newest := slices.MaxFunc(behind, func(a, b controller.Tables) int { return cmp.Compare(a.Applied, b.Applied) })
	return &newest, nil
}

// telling ranks errors of several controllers by how much they say of all: the first of the highest is told.
func telling(err error) int {
	if _, is := errors.AsType[*otherRelease](err); is {
		return 2
	}
	if absent(err) {
		return 1
	}
	return 0
}

// absent reports whether a controller said that an application does not run.
func absent(err error) bool {
	var no *refused
	return errors.As(err, &no) && no.code == http.StatusNotFound
}

// tablesOf is tables for commands: what is missing says what to do, and what may be out of date comes with a warning.
func (o *operator) tablesOf(ctx context.Context, app string, warnings io.Writer) (*controller.Tables, error) {
	t, err := o.tables(ctx, app)
	if absent(err) {
		return nil, fmt.Errorf("%w: put it among the apps of the cluster file", err)
	}
	if err == nil && t.Leader == "" {
		fmt.Fprintf(warnings, "holdfast: no controller leads; this is what %s last heard\n", t.Controller)
	}
	return t, err
}

// understood reads tables. Builds that no release tells apart may differ too.
func understood[V any](t *controller.Tables, of func(iter.Seq[ledger.Row]) (V, error)) (V, error) {
	v, err := of(slices.Values(t.Rows))
	if err != nil {
		return v, fmt.Errorf("controller %s may be of another build, use the holdfast beside it: %w", t.Controller, err)
	}
	return v, nil
}

// topology asks for what is known of the network.
func (o *operator) topology(ctx context.Context, warnings io.Writer) (*topology.Snapshot, error) {
	t, err := o.tablesOf(ctx, topology.Name, warnings)
	if err != nil {
		return nil, err
	}
	return understood(t, topology.Of)
}

// recovery asks how the network is protected.
func (o *operator) recovery(ctx context.Context, warnings io.Writer) (*recovery.View, error) {
	t, err := o.tablesOf(ctx, recovery.Name, warnings)
	if err != nil {
		return nil, err
	}
	return understood(t, recovery.Of)
}
