package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/apps/hub"
	"github.com/holdfast-sdn/holdfast/apps/learning"
	"github.com/holdfast-sdn/holdfast/apps/valiant"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/platform/hosting"
)

// applications are those that this binary holds, by the name that stands in the site file.
var applications = map[string]func() *app.App{
	"hub":      hub.New,
	"learning": learning.New,
	"topology": topology.New,
	"valiant":  valiant.New,
}

func applicationNames() []string { return slices.Sorted(maps.Keys(applications)) }

// newApplications makes the applications of those names, in that order. levels are consistency levels
// by application and message.
func newApplications(names []string, levels map[string]map[string]string) ([]ledger.Application, error) {
	for name := range levels {
		if name == config.RyuApp || !slices.Contains(names, name) {
			return nil, fmt.Errorf("levels: application %s is not among the apps %v: remove its levels", name, names)
		}
	}
	var list []ledger.Application
	for _, name := range names {
		if name == config.RyuApp {
			list = append(list, hosting.NewApplication("")) // hostApplications knows which
			continue
		}
		make, ok := applications[name]
		if !ok {
			return nil, fmt.Errorf("no application is called %q; there are %v", name, applicationNames())
		}
		a := make()
		if err := setLevels(a, levels[name]); err != nil {
			return nil, fmt.Errorf("levels: %w", err)
		}
		list = append(list, a)
	}
	return list, nil
}

func setLevels(a *app.App, levels map[string]string) error {
	for _, message := range slices.Sorted(maps.Keys(levels)) {
		level, err := app.ParseLevel(levels[message])
		if err == nil {
			err = a.SetLevel(message, level)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
