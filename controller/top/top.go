// Package top makes what people watch out of the statuses of a cluster: rates, what waits, and what has changed. It is
// pure: it asks nobody, has no clock, and does not know the terminal.
package top

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
)

// maxChanges bounds the changes that are remembered: the oldest are dropped.
const maxChanges = 100

// History is what was seen so far. The zero value has seen nothing. Not for concurrent use.
type History struct {
	last    *controller.ClusterStatus
	at      time.Time
	rates   map[string]rate // of switches that were seen before
	changes []Change
}

// rate is per second.
type rate struct{ events, commands float64 }

// Change is something that happened between two statuses.
type Change struct {
	At   time.Time `json:"at"` // of the status that shows it
	Text string    `json:"text"`
}

// Frame is the cluster at a moment. Rates are those since the status before, and 0 in the first frame.
type Frame struct {
	At             time.Time    `json:"at"`
	By             string       `json:"by"`     // the controller that was asked; "" if none has answered
	Leader         string       `json:"leader"` // of the first group; "" if none is known
	Groups         int          `json:"groups"`
	EventsPerS     float64      `json:"events_per_s"`
	CommandsPerS   float64      `json:"commands_per_s"`
	Controllers    []Controller `json:"controllers"`
	Switches       []Switch     `json:"switches"` // the busiest first
	Changes        []Change     `json:"changes"`  // the newest last
	SuspendedCount int          `json:"suspended_actors"`
}

// Controller is a line about a controller.
type Controller struct {
	Name             string  `json:"name"`
	State            string  `json:"state"` // "up", with what limits it, or "no answer"
	Leads            int     `json:"leads"` // groups
	Masters          int     `json:"masters"`
	TransactionsPerS float64 `json:"transactions_per_s"`
	EntriesPerS      float64 `json:"entries_per_s"`
	Failures         uint64  `json:"application_failures"` // since its process began
	Behind           uint64  `json:"behind"`               // entries that the leaders have applied and it has not
}

// Switch is a line about a switch.
type Switch struct {
	Switch       string  `json:"switch"`
	Group        uint64  `json:"group"`
	State        string  `json:"state"`
	Master       string  `json:"master"` // "" if none is known
	Guarantee    string  `json:"guarantee"`
	Standbys     int     `json:"standbys"`
	EventsPerS   float64 `json:"events_per_s"`
	CommandsPerS float64 `json:"commands_per_s"`
	Waiting      uint64  `json:"commands_waiting"` // issued, and not executed yet
}

// Observe takes the next status, as of a time after that of the last one.
func (h *History) Observe(at time.Time, s controller.ClusterStatus) Frame {
	seconds := at.Sub(h.at).Seconds()
	f := Frame{At: at, By: s.By, Leader: s.Leader, Groups: len(s.Groups), SuspendedCount: len(s.Suspended),
		Switches: make([]Switch, 0, len(s.Switches))}
	before := map[string]controller.SwitchInView{}
	if h.last != nil {
		for _, sw := range h.last.Switches {
			before[sw.Switch] = sw
		}
	}
	masters := map[string]int{}
	rates := make(map[string]rate, len(s.Switches))
	for _, sw := range s.Switches {
		masters[sw.Master]++
		r := h.rates[sw.Switch]
		was, known := before[sw.Switch]
		switch {
		case known && (sw.TotalEvents < was.TotalEvents || sw.TotalCommands < was.TotalCommands):
			// the replica that tells of it lags: the rate is still the last one
		case known && seconds > 0:
			r = rate{float64(sw.TotalEvents-was.TotalEvents) / seconds,
				float64(sw.TotalCommands-was.TotalCommands) / seconds}
		}
		rates[sw.Switch] = r
		f.EventsPerS, f.CommandsPerS = f.EventsPerS+r.events, f.CommandsPerS+r.commands
		f.Switches = append(f.Switches, Switch{Switch: sw.Switch, Group: sw.Group, State: sw.State, Master: sw.Master,
			Guarantee: sw.Guarantee, Standbys: sw.Standbys, EventsPerS: r.events, CommandsPerS: r.commands,
			Waiting: sw.CommandsSent - min(sw.CommandsSent, sw.CommandsDone)})
	}
	slices.SortStableFunc(f.Switches, func(a, b Switch) int { return cmp.Compare(b.EventsPerS, a.EventsPerS) })
	f.Controllers = h.controllers(s, masters, seconds)
	h.note(at, s, before)
	h.last, h.at, h.rates = &s, at, rates
	f.Changes = append([]Change{}, h.changes...)
	return f
}

