package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-sdn/holdfast/controller"
)

var start = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// cluster is a status of two controllers with one group, and switches with these totals of events. Each event had two
// commands, and one command is not executed.
func cluster(leader string, entries uint64, events ...uint64) controller.ClusterStatus {
	s := controller.ClusterStatus{By: "c1", Leader: leader}
	for _, name := range []string{"c1", "c2"} {
		s.Controllers = append(s.Controllers, controller.Answer{Name: name, Status: &controller.Status{
			Counters: controller.Counters{Entries: entries, Transactions: 3 * entries},
			Groups:   []controller.GroupStatus{{Group: 0, Applied: entries}}}})
	}
	s.Groups = []controller.GroupView{{GroupStatus: controller.GroupStatus{Leader: leader, Applied: entries}, By: leader}}
	for i, n := range events {
		s.Switches = append(s.Switches, controller.SwitchInView{Master: leader, Standbys: 1,
			SwitchStatus: controller.SwitchStatus{Switch: fmt.Sprintf("%016x", i+1), State: "up",
				Guarantee: "exactly-once", TotalEvents: n, TotalCommands: 2 * n, CommandsSent: 2 * n,
				CommandsDone: 2*n - 1}})
	}
	return s
}

func TestRates(t *testing.T) {
	var h History
	first := h.Observe(start, cluster("c1", 100, 1000, 1000))
	if first.EventsPerS != 0 || len(first.Changes) != 0 || first.Controllers[0].EntriesPerS != 0 {
		t.Errorf("the first frame has rates or changes: %+v", first)
	}
	second := h.Observe(start.Add(2*time.Second), cluster("c1", 140, 1010, 1500))
	if second.EventsPerS != 255 || second.CommandsPerS != 510 || second.Switches[0].Switch != "0000000000000002" ||
		second.Switches[0].EventsPerS != 250 || second.Switches[1].Waiting != 1 {
		t.Errorf("%+v", second)
	}
	if c := second.Controllers[1]; c.EntriesPerS != 20 || c.TransactionsPerS != 60 || c.Behind != 0 {
		t.Errorf("%+v", c)
	}
	lags := h.Observe(start.Add(3*time.Second), cluster("c1", 20, 1005, 1600)) // c1 and c2 were restarted
	if lags.Switches[1].EventsPerS != 5 || lags.Controllers[0].EntriesPerS != 0 {
		t.Errorf("totals that fall give a rate: %+v", lags)
	}
}

func TestChanges(t *testing.T) {
	var h History
	h.Observe(start, cluster("c1", 1, 10))
	dead := cluster("c2", 1, 10, 1)
	dead.By, dead.Controllers[0] = "c2", controller.Answer{Name: "c1", Error: "connection refused"}
	h.Observe(start.Add(time.Second), dead)
	back := cluster("c2", 1, 10, 1)
	back.Controllers[1].Status.Counters.Failures = 2
	back.Switches[0].State = "unreachable"
	var got []string
	for _, c := range h.Observe(start.Add(2*time.Second), back).Changes {
		got = append(got, c.At.Format(time.TimeOnly)+" "+c.Text)
	}
	want := []string{
		"12:00:01 c1 does not answer",
		"12:00:01 c2 leads the cluster, and no longer c1",
		"12:00:01 c2 is the master of switch 0000000000000001, and no longer c1",
		"12:00:01 switch 0000000000000002 is new: up, and its master is c2",
		"12:00:02 c1 answers",
		"12:00:02 an application failed 2 times at c2: its log says why",
		"12:00:02 switch 0000000000000001 is unreachable",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for i := range 200 {
		leader := []string{"c1", "c2"}[i%2]
		h.Observe(start.Add(time.Duration(3+i)*time.Second), cluster(leader, 1, make([]uint64, 20)...))
	}
	changes := h.Observe(start.Add(time.Hour), cluster("c1", 1)).Changes
	if last := changes[len(changes)-2].Text; len(changes) != maxChanges || last != "17 more switches have changed" {
		t.Errorf("%d changes, %q", len(changes), last)
	}
}

// TestLines: a screen is never longer or wider than the terminal, and what does not fit is counted.
func TestLines(t *testing.T) {
	var h History
	h.Observe(start, cluster("c1", 1, make([]uint64, 30)...))
	f := h.Observe(start.Add(time.Second), cluster("c2", 1, make([]uint64, 30)...))
	for height := 1; height < 50; height++ {
		lines := f.Lines(60, height)
		if len(lines) > height {
			t.Fatalf("%d lines for %d", len(lines), height)
		}
		for _, line := range lines {
			if len(line) > 60 {
				t.Fatalf("a line of %d characters", len(line))
			}
		}
	}
	text := strings.Join(f.Lines(0, 24), "\n")
	for _, want := range []string{"12:00:01  2 of 2 controllers up, c2 leads, 30 switches: 0 events/s, 0 commands/s",
		"and 20 less busy switches", "12:00:01  c2 leads the cluster, and no longer c1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if all := f.Lines(0, 0); len(all) != 2+3+2+30+1+1+mostSwitches+1 {
		t.Errorf("%d lines without a height", len(all))
	}
}

func TestNobodyAnswers(t *testing.T) {
	var h History
	f := h.Observe(start, controller.ClusterStatus{Controllers: []controller.Answer{{Name: "c1", Error: "refused"}}})
	if lines := f.Lines(80, 24); lines[0] != "12:00:00  no controller answers" || !strings.Contains(lines[3], "no answer") {
		t.Error(strings.Join(lines, "\n"))
	}
}
