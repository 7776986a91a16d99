package main

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/client"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

func TestPrintStatus(t *testing.T) {
	leader := &controller.Status{Name: "c1", Role: "leader", Term: 3, Applied: 9, Apps: []string{"hub"},
		Switches: []controller.SwitchStatus{{Switch: "0000000000000001", State: "up", Role: "master", Mode: "agent",
			Version: "1.3", Guarantee: "exactly-once", EventsLogged: 5, CommandsSent: 7, CommandsDone: 6}}}
	other := &controller.Status{Name: "c2", Role: "follower", Term: 3, Apps: []string{"learning"}}
	stock := &controller.Status{Name: "c1", Role: "leader", Term: 3,
		Switches: []controller.SwitchStatus{{Switch: "0000000000000002", State: "up", Role: "master",
			Mode: "legacy", Version: "1.4", Guarantee: "at-most-once", Why: "it has no bundles", InSync: true}}}
	fenced := &controller.Status{Name: "c1", Role: "leader", Term: 1,
		Switches: []controller.SwitchStatus{{Switch: "0000000000000003", State: "down", Role: "standby",
			Mode: "agent", Version: "1.3", Guarantee: "none", Why: "a later term"}}}
	proxied := &controller.Status{Name: "c1", Role: "leader", Term: 3,
		Switches: []controller.SwitchStatus{{Switch: "0000000000000004", State: "up", Role: "master", Via: "c2",
			Mode: "agent", Guarantee: "exactly-once", Why: "connected to c2 only", InSync: true}}}
	standby := func(inSync bool) *controller.Status {
		return &controller.Status{Role: "follower", Term: 3,
			Switches: []controller.SwitchStatus{{Switch: "0000000000000002", Role: "standby", InSync: inSync}}}
	}
	hosts := &controller.Status{Name: "c1", Role: "leader", Term: 3,
		Replayed: &replay.Status{State: "running", Inputs: 70, Executed: 60, Logged: 50, HistoryBytes: 3 << 20,
			Restarts: 2, LastEnd: "hung at input 7", NoCheckpoint: "a thread waits"}}
	diverged := &controller.Status{Name: "c2", Role: "follower", Term: 3,
		Replayed: &replay.Status{State: "catching up", Diverged: 9, Checkpoint: 5, OSKen: "4.2.2"}}
	unloaded := func(name, role string) *controller.Status {
		return &controller.Status{Name: name, Role: role, Term: 3, Replayed: &replay.Status{State: "cannot load",
			LastEnd: "fatal", Failure: "mine.py, line 7: ValueError: no", NextAttempt: time.Now().Add(time.Minute)}}
	}
	late := &controller.Status{Name: "c2", Role: "follower", Term: 3, Apps: []string{"hub"},
		Election: controller.ElectionStatus{ConfiguredMs: 50, TimeoutMs: 240, HangMs: 480,
			Why: "the leader was silent for 120 ms"}}
	several := func(name, role, home string) *controller.Status {
		role1, role2 := "follower", "standby"
		if name == home {
			role1, role2 = "leader", "master"
		}
		return &controller.Status{Name: name, Role: role, Term: 4,
			Groups: []controller.GroupStatus{{Role: role, Term: 4, Leader: "c1"},
				{Group: 1, Role: role1, Term: 9, Leader: "c2", Home: "c2", Switches: 1, LastIndex: 77, Applied: 76}},
			Switches: []controller.SwitchStatus{{Switch: "0000000000000005", Group: 1, State: "up", Role: role2,
				Mode: "agent", InSync: true}}}
	}
	stale := &controller.Status{Name: "c3", Role: "leader", Term: 2, Apps: []string{"hub"}}
	for _, c := range []struct {
		name    string
		answers []client.Answer
		want    []string // in this order
		not     string
	}{
		{"a leader, and one without an answer", []client.Answer{{Name: "c1", Status: leader},
			{Name: "c2", Error: "ask controller c2: connection refused"}},
			[]string{"c1", "leader", "c2", "no answer", "c2: connection refused", "0000000000000001", "up", "c1",
				"agent", "1.3", "exactly-once", "5", "7", "6"}, "cluster file"},
		{"a busy machine", []client.Answer{{Name: "c1", Status: leader}, {Name: "c2", Status: late}},
			[]string{"c2: the election timeout is 240 ms instead of 50 ms, because the leader was silent for 120 ms",
				"within 480 ms"}, "c1: the election timeout"},
		{"another application", []client.Answer{{Name: "c1", Status: leader}, {Name: "c2", Status: other}},
			[]string{"follower", "c2 runs [learning] and the leader [hub]", "cluster file"}, "no answer"},
		{"no agent", []client.Answer{{Name: "c1", Status: stock}, {Name: "c2", Status: standby(true)},
			{Name: "c3", Status: standby(false)}},
			[]string{"STANDBY", "0000000000000002", "up", "c1", "1 (+1 not in sync)", "legacy", "1.4", "at-most-once",
				"0000000000000002: at-most-once: it has no bundles"}, "cluster file"},
		{"a switch that is connected to a follower", []client.Answer{{Name: "c1", Status: proxied}},
			[]string{"0000000000000004", "up", "c1 via c2", "agent",
				"0000000000000004: exactly-once: connected to c2 only"},
			"cluster file"},
		{"an agent that knows a later term", []client.Answer{{Name: "c1", Status: fenced}},
			[]string{"0000000000000003", "down", "-", "agent", "none", "0000000000000003: none: a later term"},
			"cluster file"},
		{"two that say they lead: the higher term does",
			[]client.Answer{{Name: "c3", Status: stale}, {Name: "c1", Status: leader}},
			[]string{"SWITCH", "0000000000000001", "c1"}, "no switch"},
		{"several groups", []client.Answer{{Name: "c1", Status: several("c1", "leader", "c2")},
			{Name: "c2", Status: several("c2", "follower", "c2")}},
			[]string{"GROUP", "HOME", "0", "c1", "-", "4", "1", "c2", "c2", "9", "77", "76", "1", "SWITCH",
				"0000000000000005", "up", "c2", "1", "agent"}, "no switch"},
		{"nobody leads", []client.Answer{{Name: "c2", Status: other}}, []string{"follower"}, "SWITCH"},
		{"applications of Ryu", []client.Answer{{Name: "c1", Status: hosts}, {Name: "c2", Status: diverged}},
			[]string{"RYU AT", "c1", "running", "70", "60", "50", "3.0 MB", "-", "2", "c2", "catching up", "5", "4.2.2",
				"c1: its host ended last: hung at input 7",
				"c1: no checkpoint", "a thread waits", "c2: its applications did something else", "at input 9",
				"no switch has connected yet"}, "other applications"},
		{"applications that cannot be loaded", []client.Answer{{Name: "c1", Status: unloaded("c1", "leader")},
			{Name: "c2", Status: unloaded("c2", "follower")}, {Name: "c3", Status: diverged}},
			[]string{"RYU AT", "c1", "cannot load", "c1, c2: the applications cannot be loaded: mine.py, line 7: " +
				"ValueError: no; correct",
				"the next attempt is at "}, "its host ended last"},
		{"drained, and a learner", []client.Answer{{Name: "c1", Status: leader},
			{Name: "c2", Status: &controller.Status{Role: "follower", Drained: true, Apps: leader.Apps}},
			{Name: "c4", Status: &controller.Status{Role: "follower", Learner: true, Apps: leader.Apps}}},
			[]string{"c1", "leader  ", "c2", "follower, drained", "c4", "follower, learner"}, "no answer"},
		{"no switch yet", []client.Answer{{Name: "c3", Status: stale}}, []string{"no switch has connected yet"},
			"MASTER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if err := printStatus(&b, c.answers); err != nil {
				t.Fatal(err)
			}
			rest := b.String()
			for _, w := range c.want {
				i := strings.Index(rest, w)
				if i < 0 {
					t.Fatalf("%q is missing, or not in its place, in\n%s", w, b.String())
				}
				rest = rest[i+len(w):]
			}
			if strings.Contains(b.String(), c.not) {
				t.Errorf("%q in\n%s", c.not, b.String())
			}
		})
	}
}
