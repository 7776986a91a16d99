package controller

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// Tables is the contents of an application's tables, of each group at one index of its log.
type Tables struct {
	Application string `json:"application"`
	Controller  string `json:"controller"` // that answers
	Release     string `json:"release"`    // of its binary: releases may differ in the contents of Rows
	Leader      string `json:"leader"`     // of the first group; "" if it knows none
	// Stale: it knows no leader of one of the groups, so Rows may be outdated; nil: it knows all.
	Stale *Stale `json:"stale,omitempty"`
	// of the log, or the sum of all groups: Rows contains the committed entries up to there
	Applied  uint64       `json:"applied_index"`
	Revision uint64       `json:"-"`    // see Controller.Revision
	Rows     []ledger.Row `json:"rows"` // by table, cell and field
}

// Release returns the version of this binary, as the Go tool recorded it.
func Release() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps { // a program of someone else
		if m.Path == "github.com/holdfast-sdn/holdfast" {
			return m.Version
		}
	}
	return cmp.Or(info.Main.Version, "unknown")
}

// maxTables bounds the result of Tables, in bytes.
const maxTables = 64 << 20

// noApplication is the error of a controller that does not run an application.
type noApplication struct {
	name string
	runs []string
}

func (e *noApplication) Error() string {
	return fmt.Sprintf("no application %q runs here; there are %s", e.name, strings.Join(e.runs, ", "))
}

// Tables returns the committed contents of an application's tables, as this controller knows them. More than 64 MiB are
// an error. The values are shared and must not be modified. Safe for concurrent use.
func (c *Controller) Tables(ctx context.Context, app string) (Tables, error) {
	groups, err := c.running(app)
	if err != nil {
		return Tables{}, err
	}
	t := Tables{Application: app, Controller: c.cfg.Name, Release: Release(), Rows: []ledger.Row{}}
	for _, g := range groups {
		var rows []ledger.Row
		var failed error
		err := g.inLoop(ctx, func() {
			t.Applied += g.core.applied
			if s := g.core.stale(); s != nil && (t.Stale == nil || s.Since.Before(t.Stale.Since)) {
				t.Stale = s
			}
			t.Revision += g.core.ledger.Revision(app)
			rows, failed = g.core.ledger.Rows(app, maxTables/len(groups))
		})
		if err = cmp.Or(err, failed); err != nil {
			return Tables{}, fmt.Errorf("tables of controller %s: %w", c.cfg.Name, err)
		}
		t.Rows = append(t.Rows, rows...)
	}
	slices.SortFunc(t.Rows, ledger.Row.Compare) // not in the loop: it may take a while
	n := c.system().node.Status()
	t.Leader = c.system().memberName(n, n.Leader)
	return t, nil
}

// Revision returns a number that grows whenever the result of Tables for the application may have changed. It is cheap.
// It is not comparable between controllers or across restarts. Safe for concurrent use.
func (c *Controller) Revision(ctx context.Context, app string) (revision uint64, err error) {
	groups, err := c.running(app)
	if err != nil {
		return 0, err
	}
	for _, g := range groups {
		if err := g.inLoop(ctx, func() { revision += g.core.ledger.Revision(app) }); err != nil {
			return 0, fmt.Errorf("tables of controller %s: %w", c.cfg.Name, err)
		}
	}
	return revision, nil
}

// applications returns the names of the applications that run here.
func (c *Controller) applications() (names []string) {
	for _, g := range c.groups.all() {
		for _, a := range g.cfg.Applications {
			if !slices.Contains(names, a.Name()) {
				names = append(names, a.Name())
			}
		}
	}
	return names
}

// running returns the groups of an application.
func (c *Controller) running(app string) (groups []*group, err error) {
	for _, g := range c.groups.all() {
		if application(g.cfg.Applications, app) != nil {
			groups = append(groups, g)
		}
	}
	if len(groups) == 0 {
		return nil, &noApplication{app, c.applications()}
	}
	return groups, nil
}
