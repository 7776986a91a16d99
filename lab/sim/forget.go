package sim

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/ledger"
)

// drawForgets adds that operators forget switches, and times in which a switch is away long enough for that.
func drawForgets(seed uint64, s *Scenario) {
	r := rand.New(rand.NewPCG(seed, 5)) // so that nothing else of the scenario changes
	s.ForgetEvery = []time.Duration{20, 100, 300}[r.IntN(3)] * time.Millisecond
	s.SwitchTimeout = min(s.SwitchTimeout, time.Second)
	for range 2 + r.IntN(6) {
		s.Faults = append(s.Faults, Fault{Kind: []FaultKind{IsolateAgent, KillAgent, KillSwitch}[r.IntN(3)],
			A: r.IntN(1 << 16), B: r.IntN(1 << 16), At: time.Second + time.Duration(r.Int64N(int64(s.Duration))),
			For: time.Second + time.Duration(r.Int64N(int64(4*time.Second)))})
	}
	slices.SortStableFunc(s.Faults, func(a, b Fault) int { return cmp.Compare(a.At, b.At) })
}

// forgetOne lets an operator ask any controller to forget any switch. Most switches are up then, and are not forgotten.
func (s *simulation) forgetOne() {
	n, a := s.controllers[s.w.rand.IntN(len(s.controllers))], s.aSwitch()
	if _, known := n.groupOf(a); !known || !n.p.up || !s.h.Known(a.Switch) {
		return
	}
	n.call(ledger.Call{Actor: a, Forgets: true}, func(_ []byte, err error) {
		if err == nil {
			s.w.note(n.p, "%v is forgotten", a)
		}
	})
}
