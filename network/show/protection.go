package show

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/network/recovery"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// Protection is how a network is protected, for JSON.
type Protection struct {
	Disjoint string `json:"disjoint"` // what backups avoid
	// all switches that are up hold the plan, and no change is pending
	Stable   bool              `json:"stable"`
	Notes    []string          `json:"notes"` // what is not as it should be, or about to change
	Present  *Change           `json:"present_change,omitempty"`
	Last     *Change           `json:"last_change,omitempty"`
	Held     []Cable           `json:"held"`    // links that are back, and not used yet
	Dark     []Cable           `json:"dark"`    // links that are used although BFD takes them for dead
	Unheard  []Cable           `json:"unheard"` // links that are assumed to work, though a switch at one end is down
	Switches []ProtectedSwitch `json:"switches"`
}

// Cable is a link, both directions of it.
type Cable struct {
	A     End       `json:"a"`
	B     End       `json:"b"`
	Until time.Time `json:"until,omitzero"` // when the hold ends
}

// Change is from one plan to the next.
type Change struct {
	Began     time.Time `json:"began"`
	TookMS    int64     `json:"took_ms,omitzero"` // once it is over
	CompileMS int64     `json:"compile_ms"`
	Round     int       `json:"round,omitzero"` // of Rounds, from 1, until it is over
	Rounds    int       `json:"rounds"`
	Why       string    `json:"why"`
	More      int       `json:"more"` // number of further causes
}

// ProtectedSwitch is what a switch holds, and the result of its last check.
type ProtectedSwitch struct {
	ID      string     `json:"switch"`
	Up      bool       `json:"up"`
	InSync  bool       `json:"in_sync"` // it holds its part of the plan, as far as is known
	Entries int        `json:"entries"` // of the plan
	Groups  int        `json:"groups"`
	Checked *time.Time `json:"checked,omitempty"`
	PutBack uint64     `json:"put_back"` // entries and groups, by all checks
	Removed uint64     `json:"removed"`
	Foreign int        `json:"foreign"` // seen in the last check
	Error   string     `json:"error,omitempty"`
	Command string     `json:"command,omitempty"` // the one that it refused
}

// NewProtection converts a view into this form.
func NewProtection(v *recovery.View, now time.Time) (*Protection, error) {
	plan, err := v.Plan()
	if err != nil {
		return nil, fmt.Errorf("the plan that the switches hold: %w", err)
	}
	p := &Protection{Disjoint: v.Disjoint.String(), Stable: v.Stable(), Notes: notes(v, now), Held: []Cable{},
		Dark: []Cable{}, Unheard: []Cable{}, Switches: []ProtectedSwitch{}}
	if v.Changing {
		p.Present = changeOf(v.Change, v.Round)
	}
	if !v.Last.Began.IsZero() {
		p.Last = changeOf(v.Last, 0)
	}
	for _, h := range v.Held {
		p.Held = append(p.Held, Cable{endOf(h.A), endOf(h.B), h.Until})
	}
	for _, c := range v.Dark {
		p.Dark = append(p.Dark, Cable{A: endOf(c.A), B: endOf(c.B)})
	}
	for _, c := range v.Unheard {
		p.Unheard = append(p.Unheard, Cable{A: endOf(c.A), B: endOf(c.B)})
	}
	for _, s := range v.Switches {
		out := ProtectedSwitch{ID: s.ID.String(), Up: s.Up, InSync: s.InSync, PutBack: s.PutBack, Removed: s.Removed,
			Foreign: s.Found.Foreign}
		out.Entries, out.Groups = plan.Size(s.ID)
		if !s.Checked.IsZero() {
			out.Checked = &s.Checked
		}
		if !s.Failed.IsZero() {
			out.Error, out.Command = s.Error, s.Command
		}
		p.Switches = append(p.Switches, out)
	}
	return p, nil
}

func changeOf(c recovery.Change, round int) *Change {
	return &Change{c.Began, c.Took.Milliseconds(), c.Compile.Milliseconds(), round, c.Rounds, c.Why, c.More}
}

