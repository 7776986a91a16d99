package controller

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/metric"
)

// scrapeTimeout bounds how long a scrape waits for the loops of the groups.
const scrapeTimeout = 5 * time.Second

// What Prometheus reads. Names follow its conventions: base units, and _total for what only grows.
var (
	buildInfo = metric.Gauge("build_info", "The release of this controller; the value is 1.", "version")

	electionSeconds = metric.Gauge("election_timeout_seconds", "The present election timeout.")
	groupLeader     = metric.Gauge("group_leader", "1 if this controller leads the group.", "group")
	groupHasLeader  = metric.Gauge("group_has_leader", "1 if this controller knows a leader of the group.", "group")
	groupAtHome     = metric.Gauge("group_at_home", "1 if the controller that should lead the group does.", "group")
	groupTerm       = metric.Gauge("group_term", "The Raft term of the group.", "group")
	groupSwitches   = metric.Gauge("group_switches", "Switches in the group.", "group")
	groupLog        = metric.Gauge("group_log_index", "The last index in the log of the group here.", "group")
	groupApplied    = metric.Gauge("group_applied_index", "The last index of the log that is executed here.", "group")
	backlogItems    = metric.Gauge("group_backlog_items", "Items that a group keeps for another one.", "group", "to")
	backlogBytes    = metric.Gauge("group_backlog_bytes", "Bytes that a group keeps for another one.", "group", "to")
	failedMoves     = metric.Counter("moves_failed_total", "Moves that were refused or given up.", "group")

	memberConnected = metric.Gauge("member_connected", "At the leader: 1 if the member is connected.", "member")
	memberMatch     = metric.Gauge("member_match_index", "At the leader: the last index that a member has stored.",
		"member")

	transactions    = metric.Counter("transactions_total", "Transactions that were executed here.")
	reverted        = metric.Counter("transactions_reverted_total", "Transactions that were executed and taken back.")
	duplicates      = metric.Counter("duplicate_events_total", "Events that came again and were dropped.")
	failures        = metric.Counter("application_failures_total", "Handlers that failed.")
	logEntries      = metric.Counter("log_entries_total", "Entries of logs that were executed here.")
	spansDropped    = metric.Counter("trace_spans_dropped_total", "Spans that the collector of traces did not take.")
	rebuilt         = metric.Counter("groups_rebuilt_total", "Groups here that began anew: their state differed.")
	suspended       = metric.Gauge("suspended_actors", "Actors that handle nothing: holdfast resume.")
	hangingHandlers = metric.Gauge("hanging_handlers", "Handlers that were given up and have not returned.")

	switchCount  = metric.Gauge("switches", "Switches by state.", "state")
	switchIsUp   = metric.Gauge("switch_up", "1 if the switch is up.", "switch")
	switchMaster = metric.Gauge("switch_master", "1 if this controller is the master of the switch.", "switch")
	switchSync   = metric.Gauge("switch_in_sync",
		"1 if this controller could lead now without missing an event of the switch.", "switch")
	switchEvents   = metric.Counter("switch_events_total", "Events of the switch that were logged.", "switch")
	switchCommands = metric.Counter("switch_commands_total", "Commands to the switch.", "switch")
	switchOpen     = metric.Gauge("switch_commands_outstanding", "Commands that the switch has not confirmed.",
		"switch")
)

// metrics serves /metrics. If a loop does not answer, the scrape fails.
func (c *Controller) metrics() http.Handler {
	return metric.Handler(func(to metric.Sender) error {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
		defer cancel()
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		to.Put(buildInfo, 1, Release())
		sendGroups(to, &status)
		sendCounts(to, &status)
		to.Put(spansDropped, float64(c.cfg.Tracer.Dropped()))
		sendSwitches(to, status.Switches)
		return nil
	})
}

func sendGroups(s metric.Sender, status *Status) {
	for _, g := range status.Groups {
		name := number(g.Group)
		s.Put(groupLeader, metric.Truth(g.Role == "leader"), name)
		s.Put(groupHasLeader, metric.Truth(g.Leader != ""), name)
		s.Put(groupAtHome, metric.Truth(g.Home == "" || g.Home == g.Leader), name)
		s.Put(groupTerm, float64(g.Term), name)
		s.Put(groupSwitches, float64(g.Switches), name)
		s.Put(groupLog, float64(g.LastIndex), name)
		s.Put(groupApplied, float64(g.Applied), name)
		s.Put(failedMoves, float64(g.FailedMoves), name)
		for _, b := range g.Backlog {
			s.Put(backlogItems, float64(b.Items), name, number(b.Group))
			s.Put(backlogBytes, float64(b.Bytes), name, number(b.Group))
		}
	}
	for _, m := range status.Members {
		s.Put(memberConnected, metric.Truth(m.Connected), m.Name)
		s.Put(memberMatch, float64(m.Match), m.Name)
	}
}

func sendCounts(s metric.Sender, status *Status) {
	s.Put(electionSeconds, float64(status.Election.TimeoutMs)/1e3)
	s.Put(transactions, float64(status.Counters.Transactions))
	s.Put(reverted, float64(status.Counters.Reverted))
	s.Put(duplicates, float64(status.Counters.Duplicates))
	s.Put(failures, float64(status.Counters.Failures))
	s.Put(logEntries, float64(status.Counters.Entries))
	s.Put(rebuilt, float64(status.Rebuilt))
	s.Put(suspended, float64(len(status.Suspended)))
	s.Put(hangingHandlers, float64(status.Hanging))
}

func sendSwitches(s metric.Sender, list []SwitchStatus) {
	states := map[string]int{"up": 0, "unreachable": 0, "down": 0}
	for i, sw := range list {
		states[sw.State]++
		if i >= metric.MaxSwitches {
			continue
		}
		s.Put(switchIsUp, metric.Truth(sw.State == "up"), sw.Switch)
		s.Put(switchMaster, metric.Truth(sw.Role == "master"), sw.Switch)
		s.Put(switchSync, metric.Truth(sw.InSync), sw.Switch)
		s.Put(switchEvents, float64(sw.TotalEvents), sw.Switch)
		s.Put(switchCommands, float64(sw.TotalCommands), sw.Switch)
		s.Put(switchOpen, float64(sw.CommandsSent-sw.CommandsDone), sw.Switch)
	}
	for state, n := range states {
		s.Put(switchCount, float64(n), state)
	}
}

func number(group uint64) string { return strconv.FormatUint(group, 10) }
