package recovery

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/liveness"
	"github.com/holdfast-sdn/holdfast/network/paths"
	"github.com/holdfast-sdn/holdfast/network/topology"
	"github.com/holdfast-sdn/holdfast/openflow/of13"
)

// maxHold is the longest that a link is held because it fails again and again. steady is how long it has to be in use
// before its hold time is reset.
const (
	maxHold = time.Minute
	steady  = time.Minute
)

// switchRow is a switch that is up, or was and may still forward.
type switchRow struct {
	_     struct{} `cbor:",toarray"`
	Up    bool
	Since int64      // when Up changed
	Ports []app.Port // that have, or had, a link
	Asked uint32     // xid of the request for its ports; 0 once a part of the answer has come

	Live, Dim []app.Port // ports that have been live, in order, and are so or not, as far as known

	Checked                                 int64 // when it was last found to be right, or repaired
	Right, Wrong, Missing, Surplus, Foreign int   // counts of that check
	PutBack, Removed                        uint64
	Failed                                  int64
	Error, Command                          string // of the last failure
}

// link is a cable. The table has it at both its ends.
type link struct {
	_       struct{} `cbor:",toarray"`
	A, B    place    // A is the lesser
	New     int64    // when it was first found
	Found   bool     // it exists, as far as is known
	Dim     int64    // since when one of its ports is dim; 0: none is
	Dark    bool     // it has been dim for long: it is not used
	Unheard bool     // a switch at its end is down, or has been, and has not found it again
	Lost    int64    // when it was lost, or became dark
	Hold    int64    // how long it was held the last time
	Until   int64    // it is held
}

func (l link) name() string {
	return paths.Link{From: paths.End(l.A.portOf()), To: paths.End(l.B.portOf())}.String()
}

// other returns the end that is not p.
func (l link) other(p app.PortOf) app.PortOf {
	if l.A.portOf() == p {
		return l.B.portOf()
	}
	return l.A.portOf()
}

func (v *visit) putLink(l link) {
	v.links.Put(v.tx, all, l.A.portOf(), l)
	v.links.Put(v.tx, all, l.B.portOf(), l)
}

func (v *visit) dropLink(l link) {
	v.links.Delete(v.tx, all, l.A.portOf())
	v.links.Delete(v.tx, all, l.B.portOf())
}

func (v *visit) switchUp(m app.SwitchUp) error {
	row, known := v.switches.Get(v.tx, all, m.Switch)
	row.Up, row.Since = true, v.now
	// those of m may date from the beginning of its epoch
	row.Asked = v.tx.Send(m.Switch, &of13.MultipartRequest{Part: of13.PartPortDesc})
	v.switches.Put(v.tx, all, m.Switch, row)
	v.endJob(m.Switch)
	v.todo.Put(v.tx, all, m.Switch, todo{})
	if !known {
		v.changed(discoveryQuiet, switchName(m.Switch)+" is new")
	}
	v.set(timerFound+m.Switch.String(), foundIn)
	overdue := v.st.TurnAt < v.now-int64(answerIn) // the handler of its timer failed
	if next := v.nextTurn(); v.st.TurnAt == 0 || overdue || next < v.st.TurnAt {
		v.setTurn(next)
	}
	return nil
}

// ports removes the links and hosts at ports of a switch that are not up now. A port that is missing in a reply of one
// part is gone.
func (v *visit) ports(m app.Reply) {
	row, _ := v.switches.Get(v.tx, all, m.Switch)
	missing := topology.Missing(m, row.Asked)
	if row.Asked != 0 {
		row.Asked = 0
		v.switches.Put(v.tx, all, m.Switch, row)
	}
	up := map[app.Port]bool{}
	for p := range m.PortDescs().All() {
		up[p.Port] = p.Up()
		v.light(m.Switch, p)
	}
	gone := func(p app.Port) bool { is, named := up[p]; return named && !is || missing(p) }
	for _, p := range row.Ports {
		if gone(p) {
			v.lose(app.PortOf{Switch: m.Switch, Port: p}, "port down")
		}
	}
	v.dropHosts("port down", func(at app.PortOf) bool { return at.Switch == m.Switch && gone(at.Port) })
}

