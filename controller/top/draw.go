package top

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// shownChanges is how many of the newest changes a screen shows.
const shownChanges = 8

// Lines draws the frame for a screen of that size in characters. Switches that do not fit are counted. Without a height
// all are there; without a width lines are as long as they are.
func (f Frame) Lines(width, height int) []string {
	head := []string{f.title(), ""}
	head = append(head, f.controllers()...)
	var tail []string
	if n := len(f.Changes); n > 0 {
		tail = append(tail, "")
		for _, c := range f.Changes[max(0, n-shownChanges):] {
			tail = append(tail, c.At.Format(time.TimeOnly)+"  "+c.Text)
		}
	}
	lines := append(head, f.switches(height-len(head)-len(tail), height > 0)...)
	lines = append(lines, tail...)
	if height > 0 && len(lines) > height {
		lines = lines[:height]
	}
	for i, line := range lines {
		if r := []rune(line); width > 0 && len(r) > width {
			lines[i] = string(r[:width])
		}
	}
	return lines
}

func (f Frame) title() string {
	if f.By == "" {
		return f.At.Format(time.TimeOnly) + "  no controller answers"
	}
	up := 0
	for _, c := range f.Controllers {
		if c.State != "no answer" {
			up++
		}
	}
	t := fmt.Sprintf("%s  %d of %d controllers up, %s, %d switches: %s events/s, %s commands/s",
		f.At.Format(time.TimeOnly), up, len(f.Controllers), cmp.Or(f.led(), "nobody leads"), len(f.Switches),
		count(f.EventsPerS), count(f.CommandsPerS))
	if f.SuspendedCount > 0 {
		t += fmt.Sprintf("; %d actors are suspended: see holdfast status", f.SuspendedCount)
	}
	return t
}

func (f Frame) led() string {
	switch {
	case f.Groups > 1:
		return fmt.Sprintf("%d groups", f.Groups)
	case f.Leader == "":
		return ""
	}
	return f.Leader + " leads"
}

func (f Frame) controllers() []string {
	return table(func(w *tabwriter.Writer) {
		fmt.Fprintln(w, "CONTROLLER\tSTATE\tLEADS\tMASTER OF\tTRANSACTIONS/S\tENTRIES/S\tFAILURES\tBEHIND")
		for _, c := range f.Controllers {
			fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%d\t%d\n", c.Name, c.State, c.Leads, c.Masters,
				count(c.TransactionsPerS), count(c.EntriesPerS), c.Failures, c.Behind)
		}
	})
}

// switches draws as many switches as fit into a number of lines, or all.
func (f Frame) switches(lines int, bounded bool) []string {
	shown := f.Switches
	if len(shown) == 0 {
		return nil
	}
	if bounded && len(shown)+2 > lines {
		shown = shown[:max(0, min(len(shown), lines-3))]
	}
	list := table(func(w *tabwriter.Writer) {
		// what changes first: terminals of 80 columns cut off the end
		fmt.Fprintln(w, "SWITCH\tSTATE\tMASTER\tEVENTS/S\tCOMMANDS/S\tWAITING\tSTANDBYS\tGROUP\tGUARANTEE")
		for _, s := range shown {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Switch, s.State, cmp.Or(s.Master, "-"),
				count(s.EventsPerS), count(s.CommandsPerS), s.Waiting, s.Standbys, s.Group, cmp.Or(s.Guarantee, "-"))
		}
	})
	list = append([]string{""}, list...)
	if n := len(f.Switches) - len(shown); n > 0 {
		list = append(list, fmt.Sprintf("and %d less busy switches", n))
	}
	return list
}

func table(write func(*tabwriter.Writer)) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	write(w)
	_ = w.Flush() // of a strings.Builder
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// count writes a rate: a digit behind the point for small ones.
func count(perSecond float64) string {
	if perSecond < 10 && perSecond > 0 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}
