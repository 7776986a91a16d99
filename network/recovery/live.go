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
		row.Live, row.Dark = with(row.Live, p.Port), without(row.Dark, p.Port)
	} else {
		row.Live, row.Dark = without(row.Live, p.Port), with(row.Dark, p.Port)
	}
	v.switches.Put(v.tx, all, s, row)
	if l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: s, Port: p.Port}); ok {
		v.shade(l)
	}
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

// dark reports whether a port has been live, and no longer is.
func (v *visit) dark(at place) bool {
	row, _ := v.switches.Get(v.tx, all, at.Switch)
	_, dark := slices.BinarySearch(row.Dark, at.Port)
	return dark
}

// shade stops the use of a link while one of its ports is dark, and ends that when none is dark any more. A switch that
// is down is not removed because of it: BFD gives false alarms, and nothing would find the switch again.
func (v *visit) shade(l link) {
	dark := v.dark(l.A) || v.dark(l.B)
	if dark == l.Dark {
		return
	}
	if wait := l.New + int64(setUp) - v.now; dark && wait > 0 {
		v.set(timerShade+l.A.Switch.String(), time.Duration(wait))
		return
	}
	l.Dark = dark
	switch {
	case !l.Found:
	case dark:
		l.Lost = v.now
		v.tx.CancelTimer(timerHold + portName(l.A.portOf()))
		v.changed(lossQuiet, "link "+l.name()+" is lost: a port is up, and not live")
	default:
		v.hold(&l)
		v.changed(lossQuiet, "link "+l.name()+" is back")
	}
	v.putLink(l)
}

// shadeAll checks the links of a switch. For links that may still be setting up BFD it resets the timer.
func (v *visit) shadeAll(s app.Switch) {
	row, _ := v.switches.Get(v.tx, all, s)
	for _, p := range row.Ports {
		if l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: s, Port: p}); ok {
			v.shade(l)
		}
	}
}
