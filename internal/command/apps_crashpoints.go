//go:build crashpoints

package command

import "github.com/holdfast-sdn/holdfast/lab/e2e/apps"

func init() {
	applications["alarm"] = plain(apps.NewAlarm)
	applications["allocator"] = plain(apps.NewAllocator)
	applications["careless"] = plain(apps.NewCareless)
	applications["counter"] = plain(apps.NewCounter)
	applications["fragile"] = plain(apps.NewFragile)
	applications["meter"] = plain(apps.NewMeter)
	applications["redirect"] = plain(apps.NewRedirect)
	applications["rerouter"] = plain(apps.NewRerouter)
}
