package advice

import (
	"strings"
	"testing"
)

// Traffic engineering as in section 2 of Beehive's paper: as it is first written, each reply of a switch is handled by
// one actor, which has all statistics and the traffic matrix. Decoupled, replies are handled at the switches, and one
// actor hears of flows that have become large.
func TestTrafficEngineering(t *testing.T) {
	naive := Input{
		Handlers: []Handler{{"te", "MULTIPART_REPLY", 90_000, "application te", 400}, {"te", "timer", 300, "application te", 0},
			{"learning", "PACKET_IN", 9_700, "", 0}},
		Crossings: []Crossing{{"", "te", "MULTIPART_REPLY", 60_000, 9 << 20}, {"te", "", "MULTIPART_REQUEST", 60_000, 6 << 20},
			{"te", "", "FLOW_MOD", 90, 9000}},
		Reasons: []Reason{{App: "te", Message: "MULTIPART_REPLY", Handler: "the handler of app.Reply at te.go:30",
			All: []string{"stats", "matrix"}}},
	}
	items := Of(naive)
	if len(items) != 3 || items[0].Kind != Centralised || items[0].Share != .9 || items[0].Messages != 90_000 {
		t.Fatalf("%+v", items)
	}
	for i, want := range [][3]string{
		{"One actor (application te) handles all MULTIPART_REPLY, from 400 actors: 90000 messages, 90% of all.",
			"te.go:30 needs all cells of tables stats, matrix.", "emit a message only when this handler"},
		{"MULTIPART_REPLY from switches to te is 50% of what crosses groups", "One actor of te handles MULTIPART_REPLY",
			"Divide that handler"},
		{"MULTIPART_REQUEST from te to switches is 50%", "One actor of te handles", "Divide that handler"},
	} {
		got := items[i]
		if !strings.Contains(got.Finding, want[0]) || !strings.Contains(got.Why, want[1]) ||
			!strings.Contains(got.Change, want[2]) {
			t.Errorf("%+v, want %q", got, want)
		}
	}
	decoupled := Input{
		Handlers: []Handler{{"te", "MULTIPART_REPLY", 90_000, "", 0}, {"te", "te.Spike", 40, "application te", 30}},
		Reasons:  []Reason{{App: "te", Message: "te.Spike", All: []string{"matrix"}}},
	}
	if items := Of(decoupled); len(items) != 0 {
		t.Errorf("the decoupled application is advised: %+v", items)
	}
}

// Each way in which a handler comes to be centralised has a reason of its own, and a change that fits.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		reason      Reason
		why, change string
	}{
		{Reason{Whole: true, All: []string{"a"}}, "app.App.Whole", "Remove Whole"},
		{Reason{All: []string{"a"}}, "all cells of table a.", "Let another handler"},
		{Reason{Undivided: []string{"a"}}, "cells of table a, and all of these belong to one actor", "app.Sharded"},
		{Reason{Unmapped: true}, "has no map function", "Give it a map function"},
		{Reason{}, "not known", "docs/applications.md"},
		{Reason{App: "another", Whole: true}, "not known", "docs/applications.md"},
	} {
		if c.reason.App == "" {
			c.reason.App = "te"
		}
		c.reason.Message, c.reason.Handler = "x.M", "the handler"
		items := Of(Input{Handlers: []Handler{{"te", "x.M", 5, "application te", 2}}, Reasons: []Reason{c.reason}})
		if len(items) != 1 || !strings.Contains(items[0].Why, c.why) || !strings.Contains(items[0].Change, c.change) {
			t.Errorf("%+v: %+v", c.reason, items)
		}
	}
}

// Actors that live apart are advised to move, if no handler is centralised; and not more crossings are shown than are
// read.
func TestCrossings(t *testing.T) {
	in := Input{Handlers: []Handler{{"a", "M", 100, "", 0}}}
	for range 5 {
		in.Crossings = append(in.Crossings, Crossing{"b", "a", "M", 10, 100})
	}
	items := Of(in)
	if len(items) != maxCrossings || items[0].App != "a" || !strings.Contains(items[0].Change, "placement: optimize") {
		t.Errorf("%+v", items)
	}
	if items := Of(Input{}); len(items) != 0 {
		t.Errorf("%+v", items)
	}
}