func (h *History) controllers(s controller.ClusterStatus, masters map[string]int, seconds float64) []Controller {
	before := map[string]*controller.Status{}
	if h.last != nil {
		for _, a := range h.last.Controllers {
			before[a.Name] = a.Status
		}
	}
	leads, applied := map[string]int{}, map[uint64]uint64{}
	for _, g := range s.Groups {
		if g.Outdated == "" {
			leads[g.By]++
			applied[g.Group] = g.Applied
		}
	}
	list := make([]Controller, 0, len(s.Controllers))
	for _, a := range s.Controllers {
		line := Controller{Name: a.Name, State: "no answer", Leads: leads[a.Name], Masters: masters[a.Name]}
		if st := a.Status; st != nil {
			line.State, line.Failures = state(st), st.Counters.Failures
			for _, g := range st.Groups {
				line.Behind += max(applied[g.Group], g.Applied) - g.Applied
			}
			// Counters that have fallen are those of a new process.
			if was := before[a.Name]; was != nil && seconds > 0 && was.Counters.Entries <= st.Counters.Entries {
				line.EntriesPerS = float64(st.Counters.Entries-was.Counters.Entries) / seconds
				line.TransactionsPerS = float64(st.Counters.Transactions-min(was.Counters.Transactions,
					st.Counters.Transactions)) / seconds
			}
		}
		list = append(list, line)
	}
	return list
}

func state(s *controller.Status) string {
	text := "up"
	if s.Learner {
		text += ", learner"
	}
	if s.Drained {
		text += ", drained"
	}
	return text
}

// mostSwitches bounds the changes of switches that are told one by one, when many change at once.
const mostSwitches = 3

// note adds what has changed since the last status.
func (h *History) note(at time.Time, s controller.ClusterStatus, switches map[string]controller.SwitchInView) {
	if h.last == nil {
		return
	}
	answers := map[string]controller.Answer{}
	for _, a := range h.last.Controllers {
		answers[a.Name] = a
	}
	for _, a := range s.Controllers {
		was, known := answers[a.Name]
		switch {
		case known && was.Status != nil && a.Status == nil:
			h.add(at, "%s does not answer", a.Name)
		case known && was.Status == nil && a.Status != nil:
			h.add(at, "%s answers", a.Name)
		case known && a.Status != nil && a.Status.Counters.Failures > was.Status.Counters.Failures:
			h.add(at, "an application failed %d times at %s: its log says why",
				a.Status.Counters.Failures-was.Status.Counters.Failures, a.Name)
		}
	}
	h.noteGroups(at, s)
	more := 0
	for _, sw := range s.Switches {
		was, known := switches[sw.Switch]
		if known && was.State == sw.State && (was.Master == sw.Master || sw.Master == "") {
			continue
		}
		if more++; more > mostSwitches {
			continue
		}
		switch {
		case !known:
			h.add(at, "switch %s is new: %s, and its master is %s", sw.Switch, sw.State, named(sw.Master))
		case was.State != sw.State:
			h.add(at, "switch %s is %s", sw.Switch, sw.State)
		default:
			h.add(at, "%s is the master of switch %s, and no longer %s", sw.Master, sw.Switch, named(was.Master))
		}
	}
	if more > mostSwitches {
		h.add(at, "%d more switches have changed", more-mostSwitches)
	}
}

func (h *History) noteGroups(at time.Time, s controller.ClusterStatus) {
	leaders := map[uint64]string{}
	for _, g := range h.last.Groups {
		leaders[g.Group] = g.Leader
	}
	for _, g := range s.Groups {
		was, known := leaders[g.Group]
		if !known || was == g.Leader {
			continue
		}
		of := "the cluster"
		if len(s.Groups) > 1 {
			of = fmt.Sprint("group ", g.Group)
		}
		switch {
		case g.Leader == "":
			h.add(at, "nobody is known to lead %s", of)
		case was == "":
			h.add(at, "%s leads %s", g.Leader, of)
		default:
			h.add(at, "%s leads %s, and no longer %s", g.Leader, of, was)
		}
	}
}

func named(controller string) string { return cmp.Or(controller, "not known") }

func (h *History) add(at time.Time, format string, args ...any) {
	h.changes = append(h.changes, Change{at, fmt.Sprintf(format, args...)})
	if len(h.changes) > maxChanges {
		h.changes = slices.Delete(h.changes, 0, len(h.changes)-maxChanges)
	}
}
