package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	"github.com/holdfast-sdn/holdfast/apps/tenants"
	"github.com/holdfast-sdn/holdfast/internal/await"
	"github.com/holdfast-sdn/holdfast/lab/cluster"
	"github.com/holdfast-sdn/holdfast/lab/netlab"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// virtual is two Open vSwitches with a link, at their ports 1, and three machines at each, at ports 2 to 4. Tenants red
// and blue have machines with the same addresses.
type virtual struct {
	*testCluster
	web *web
	at  map[string]*station // by switch and port, as in 1/2
}

func startVirtual(t *testing.T, m mode) *virtual {
	t.Helper()
	groups := "groups: 1\n"
	if m.stock {
		groups = "groups: per-controller\n"
	}
	v := &virtual{m.start(t, 2, cluster.Config{Apps: []string{tenants.Name}, Binary: plain, Patience: 4 * patience,
		Sections: groups}), newWeb(t), map[string]*station{}}
	lab := v.lab()
	var switches []*netlab.Switch
	for i := range 2 {
		sw, err := lab.AddSwitch(fmt.Sprintf("s%d", i+1), uint64(i+1))
		v.check(err)
		switches = append(switches, sw)
	}
	_, err := lab.Connect(switches[0], switches[1])
	v.check(err)
	for i, sw := range switches {
		for port := 2; port <= 4; port++ {
			h, err := lab.AddHost(fmt.Sprintf("h%d%d", i+1, port), netip.MustParsePrefix("10.0.0.1/24"))
			v.check(err)
			v.at[fmt.Sprintf("%d/%d", i+1, port)] = v.plug(lab, sw, h)
		}
	}
	v.control(lab, switches)
	return v
}

// request sends a request until a controller answers it.
func (v *virtual) request(method, path, body string) (status int, text string) {
	v.t.Helper()
	await.Until(v.t, method+" "+path+" to be answered", func() bool {
		for _, c := range v.Controllers() {
			status, text = v.web.ask(c, method, "/apps/tenants/"+path, body)
			if status > 0 && status < http.StatusInternalServerError {
				return true
			}
		}
		return false
	})
	return status, text
}

// put tells that a machine is at a switch and port, and waits until it is ready.
func (v *virtual) put(tenant string, mac byte, at string) {
	v.t.Helper()
	var id, port int
	if _, err := fmt.Sscanf(at, "%d/%d", &id, &port); err != nil {
		v.t.Fatal(err)
	}
	path := fmt.Sprintf("%s/hosts/02:00:00:00:00:%02x", tenant, mac)
	status, text := v.request("PUT", path, fmt.Sprintf(`{"switch":"%d","port":%d}`, id, port))
	if status != http.StatusNoContent {
		v.t.Fatalf("PUT %s: %d %s", path, status, text)
	}
	await.Until(v.t, path+" to be ready", func() bool {
		_, text := v.request("GET", path, "")
		var is tenants.Status
		return json.Unmarshal([]byte(text), &is) == nil && is.Ready && is.Port == of13.Port(port)
	})
}

// arrives waits until a frame more with a label arrives at a station.
func (v *virtual) arrives(l, at string) {
	v.t.Helper()
	seen := v.at[at].count(l)
	await.Until(v.t, l+" at "+at, func() bool { return v.at[at].count(l) > seen })
}

// Two tenants have machines with the same addresses on two Open vSwitches, and send all the time, to one machine and to
// all. A machine moves, another tenant gets its port, and leaders are killed meanwhile. No frame of a tenant arrives at
// a machine of the other one.
func TestTenants(t *testing.T) {
	inModes(t, []mode{withAgents, stockOVS}, func(t *testing.T, m mode) {
		needOVS(t)
		v := startVirtual(t, m)
		for _, name := range []string{"red", "blue"} {
			v.request("PUT", name, "")
		}
		v.put("red", 1, "1/2")
		v.put("red", 2, "2/2")
		v.put("blue", 1, "1/3")
		v.put("blue", 2, "2/3")
		everyone := of13.MAC{255, 255, 255, 255, 255, 255}
		one, two := of13.MAC{2, 0, 0, 0, 0, 1}, of13.MAC{2, 0, 0, 0, 0, 2}
		for at, name := range map[string]string{"1/2": "red", "1/3": "blue"} {
			defer v.at[at].stream(t, between(one, two, name+" 2"))()
			defer v.at[at].stream(t, between(one, everyone, name+" all"))()
		}
		both := func(name, at string) {
			t.Helper()
			v.arrives(name+" 2", at)
			v.arrives(name+" all", at)
		}
		both("red", "2/2")
		both("blue", "2/3")

		leader := v.leader()
		v.check(leader.Kill())
		v.put("red", 2, "1/4") // from one switch to the other
		both("red", "1/4")
		v.check(leader.Restart())
		redBefore := v.at["2/2"].count("red 2")
		v.put("blue", 2, "2/2") // where red was
		both("blue", "2/2")
		leader = v.leader()
		v.put("red", 2, "2/3") // where blue was
		v.check(leader.Kill())
		both("red", "2/3")
		both("blue", "2/2")
		if now := v.at["2/2"].count("red 2"); now != redBefore {
			t.Errorf("%d frames of red have arrived where it was", now-redBefore)
		}
		for at, names := range map[string][]string{"1/4": {"blue"}, "2/4": {"red", "blue"}, "1/2": {"blue"}, "1/3": {"red"}} {
			for _, name := range names {
				if n := v.at[at].count(name+" 2") + v.at[at].count(name+" all"); n > 0 {
					t.Errorf("%d frames of %s have arrived at %s", n, name, at)
				}
			}
		}
	})
}