func (v *visit) switchDown(m app.SwitchDown) error {
	row, known := v.switches.Get(v.tx, all, m.Switch)
	if !known || !row.Up {
		return nil
	}
	row.Up, row.Since = false, v.now
	for _, p := range row.Dim { // the reply to the earlier request is outdated
		row.Live = with(row.Live, p)
	}
	row.Dim = nil
	v.switches.Put(v.tx, all, m.Switch, row)
	v.endJob(m.Switch)
	v.todo.Delete(v.tx, all, m.Switch)
	for _, p := range row.Ports {
		if l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: m.Switch, Port: p}); ok && l.Found {
			l.Unheard = true
			v.putLink(l)
		}
	}
	v.unhear(m.Switch)
	v.shadeAll(m.Switch)
	v.tx.CancelTimer(timerFound + m.Switch.String())
	v.tx.CancelTimer(timerRetry + m.Switch.String())
	v.forgetIfCutOff(m.Switch)
	return nil
}

// stillUnheard removes links that a switch which is back has not found again. If the other end is not back, or came
// back later, its own timer decides.
func (v *visit) stillUnheard(s app.Switch) {
	row, _ := v.switches.Get(v.tx, all, s)
	for _, p := range row.Ports {
		at := app.PortOf{Switch: s, Port: p}
		l, ok := v.links.Get(v.tx, all, at)
		if !ok || !l.Found || !l.Unheard {
			continue
		}
		if far, _ := v.switches.Get(v.tx, all, l.other(at).Switch); far.Up && v.now-far.Since >= int64(foundIn) {
			v.lose(at, "not found again")
		}
	}
}

// portStatus also removes links that topology has already dropped because a switch at their end is down.
func (v *visit) portStatus(m app.PortStatus) error {
	if m.Reason == of13.PortDelete {
		m.Port.State |= of13.PortStateLinkDown
	}
	at := app.PortOf{Switch: m.Switch, Port: m.Port.Port}
	if !m.Port.Up() && !v.lose(at, "port down") {
		v.dropHosts("port down", func(p app.PortOf) bool { return p == at })
	}
	v.light(m.Switch, m.Port)
	return nil
}

func (v *visit) linkUp(m topology.LinkUp) error {
	if !m.Bidirectional || m.From.Switch == m.To.Switch {
		return nil
	}
	l := link{A: placeOf(m.From), B: placeOf(m.To)}
	if m.To.Switch < m.From.Switch {
		l.A, l.B = l.B, l.A
	}
	old, known := v.links.Get(v.tx, all, m.From)
	switch {
	case known && old.A == l.A && old.B == l.B:
		l = old
		if l.Found {
			l.Unheard = false
			v.putLink(l)
			return nil
		}
		l.Found = true
		v.hold(&l)
		v.changed(lossQuiet, "link "+l.name()+" is back")
	default:
		v.displace(m.From)
		v.displace(m.To)
		l.Found, l.New = true, v.now
		v.changed(discoveryQuiet, "link "+l.name()+" is new")
	}
	v.putLink(l)
	v.shade(l)
	v.dropHosts("a link's port", func(at app.PortOf) bool { return at == m.From || at == m.To })
	return nil
}

// hold keeps a link that is back out of use until it has been stable for a time, unless no plan can use it anyway.
func (v *visit) hold(l *link) {
	d := int64(v.config.HoldDown)
	switch {
	case v.now < l.Until && l.Lost <= l.Until-l.Hold: // it is held, and was dark when it was found: that is one failure
		d = l.Hold
	case l.Hold > 0 && l.Lost-l.Until < int64(steady):
		d = min(2*l.Hold, max(d, int64(maxHold)))
	}
	_, a := v.planSwitches.Get(v.tx, target, l.A.Switch)
	_, b := v.planSwitches.Get(v.tx, target, l.B.Switch)
	if !a || !b {
		d = 0
	}
	l.Hold, l.Until = d, v.now+d
	if d > 0 {
		v.set(timerHold+portName(l.A.portOf()), time.Duration(d))
	}
}

