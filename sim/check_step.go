package sim

import (
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// stepCheck follows one session of a stock switch, to know from outside when it must be in step: as soon as one mark of
// the epoch has come on its connection, and in the log. Then the epoch goes on when its controller leads.
type stepCheck struct {
	came, seen map[experimenter.Mark]bool // on the connection, in the log
	in         bool

	known uint64 // epoch of which some event is logged, as this session as master was told
	keeps uint64 // epoch that this session, as master, must go on with
}

// heard takes what the session has read.
func (x *stepCheck) heard(s *session, batch []byte) {
	if s.Mode() != southbound.Stock {
		return
	}
	each(batch, func(msg []byte) {
		if msg[1] != of13.TypePacketIn {
			return
		}
		if m, ok := markOf(msg); ok {
			x.came = put(x.came, m)
			x.in = x.in || x.seen[m]
		}
	})
	if epoch := s.Epoch(); x.keeps != 0 && epoch != x.keeps {
		s.n.s.w.fail("controller %d was in step with switch %s in epoch %d, and begins %d", s.n.id, s.Switch(), x.keeps, epoch)
	}
}

// logged takes what another leader has logged.
func (x *stepCheck) logged(msg []byte) {
	switch t, _ := experimenter.Is(msg); t {
	case experimenter.TypeSwitchUp:
		*x = stepCheck{}
	case experimenter.TypeMark:
		if m, err := experimenter.ParseMark(msg); err == nil {
			x.seen = put(x.seen, m)
			x.in = x.in || x.came[m]
		}
	}
}

func (x *stepCheck) acked(s *session, epoch uint64) {
	if s.Mode() == southbound.Stock && epoch == s.Epoch() {
		x.known = epoch
	}
}

// stands: the controller leads no more. What it had of an epoch that is in the log it goes on with.
func (x *stepCheck) stands(s *session) {
	in := x.keeps != 0 || x.known != 0 && x.known == s.Epoch()
	*x = stepCheck{in: x.in && x.known == 0 || in, came: x.came, seen: x.seen}
}

// claims: the controller leads.
func (x *stepCheck) claims(s *session, r southbound.Resume) {
	in := x.in && s.n.s.scenario.SwitchQueue == 0 // else its connection may lack something any time
	*x = stepCheck{}
	if !in {
		return
	}
	if !s.InStep() && !s.busy && len(s.rest) == 0 {
		s.n.s.w.fail("controller %d has common marks with the log of switch %s, and is not in step", s.n.id, s.Switch())
	}
	if r.Live {
		x.keeps = r.Epoch
	}
}

func put(set map[experimenter.Mark]bool, m experimenter.Mark) map[experimenter.Mark]bool {
	if set == nil {
		set = map[experimenter.Mark]bool{}
	}
	set[m] = true
	return set
}
