package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/platform"
)

// tables asks all controllers for an application's tables. The first answer of one that knows who leads is taken, else
// that of the one that has most of the log.
func (o *operator) tables(ctx context.Context, app string) (*platform.Tables, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		tables platform.Tables
		err    error
	}
	answers := make(chan answer, len(o.site.Controllers))
	for _, c := range o.site.Controllers {
		go func() { // ends with cancel
			var a answer
			a.err = o.call(ctx, c, http.MethodGet, "/v1/apps/"+app+"/tables", nil, &a.tables)
			answers <- a
		}()
	}
	var behind []platform.Tables
	var failed error
	for range o.site.Controllers {
		switch a := <-answers; {
		case a.err != nil:
			if failed == nil || absent(a.err) {
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
	newest := slices.MaxFunc(behind, func(a, b platform.Tables) int { return cmp.Compare(a.Applied, b.Applied) })
	return &newest, nil
}

// absent reports whether a controller said that an application does not run.
func absent(err error) bool {
	var no *refused
	return errors.As(err, &no) && no.code == http.StatusNotFound
}

// topology asks for what is known of the network. Without a leader it may be out of date, of which it warns.
func (o *operator) topology(ctx context.Context, warnings io.Writer) (*topology.Snapshot, error) {
	t, err := o.tables(ctx, topology.Name)
	if absent(err) {
		return nil, fmt.Errorf("%w: put it among the apps of the site file", err)
	}
	if err != nil {
		return nil, err
	}
	if t.Leader == "" {
		fmt.Fprintf(warnings, "holdfast: no controller leads; this is what %s last heard\n", t.Controller)
	}
	return topology.Of(slices.Values(t.Rows))
}
