package app_test

import (
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
)

// A request that is to name a switch, and does not, is refused before the handler runs.
func TestSwitchOf(t *testing.T) {
	a := app.New("a")
	var ran []app.Switch
	app.HandleHTTP(a, "GET /{switch}", nil, func(_ *app.Tx, r app.Request) (app.Response, error) {
		ran = append(ran, app.SwitchOf(r))
		return app.Response{}, nil
	})
	net := apptest.New(t, a)
	for name, want := range map[string]int{"a1": 0, "s1": 400} {
		r := net.Call(a, "GET /{switch}", app.Request{Values: map[string]string{"switch": name}})
		if r.Status != want || want > 0 && !strings.Contains(string(r.Body), `"s1"`) {
			t.Errorf("%s: %d %s, want %d", name, r.Status, r.Body, want)
		}
	}
	if len(ran) != 1 || ran[0] != 0xa1 {
		t.Errorf("the handler has run for %v", ran)
	}
}
