package agent

import (
	"net/http"

	"github.com/holdfast-sdn/holdfast/internal/metric"
)

// What Prometheus reads of an agent. Counters of a switch begin again at 0 when it was away for so long that it was
// forgotten.
var (
	switchesSeries  = metric.Gauge("agent_switches", "Switches by state: connected, or away.", "state")
	connectedSeries = metric.Gauge("agent_switch_connected", "1 if the switch is connected to the agent.", "switch")
	masterSeries    = metric.Gauge("agent_switch_has_master", "1 if a controller is the master of the switch.",
		"switch")
	controllersSeries = metric.Gauge("agent_switch_controllers", "Controllers that are connected for the switch.",
		"switch")
	heldSeries = metric.Gauge("agent_switch_events_held", "Events that no controller has acknowledged.",
		"switch")
	heldBytesSeries    = metric.Gauge("agent_switch_held_bytes", "Bytes of these events.", "switch")
	eventsSeries       = metric.Counter("agent_switch_events_total", "Events of the switch.", "switch")
	acknowledgedSeries = metric.Counter("agent_switch_events_acknowledged_total", "Events that were acknowledged.",
		"switch")
	passedSeries  = metric.Counter("agent_switch_commands_total", "Commands that passed to the switch.", "switch")
	droppedSeries = metric.Counter("agent_switch_commands_dropped_total",
		"Commands that did not pass: repeated ones, and those of an epoch that has ended.", "switch", "because")
	fullSeries    = metric.Counter("agent_switch_buffer_full_total", "Times that the event buffer was full.", "switch")
	refusedSeries = metric.Counter("agent_switch_claims_refused_total",
		"Claims and commands of a controller that is not the newest master.", "switch")
	spansSeries = metric.Counter("agent_trace_spans_dropped_total", "Spans that the collector of traces did not take.")
)

// Metrics serves what Prometheus reads, in its text format. It is safe for concurrent use.
func (a *Agent) Metrics() http.Handler {
	return metric.Handler(func(to metric.Sender) error {
		states := map[string]int{"connected": 0, "away": 0}
		for i, s := range a.Status() {
			if s.Connected {
				states["connected"]++
			} else {
				states["away"]++
			}
			if i < metric.MaxSwitches {
				s.send(to)
			}
		}
		for state, n := range states {
			to.Put(switchesSeries, float64(n), state)
		}
		to.Put(spansSeries, float64(a.cfg.Tracer.Dropped()))
		return nil
	})
}

func (s *Status) send(to metric.Sender) {
	name := s.Switch.String()
	to.Put(connectedSeries, metric.Truth(s.Connected), name)
	to.Put(masterSeries, metric.Truth(s.Master != ""), name)
	to.Put(controllersSeries, float64(s.Controllers), name)
	to.Put(heldSeries, float64(s.Held), name)
	to.Put(heldBytesSeries, float64(s.HeldBytes), name)
	to.Put(eventsSeries, float64(s.Counters.Events), name)
	to.Put(acknowledgedSeries, float64(s.Counters.Acked), name)
	to.Put(passedSeries, float64(s.Counters.Forwarded+s.Counters.BestEffort), name)
	to.Put(droppedSeries, float64(s.Counters.Duplicates), name, "repeated")
	to.Put(droppedSeries, float64(s.Counters.Stale), name, "ended epoch")
	to.Put(fullSeries, float64(s.Counters.Full), name)
	to.Put(refusedSeries, float64(s.Counters.RefusedBlocks+s.Counters.RefusedRoles), name)
}