// displace removes the previous link at a port, whose switch is recorded with the port from now on.
func (v *visit) displace(at app.PortOf) {
	v.lose(at, "another link is there")
	if l, ok := v.links.Get(v.tx, all, at); ok {
		v.dropLink(l)
	}
	row, _ := v.switches.Get(v.tx, all, at.Switch)
	if i, ok := slices.BinarySearch(row.Ports, at.Port); !ok {
		row.Ports = slices.Insert(row.Ports, i, at.Port)
		v.switches.Put(v.tx, all, at.Switch, row)
	}
}

func (v *visit) linkDown(m topology.LinkDown) error {
	if m.Reason == topology.SwitchIsDown { // it may still forward
		return nil
	}
	for _, d := range m.Links {
		if l, ok := v.links.Get(v.tx, all, d.From); ok && l.other(d.From) == d.To && !l.Unheard {
			v.lose(d.From, m.Reason.String())
		}
	}
	return nil
}

// echo handles a report of liveness whether a switch that is down still returns frames.
func (v *visit) echo(m liveness.Echo) error {
	a, _ := v.switches.Get(v.tx, all, m.A.Switch)
	b, _ := v.switches.Get(v.tx, all, m.B.Switch)
	l, known := v.links.Get(v.tx, all, m.A)
	if !known || l.other(m.A) != m.B || a.Up == b.Up || m.Came == l.Found {
		return nil
	}
	if !m.Came {
		v.lose(m.A, "nothing comes back over it")
		return nil
	}
	l.Found, l.Unheard = true, true
	v.hold(&l)
	v.putLink(l)
	v.changed(lossQuiet, "link "+l.name()+" is back")
	v.shade(l)
	return nil
}

// lose removes the link at a port. It reports whether there was one.
func (v *visit) lose(at app.PortOf, why string) bool {
	l, ok := v.links.Get(v.tx, all, at)
	if !ok || !l.Found {
		return false
	}
	l.Found, l.Unheard = false, false
	if !l.Dark {
		l.Lost = v.now
	}
	v.putLink(l)
	v.tx.CancelTimer(timerHold + portName(l.A.portOf()))
	v.changed(lossQuiet, fmt.Sprintf("link %s is lost: %s", l.name(), why))
	v.forgetIfCutOff(l.A.Switch)
	v.forgetIfCutOff(l.B.Switch)
	return true
}

// forgetIfCutOff removes a switch that is down if all its links are lost: it forwards nothing to anybody.
func (v *visit) forgetIfCutOff(s app.Switch) {
	row, known := v.switches.Get(v.tx, all, s)
	if !known || row.Up || len(row.Ports) == 0 {
		return
	}
	var dead []link
	for _, p := range row.Ports {
		l, ok := v.links.Get(v.tx, all, app.PortOf{Switch: s, Port: p})
		switch {
		case ok && l.Found:
			return
		case ok:
			dead = append(dead, l)
		}
	}
	v.forget(s, dead, "cut off")
}

// switchForgotten removes a switch that is down, though it may have links that work.
func (v *visit) switchForgotten(m app.SwitchForgotten) error {
	row, _ := v.switches.Get(v.tx, all, m.Switch)
	for _, p := range row.Ports {
		v.lose(app.PortOf{Switch: m.Switch, Port: p}, "its switch is forgotten") // with the last one it is cut off
	}
	if _, known := v.switches.Get(v.tx, all, m.Switch); known {
		v.forget(m.Switch, nil, "forgotten")
	}
	return nil
}

// forget removes a switch that is down, its hosts, and what its links were.
func (v *visit) forget(s app.Switch, were []link, why string) {
	for _, l := range were {
		v.dropLink(l)
	}
	v.switches.Delete(v.tx, all, s)
	v.dropHosts(why, func(at app.PortOf) bool { return at.Switch == s })
	v.changed(lossQuiet, switchName(s)+" is "+why)
}
