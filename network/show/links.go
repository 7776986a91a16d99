package show

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/liveness/setup"
	"github.com/holdfast-sdn/holdfast/network/topology"
)

// WriteLinks writes how links are monitored, as a table for people.
func WriteLinks(out io.Writer, r *setup.Report, now time.Time) error {
	if len(r.Links) == 0 {
		_, err := fmt.Fprintln(out, "no link between two switches was found yet")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LINK\tSTATE\tSINCE\tREASON\tROUND TRIP\tBFD\tINTERVAL\tFLAPS\tLAST FAILURE")
	blind := 0
	for _, l := range r.Links {
		bfd := bfdState(&l)
		if bfd == "none" {
			blind++
		}
		interval := "-"
		if l.IntervalMs > 0 {
			interval = fmt.Sprintf("%g ms × %d", l.IntervalMs, r.Multiplier)
			if l.IntervalMs > l.LeastMs {
				interval += fmt.Sprintf(" (later %g ms)", l.LeastMs)
			}
		}
		fmt.Fprintf(w, "%v ─ %v\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", linkEnd(l.Ends[0]), linkEnd(l.Ends[1]),
			upOrDown(l.Up), age(now, l.Since),
			dash(l.Reason), roundTrip(l.RTTMs), bfd, interval, flaps(&l), lastFailure(l.Failure, now))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return writeWhys(out, r, blind)
}

// writeWhys writes what is not as it should be, and its consequences.
func writeWhys(out io.Writer, r *setup.Report, blind int) error {
	separate := "\n"
	line := func(format string, args ...any) (err error) {
		_, err = fmt.Fprintf(out, separate+format+"\n", args...)
		separate = ""
		return err
	}
	notRead, example := 0, ""
	for _, l := range r.Links {
		for _, e := range l.Ends {
			why := fmt.Sprintf("%v: %s", linkEnd(e), e.Why)
			switch {
			case e.Why == "" || e.Why == setup.TurnedOff: // the latter is said once, below
				continue
			case strings.HasPrefix(e.Why, setup.NotRead): // likewise: it is so of all switches that never had BFD
				notRead, example = notRead+1, why
				continue
			}
			if err := line("%s", why); err != nil {
				return err
			}
		}
	}
	if blind > 0 {
		separate = "\n"
		if !r.BFD {
			if err := line("%s.", setup.TurnedOff); err != nil {
				return err
			}
		}
		if notRead > 0 {
			if err := line("The databases of %d of %d ends cannot be read. If BFD was set up there, it stays. For "+
				"example:\n%s", notRead, 2*len(r.Links), example); err != nil {
				return err
			}
		}
		if err := line("%d of %d links have no BFD. If one of these loses packets while its ports look fine, no "+
			"switch notices: the probes of\n"+
			"application topology do, after %g to %g s. A port that loses its carrier is noticed at once.",
			blind, len(r.Links), (3 * topology.Interval).Seconds(), (4 * topology.Interval).Seconds()); err != nil {
			return err
		}
	}
	if d := r.Detection(); d.Slower > 0 || d.FalseAlarms > 0 {
		separate = "\n"
		if err := line("%s", d); err != nil {
			return err
		}
	}
	if r.Refused > 0 {
		return line("%d links are not watched: there are too many", r.Refused)
	}
	return nil
}

func linkEnd(e setup.End) string {
	if e.Name == "" {
		return fmt.Sprintf("%s:%d", e.Switch, e.Port)
	}
	name := strings.Trim(strconv.Quote(e.Name), `"`) // the switch chooses it, and may choose control characters
	return fmt.Sprintf("%s:%d (%s)", e.Switch, e.Port, name)
}

func upOrDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func roundTrip(ms *float64) string {
	switch {
	case ms == nil:
		return "not measured"
	case time.Duration(*ms*float64(time.Millisecond)) < liveness.Resolution:
		return "below 1 ms"
	}
	return fmt.Sprintf("%.0f ms", *ms)
}

// bfdState is the state of both ends, if they agree.
func bfdState(l *setup.Link) string {
	a, b := l.Ends[0].State, l.Ends[1].State
	switch {
	case a == "" || b == "": // one end alone detects nothing
		return "none"
	case a == b:
		return a
	}
	return a + ", " + b
}

func flaps(l *setup.Link) string {
	if bfdState(l) == "none" {
		return "-"
	}
	return fmt.Sprintf("%d, %d", l.Ends[0].Flaps, l.Ends[1].Flaps)
}

func lastFailure(f *setup.Failure, now time.Time) string {
	if f == nil {
		return "-"
	}
	when := "before this leader"
	if f.At != nil {
		when = age(now, *f.At) + " ago"
	}
	return fmt.Sprintf("%s, %s:%d: %s", when, f.Switch, f.Port, f.Diagnostic)
}
