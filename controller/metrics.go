package controller

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxSwitchSeries bounds the switches that have series of their own, in the order of their datapath ids. The sums have
// all of them.
const maxSwitchSeries = 2048

// scrapeTimeout bounds how long a scrape waits for the loops of the groups, and maxScrapes how many do at a time.
const (
	scrapeTimeout = 5 * time.Second
	maxScrapes    = 4
)

// series is a metric of Prometheus: its labels have values whenever it is sent.
type series struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func newSeries(kind prometheus.ValueType, name, help string, labels ...string) series {
	return series{prometheus.NewDesc("holdfast_"+name, help, labels, nil), kind}
}

func gaugeSeries(name, help string, labels ...string) series {
	return newSeries(prometheus.GaugeValue, name, help, labels...)
}

func counterSeries(name, help string, labels ...string) series {
	return newSeries(prometheus.CounterValue, name, help, labels...)
}

// What Prometheus reads. Names follow its conventions: base units, and _total for what only grows.
var (
	buildInfo = gaugeSeries("build_info", "The release of this controller; the value is 1.", "version")

	electionSeconds = gaugeSeries("election_timeout_seconds", "The present election timeout.")
	groupLeader     = gaugeSeries("group_leader", "1 if this controller leads the group.", "group")
	groupHasLeader  = gaugeSeries("group_has_leader", "1 if this controller knows a leader of the group.", "group")
	groupAtHome     = gaugeSeries("group_at_home", "1 if the controller that should lead the group does.", "group")
	groupTerm       = gaugeSeries("group_term", "The Raft term of the group.", "group")
	groupSwitches   = gaugeSeries("group_switches", "Switches in the group.", "group")
	groupLog        = gaugeSeries("group_log_index", "The last index in the log of the group here.", "group")
	groupApplied    = gaugeSeries("group_applied_index", "The last index of the log that is executed here.", "group")
	backlogItems    = gaugeSeries("group_backlog_items", "Items that a group keeps for another one.", "group", "to")
	backlogBytes    = gaugeSeries("group_backlog_bytes", "Bytes that a group keeps for another one.", "group", "to")
	failedMoves     = counterSeries("moves_failed_total", "Moves that were refused or given up.", "group")

	memberConnected = gaugeSeries("member_connected", "At the leader: 1 if the member is connected.", "member")
	memberMatch     = gaugeSeries("member_match_index", "At the leader: the last index that a member has stored.",
		"member")

	transactions    = counterSeries("transactions_total", "Transactions that were executed here.")
	reverted        = counterSeries("transactions_reverted_total", "Transactions that were executed and taken back.")
	duplicates      = counterSeries("duplicate_events_total", "Events that came again and were dropped.")
	failures        = counterSeries("application_failures_total", "Handlers that failed.")
	logEntries      = counterSeries("log_entries_total", "Entries of logs that were executed here.")
	rebuilt         = counterSeries("groups_rebuilt_total", "Groups here that began anew: their state differed.")
	suspended       = gaugeSeries("suspended_actors", "Actors that handle nothing: holdfast resume.")
	hangingHandlers = gaugeSeries("hanging_handlers", "Handlers that were given up and have not returned.")

	switchCount  = gaugeSeries("switches", "Switches by state.", "state")
	switchIsUp   = gaugeSeries("switch_up", "1 if the switch is up.", "switch")
	switchMaster = gaugeSeries("switch_master", "1 if this controller is the master of the switch.", "switch")
	switchSync   = gaugeSeries("switch_in_sync",
		"1 if this controller could lead now without missing an event of the switch.", "switch")
	switchEvents   = counterSeries("switch_events_total", "Events of the switch that were logged.", "switch")
	switchCommands = counterSeries("switch_commands_total", "Commands to the switch.", "switch")
	switchOpen     = gaugeSeries("switch_commands_outstanding", "Commands that the switch has not confirmed.", "switch")
)

// scraped makes metrics of the status of a controller, when they are asked for.
type scraped struct{ c *Controller }

// Describe sends nothing: which series there are depends on the groups and switches.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present values. If a loop does not answer it sends an error, so that the scrape fails.
func (s scraped) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	status, err := s.c.Status(ctx)
	if err != nil {
		to <- prometheus.NewInvalidMetric(groupTerm.desc, err)
		return
	}
	sent := sender(to)
	sent.put(buildInfo, 1, Release())
	sent.groups(&status)
	sent.counts(&status)
	sent.switches(status.Switches)
}

// sender sends metrics.
type sender chan<- prometheus.Metric

func (s sender) put(m series, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
}

func (s sender) groups(status *Status) {
	for _, g := range status.Groups {
		name := number(g.Group)
		s.put(groupLeader, truth(g.Role == "leader"), name)
		s.put(groupHasLeader, truth(g.Leader != ""), name)
		s.put(groupAtHome, truth(g.Home == "" || g.Home == g.Leader), name)
		s.put(groupTerm, float64(g.Term), name)
		s.put(groupSwitches, float64(g.Switches), name)
		s.put(groupLog, float64(g.LastIndex), name)
		s.put(groupApplied, float64(g.Applied), name)
		s.put(failedMoves, float64(g.FailedMoves), name)
		for _, b := range g.Backlog {
			s.put(backlogItems, float64(b.Items), name, number(b.Group))
			s.put(backlogBytes, float64(b.Bytes), name, number(b.Group))
		}
	}
	for _, m := range status.Members {
		s.put(memberConnected, truth(m.Connected), m.Name)
		s.put(memberMatch, float64(m.Match), m.Name)
	}
}

func (s sender) counts(status *Status) {
	s.put(electionSeconds, float64(status.Election.TimeoutMs)/1e3)
	s.put(transactions, float64(status.Counters.Transactions))
	s.put(reverted, float64(status.Counters.Reverted))
	s.put(duplicates, float64(status.Counters.Duplicates))
	s.put(failures, float64(status.Counters.Failures))
	s.put(logEntries, float64(status.Counters.Entries))
	s.put(rebuilt, float64(status.Rebuilt))
	s.put(suspended, float64(len(status.Suspended)))
	s.put(hangingHandlers, float64(status.Hanging))
}

func (s sender) switches(list []SwitchStatus) {
	states := map[string]int{"up": 0, "unreachable": 0, "down": 0}
	for i, sw := range list {
		states[sw.State]++
		if i >= maxSwitchSeries {
			continue
		}
		s.put(switchIsUp, truth(sw.State == "up"), sw.Switch)
		s.put(switchMaster, truth(sw.Role == "master"), sw.Switch)
		s.put(switchSync, truth(sw.InSync), sw.Switch)
		s.put(switchEvents, float64(sw.TotalEvents), sw.Switch)
		s.put(switchCommands, float64(sw.TotalCommands), sw.Switch)
		s.put(switchOpen, float64(sw.CommandsSent-sw.CommandsDone), sw.Switch)
	}
	for state, n := range states {
		s.put(switchCount, float64(n), state)
	}
}

func number(group uint64) string { return strconv.FormatUint(group, 10) }

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// metrics serves /metrics in the text format of Prometheus, with what its client says of the process.
func (c *Controller) metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(scraped{c}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}
