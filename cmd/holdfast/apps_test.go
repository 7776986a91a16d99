package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-sdn/holdfast/internal/config"
	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
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

// Applications that need table 0 themselves do not run behind the firewall.
func TestBehindTheFirewall(t *testing.T) {
	if _, err := newApplications(&config.Cluster{Apps: []string{"firewall", "topology", "learning"}}); err != nil {
		t.Error(err)
	}
	for _, other := range []string{"recovery", config.RyuApp} {
		_, err := newApplications(&config.Cluster{Apps: []string{"firewall", other}})
		if want := "firewall and " + other + " both use table 0"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
