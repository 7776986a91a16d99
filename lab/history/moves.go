package history

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/holdfast-sdn/holdfast/ledger"
	"github.com/holdfast-sdn/holdfast/openflow"
)

// residence says in which group each actor lives, according to the logs. An actor begins to live in the group whose log
// has something of it first. A switch is an actor, with which those at it move.
type residence struct {
	owners   map[ledger.Actor]*Group
	moving   map[ledger.Actor]*departed
	versions map[ledger.Actor]uint64 // of the last move
	arrivals map[openflow.DatapathID]arrived
}

func newResidence() residence {
	return residence{owners: map[ledger.Actor]*Group{}, moving: map[ledger.Actor]*departed{},
		versions: map[ledger.Actor]uint64{}, arrivals: map[openflow.DatapathID]arrived{}}
}

// arrived is how far the logs had the events of a switch when it arrived last.
type arrived struct {
	epoch  *loggedEpoch
	events uint64
}

// departed is an actor that is on its way from one group to another.
type departed struct {
	next ledger.Assignment
	has  *model // its rows, timers and ends of streams, and the switch itself
}

// moverOf returns the actor with which one moves: the switch to which it belongs, or itself.
func moverOf(a ledger.Actor) ledger.Actor {
	if a.Switch != 0 {
		return theSwitch(a.Switch)
	}
	return a
}

func theSwitch(id openflow.DatapathID) ledger.Actor { return ledger.Actor{Shard: ledger.AtSwitch(id)} }

// isSwitch reports whether an actor is a switch itself.
func isSwitch(a ledger.Actor) bool { return a.App == "" && a.Switch != 0 }

// owns checks that an actor of which the log has something lives in this group and in no other.
func (g *Group) owns(a ledger.Actor) error {
	a = moverOf(a)
	directory := g.number == 0 && a.Switch == 0 // it is in the system group, in which nothing else lives
	if g.lives == nil || directory || a.App == "" && a.Switch == 0 || a == g.departing {
		return nil
	}
	switch owner, at := g.h.owners[a], g.h.moving[a]; {
	case at != nil:
		return violated("%v is active, and on its way to group %d", a, at.next.Group)
	case owner == g:
	case owner != nil:
		return violated("%v is active in two groups, this one and %s", a, owner.name)
	default:
		if at, known := g.lives(a); !known || at.Group != g.number {
			return violated("%v is active, and the directory has it in group %d", a, at.Group)
		}
		g.h.owners[a] = g
	}
	return nil
}

// logOwner checks that an operation is of an actor that lives here.
func (g *Group) logOwner(r *ledger.Record) error {
	switch r.Op {
	case ledger.OpPut, ledger.OpDelete:
		return g.owns(g.actorOf(r.Table, r.Cell))
	case ledger.OpTimer, ledger.OpSetTimer, ledger.OpCancelTimer, ledger.OpCall, ledger.OpLeave,
		ledger.OpSuspend:
		return g.owns(r.Actor)
	case ledger.OpSend:
		return g.owns(r.Link.From)
	case ledger.OpReceive:
		return g.owns(r.Link.To)
	case ledger.OpEvent, ledger.OpSeen, ledger.OpSkipped, ledger.OpUnreachable, ledger.OpReachable,
		ledger.OpCloseEpoch, ledger.OpCommand, ledger.OpDone, ledger.OpForget:
		return g.owns(theSwitch(r.Switch))
	case ledger.OpIncoming:
		if !isSwitch(g.departing) || r.Link.From != g.departing {
			return violated("stream %v is opened, and its sender does not depart", r.Link)
		}
		return g.owns(r.Link.To)
	case ledger.OpDepart:
		return g.logDepart(r)
	}
	return nil
}

// actorOf returns the actor that has a cell.
func (g *Group) actorOf(table ledger.TableName, cell ledger.Key) ledger.Actor {
	a := ledger.Actor{App: table.App}
	if s := g.sharders[table.App]; s != nil {
		a.Shard = s.Shard(table.Name, cell)
	}
	return a
}

// logDepart notes what an actor has when it departs.
func (g *Group) logDepart(r *ledger.Record) error {
	a, next := r.Actor, r.Assignment
	if err := g.owns(a); err != nil {
		return err
	}
	if before := max(1, g.h.versions[a]); next.Version <= before {
		return violated("%v departs as version %d; it has version %d", a, next.Version, before)
	}
	d, switches := &departed{next: next, has: g.contents(a)}, g.shadow.model.switches
	for k, i := range d.has.inboxes {
		if sw, here := switches[k.From.Switch]; here && isSwitch(k.From) {
			d.has.inboxes[k] = g.shadow.model.knowing(a.App, i, &sw)
		}
	}
	for id, sw := range switches {
		k := ledger.Link{From: theSwitch(id), To: a}
		if _, has := d.has.inboxes[k]; !has && a.Shard == (ledger.Shard{}) && sw.live {
			d.has.inboxes[k] = g.shadow.model.knowing(a.App, inboxModel{}, &sw)
		}
	}
	g.h.versions[a], g.h.moving[a] = next.Version, d
	delete(g.h.owners, a)
	g.departing = a
	for k, l := range g.h.links {
		if moverOf(k.From) == a {
			l.from, l.senders = nil, append(l.senders, g)
		}
		if moverOf(k.To) == a {
			l.to, l.receivers = nil, append(l.receivers, g)
		}
	}
	return nil
}

