package bench

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/holdfast-sdn/holdfast/controller"
	"github.com/holdfast-sdn/holdfast/controller/optimizer"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// Placement simulates how the optimizer finds a place for the actors of a traffic engineering application (Beehive,
// figure 10): 40 controllers lead a group each, to which 400 switches belong evenly, and the actors that collect the
// statistics of the switches all begin in the first group. It runs the ledgers of the leaders, the directory, moves and
// the optimizer in one goroutine; the consensus, the network and time are simulated.
type Placement struct {
	Controllers int // each leads a group
	Switches    int
	Flows       int // of each switch; a tenth of them becomes an elephant once
	Windows     int // how long it lasts
}

// periods is how often each switch reports its statistics in a window.
const periods = 10

// Validate returns a *FieldError for a value that cannot be.
func (p Placement) Validate() error {
	return cmp.Or(inRange("controllers", p.Controllers, 2, 100), inRange("switches", p.Switches, p.Controllers, 4000),
		inRange("flows", p.Flows, 10, 1000), inRange("windows", p.Windows, 10, 1000))
}

// Run runs the benchmark.
func (p Placement) Run(ctx context.Context, progress Progress) (Report, error) {
	n, err := newGroupsOfLeaders(p, false)
	if err != nil {
		return Report{}, err
	}
	o := optimizer.New(optimizer.Config{Threshold: 0.5, Windows: 3, Cooldown: 6 * placementWindow, Load: 50_000})
	var shares []float64           // of messages that cross, by window
	moves, began, ended := 0, 0, 0 // windows after which actors moved
	for window := range p.Windows {
		if err := ctx.Err(); err != nil {
			return Report{}, err
		}
		progress.show(float64(window)/float64(p.Windows), "windows")
		for range periods {
			if err := n.report(); err != nil {
				return Report{}, err
			}
		}
		w := n.window()
		if window == 0 {
			continue // there is nothing to compare its counts with
		}
		shares = append(shares, w.Crossing/max(1, w.Crossing+w.Local))
		for _, d := range o.Decide(w.Window) {
			if d.Verdict != optimizer.Moves {
				continue
			}
			if moves++; began == 0 {
				began = window
			}
			ended = window
			if err := n.move(w.Who[d.Actor], d.To); err != nil {
				return Report{}, err
			}
		}
	}
	if ended > p.Windows-4 {
		return Report{}, fmt.Errorf("actors move after %d windows still: use more windows", p.Windows)
	}
	before, after := shares[0], mean(shares[ended+1:])
	ideal, err := p.ideal(ctx, len(shares)-ended-1)
	if err != nil {
		return Report{}, err
	}
	return Report{Bench: "placement", Figures: map[string]float64{
		"crossing_percent_before": 100 * before, "crossing_percent_while": 100 * mean(shares[began:ended+1]),
		"crossing_percent_after": 100 * after, "crossing_percent_ideal": 100 * ideal,
		"above_ideal_percent": math.Round(1e5*(after-ideal)/ideal) / 1e3, "moves": float64(moves),
		"first_window_with_moves": float64(began),
		"last_window_with_moves":  float64(ended), "misplaced": float64(n.misplaced()),
	}, Setup: map[string]any{
		"controllers": p.Controllers, "switches": p.Switches, "flows": p.Flows, "windows": p.Windows,
		"real": "ledgers of the leaders, streams, directory, counts, moves, optimizer",
		"simulated": fmt.Sprintf("consensus (an entry is committed at once, and groups have no followers), sessions, "+
			"network, time: a window has %d reports of each switch", periods),
		"messages": "report of a switch, next query to it, spike of one flow in ten, flow entry because of it",
		"ideal":    "the same run with the actor of each switch in the group of the switch from the beginning",
		"while":    "from the window after the first moves to the one after the last",
		"paper":    "Beehive, figure 10: matrices without numbers; the placement becomes similar to the ideal one",
	}}, nil
}

// ideal returns the share of messages that cross with the best placement, in as many windows at the end of a run.
func (p Placement) ideal(ctx context.Context, last int) (float64, error) {
	n, err := newGroupsOfLeaders(p, true)
	if err != nil {
		return 0, err
	}
	var shares []float64
	for window := range p.Windows {
		for range periods {
			if err := n.report(); err != nil {
				return 0, err
			}
		}
		if w := n.window(); window > 0 {
			shares = append(shares, w.Crossing/max(1, w.Crossing+w.Local))
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	return mean(shares[len(shares)-last:]), nil
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// placementWindow is what a window lasts in the time of the simulation.
const placementWindow = 10 * time.Second

// window returns what has happened since it was last called.
func (n *groupsOfLeaders) window() controller.Window {
	var groups []controller.GroupTally
	for i, c := range n.leaders {
		if r, ok := c.Report(); ok {
			r.Measure(func() {})
			groups = append(groups, controller.DescribeReport(uint64(i)+1, 1, &r))
		}
	}
	return n.rates.Next(time.Duration(n.now), groups, func(a *controller.ActorTally) bool { return a.Switch != "" })
}

// misplaced returns how many actors of switches do not live with their switch.
func (n *groupsOfLeaders) misplaced() (count int) {
	for id := range n.switches {
		a := statsOf(openflow.DatapathID(id + 1))
		if at, _ := n.view.Of(a); at.Group != n.groupOf(openflow.DatapathID(id+1)) {
			count++
		}
	}
	return count
}
