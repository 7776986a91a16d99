//go:build crashpoints

package main

import "github.com/holdfast-sdn/holdfast/e2e/apps"

func init() {
	applications["alarm"] = apps.NewAlarm
	applications["allocator"] = apps.NewAllocator
	applications["careless"] = apps.NewCareless
	applications["counter"] = apps.NewCounter
	applications["fragile"] = apps.NewFragile
	applications["redirect"] = apps.NewRedirect
	applications["rerouter"] = apps.NewRerouter
}
