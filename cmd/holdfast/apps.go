package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/ledger"
)

// applications are those that this binary holds, by the name that stands in the site file.
var applications = map[string]func() *app.App{
	"hub":      hub.New,
	"learning": learning.New,
}

func applicationNames() []string { return slices.Sorted(maps.Keys(applications)) }

// newApplications makes the applications of those names, in that order.
func newApplications(names []string) ([]ledger.Application, error) {
	var list []ledger.Application
	for _, name := range names {
		make, ok := applications[name]
		if !ok {
			return nil, fmt.Errorf("no application is called %q; there are %v", name, applicationNames())
		}
		list = append(list, make())
	}
	return list, nil
}
