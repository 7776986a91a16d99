package outage

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-sdn/holdfast/network/paths"
)

// maxDowns bounds the failures that are read from one switch's log.
const maxDowns = 1 << 20

// parseDowns reads in the log of an Open vSwitch when its sessions went from up to down, by interface:
//
//	2026-01-31T23:59:59.999Z|00049|bfd(monitor7)|INFO|p1: BFD state change: up->down "…"->"…".
func parseDowns(log io.Reader) (map[string][]time.Time, error) {
	downs := map[string][]time.Time{}
	lines := bufio.NewScanner(log)
	for n := 0; n < maxDowns && lines.Scan(); {
		before, _, ok := strings.Cut(lines.Text(), ": BFD state change: up->down ")
		if !ok {
			continue
		}
		fields := strings.Split(before, "|")
		at, err := time.Parse(time.RFC3339, fields[0])
		if err != nil {
			continue
		}
		name := fields[len(fields)-1]
		downs[name] = append(downs[name], at)
		n++
	}
	return downs, lines.Err()
}

// falseAlarms returns when cables were reported as dead that were not cut, in order. An end that detects a failure
// tells the other end, so the count of a cable is that of the end that reported more.
func falseAlarms(cables []paths.Link, downs map[paths.End][]time.Time, cuts map[paths.Link][]span,
	during span) (alarms []time.Time) {
	for _, l := range cables {
		cut := slices.Concat(cuts[l], cuts[l.Reverse()])
		unexpected := func(e paths.End) (at []time.Time) {
			for _, t := range downs[e] {
				if inside(t, []span{during}) && !inside(t, cut) {
					at = append(at, t)
				}
			}
			return at
		}
		from, to := unexpected(l.From), unexpected(l.To)
		if len(to) > len(from) {
			from = to
		}
		alarms = append(alarms, from...)
	}
	slices.SortFunc(alarms, time.Time.Compare)
	return alarms
}
