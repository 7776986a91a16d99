package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/holdfast-sdn/holdfast/lab/outage"
)

const (
	plotRows  = 24
	plotWidth = 50
)

// plot draws the distribution of a run, as the paper's figure 5 does.
func (b Recovery) plot(n recoveryNetwork, r outage.Result) string {
	ms := outagesMs(r)
	marks := map[string]float64{"median": quantile(ms, 0.5)}
	if mean, ok := n.paper[b.IntervalMs]; ok {
		marks["the paper's mean"] = mean
	}
	return fmt.Sprintf("recovery in ms, cuts, and how many per cent of them were over by then (%s, %d ms)\n", n.name,
		b.IntervalMs) + histogram(ms, marks) +
		fmt.Sprintf("%d false alarms, %d of them when a processor stood still (by chance: %.0f %%); one did so %d "+
			"times, for %.1f ms at most\n",
			r.FalseAlarms, r.Stops.FalseAlarms, 100*r.Stops.Chance, r.Stops.Count, r.Stops.Longest.Seconds()*1e3)
}

// histogram draws values that are not negative as rows of bars, with the share of values up to the end of each row.
// Marks are values to point out. Values far above most share the last row.
func histogram(values []float64, marks map[string]float64) string {
	if len(values) == 0 {
		return ""
	}
	values = slices.Sorted(slices.Values(values))
	low, high := values[0], min(quantile(values, 0.98), 4*quantile(values, 0.5))
	for _, v := range marks {
		low, high = min(low, v), max(high, v)
	}
	step := niceStep((high - low) / (plotRows - 3))
	first := math.Floor(low / step)
	rows := int(math.Floor(high/step)-first) + 1
	row := func(v float64) int { return min(int(math.Floor(v/step)-first), rows) } // the last one is of what is beyond
	counts := make([]int, rows+1)
	for _, v := range values {
		counts[row(v)]++
	}
	notes := make([][]string, rows+1)
	for name, v := range marks {
		notes[row(v)] = append(notes[row(v)], fmt.Sprintf("%s, %.1f", name, v))
	}
	places := max(0, -int(math.Floor(math.Log10(step))))
	var out strings.Builder
	sum, most := 0, slices.Max(counts)
	for i, n := range counts {
		if i == rows && n == 0 {
			break
		}
		sum += n
		to := fmt.Sprintf("%.*f", places, (first+float64(i+1))*step)
		if i == rows {
			to = fmt.Sprintf("%.0f", math.Ceil(values[len(values)-1]))
		}
		bar := strings.Repeat("#", (n*plotWidth+most-1)/most)
		line := fmt.Sprintf("%8.*f - %6s  %-*s %5d %4.0f %%", places, (first+float64(i))*step, to, plotWidth, bar, n,
			100*float64(sum)/float64(len(values)))
		slices.Sort(notes[i])
		if len(notes[i]) > 0 {
			line += "  < " + strings.Join(notes[i], "; ")
		}
		out.WriteString(line + "\n")
	}
	return out.String()
}

// niceStep returns the next number upward that is 1, 2 or 5 times a power of ten.
func niceStep(v float64) float64 {
	if v <= 0 {
		return 0.1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v {
			return f * power
		}
	}
	return 10 * power
}
