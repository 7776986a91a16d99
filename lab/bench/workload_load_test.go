package bench

import (
	"errors"
	"testing"
	"time"
)

// possible is a machine on which so many flows at a time have a p90 of at most probeP90.
func possible(most int) func(flows int) (offer, error) {
	return func(flows int) (offer, error) {
		p90 := probeP90
		if flows > most {
			p90 *= float64(flows) / float64(max(1, most))
		}
		return offer{flows: flows, rate: float64(flows), p90: p90}, nil
	}
}

// The search finds a load whose p90 is just small enough, however many flows that is, also if the machine does
// something else for a while.
func TestSearch(t *testing.T) {
	for _, most := range []int{1, 3, 10, 100, 1500, maxFlows} {
		for _, busy := range []int{0, 1, 2, 4} { // probe from which on two are slow; 0: none
			n, probe := 0, possible(most)
			tried, err := search(func(flows int) (offer, error) {
				o, err := probe(flows)
				if n++; busy > 0 && n >= busy && n < busy+2 {
					o.p90 *= 3
				}
				return o, err
			})
			got := best(tried, probeP90).flows
			if err != nil || got > max(most, 1) || got < most*2/3 || n > 24 {
				t.Errorf("of %d flows at a time it finds %d in %d probes, slow from %d on, %v: %v", most, got, n, busy,
					offered(tried), err)
			}
		}
	}
	slow := []offer{{flows: 1, rate: 100, p90: 2}, {flows: 4, rate: 300, p90: 3}, {flows: 16, rate: 400, p90: 9}}
	if got := best(slow, probeP90).flows; got != 4 {
		t.Errorf("where no load fits, it takes %d flows", got)
	}
	failed := errors.New("failed")
	if _, err := search(func(int) (offer, error) { return offer{}, failed }); !errors.Is(err, failed) {
		t.Errorf("a load that fails: %v", err)
	}
}

// If the load that was found has too large a p90 in the long run, or leaves room for more, others are measured, and the
// best one is reported. A run that something else disturbs does not decide.
func TestMeasure(t *testing.T) {
	for _, most := range []int{4, 8, 30, 45, 100, 130, 200} { // in the long run, at a time
		for _, slow := range []int{0, 1, 2} { // run that is disturbed; 0: none
			setup, n := map[string]any{}, 0
			_, err := StoreWorkload{Seconds: 1}.measure(nil, setup, func(flows int, about time.Duration) (offer, error) {
				if about == probeTime {
					return possible(100)(flows)
				}
				o, err := proportional(most)(flows)
				if n++; n == slow {
					o.p90 *= 2
				}
				return o, err
			})
			got, least := setup["flows"].(int), float64(most)*2/3
			if slow > 0 {
				least = float64(most) * 0.4
			}
			if err != nil || float64(got) > maxP90/probeP90*float64(most) || float64(got) < least || n > maxRuns {
				t.Errorf("of %d flows at a time %v is reported, run %d is slow: %v", most, setup, slow, err)
			}
		}
	}
}

// The next load is near the last one also if that was far too small.
func TestNextLoad(t *testing.T) {
	for _, c := range []struct {
		flows int
		p90   float64
		next  int
	}{{1, 0.7, 2}, {1, 0.4, 2}, {10, 0.3, 30}, {10, 0.1, 40}, {10, 1.8, 5}, {10, 0.9, 0}, {1, 1.1, 0}, {3000, 0.3, 3548}} {
		if got := nextLoad([]offer{{flows: c.flows, p90: c.p90}}); got != c.next {
			t.Errorf("after %d flows with a p90 of %v ms come %d, not %d", c.flows, c.p90, got, c.next)
		}
	}
}

// Where loads are multiples of a number, none is measured more than twice.
func TestMeasureMultiples(t *testing.T) {
	runs, s := 0, StoreWorkload{Seconds: 1}
	_, err := s.measure(nil, map[string]any{}, func(flows int, about time.Duration) (offer, error) {
		if about != probeTime {
			runs++
		}
		return proportional(2)(max(1, flows/4) * 4)
	})
	if err != nil || runs > 2 {
		t.Errorf("%d runs, of which none fits: %v", runs, err)
	}
}

// proportional is a machine whose p90 is proportional to the load, and probeP90 with that many flows at a time.
func proportional(most int) func(flows int) (offer, error) {
	return func(flows int) (offer, error) {
		return offer{flows: flows, rate: float64(flows), p90: probeP90 * float64(flows) / float64(most)}, nil
	}
}
