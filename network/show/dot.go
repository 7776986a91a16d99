package show

import (
	"bufio"
	"fmt"
	"io"
)

// WriteDOT writes the network as a graph for Graphviz. Links that are down are red and dashed, those of one direction
// have an arrow, hosts are ellipses. Everything that is named consists of digits, letters and colons.
func (t *Topology) WriteDOT(out io.Writer) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, "graph network {\n  node [shape=box];\n  edge [fontsize=10];")
	for _, s := range t.Switches {
		fmt.Fprintf(w, "  %q;\n", s.ID)
	}
	for _, c := range t.cables() {
		state, why, arrow, _ := c.state()
		style := ""
		switch {
		case state == "down":
			style = fmt.Sprintf(", color=red, style=dashed, label=%q", why)
		case state == "one way" && arrow == "→":
			style = ", color=orange, dir=forward"
		case state == "one way":
			style = ", color=orange, dir=back"
		}
		fmt.Fprintf(w, "  %q -- %q [taillabel=\"%d\", headlabel=\"%d\"%s];\n", c.From.Switch, c.To.Switch, c.From.Port,
			c.To.Port, style)
	}
	for _, h := range t.Hosts {
		label := h.MAC
		if a := addresses(h.Addresses); a != "" {
			label += "\n" + a
		}
		fmt.Fprintf(w, "  %q [shape=ellipse, label=%q];\n  %q -- %q [headlabel=\"%d\", style=dotted];\n", h.MAC, label,
			h.MAC, h.At.Switch, h.At.Port)
	}
	fmt.Fprintln(w, "}")
	return w.Flush()
}