// notes returns short lines about what is going on. Kinds that may be many have one line for all.
func notes(v *recovery.View, now time.Time) []string {
	list := []string{}
	note := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if v.Changing {
		note("the switches are being brought to another plan, round %d of %d: %s", v.Round, v.Change.Rounds,
			reason(v.Change.Why, v.Change.More))
	}
	if !v.Due.IsZero() {
		note("something has changed that no plan has yet; the next is made in %v",
			max(0, v.Due.Sub(now)).Round(time.Millisecond))
	}
	if v.Problem != "" {
		note("the plan is not of all that is known: %s", v.Problem)
	}
	if n := len(v.Held); n > 0 {
		first := slices.MinFunc(v.Held, func(a, b recovery.HeldLink) int { return a.Until.Compare(b.Until) })
		note("%s back, and not used until proven stable: %s in %v", links(n), drawCable(first.Cable),
			max(0, first.Until.Sub(now)).Round(100*time.Millisecond))
	}
	if n := len(v.Dark); n > 0 {
		note("%s dead according to BFD, and used because there is no other path: %s", links(n), drawCable(v.Dark[0]))
	}
	if n := len(v.Unheard); n > 0 {
		note("%s taken to be there, though no switch says so now: %s", links(n), drawCable(v.Unheard[0]))
	}
	behind, unheard := 0, 0
	for _, s := range v.Switches {
		switch {
		case !s.Up:
			unheard++
		case !s.InSync:
			behind++
		}
	}
	if behind > 0 {
		note("%d of %d switches are not known to hold what they should", behind, len(v.Switches))
	}
	if unheard > 0 {
		note("%d of %d switches are without a controller, and taken to forward as they did", unheard, len(v.Switches))
	}
	for _, text := range v.LeftOut[:min(len(v.LeftOut), maxLeftOut)] {
		note("left out: %s", text)
	}
	if n := len(v.LeftOut) - maxLeftOut; n > 0 {
		note("left out: %d more", n)
	}
	return list
}

func links(n int) string {
	if n == 1 {
		return "1 link is"
	}
	return fmt.Sprintf("%d links are", n)
}

func drawCable(c recovery.Cable) string { return fmt.Sprintf("%v ─ %v", endOf(c.A), endOf(c.B)) }

func reason(why string, more int) string {
	if more == 0 {
		return why
	}
	return fmt.Sprintf("%s, and %d more", why, more)
}

// maxLeftOut bounds the notes about what did not fit into the plan.
const maxLeftOut = 5

// WriteText writes tables for people.
func (p *Protection) WriteText(out io.Writer, now time.Time) error {
	state := "changing"
	if p.Stable {
		state = "stable"
	}
	fmt.Fprintf(out, "%s, %s\n", p.Disjoint, state)
	for _, n := range p.Notes {
		fmt.Fprintf(out, "- %s\n", n)
	}
	if c := p.Last; c != nil {
		fmt.Fprintf(out, "last changed %s ago, in %v (rounds: %d): %s\n", age(now, c.Began),
			time.Duration(c.TookMS)*time.Millisecond, c.Rounds, reason(c.Why, c.More))
	}
	if len(p.Switches) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSWITCH\tPLAN\tENTRIES\tGROUPS\tCHECKED\tPUT BACK\tREMOVED\tFOREIGN")
	for _, s := range p.Switches {
		checked := "-"
		if s.Checked != nil {
			checked = age(now, *s.Checked)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\n", s.ID, s.state(), s.Entries, s.Groups, checked, s.PutBack,
			s.Removed, s.Foreign)
	}
	for _, s := range p.Switches {
		if s.Error != "" {
			fmt.Fprintf(w, "%s: %s: %s\n", s.ID, dash(s.Command), s.Error)
		}
	}
	return w.Flush()
}

func (s ProtectedSwitch) state() string {
	switch {
	case !s.Up:
		return "unheard"
	case s.Error != "":
		return "failed"
	case !s.InSync:
		return "behind"
	}
	return "holds it"
}

// hostsOf returns the hosts that can be asked for: those of the plan where it has them, with the addresses that
// topology knows or last knew, and then those that no plan has yet. v may be nil.
func hostsOf(s *topology.Snapshot, v *recovery.View) []topology.Host {
	known := map[app.MAC]topology.Host{}
	for _, h := range s.Hosts {
		known[h.MAC] = h.Host
	}
	var planned []protect.Host
	if v != nil {
		planned = v.Hosts
	}
	for _, h := range planned {
		seen, is := known[h.MAC]
		if !is {
			seen = topology.Host{MAC: h.MAC, Addresses: v.Addresses[h.MAC]}
		}
		seen.At = app.PortOf(h.At)
		known[h.MAC] = seen
	}
	return slices.SortedFunc(maps.Values(known), func(a,
		b topology.Host) int {
		return slices.Compare(a.MAC[:], b.MAC[:])
	})
}
