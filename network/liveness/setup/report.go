package setup

import (
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/pace"
)

// Report is what is known about the links and how they are monitored.
type Report struct {
	BFD        bool    `json:"bfd"` // enabled in the cluster file
	FloorMs    float64 `json:"floor_ms"`
	Multiplier int     `json:"multiplier"`
	Links      []Link  `json:"links"`
	Refused    uint64  `json:"links_refused"` // not monitored, since there are too many
}

// Link is a link that is or was up in both directions.
type Link struct {
	Ends       [2]End    `json:"ends"`
	Up         bool      `json:"up"` // by the probes of application topology
	Since      time.Time `json:"since"`
	Reason     string    `json:"reason,omitempty"`      // why it is down
	RTTMs      *float64  `json:"rtt_ms"`                // null: not measured
	IntervalMs float64   `json:"interval_ms,omitempty"` // that BFD should have at present
	LeastMs    float64   `json:"least_interval_ms"`     // that it will have when there are no false alarms
	// How often the link was taken for dead and was not, since this controller leads.
	FalseAlarms int      `json:"false_alarms"`
	Failure     *Failure `json:"last_failure,omitempty"`
}

// Detection is how soon BFD detects a dead link at present, and why it is not sooner.
type Detection struct {
	Links       int     `json:"links"`        // that have BFD
	WithinMs    float64 `json:"within_ms"`    // of the slowest
	Slower      int     `json:"links_slower"` // than their intervals will be when there are no false alarms
	FalseAlarms int     `json:"false_alarms"` // since this controller leads
}

// Detection sums up the links.
func (r *Report) Detection() Detection {
	var d Detection
	for _, l := range r.Links {
		d.FalseAlarms += l.FalseAlarms
		if l.IntervalMs == 0 || l.Ends[0].State == "" || l.Ends[1].State == "" { // no BFD there
			continue
		}
		d.Links++
		d.WithinMs = max(d.WithinMs, l.IntervalMs*float64(r.Multiplier))
		if l.IntervalMs > l.LeastMs {
			d.Slower++
		}
	}
	return d
}

func (d Detection) String() string {
	s := fmt.Sprintf("BFD detects a dead link within %g ms.", d.WithinMs)
	if d.Slower > 0 {
		s += fmt.Sprintf(" On %d of %d links it is slower than it could be, because there was a false alarm\n"+
			"or the link is new: %d false alarms since this controller leads.", d.Slower, d.Links, d.FalseAlarms)
	} else if d.FalseAlarms > 0 {
		s += fmt.Sprintf(" There were %d false alarms since this controller leads.", d.FalseAlarms)
	}
	return s
}

// Watched reports whether BFD is up at both ends.
func (l *Link) Watched() bool { return l.Ends[0].State == "up" && l.Ends[1].State == "up" }

// TurnedOff is why there is no BFD if the operator wants none.
const TurnedOff = "BFD is turned off in the cluster file"

// NotRead begins what is said of an end, if the operator wants no BFD, and its database cannot be read.
const NotRead = "it is not known whether BFD settings of Holdfast are left: "

var (
	errNoAddress = errors.New("its address is not known: the switch has not connected since this controller leads")
	errReading   = errors.New("its database is being read")
)

// End is one end of a link.
type End struct {
	Switch     string `json:"switch"`
	Port       uint32 `json:"port"`
	Name       string `json:"name,omitempty"`
	State      string `json:"bfd_state,omitempty"` // "admin_down", "down", "init" or "up"; "" without BFD
	Remote     string `json:"bfd_remote_state,omitempty"`
	Diagnostic string `json:"bfd_diagnostic,omitempty"`
	Flaps      int    `json:"flaps"`         // how often it went up or down, as the switch counts
	Why        string `json:"why,omitempty"` // why BFD is not as it should be
}

// Failure is the last failure of a link that BFD has noticed.
type Failure struct {
	Switch     string     `json:"switch"` // at whose end it was noticed
	Port       uint32     `json:"port"`
	At         *time.Time `json:"at"` // null: before this controller began to lead
	Diagnostic string     `json:"diagnostic"`
}

// Report returns what is known now. Safe for concurrent use, also while Run is not running.
func (s *Setup) Report() *Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &Report{BFD: s.cfg.Enabled, FloorMs: millis(s.cfg.Floor), Multiplier: s.cfg.Multiplier, Links: []Link{}}
	if s.view == nil {
		return r
	}
	r.Refused = s.view.Refused
	for _, l := range s.view.Links {
		r.Links = append(r.Links, s.link(l))
	}
	return r
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (s *Setup) link(l liveness.Link) Link {
	out := Link{Up: l.Up, Since: l.Changed, IntervalMs: millis(s.cfg.interval(l, s.pace)),
		LeastMs:     millis(s.cfg.least(l)),
		FalseAlarms: s.pace.FalseAlarms(pace.Link{A: l.A, B: l.B})}
	if !l.Up {
		out.Reason = l.Reason.String()
	}
	if !l.Measured.IsZero() {
		ms := millis(l.RTT)
		out.RTTMs = &ms
	}
	var last *failure
	for i, at := range []app.PortOf{l.A, l.B} {
		e, f := s.end(at)
		out.Ends[i] = e
		if f == nil || last != nil && !f.tells(last) {
			continue
		}
		last = f
		out.Failure = &Failure{Switch: e.Switch, Port: e.Port, Diagnostic: f.diagnostic}
		if !f.at.IsZero() {
			out.Failure.At = &f.at
		}
	}
	return out
}

// tells reports whether f says more than the failure at the other end: the later one does, and of the same failure that
// of the end which detected it itself.
func (f *failure) tells(other *failure) bool {
	const told, together = "Neighbor Signaled Session Down", time.Second
	if d := f.at.Sub(other.at); d > together || d < -together {
		return d > 0
	}
	return other.diagnostic == told && f.diagnostic != told
}

// end says how a port is watched, or why it is not. s.mu is held.
func (s *Setup) end(at app.PortOf) (End, *failure) {
	e := End{Switch: at.Switch.String(), Port: uint32(at.Port)}
	remote, known := s.cfg.remote(at.Switch, s.addresses)
	d := s.databases[remote]
	var p port
	err := errNoAddress
	if known && d != nil {
		p, err = d.look(at)
	}
	if err != nil {
		if e.Why = err.Error(); !s.cfg.Enabled {
			e.Why = NotRead + e.Why
		}
		return e, nil
	}
	e.Name, e.State, e.Remote, e.Diagnostic, e.Flaps = p.name, p.status.State, p.status.RemoteState,
		p.status.Diagnostic, p.status.Flaps
	switch {
	case p.problem != nil:
		e.Why = p.problem.Error()
	case !s.cfg.Enabled && p.ours:
		e.Why = "BFD is being removed"
	case !s.cfg.Enabled:
		e.Why = TurnedOff
	case e.State == "":
		e.Why = "BFD is being set up"
	}
	return e, p.failure
}