// contents returns what a group has of an actor.
func (g *Group) contents(a ledger.Actor) *model {
	has, m := newModel(), g.shadow.model
	for name, value := range m.rows {
		if moverOf(g.actorOf(name.table, name.cell)) == a {
			has.rows[name] = value
		}
	}
	for name, t := range m.timers {
		if moverOf(name.of) == a {
			has.timers[name] = t
		}
	}
	for of, why := range m.suspended {
		if moverOf(of) == a {
			has.suspended[of] = why
		}
	}
	for k, o := range m.senders {
		if moverOf(k.From) == a {
			o.items = slices.Clone(o.items)
			has.senders[k] = o
		}
	}
	for k, i := range m.inboxes {
		if moverOf(k.To) == a {
			has.inboxes[k] = i
		}
	}
	if sw, here := m.switches[a.Switch]; here && isSwitch(a) {
		sw.queue.items = slices.Clone(sw.queue.items)
		has.switches[a.Switch] = sw
	}
	return has
}

// gone checks, at the end of the transaction, that nothing of an actor that has departed is left.
func (g *Group) gone() error {
	a := g.departing
	if a == (ledger.Actor{}) {
		return nil
	}
	g.departing = ledger.Actor{}
	if left, nothing := g.contents(a), newModel(); !reflect.DeepEqual(left, nothing) {
		return violated("%v has departed from a group that has still something of it: %s", a,
			differenceOf(left.lines(), nothing.lines()))
	}
	return nil
}

// logPiece checks that an actor arrives with what it had when it departed.
func (g *Group) logPiece(r *ledger.Record, p *piece) error {
	if !p.last {
		return nil
	}
	a, d := p.actor, g.h.moving[p.actor]
	if d == nil || d.next != p.next || p.next.Group != g.number {
		return violated("%v arrives as %+v, and has not departed to there", a, p.next)
	}
	has, err := contentsOf(g.shadow.model.arriving[originOf(r, p)], p)
	if err != nil {
		return violated("%v arrives: %v", a, err)
	}
	acked := map[ledger.Link]uint64{}
	for k, o := range has.senders {
		acked[k] = o.acked // what was acknowledged to its old group since it departed comes again
	}
	if err := d.is(has); err != nil {
		return violated("%v arrives: %v", a, err)
	}
	delete(g.h.moving, a)
	g.h.owners[a] = g
	for k, l := range g.h.links {
		if moverOf(k.From) == a {
			l.from, l.taken = g, acked[k]
		}
		if moverOf(k.To) == a {
			l.to = g
		}
	}
	return g.logSwitch(has.switches[a.Switch], a)
}

// logSwitch takes a switch that has arrived. What is left out of its queue is done, as if that was logged.
func (g *Group) logSwitch(sw switchModel, a ledger.Actor) error {
	if !isSwitch(a) {
		return nil
	}
	log := g.h.ofAny(a.Switch)
	g.h.arrivals[a.Switch] = arrived{log.newest(), log.newest().events}
	if !sw.live {
		return nil
	}
	return log.logDone(sw.epoch, sw.queue.acked)
}

// Continues reports whether a session that goes to another group, since its switch has moved with an assignment of that
// version, has been told all events that are logged: there are none since then.
func (h *History) Continues(id openflow.DatapathID, version uint64) bool {
	a := theSwitch(id)
	if h.versions[a] != version {
		return false
	}
	was, now := h.arrivals[id], h.ofAny(id).newest()
	return h.moving[a] != nil || was.epoch == now && was.events == now.events
}

// is checks that what arrives is what has departed.
func (d *departed) is(has *model) error {
	for k, o := range has.senders {
		// The leader forgets items when the entry is committed which says that they are taken, and the model before.
		if was := d.has.senders[k]; o.acked < was.acked && was.acked-o.acked <= uint64(len(o.items)) {
			o.ack(was.acked)
			has.senders[k] = o
		}
	}
	for id, sw := range has.switches {
		// The leader leaves out of the queue what the switch has done, also if no entry says so.
		if was, is := d.has.switches[id]; is && sw.queue.acked <= was.queue.acked+uint64(len(was.queue.items)) {
			was.queue.ack(sw.queue.acked)
			d.has.switches[id] = was
		}
	}
	if !reflect.DeepEqual(has, d.has) {
		return violated("%s", differenceOf(has.lines(), d.has.lines()))
	}
	return nil
}

