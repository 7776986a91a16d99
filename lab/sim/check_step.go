package sim

import (
	"github.com/holdfast-sdn/holdfast/lab/history"
	"github.com/holdfast-sdn/holdfast/openflow/experimenter"
	"github.com/holdfast-sdn/holdfast/southbound"
)

// stepCheck follows one session of a stock switch, to know from outside when it must be in sync: as soon as one sync
// marker of the epoch has arrived on its connection, and then in the log, or as the newest of the log on its
// connection. From there on it holds the events that have arrived and are not in the log. And the epoch continues when
// its controller leads.
type stepCheck struct {
	came, seen stream // on the connection, in the log
	in         bool
	ahead      int  // of the connection before the log at the first: negative if the log was ahead
	counted    bool // ahead is known

	claimed   bool   // it numbers the events, and may hold replies too
	told      uint64 // the last event in the log that it was shown: as the proxy of the leader, all of them
	delivered uint64 // epoch of which this session, as master, has delivered an event other than its end
	known     uint64 // epoch of which it was told that such an event is logged
	keeps     uint64 // epoch that this session, as master, must continue
}

// stream counts events, and knows where its marks stand.
type stream struct {
	count  int
	marks  map[experimenter.SyncMarker]int
	newest experimenter.SyncMarker
}

func (x *stream) mark(m experimenter.SyncMarker) {
	if x.marks == nil {
		x.marks = map[experimenter.SyncMarker]int{}
	}
	x.marks[m], x.newest = x.count, m
}

// heard takes what the session has read.
func (x *stepCheck) heard(s *session, batch []byte) {
	if s.State().Peer != southbound.Bundles {
		return
	}
	history.Each(batch, func(msg []byte) {
		if !history.ToAll(msg[1]) {
			return
		}
		x.came.count++
		if m, ok := history.MarkOf(msg); ok {
			if x.came.mark(m); m == x.seen.newest {
				x.common(m)
			}
		}
	})
	if epoch := s.State().Epoch; x.keeps != 0 && epoch != x.keeps {
		s.n.s.w.fail("controller %d was in sync with switch %s in epoch %d, and begins %d", s.n.id, s.Switch(), x.keeps,
			epoch)
	}
	x.check(s)
}

// logged takes what another controller has logged.
func (x *stepCheck) logged(s *session, seq uint64, msg []byte) {
	t, ours := experimenter.Is(msg)
	again := x.told == seq // because the session has become a standby
	x.told = seq
	switch {
	case ours && t == experimenter.TypeSwitchUp:
		*x = stepCheck{claimed: x.claimed, told: seq}
	case again:
	case ours && t == experimenter.TypeSyncMarker:
		x.seen.count++
		if m, err := experimenter.ParseSyncMarker(msg); err == nil {
			x.seen.mark(m)
			x.common(m)
		}
	case history.ToAll(msg[1]):
		x.seen.count++
	}
	x.check(s)
}

// common looks whether a mark stands in both.
func (x *stepCheck) common(m experimenter.SyncMarker) {
	came, ok := x.came.marks[m]
	seen, too := x.seen.marks[m]
	if ok && too && !x.counted {
		x.in, x.counted, x.ahead = true, true, seen-came
	}
}

// check compares with what the session holds.
func (x *stepCheck) check(s *session) {
	if !x.counted || x.claimed || s.n.s.scenario.SwitchQueue > 0 {
		return
	}
	if want := max(0, x.came.count-x.seen.count+x.ahead); !s.State().InSync || s.Held() != want {
		s.n.s.w.fail("controller %d holds %d events of switch %s, in sync %t; of those that have come %d are not "+
			"in the log", s.n.id, s.Held(), s.Switch(), s.State().InSync, want)
	}
}

// delivers takes a batch of events that the session delivers.
func (x *stepCheck) delivers(b southbound.Batch) {
	if t, ours := experimenter.Is(b.Messages); !ours || t != experimenter.TypeSwitchDown {
		x.delivered = b.Epoch
	}
}

// acked takes the acknowledgement of events. A claim begins with one, which says nothing: the session may have to end
// that epoch.
func (x *stepCheck) acked(s *session, epoch, seq uint64) {
	if st := s.State(); st.Peer == southbound.Bundles && epoch == st.Epoch && epoch == x.delivered {
		x.known = epoch
	}
	if seq > x.told { // the master is here, and nobody shows the session what is in the log
		x.came, x.seen, x.counted = stream{}, stream{}, false
	}
}

// stands: the session is not that of the master any more. What it had of an epoch that is in the log it goes on with,
// and if it was shown the log meanwhile, it holds what is not in there.
func (x *stepCheck) stands(s *session) {
	was := *x
	if !was.claimed {
		return
	}
	*x = stepCheck{}
	if was.keeps != 0 || was.known != 0 {
		x.in = was.keeps != 0 || was.known == s.State().Epoch
		x.came, x.seen, x.ahead, x.counted, x.told = was.came, was.seen, was.ahead, was.counted, was.told
	}
}

// claims: the controller leads, or the session is the proxy of the leader.
func (x *stepCheck) claims(s *session, r southbound.Resume) {
	in := x.in && s.n.s.scenario.SwitchQueue == 0 // else its connection may lack something any time
	was := *x
	*x = stepCheck{claimed: true, told: was.told}
	if !in {
		return
	}
	if !s.State().InSync && !s.busy && len(s.rest) == 0 {
		s.n.s.w.fail("controller %d has common marks with the log of switch %s, and is not in sync", s.n.id, s.Switch())
	}
	if r.Live {
		x.keeps = r.Epoch
		x.came, x.seen, x.ahead, x.counted = was.came, was.seen, was.ahead, was.counted
	}
}
