package tenants

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// With as many hosts and switches as there may be, each host of a tenant of its own, a change of all paths is possible.
// Further hosts are refused.
func TestBounds(t *testing.T) {
	a, cables := New(), newCables()
	net := apptest.NewOf(t, 1, a, cables)
	// settle confirms what switches are told, until nothing is left to do.
	settle := func(sent []apptest.Sent) (entries int) {
		for sent = append(sent, net.Advance(1)...); len(sent) > 0; {
			var next []apptest.Sent
			for _, c := range sent {
				switch c.Message.(type) {
				case *of13.FlowMod:
					entries++
				case *of13.BarrierRequest:
					next = append(next, net.Message(c.Switch, &of13.BarrierReply{}, c.XID)...)
				}
			}
			sent = append(next, net.Advance(1)...)
		}
		return entries
	}
	at := func(id int, port app.Port) app.PortOf { return app.PortOf{Switch: app.Switch(id), Port: port} }
	cable := func(i int, up bool) int {
		for _, w := range wires(at(i, 1), at(i%MaxSwitches+1, 2), up) {
			net.Call(cables, "PUT /", app.Request{Body: w})
		}
		return settle(nil)
	}
	for i := range MaxSwitches {
		settle(net.SwitchUp(app.Switch(i + 1)))
	}
	for i := range MaxSwitches {
		cable(i+1, true)
	}
	attach := func(i int) (int, string) {
		tenant := fmt.Sprint("tenant", i)
		net.Call(a, "PUT /{tenant}", app.Request{Values: map[string]string{"tenant": tenant}})
		body, _ := json.Marshal(Place{Switch: fmt.Sprintf("%x", i%MaxSwitches+1), Port: app.Port(3 + i)})
		r := net.Call(a, "PUT /{tenant}/hosts/{mac}", app.Request{Body: body,
			Values: map[string]string{"tenant": tenant, "mac": "02:00:00:00:00:01"}})
		return r.Status, string(r.Body)
	}
	for i := range MaxHosts {
		if status, text := attach(i); status != http.StatusNoContent {
			t.Fatalf("host %d: %d %s", i, status, text)
		}
	}
	settle(nil)
	if status, text := attach(MaxHosts); status != http.StatusInsufficientStorage {
		t.Errorf("one host more: %d %s", status, text)
	}
	if n := cable(1, false); n < MaxHosts {
		t.Errorf("%d entries have changed with a link", n)
	}
}
