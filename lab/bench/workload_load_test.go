package bench

import (
	"errors"
	"testing"
)

// The search finds a load whose p90 is just small enough, however many flows that is.
func TestSearch(t *testing.T) {
	for _, most := range []int{1, 3, 10, 100, 1500, maxFlows} { // flows at a time with a p90 of at most probeP90
		tried, err := search(func(flows int) (offer, error) {
			p90 := probeP90
			if flows > most {
				p90 *= float64(flows) / float64(max(1, most))
			}
			return offer{flows: flows, rate: float64(flows), p90: p90}, nil
		})
		if got := best(tried).flows; err != nil || got > max(most, 1) || got < most*2/3 || len(tried) > 12 {
			t.Errorf("of %d flows at a time it finds %d, after %v: %v", most, got, offered(tried), err)
		}
	}
	slow := []offer{{flows: 1, rate: 100, p90: 2}, {flows: 4, rate: 300, p90: 3}, {flows: 16, rate: 400, p90: 9}}
	if got := best(slow).flows; got != 4 {
		t.Errorf("where no load fits, it takes %d flows", got)
	}
	failed := errors.New("failed")
	if _, err := search(func(int) (offer, error) { return offer{}, failed }); !errors.Is(err, failed) {
		t.Errorf("a load that fails: %v", err)
	}
}
