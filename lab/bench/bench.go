// Package bench measures Holdfast: one type for each benchmark, whose fields say what is run and whose Run returns a
// Report. Controllers and agents are real processes on loopback that share the machine with the load, so figures are
// compared within one run and not between machines.
//
// It prints nothing and has no flags: that is in internal/command. It is not a test; packages e2e and sim are.
package bench

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-sdn/holdfast/internal/config"
)

// Report is what a benchmark found.
type Report struct {
	Bench   string             `json:"bench"`
	Figures map[string]float64 `json:"figures"` // names end in the unit; without one it is a count
	Setup   map[string]any     `json:"setup"`
	Plot    string             `json:"-"` // the distribution of what was measured, as text; "" if there is none
}

// PaperPrefix begins the name of the paper's value of a figure.
const PaperPrefix = "paper_"

// Progress is called while a benchmark runs, by one goroutine at a time. done is the share from 0 to 1. It may be nil.
type Progress func(done float64, what string)

func (p Progress) show(done float64, what string) {
	if p != nil {
		p(done, what)
	}
}

// during reports progress by the clock for work that takes about so long. The function that it returns ends that.
func (p Progress) during(about time.Duration, what string) (stop func()) {
	if p == nil {
		return func() {}
	}
	start, ended := time.Now(), make(chan struct{})
	var showing sync.WaitGroup
	showing.Go(func() {
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			p(min(1, float64(time.Since(start))/float64(about)), what)
			select {
			case <-t.C:
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); showing.Wait() }
}

// FieldError says that a field of a benchmark has a value that it cannot have.
type FieldError struct {
	Field string // as the flag of holdfast bench is called
	Value any
	Want  string
}

// Error implements error.
func (e *FieldError) Error() string { return fmt.Sprintf("%s %#v: use %s", e.Field, e.Value, e.Want) }

// inRange refuses a value that is not from low to high.
func inRange(field string, value, low, high int) error {
	if value < low || value > high {
		return &FieldError{field, value, fmt.Sprintf("%d to %d", low, high)}
	}
	return nil
}

// isOdd refuses a number of controllers that a cluster should not have.
func isOdd(field string, n int) error {
	if n%2 == 0 || n < 1 || n > 9 {
		return &FieldError{field, n, "odd numbers from 1 to 9; an even one survives no more failures"}
	}
	return nil
}

// isDurability refuses what a cluster file would refuse, before processes start with it.
func isDurability(s string) error {
	if d := config.Durability(s); d != config.Memory && d != config.Disk {
		return &FieldError{"durability", s, fmt.Sprintf("%s or %s", config.Memory, config.Disk)}
	}
	return nil
}

// PerController is the value of `groups` that gives each controller a group.
const PerController = "per-controller"

func isGroups(s string) error {
	if s != "" && s != "1" && s != PerController {
		return &FieldError{"groups", s, "1 or " + PerController}
	}
	return nil
}

// quantile returns the value below or at which the share q of the values is; 0 without values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(int(q*float64(len(values))), len(values)-1)]
}

// medians returns the median of each figure of several rounds.
func medians(rounds map[string][]float64) map[string]float64 {
	figures := map[string]float64{}
	for name, values := range rounds {
		figures[name] = quantile(values, 0.5)
	}
	return figures
}

// micros is the unit of latencies.
func micros(d time.Duration) float64 { return float64(d) / 1e3 }
