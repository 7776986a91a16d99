package command

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/app/apptest"
	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/openflow/packet"
)

func TestLevelsOfApplications(t *testing.T) {
	levels := func(app, message, level string) map[string]map[string]string {
		return map[string]map[string]string{app: {message: level}}
	}
	list, err := newApplications(&config.Cluster{Apps: []string{"topology", "learning"},
		Levels: levels("learning", "packet_in", "ordered")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []ledger.Level{ledger.ExactlyOnce, ledger.Ordered} {
		if l, _ := list[i].(ledger.Leveler).Level(of13.TypePacketIn); l != want {
			t.Errorf("application %d has packet-ins at %v, want %v", i, l, want)
		}
	}
	for text, wrong := range map[string]map[string]map[string]string{
		"not among the apps":   levels("hub", "packet_in", "ordered"),
		`level "strong": use`:  levels("learning", "packet_in", "strong"),
		"does not handle":      levels("learning", "flow_removed", "ordered"),
		`level can be set for`: levels("learning", "switch_up", "ordered"),
	} {
		if _, err := newApplications(&config.Cluster{Apps: []string{"learning"}, Levels: wrong}); err == nil ||
			!strings.Contains(err.Error(), text) {
			t.Errorf("%v: error %v, want %q in it", wrong, err, text)
		}
	}
}

func TestOneApplicationForwards(t *testing.T) {
	for _, apps := range [][]string{{"recovery", "learning"}, {"hub", "valiant"}} {
		_, err := newApplications(&config.Cluster{Apps: apps})
		if want := apps[0] + " and " + apps[1] + " both forward packets"; err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q in it", apps, err, want)
		}
	}
}

func TestApplicationsComeWithWhatTheyNeed(t *testing.T) {
	for _, c := range []struct{ apps, want []string }{
		{[]string{"learning"}, []string{"learning"}},
		{[]string{"recovery"}, []string{"topology", "liveness", "edge", "recovery"}},
		{[]string{"recovery", "topology"}, []string{"topology", "liveness", "edge", "recovery"}},
		{[]string{"edge", "recovery", "edge"}, []string{"topology", "edge", "liveness", "recovery"}},
	} {
		list, err := newApplications(&config.Cluster{Apps: c.apps})
		var got []string
		for _, a := range list {
			got = append(got, a.Name())
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("apps %v are run as %v (%v), want %v", c.apps, got, err, c.want)
		}
	}
}

// TestForgottenSwitchLeavesNothing: when a switch is forgotten, no application has a row of it, nor of its ports and
// hosts, in one group and in several.
func TestForgottenSwitchLeavesNothing(t *testing.T) {
	for _, names := range [][]string{{"recovery", "monitor", "devices", "path"}, {"tenants", "devices", "graph"},
		{"learning", "path", "liveness", "monitor"}, {"firewall", "kandoo", "recovery"}, {"valiant", "balancer"}} {
		for _, groups := range []uint64{1, 3} {
			list, err := newApplications(&config.Cluster{Apps: names})
			if err != nil {
				t.Fatal(err)
			}
			var apps []*app.App
			for _, a := range list {
				apps = append(apps, a.(*app.App))
			}
			net := apptest.NewOf(t, groups, apps...)
			rows := func() map[string]bool {
				found := map[string]bool{}
				for _, a := range apps {
					for _, r := range net.Rows(a.Name()) {
						found[fmt.Sprintf("%s/%s at %v, %v", a.Name(), r.Table, r.Cell, r.Field)] = true
					}
				}
				return found
			}
			live := func(id app.Switch) {
				net.SwitchUp(id, of13.PortDesc{Port: 1}, of13.PortDesc{Port: 2})
				net.Advance(2 * time.Second)
				for n := range byte(100) {
					p := packet.Packet{Src: app.MAC{255, 255, 255, 255, 255, 255}, To: netip.AddrFrom4([4]byte{10, byte(id), 0, n}),
						From: netip.MustParseAddr("10.9.9.9")}
					net.PacketIn(id, 1, of13.NoBuffer, string(p.Reply(app.MAC{2, 0, 0, 0, byte(id), n})))
				}
				net.Advance(time.Minute) // so that there is a plan
			}
			live(1)
			before := rows()
			live(2)
			if during := rows(); len(during) <= len(before) {
				t.Errorf("%v: the switch has no rows", names)
			}
			net.SwitchDown(2)
			net.Advance(time.Second)
			net.Forget(2)
			net.Advance(time.Minute)
			for row := range rows() {
				if !before[row] {
					t.Errorf("%v in %d groups: %s is left", names, groups, row)
				}
			}
		}
	}
}

// Applications that need table 0 themselves do not run behind the firewall.
func TestBehindTheFirewall(t *testing.T) {
	if _, err := newApplications(&config.Cluster{Apps: []string{"firewall", "topology", "learning"}}); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"tenants", config.RyuApp} {
		_, err := newApplications(&config.Cluster{Apps: []string{"firewall", other}})
		if want := "firewall and " + other + " both use table 0"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// Beside recovery, applications before it have tables of their own. Without it, all share one.
func TestPipeline(t *testing.T) {
	for _, c := range []struct {
		apps   []string
		last   uint8
		before map[string]uint8
	}{
		{[]string{"learning"}, 0, nil},
		{[]string{"firewall", "router", "kandoo"}, 3, nil},
		{[]string{"recovery"}, 0, nil},
		{[]string{"recovery", "router"}, 1, map[string]uint8{"router": 0}},
		{[]string{"router", "firewall", "kandoo", "recovery"}, 5, map[string]uint8{"kandoo": 3, "router": 4}},
	} {
		last, before := pipeline(c.apps)
		if last != c.last || !maps.Equal(before, c.before) {
			t.Errorf("%v: tables %v, then %d, want %v, then %d", c.apps, before, last, c.before, c.last)
		}
		if _, err := newApplications(&config.Cluster{Apps: c.apps}); err != nil {
			t.Errorf("%v: %v", c.apps, err)
		}
	}
	_, err := newApplications(&config.Cluster{Apps: []string{"router", "learning", "recovery"}})
	if err == nil || !strings.Contains(err.Error(), "learning and recovery both forward") {
		t.Errorf("error %v", err)
	}
}

// Applications of a program are found by their names, which nobody else may have.
func TestInclude(t *testing.T) {
	before, names := maps.Clone(applications), own
	defer func() { applications, own = before, names }()
	mine := func() *app.App { return app.New("mine") }
	if err := include([]func() *app.App{mine}); err != nil {
		t.Fatal(err)
	}
	list, err := newApplications(&config.Cluster{Apps: []string{"mine", "hub"}, Levels: nil})
	if err == nil && (len(list) != 2 || list[0].Name() != "mine") || err != nil {
		t.Errorf("applications %v, %v", list, err)
	}
	for _, taken := range []string{"mine", "hub", config.RyuApp} {
		err := include([]func() *app.App{func() *app.App { return app.New(taken) }})
		if err == nil || !strings.Contains(err.Error(), "two applications are called") {
			t.Errorf("%s is taken, and the error is %v", taken, err)
		}
	}
}
