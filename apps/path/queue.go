package path

import (
	"encoding/binary"
	"fmt"
	"slices"

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
	Kind  kind
	Path  uint64
	Route uint64
	Hop   hop
	Tag   uint16
	Last  bool // the path ends at this hop

	Backup    app.Port // where frames leave while Hop.Out is down; 0: nowhere
	BackupTag uint16
}

// What follows the kind of an op in its first byte.
const (
	isLast    = 0x10
	hasBackup = 0x20
)

// append encodes an op, without its switch: two or three are written for each path.
func (o *op) append(b []byte) []byte {
	first := byte(o.Kind)
	if o.Last {
		first |= isLast
	}
	if o.Backup > 0 {
		first |= hasBackup
	}
	b = append(b, first)
	for _, n := range [...]uint64{o.Path, o.Route, uint64(o.Hop.In), uint64(o.Hop.Out), uint64(o.Tag)} {
		b = binary.AppendUvarint(b, n)
	}
	if o.Backup > 0 {
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(o.Backup)), uint64(o.BackupTag))
	}
	return b
}

// opsOf appends what is encoded in a row of a switch.
func opsOf(list []op, id app.Switch, b []byte) []op {
	number := func() uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 {
			panic(fmt.Sprintf("what waits for switch %v is not that of this release", id))
		}
		b = b[size:]
		return n
	}
	for len(b) > 0 {
		first := b[0]
		b = b[1:]
		o := op{Kind: kind(first & 0xf), Last: first&isLast > 0, Path: number(), Route: number()}
		o.Hop = hop{Switch: id, In: app.Port(number()), Out: app.Port(number())}
		if o.Tag = uint16(number()); first&hasBackup > 0 {
			o.Backup, o.BackupTag = app.Port(number()), uint16(number())
		}
		list = append(list, o)
	}
	return list
}

// line is what waits for a switch: ops in rows of at most maxRow, those of a transaction together. As many rows are on
// their way as fit in one change. The next ones are sent when the switch has confirmed that, so changes grow by
// themselves under load.
type line struct {
	_           struct{} `cbor:",toarray"`
	Up          bool
	First, Next uint64 // the rows have numbers from First to before Next
	Waiting     int    // ops in them
	Sent        uint64 // the number after the last row that is on its way; 0: none is
	Change      uint64 // number of the change
	Checked     uint64 // while it is down: the ops of rows with lower numbers are known to wait for it
}

// kept is a line, as what it is stored, and what is to be added to it.
type kept struct {
	line
	was   line
	fresh []op
}

// line returns what waits for a switch. Changes of it are written at the end of the handler.
func (v *visit) line(id app.Switch) *kept {
	l, known := v.lines[id]
	if !known {
		l = new(kept)
		l.was, _ = v.nodes.Get(v.tx, all, id)
		l.line = l.was
		v.lines[id] = l
	}
	return l
}

// push has a switch do something after all that waits for it, and returns the row in which that waits.
func (v *visit) push(o *op) (row uint64) {
	l := v.line(o.Hop.Switch)
	if n := len(v.fresh); l.fresh == nil && n > 0 {
		l.fresh, v.fresh = v.fresh[n-1], v.fresh[:n-1]
	}
	row = l.Next + uint64(len(l.fresh)/maxRow) // as write divides them
	l.fresh = append(l.fresh, *o)
	if !l.Up {
		v.await(quiet)
	}
	return row
}

// write writes what was pushed.
func (v *visit) write(id app.Switch, l *kept) {
	for some := range slices.Chunk(l.fresh, maxRow) {
		v.putOps(id, l.Next, some)
		l.Next++
	}
	l.Waiting += len(l.fresh)
	if 0 < cap(l.fresh) && cap(l.fresh) <= 2*maxRow && len(v.fresh) < maxFresh {
		v.fresh = append(v.fresh, l.fresh[:0])
	}
	l.fresh = nil
}

// putOps writes a row of ops; without any it is deleted.
func (v *visit) putOps(id app.Switch, number uint64, list []op) {
	if len(list) == 0 {
		v.ops.Delete(v.tx, id, number)
		return
	}
	b := make([]byte, 0, 24*len(list))
	for i := range list {
		b = list[i].append(b)
	}
	v.ops.Put(v.tx, id, number, b)
}

// maxRow bounds the ops of a row, so that one always fits in a change.
const maxRow = model.MaxChanged / model.MaxFlows

