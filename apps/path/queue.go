package path

import (
	"github.com/holdfast-sdn/holdfast/app"
	"github.com/holdfast-sdn/holdfast/network/model"
)

// kind is what is to be done at a switch.
type kind uint8

const (
	lay   kind = iota + 1 // install a hop, to which no frame comes yet
	enter                 // let frames take a route, at its first switch
	erase                 // remove a hop, to which no frame comes any more
	leave                 // let no more frames take a path, at its first switch
)

// op is one change of an entry at a switch.
type op struct {
	_     struct{} `cbor:",toarray"`
	Kind  kind
	Path  uint64
	Route uint64
	Hop   hop
	Tag   uint16
	Last  bool // the path ends at this hop

	Backup    app.Port // where frames leave while Hop.Out is down; 0: nowhere
	BackupTag uint16
}

// line is what waits for a switch. At most model.MaxSteps of it are on their way, in one change. The next one is sent
// when the switch has confirmed that, so changes grow by themselves under load.
type line struct {
	_           struct{} `cbor:",toarray"`
	Up          bool
	First, Next uint64 // what waits has numbers from First to before Next
	Sent        uint64 // the number after the last one that is on its way; 0: none is
	Change      uint64 // number of the change
	Checked     uint64 // while it is down: what has lower numbers is known to wait for it
}

// kept is a line, and as what it is stored.
type kept struct{ line, was line }

// line returns what waits for a switch. Changes of it are written at the end of the handler.
func (v *visit) line(id app.Switch) *line {
	l, known := v.lines[id]
	if !known {
		l = new(kept)
		l.was, _ = v.nodes.Get(v.tx, all, id)
		l.line = l.was
		v.lines[id] = l
	}
	return &l.line
}

// push has a switch do something after all that waits for it.
func (v *visit) push(o op) {
	l := v.line(o.Hop.Switch)
	v.ops.Put(v.tx, o.Hop.Switch, l.Next, o)
	l.Next++
	if !l.Up {
		v.await(quiet)
	}
}

// transitPriority is that of the entries for tags. Other applications match no tag of a path, unless they match all.
const transitPriority = 65_000

// send sends a switch what waits for it, if nothing is on its way.
func (v *visit) send(id app.Switch, l *line) {
	if !l.Up || l.Sent > 0 || l.First == l.Next {
		return
	}
	m := model.Change{Switch: id, Owner: Name, Number: l.Change + 1}
	for number, o := range v.ops.All(v.tx, id) {
		m.Steps = append(m.Steps, v.step(&o))
		if l.Sent = number + 1; len(m.Steps) == model.MaxSteps {
			break
		}
	}
	if len(m.Steps) == 0 { // all that waited was given up
		l.First = l.Next
		return
	}
	l.Change++
	v.fail(app.Emit(v.tx, m))
}

// step is an op as the entry that it changes.
func (v *visit) step(o *op) model.Step {
	s := model.Step{ID: o.Path, Remove: o.Kind == erase || o.Kind == leave}
	s.In, s.Out, s.Priority, s.Tag = o.Hop.In, o.Hop.Out, transitPriority, o.Tag
	s.Backup, s.BackupTag = o.Backup, o.BackupTag
	switch o.Kind {
	case lay, erase:
		s.Pop = o.Last
	case enter, leave:
		p, _ := v.defs.Get(v.tx, o.Path) // it is there until its first switch has confirmed its end
		s.Class, s.Priority, s.Tag, s.Push = p.Class, p.Priority, 0, o.Tag
	}
	return s
}

// changed takes the answer of a switch.
func (v *visit) changed(m model.Changed) error {
	l := v.line(m.Switch)
	if m.Owner != Name || m.Number != l.Change || l.Sent == 0 {
		return nil
	}
	if m.Away { // what was on its way is sent again when the switch is back, unless it is given up
		l.Up, l.Sent, l.Checked = false, 0, l.First
		v.await(quiet)
		return nil
	}
	list := v.between(m.Switch, l.First, l.Sent)
	l.First, l.Sent = l.Sent, 0
	why := map[int]string{}
	for _, r := range m.Refused {
		why[r.Step] = r.Why
	}
	for i, w := range list {
		v.ops.Delete(v.tx, m.Switch, w.number)
		v.done(&w.op, why[i])
	}
	return nil
}

type waiting struct {
	number uint64
	op     op
}

// between returns what waits for a switch, from one number to before another.
func (v *visit) between(id app.Switch, first, end uint64) (list []waiting) {
	for number, o := range v.ops.All(v.tx, id) {
		if number >= end {
			break
		}
		if number >= first {
			list = append(list, waiting{number, o})
		}
	}
	return list
}

// abandon gives up what does not wait for switches that are down, a part at a time. It reports whether that is all.
func (v *visit) abandon() bool {
	for id, l := range v.nodes.All(v.tx, all) {
		if l.Up || l.Sent > 0 || l.Checked >= l.Next {
			continue
		}
		end := min(l.Checked+model.MaxSteps, l.Next)
		for _, w := range v.between(id, l.Checked, end) {
			if !v.waits(&w.op) {
				v.ops.Delete(v.tx, id, w.number)
				v.done(&w.op, "switch "+id.String()+" is "+v.condition(id))
			}
		}
		v.line(id).Checked = end
		return false
	}
	return true
}

func (v *visit) nodeUp(m model.NodeUp) error {
	v.line(m.Switch).Up = true
	v.gone.Delete(v.tx, all, m.Switch)
	v.reconsider()
	v.networkChanged()
	return nil
}

func (v *visit) nodeDown(m model.NodeDown) error {
	if l := v.line(m.Switch); l.Up {
		l.Up, l.Checked = false, l.First
	}
	v.networkChanged()
	return nil
}

// nodeForgotten gives up what waits for a switch, and the paths that begin there.
func (v *visit) nodeForgotten(m model.NodeForgotten) error {
	l, known := v.nodes.Get(v.tx, all, m.Switch)
	if !known || l.Up {
		return nil
	}
	v.gone.Put(v.tx, all, m.Switch, true)
	v.line(m.Switch).Checked = l.First
	for id, r := range v.paths.All(v.tx) {
		if r.Live != nil && r.Live.Hops[0].Switch == m.Switch {
			v.todo.Put(v.tx, all, id, true)
		}
	}
	v.await(quiet)
	return nil
}

// forgotten reports whether a switch is gone for good.
func (v *visit) forgotten(id app.Switch) bool {
	_, gone := v.gone.Get(v.tx, all, id)
	return gone
}

// condition is what a switch is that is not up.
func (v *visit) condition(id app.Switch) string {
	if v.forgotten(id) {
		return "forgotten"
	}
	return "down"
}
