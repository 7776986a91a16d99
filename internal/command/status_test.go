package command

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/ryu/replay"
)

func TestPrintStatus(t *testing.T) {
	leader := &controller.Status{Name: "c1", Role: "leader", Term: 3, Applied: 9, Apps: []string{"hub"}}
	other := &controller.Status{Name: "c2", Role: "follower", Term: 3, Apps: []string{"learning"}}
	// of is a cluster of one group
	of := func(switches []controller.SwitchInView, answers ...controller.Answer) controller.ClusterStatus {
		s := controller.ClusterStatus{By: "c1", Controllers: answers, Switches: switches}
		if st := answers[0].Status; st != nil && st.Role == "leader" {
			s.Leader = st.Name
		}
		return s
	}
	at := func(s *controller.Status) controller.Answer { return controller.Answer{Name: s.Name, Status: s} }
	view := func(sw controller.SwitchStatus, master string, standbys, behind int) []controller.SwitchInView {
		return []controller.SwitchInView{{SwitchStatus: sw, By: "c1", Master: master, Standbys: standbys,
			Behind: behind}}
	}
	up := view(controller.SwitchStatus{Switch: "0000000000000001", State: "up", Role: "master", Mode: "agent",
		Version: "1.3", Guarantee: "exactly-once", EventsLogged: 5, CommandsSent: 7, CommandsDone: 6}, "c1", 1, 0)
	stock := view(controller.SwitchStatus{Switch: "0000000000000002", State: "up", Role: "master",
		Mode: "legacy", Version: "1.4", Guarantee: "at-most-once", Why: "it has no bundles", InSync: true}, "c1", 1, 1)
	fenced := view(controller.SwitchStatus{Switch: "0000000000000003", State: "down", Role: "standby",
		Mode: "agent", Version: "1.3", Guarantee: "none", Why: "a later term"}, "", 1, 0)
	proxied := view(controller.SwitchStatus{Switch: "0000000000000004", State: "up", Role: "master", Via: "c2",
		Mode: "agent", Guarantee: "exactly-once", Why: "connected to c2 only", InSync: true}, "c1", 1, 0)
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
	replica := func(name, role string, applied uint64) *controller.Status {
		return &controller.Status{Name: name, Role: role, Term: 4, Groups: []controller.GroupStatus{{Applied: 5},
			{Group: 1, Applied: applied}}}
	}
	several := controller.ClusterStatus{By: "c1", Leader: "c1",
		Controllers: []controller.Answer{{Name: "c1", Status: replica("c1", "leader", 70)},
			{Name: "c2", Status: replica("c2", "follower", 76)}, {Name: "c3", Error: "connection refused"}},
		Groups: []controller.GroupView{
			{GroupStatus: controller.GroupStatus{Leader: "c1", Term: 4, LastIndex: 5, Applied: 5}, By: "c1"},
			{GroupStatus: controller.GroupStatus{Group: 1, Term: 9, Leader: "c2", Home: "c2", Switches: 1, LastIndex: 77,
				Applied: 76, FailedMoves: 4, Replicas: []string{"c1", "c2"}}, By: "c2", DrainedAt: []string{"c1"}},
			{GroupStatus: controller.GroupStatus{Group: 2, Term: 8, Leader: "c3", Home: "c3"}, By: "c1",
				Outdated: "c3, which leads it, did not answer"}},
		Switches: []controller.SwitchInView{{SwitchStatus: controller.SwitchStatus{Switch: "0000000000000005", Group: 1, Assignment: 3,
			State: "up", Role: "master", Mode: "agent", InSync: true}, By: "c2", Master: "c2", Standbys: 1}}}
	alone := controller.GroupStatus{Role: "no leader", Term: 3, Stale: &controller.Stale{Serves: true, Degraded: 7,
		Since: time.Date(2001, 2, 3, 4, 5, 6, 0, time.Local)}}
	for _, c := range []struct {
		name string
		s    controller.ClusterStatus
		want []string // in this order
		not  string
	}{
		{"a leader, and one without an answer", of(up, at(leader), controller.Answer{Name: "c2",
			Error: "connection refused"}),
			[]string{"c1", "leader", "c2", "no answer", "c1 got no status from c2: connection refused",
				"0000000000000001", "up", "c1", "agent", "1.3", "exactly-once", "5", "7", "6"}, "cluster file"},
		{"no answer at all", controller.ClusterStatus{Controllers: []controller.Answer{{Name: "c1",
			Error: "ask controller c1: connection refused"}}},
			[]string{"c1", "no answer", "\nask controller c1: connection refused"}, "switch"},
		{"a busy machine", of(nil, at(leader), at(late)),
			[]string{"c2: the election timeout is 240 ms instead of 50 ms, because the leader was silent for 120 ms",
				"within 480 ms"}, "c1: the election timeout"},
		{"another application", of(nil, at(leader), at(other)),
			[]string{"follower", "c2 runs [learning] and the leader [hub]", "cluster file"}, "no answer"},
		{"no agent", of(stock, at(leader)),
			[]string{"STANDBY", "0000000000000002", "up", "c1", "1 (+1 not in sync)", "legacy", "1.4", "at-most-once",
				"0000000000000002: at-most-once: it has no bundles"}, "cluster file"},
		{"a switch that is connected to a follower", of(proxied, at(leader)),
			[]string{"0000000000000004", "up", "c1 via c2", "agent",
				"0000000000000004: exactly-once: connected to c2 only"},
			"cluster file"},
		{"an agent that knows a later term", of(fenced, at(leader)),
			[]string{"0000000000000003", "down", "-", "agent", "none", "0000000000000003: none: a later term"},
			"cluster file"},
		{"several groups", several,
			[]string{"CONTROLLER", "c1", "up", "0", "-", "6", "c2", "up", "1", "1", "0", "c3", "no answer", "-", "2",
				"-",
				"c1 got no status from c3: connection refused", "GROUP", "HOME", "0", "c1", "-", "4", "1", "c2", "c2",
				"c1, c2", "9", "77", "76", "1", "c1", "2", "c3", "c3", "8",
				"4 moves from group 1 have failed: the log of c2 says why", "SWITCH", "GROUP", "VERSION", "0000000000000005", "1", "3", "up",
				"c2", "1",
				"agent",
				"group 2 and its switches are shown as c1 knows them, which may be outdated: c3, which leads it, " +
					"did not " +
					"answer"}, "no switch"},
		{"nobody leads", of(nil, at(other)), []string{"follower"}, "SWITCH"},
		{"nobody leads, and a replica knows a switch", controller.ClusterStatus{By: "c2",
			Controllers: []controller.Answer{at(other)}, Switches: view(controller.SwitchStatus{State: "up"}, "", 0, 0),
			Groups: []controller.GroupView{{By: "c2", Outdated: "no controller is known to lead it"}}},
			[]string{"SWITCH", "the switches are shown as c2 knows them", ": no controller is known to lead it"},
			"group"},
		{"the leader has lost its majority", controller.ClusterStatus{By: "c2",
			Controllers: []controller.Answer{at(&controller.Status{Name: "c2", Groups: []controller.GroupStatus{alone}})},
			Groups:      []controller.GroupView{{GroupStatus: alone, By: "c2", Outdated: "no controller is known to lead it"}}},
			[]string{"c2 led the group when it lost the majority", "7 events so far", "the switches are shown as c2",
				"; c2 has known no leader since 2001-02-03 04:05:06"}, "group 0"},
		{"applications of Ryu", of(nil, at(hosts), at(diverged)),
			[]string{"RYU AT", "c1", "running", "70", "60", "50", "3.0 MB", "-", "2", "c2", "catching up", "5", "4.2.2",
				"c1: its host ended last: hung at input 7",
				"c1: no checkpoint", "a thread waits", "c2: its applications did something else", "at input 9",
				"no switch has connected yet"}, "other applications"},
		{"applications that cannot be loaded", of(nil, at(unloaded("c1", "leader")),
			at(unloaded("c2", "follower")), controller.Answer{Name: "c3", Status: diverged}),
			[]string{"RYU AT", "c1", "cannot load", "c1, c2: the applications cannot be loaded: mine.py, line 7: " +
				"ValueError: no; correct",
				"the next attempt is at "}, "its host ended last"},
		{"drained, and a learner", of(nil, at(leader),
			at(&controller.Status{Name: "c2", Role: "follower", Drained: true, Apps: leader.Apps}),
			at(&controller.Status{Name: "c4", Role: "follower", Learner: true, Apps: leader.Apps})),
			[]string{"c1", "leader  ", "c2", "follower, drained", "c4", "follower, learner"}, "no answer"},
		{"no switch yet", of(nil, at(leader)), []string{"no switch has connected yet"},
			"MASTER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			if err := printStatus(&b, c.s); err != nil {
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