// transitPriority is that of the entries for tags. Other applications match no tag of a path, unless they match all.
const transitPriority = 65_000

// send sends a switch what waits for it, if nothing is on its way. What would make the transaction too large is sent in
// a later turn.
func (v *visit) send(id app.Switch, l *kept) {
	if !l.Up || l.Sent > 0 || l.First == l.Next {
		return
	}
	const usual = 24 // bytes of a step
	m := model.Change{Switch: id, Owner: Name, Number: l.Change + 1,
		Steps: make(model.Steps, 0, usual*min(l.Waiting, model.MaxSteps))}
	steps, flows, full := 0, 0, false
	for number, b := range v.ops.All(v.tx, id) {
		v.some = opsOf(v.some[:0], id, b)
		before, all := m.Steps, flows
		for i := range v.some {
			s := v.step(&v.some[i])
			m.Steps = m.Steps.With(&s)
			all += atMost(&s)
		}
		full = steps+len(v.some) > model.MaxSteps || v.flows+all > model.MaxChanged
		if full && v.flows+flows > 0 {
			m.Steps = before
			break
		}
		steps, flows = steps+len(v.some), all
		l.Sent = number + 1
	}
	v.flows += flows
	switch {
	case steps > 0:
		l.Change++
		v.fail(app.Emit(v.tx, m))
	case full:
		v.await(1)
	default: // all that waited was given up
		l.First = l.Next
	}
}

// resume has switches sent what was too large for the transactions before.
func (v *visit) resume() {
	for id, l := range v.nodes.All(v.tx, all) {
		if !l.Up || l.Sent > 0 || l.First == l.Next {
			continue
		}
		if len(v.lines) > maxLines {
			v.await(1)
			return
		}
		v.line(id)
	}
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
		r, _ := v.paths.Get(v.tx, o.Path) // it is there until its first switch has confirmed its end
		s.Class, s.Priority, s.Tag, s.Push = r.Path.Class, r.Path.Priority, 0, o.Tag
	}
	return s
}

// atMost bounds the flow entries that a step needs: one for each version of IP, and more for ranges of ports.
func atMost(s *model.Step) int {
	switch c := &s.Class; {
	case c.SourcePorts != "" || c.DestinationPorts != "":
		return model.MaxFlows
	case s.Tag > 0 || c.Source != "" || c.Destination != "":
		return 1
	}
	return 2
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
	list := v.take(m.Switch, l)
	var refused map[int]bool
	for _, r := range m.Refused { // before a route of which another hop is confirmed seems complete
		if refused == nil {
			refused = map[int]bool{}
		}
		refused[r.Step] = true
		v.done(&list[r.Step], r.Why)
	}
	for i := range list {
		if !refused[i] {
			v.done(&list[i], "")
		}
	}
	return nil
}

// take removes what is on its way to a switch from what waits for it. The list is valid until send.
func (v *visit) take(id app.Switch, l *kept) []op {
	list := v.some[:0]
	for ; l.First < l.Sent; l.First++ {
		if b, there := v.ops.Get(v.tx, id, l.First); there {
			list = opsOf(list, id, b)
			v.ops.Delete(v.tx, id, l.First)
		}
	}
	v.some, l.Sent = list, 0
	l.Waiting -= len(list)
	return list
}

// abandon gives up what does not wait for switches that are down, a part at a time. It reports whether that is all.
func (v *visit) abandon() bool {
	for id, row := range v.nodes.All(v.tx, all) {
		if row.Up || row.Sent > 0 || row.Checked >= row.Next {
			continue
		}
		l := v.line(id)
		for n := 0; n < model.MaxSteps && l.Checked < row.Next; l.Checked++ {
			b, _ := v.ops.Get(v.tx, id, l.Checked)
			list := opsOf(nil, id, b)
			n += 1 + len(list)
			var wait, rest []op
			for i := range list {
				if v.waits(&list[i]) {
					wait = append(wait, list[i])
				} else {
					rest = append(rest, list[i])
				}
			}
			if len(rest) == 0 {
				continue
			}
			v.putOps(id, l.Checked, wait)
			l.Waiting -= len(rest)
			for i := range rest {
				v.done(&rest[i], "switch "+id.String()+" is "+v.condition(id))
			}
		}
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
		if v.advance(id, r); r.Live != nil && r.Live.Hops[0].Switch == m.Switch {
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
