package flock

import (
	"fmt"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/apps/kv"
)

// Actors are made and counted, in several groups too, and values are put.
func TestFlock(t *testing.T) {
	for _, groups := range []uint64{1, 3} {
		flock := New()
		net := apptest.NewOf(t, groups, flock, kv.New())
		net.Call(flock, "POST /create/{first}/{n}", app.Request{Values: map[string]string{"first": "7",
			"n": fmt.Sprint(MaxActors)}})
		r := net.Call(flock, "GET /created", app.Request{})
		if string(r.Body) != fmt.Sprint(MaxActors) {
			t.Errorf("%s actors in %d groups", r.Body, groups)
		}
		net.Call(flock, "POST /put/{n}", app.Request{Values: map[string]string{"n": fmt.Sprint(MaxPuts)}})
		if n := len(net.Rows(kv.Name)); n != Keys {
			t.Errorf("%d values in %d groups", n, groups)
		}
	}
}
