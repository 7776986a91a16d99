package sim

import (
	"bytes"
	"time"

	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// cable is a cable of the data plane between a switch and another, or a host.
type cable struct {
	s    *simulation
	ends [2]cableEnd
	up   bool
	loss float64 // of a frame; as likely it comes twice
}

// cableEnd is a port of a switch; of a host when there is no switch.
type cableEnd struct {
	sw   *switchNode
	port of13.Port
}

const cableDelay = 20 * time.Microsecond

// send carries a frame to the other end.
func (w *cable) send(from *switchNode, data []byte) {
	to := w.ends[0]
	if to.sw == from {
		to = w.ends[1]
	}
	if !w.up {
		return
	}
	if to.sw == nil {
		w.s.leaves(from, data)
		return
	}
	copies := w.s.copies(w.loss)
	if copies == 0 {
		return
	}
	data = bytes.Clone(data)
	for range copies {
		to.sw.p.after(cableDelay, func() {
			if w.up {
				to.sw.frame(to.port, data)
			}
		})
	}
}

// copies draws how often something arrives that is lost, or comes twice, with this probability each.
func (s *simulation) copies(fault float64) int {
	if fault > 0 {
		switch r := s.w.rand.Float64(); {
		case r < fault:
			return 0
		case r < 2*fault:
			return 2
		}
	}
	return 1
}

// set cuts or mends the cable; both ends notice.
func (w *cable) set(up bool) {
	w.up = up
	for _, e := range w.ends {
		if e.sw != nil && e.sw.p.up {
			e.sw.p.after(0, func() { e.sw.carrier(e.port, w.up) })
		}
	}
}
