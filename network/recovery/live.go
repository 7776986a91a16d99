package recovery

import (
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/protect"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// setUp is how long the ports of a new link may be not live: BFD is being configured there, which takes a second or
// two.
const setUp = 10 * time.Second

// falseFor is how long a link may be dim without a change of the plan: BFD comes up again within that time after a
// false alarm. Meanwhile its switches bypass it. A switch that seems dead is left out at once, since link-disjoint
// routes do not bypass it.
const falseFor = 5 * time.Second

// light records the live bit of a port that a switch reports. Open vSwitch clears it while BFD is down, although the
// port is up: its groups do not use the port then, and topology would notice only by missed probes. A port that has
// never been live is ignored: many switches do not set the bit.
func (v *visit) light(s app.Switch, p of13.PortDesc) {
	row, known := v.switches.Get(v.tx, all, s)
	_, was := slices.BinarySearch(row.Live, p.Port)
	live := p.Up() && p.State&of13.PortStateLive != 0
	if !known || was == live || p.Port > protect.MaxPort {
		return
	}
	if live {
		row.Live, row.Dim = with(row.Live, p.Port), without(row.Dim, p.Port)
	} else {
		row.Live, row.Dim = without(row.Live, p.Port), with(row.Dim, p.Port)
	}
	v.switches.Put(v.tx, all, s, row)
	l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: s, Port: p.Port})
	if !ok {
		return
	}
	v.shade(l)
	for _, id := range []app.Switch{l.A.Switch, l.B.Switch} {
		if v.seemsDead(id) {
			v.shadeAll(id)
		}
	}
}

// seemsDead reports whether all links of a switch are dim, and no others. If others are dim too, it is more likely that
// a machine is busy.
func (v *visit) seemsDead(s app.Switch) bool {
	for _, l := range v.links.All(v.tx, all) {
		if l.Found && (l.Dim != 0) != (l.A.Switch == s || l.B.Switch == s) {
			return false
		}
	}
	return true
}

func with(ports []app.Port, p app.Port) []app.Port {
	if i, there := slices.BinarySearch(ports, p); !there {
		return slices.Insert(ports, i, p)
	}
	return ports
}

func without(ports []app.Port, p app.Port) []app.Port {
	return slices.DeleteFunc(ports, func(q app.Port) bool { return q == p })
}

// dim reports whether a port has been live, and no longer is.
func (v *visit) dim(at place) bool {
	row, _ := v.switches.Get(v.tx, all, at.Switch)
	_, dim := slices.BinarySearch(row.Dim, at.Port)
	return dim
}

// shade stops the use of a link that has been dim for long, and ends that when it is not dim any more. A switch that is
// down is not removed because of it: BFD gives false alarms, and nothing would find the switch again.
func (v *visit) shade(l link) {
	dim := v.dim(l.A) || v.dim(l.B)
	if dim != (l.Dim != 0) {
		if l.Dim = 0; dim {
			l.Dim = v.now
		}
		v.putLink(l)
	}
	if dim == l.Dark {
		return
	}
	if wait := v.dimUntil(l) - v.now; dim && l.Found && wait > 0 {
		v.set(timerShade+portName(l.A.portOf()), time.Duration(wait))
		return
	}
	l.Dark = dim
	switch {
	case !l.Found:
	case l.Dark:
		l.Lost = v.now
		v.tx.CancelTimer(timerHold + portName(l.A.portOf()))
		v.changed(lossQuiet, "link "+l.name()+" is lost: a port is up, and not live")
	default:
		v.hold(&l)
		v.changed(lossQuiet, "link "+l.name()+" is back")
	}
	v.putLink(l)
}

// dimUntil returns how long a link may be dim without a change of the plan.
func (v *visit) dimUntil(l link) int64 {
	until := l.New + int64(setUp)
	if !v.seemsDead(l.A.Switch) && !v.seemsDead(l.B.Switch) {
		until = max(until, l.Dim+int64(falseFor))
	}
	return until
}

// shadeAll checks the links of a switch. For those that may still be dim it sets their timers.
func (v *visit) shadeAll(s app.Switch) {
	row, _ := v.switches.Get(v.tx, all, s)
	for _, p := range row.Ports {
		if l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: s, Port: p}); ok {
			v.shade(l)
		}
	}
}
