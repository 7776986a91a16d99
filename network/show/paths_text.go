package show

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// WriteText draws the paths for people. Switches are shown by their datapath ids without leading zeros.
func (p *Paths) WriteText(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, n := range p.Notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
	fmt.Fprintf(w, "from %s\nto   %s\n", p.From.name, p.To.name)
	switch {
	case p.Primary == nil:
		fmt.Fprintln(w, "\nno way leads there by links that are up in both directions")
		return w.Flush()
	case p.Primary.Hops == 0:
		fmt.Fprintln(w, "\nboth are at one switch: no link is on the way")
		return w.Flush()
	}
	fmt.Fprintf(w, "     %s, %s\n\n%s\n\n", hops(p.Primary.Hops), p.Disjoint, p.Primary.draw())
	fmt.Fprintln(w, "SWITCH\tPRIMARY\tBACKUP")
	for _, b := range p.Backups {
		fmt.Fprintf(w, "%s\t%s\t%s\n", short(b.Switch), b.Primary.draw(), b.draw())
	}
	fmt.Fprintln(w, "\nDEAD\tPACKETS GO\tHOPS\tLATER")
	back := false
	for _, f := range p.Failures {
		dead := "switch " + short(f.Switch)
		if f.Link != nil {
			dead = short(f.Link.From.Switch) + " ✕ " + short(f.Link.To.Switch)
		}
		way, count, later := f.draw(), "-", "-"
		if f.Way != nil {
			count = fmt.Sprintf("%d (%+d)", f.Way.Hops, f.Extra)
			back = back || slices.ContainsFunc(f.Way.Links, func(s Step) bool { return s.Back })
		}
		if f.Later > 0 {
			later = fmt.Sprint(f.Later)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", dead, way, count, later)
	}
	fmt.Fprint(w, "\nPACKETS GO before any controller knows; LATER is the hops of the path that controllers then "+
		"install.\n")
	if back {
		fmt.Fprintln(w, "↩ is crankback: packets go back by the link that they came by.")
	}
	return w.Flush()
}

func hops(n int) string {
	if n == 1 {
		return "1 hop"
	}
	return fmt.Sprintf("%d hops", n)
}

// short leaves out the zeros before a datapath id.
func short(id string) string {
	if s := strings.TrimLeft(id, "0"); s != "" {
		return s
	}
	return "0"
}

func (w *Way) draw() string {
	var b strings.Builder
	for i, s := range w.Links {
		if i == 0 {
			b.WriteString(short(s.From.Switch))
		}
		if s.Back {
			b.WriteString(" ↩ ")
		} else {
			b.WriteString(" → ")
		}
		b.WriteString(short(s.To.Switch))
	}
	return b.String()
}

func (n Next) draw() string { return fmt.Sprintf("port %d → %s", uint32(n.Port), short(n.Switch)) }

func (b Backup) draw() string {
	if b.Backup == nil {
		return "none"
	}
	s := b.Backup.draw()
	if b.Back {
		s = fmt.Sprintf("port %d ↩ %s", uint32(b.Backup.Port), short(b.Backup.Switch))
	}
	if b.Once {
		s += ", for a dead link only"
	}
	return s
}

func (f Failure) draw() string {
	switch f.Outcome {
	case Delivered:
		return f.Way.draw()
	case CutOff:
		return "nowhere: cut off"
	case Lost:
		return "nowhere, until a controller acts"
	}
	return "in a circle, until a controller acts"
}