// originOf returns from where an actor arrives, with a piece on a stream between groups.
func originOf(r *ledger.Record, p *piece) origin { return origin{p.actor, r.Link.From.Key.A} }

// contentsOf returns what the pieces of an actor contain, with the last one.
func contentsOf(pieces []string, last *piece) (*model, error) {
	if last.first {
		pieces = nil
	}
	m := newModel()
	for _, ops := range append(slices.Clip(pieces), last.ops) {
		if err := m.parse(&reader{b: []byte(ops)}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// move applies an operation of a move to the model.
func (m *model) move(r *ledger.Record) {
	switch r.Op {
	case ledger.OpLeave:
		if delete(m.leaving, r.Actor); r.Assignment.Group != 0 {
			m.leaving[r.Actor] = r.Assignment.Group
		}
	case ledger.OpDepart:
		delete(m.leaving, r.Actor)
		m.at[r.Actor] = r.Assignment
		maps.DeleteFunc(m.suspended, func(of ledger.Actor, _ suspension) bool { return moverOf(of) == r.Actor })
		maps.DeleteFunc(m.senders, func(k ledger.Link, _ outboxModel) bool { return moverOf(k.From) == r.Actor })
		maps.DeleteFunc(m.inboxes, func(k ledger.Link, _ inboxModel) bool { return moverOf(k.To) == r.Actor })
		m.departs = switchModel{}
		if isSwitch(r.Actor) {
			m.departs = m.switches[r.Actor.Switch]
			delete(m.switches, r.Actor.Switch)
		}
	case ledger.OpIncoming: // an actor that stays knows about the switch what it is like then
		m.inboxes[r.Link] = m.knowing(r.Link.To.App, m.inboxes[r.Link], &m.departs)
	case ledger.OpDrop:
		maps.DeleteFunc(m.rows, func(n rowName, _ string) bool { return n.table == r.Table && n.cell == r.Cell })
	case ledger.OpClear:
		maps.DeleteFunc(m.rows, func(n rowName, _ string) bool { return n.table == r.Table })
	}
}

// arrive applies a piece of an actor to the model.
func (m *model) arrive(o origin, p *piece) {
	pieces := m.arriving[o]
	if p.first {
		pieces = nil
	}
	delete(m.arriving, o)
	if !p.last {
		if len(p.ops) > 0 {
			pieces = append(slices.Clip(pieces), p.ops)
		}
		if len(pieces) > 0 {
			m.arriving[o] = pieces
		}
		return
	}
	has, err := contentsOf(pieces, p)
	if err != nil {
		return // reported by logPiece
	}
	maps.Copy(m.rows, has.rows)
	maps.Copy(m.timers, has.timers)
	maps.Copy(m.suspended, has.suspended)
	maps.Copy(m.senders, has.senders)
	maps.Copy(m.inboxes, has.inboxes)
	maps.Copy(m.switches, has.switches)
	m.at[p.actor] = p.next
}

// Moving says which move is not finished, or not known to the directory; "" is none.
func (h *History) Moving() string {
	for a, d := range h.moving {
		return fmt.Sprintf("%v is on its way to group %d", a, d.next.Group)
	}
	for _, g := range h.groups {
		for a, to := range g.shadow.model.leaving {
			return fmt.Sprintf("%v is about to leave %s for group %d", a, g.name, to)
		}
		for o := range g.shadow.model.arriving {
			return fmt.Sprintf("%s has pieces of %v, which does not arrive from group %d", g.name, o.actor, o.from)
		}
	}
	for a, g := range h.owners {
		if version := h.versions[a]; version > 0 {
			want := ledger.Assignment{Group: g.number, Version: version}
			if at, _ := g.lives(a); at != want {
				return fmt.Sprintf("%v lives in %s as version %d, and for the directory in group %d as version %d", a,
					g.name, version, at.Group, at.Version)
			}
		}
	}
	return ""
}

// Moves returns how often actors of applications, and switches, have departed from a group.
func (h *History) Moves() (actors, switches uint64) {
	for a, version := range h.versions {
		if isSwitch(a) {
			switches += version - 1
		} else {
			actors += version - 1
		}
	}
	return actors, switches
}

// may reports whether a frame of this group may have something of a stream: the group that has the end of it, one
// that had it before, or the one to which its actor is on its way.
func (g *Group) may(now *Group, before []*Group, a ledger.Actor) bool {
	d := g.h.moving[moverOf(a)]
	return now == g || slices.Contains(before, g) || d != nil && d.next.Group == g.number
}
